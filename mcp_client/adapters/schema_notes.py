"""What was changed on the way from a tool's schema to the one a model is shown."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from ..protocol.json_pointer import pointer
from ..runtime.safe_text import safe_text

__all__ = ["Effect", "Notes", "Path"]

Path: TypeAlias = tuple[str, ...]
"""Steps from the root of the schema: keywords, names of properties, and indices."""

_MAX_PATHS = 4
_MAX_PATH_CHARS = 120


class Effect(Enum):
    """What a change does to the set of accepted values."""

    NONE = ""
    ACCEPTS_MORE = "; the model's schema accepts more than the tool's"
    REFUSES_MORE = "; the model's schema refuses more than the tool's"


class Notes:
    """The changes to one schema. ``widened`` counts those after which more is accepted."""

    __slots__ = ("_found", "widened")

    def __init__(self) -> None:
        self._found: dict[tuple[str, Effect], list[Path]] = {}
        self.widened = 0

    def add(self, what: str, path: Path, effect: Effect = Effect.NONE) -> None:
        """``what`` is a clause such as "'pattern' is moved to the description"."""
        if effect is Effect.ACCEPTS_MORE:
            self.widened += 1
        self._found.setdefault((what, effect), []).append(path)

    def not_merged(self, keywords: list[str], path: Path) -> None:
        """``keywords`` were lost where schemas became one."""
        for keyword in dict.fromkeys(keywords):
            what = f"'{keyword}' is not kept where schemas are merged"
            self.add(what, path, Effect.ACCEPTS_MORE)

    def sentences(self) -> tuple[str, ...]:
        """One for each kind of change, with the places where it was made; safe to show."""
        return tuple(
            f"{safe_text(what, 400)}{_where(paths)}{effect.value}"
            for (what, effect), paths in self._found.items()
        )


def _where(paths: list[Path]) -> str:
    unique = list(dict.fromkeys(paths))
    if unique == [()]:
        return ""
    shown = ", ".join(
        safe_text(pointer(path), _MAX_PATH_CHARS) or "the root" for path in unique[:_MAX_PATHS]
    )
    left = len(unique) - _MAX_PATHS
    return f" at {shown} and {left} more places" if left > 0 else f" at {shown}"
