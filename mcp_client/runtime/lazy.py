"""Packages whose public names are loaded when they are first used.

The ``__init__.py`` of a room has one table, from its modules to the public names in them::

    __getattr__, __dir__, __all__ = _lazy(__name__, {"tool_call": ["ToolCall"]})

Type checkers and editors cannot follow the table. They read the ``__init__.pyi`` beside it, which
``python -m tests.room_stubs`` writes from the table. Importing a room loads none of its modules,
and this module imports nothing but ``sys``, so that ``import mcp_client`` stays light.

Python stores no text of a field of a dataclass. ``help()`` shows the text in ``__slots__`` about
one, if that is a dict. ``FieldDocs`` is such a dict, which reads the source when it is first asked
for a text.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["lazy"]


def lazy(
    package: str, names: dict[str, list[str]], *, rooms: bool = False
) -> "tuple[Callable[[str], object], Callable[[], list[str]], list[str]]":
    """Return the ``__getattr__``, the ``__dir__`` and the ``__all__`` of a package.

    ``names`` lists the public names by the module of ``package`` that has them, or by ``..`` and
    the module of another room. With ``rooms``, each module without a dot is an attribute that
    needs no import of its own.
    """
    homes = {name: module for module, its in names.items() for name in its}
    public = [name for name in homes if name[0] != "_"]
    modules = {module for module in names if "." not in module} if rooms else set()

    def load(name: str) -> object:
        if name in modules:
            __import__(f"{package}.{name}")
            return sys.modules[f"{package}.{name}"]  # the import made it an attribute as well
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        home = f"mcp_client{home[1:]}" if home[0] == "." else f"{package}.{home}"
        __import__(home)
        value = getattr(sys.modules[home], name)
        setattr(sys.modules[package], name, value)
        _describe_fields(value)
        return value

    def directory() -> list[str]:
        of_python = {name for name in vars(sys.modules[package]) if name[:2] == "__"}
        return sorted({*of_python, *public, *modules})

    return load, directory, public


def _describe_fields(value: object) -> None:
    """Have ``help()`` show the texts of the fields, if ``value`` is a dataclass with slots."""
    for cls in value.__mro__ if isinstance(value, type) else ():
        slots = vars(cls).get("__slots__")
        if "__dataclass_fields__" in vars(cls) and type(slots) is tuple:
            cls.__slots__ = FieldDocs(cls, slots)  # type: ignore[attr-defined]


class FieldDocs(dict[str, str]):
    """The text of each slot of a class."""

    def __init__(self, cls: type, slots: tuple[str, ...]) -> None:
        super().__init__(dict.fromkeys(slots, ""))
        self._cls, self._is_read = cls, False

    def __getitem__(self, name: str) -> str:
        if not self._is_read:
            self._is_read = True
            for cls in reversed(self._cls.__mro__):
                self.update((one, text) for one, text in _texts(cls).items() if one in self)
        return super().__getitem__(name)


def _texts(cls: type) -> dict[str, str]:
    import ast
    import inspect

    if cls.__module__.partition(".")[0] != __name__.partition(".")[0]:
        return {}
    try:
        tree = ast.parse(inspect.getsource(sys.modules[cls.__module__]))
    except (OSError, SyntaxError):  # a program that was packed without sources
        return {}
    texts, named = dict[str, str](), ""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            for one in node.body:
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                    named = one.target.id
                elif named and isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
                    texts[named] = inspect.cleandoc(str(one.value.value))
                    named = ""
                else:
                    named = ""
    return texts
