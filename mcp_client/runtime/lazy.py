"""Packages whose public names are loaded when they are first used.

The ``__init__.py`` of a room has one table, from its modules to the public names in them::

    __getattr__, __dir__, __all__ = _lazy(__name__, {"tool_call": ["ToolCall"]})

Type checkers and editors cannot follow the table. They read the ``__init__.pyi`` beside it, which
``python -m tests.room_stubs`` writes from the table. Importing a room loads none of its modules,
and this module imports nothing but ``sys``, so that ``import mcp_client`` stays light.
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
        from .field_docs import describe_fields

        describe_fields(value)
        return value

    def shown() -> list[str]:
        of_python = {name for name in vars(sys.modules[package]) if name[:2] == "__"}
        return sorted({*of_python, *public, *modules})

    return load, shown, public
