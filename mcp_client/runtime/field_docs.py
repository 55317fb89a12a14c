"""The texts below the fields of a dataclass, for ``help()``.

Python stores no text of a field. ``help()`` shows the text in ``__slots__`` about one, if that is a
dict. ``FieldDocs`` is such a dict, which reads the source when it is first asked for a text.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["describe_fields"]


def describe_fields(value: "Any") -> None:
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
