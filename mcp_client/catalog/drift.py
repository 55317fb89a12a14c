"""The differences between a tool's definition and an earlier one, as text that is safe to show."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ..protocol.canonical_json import plain
from ..runtime.safe_text import safe_text
from .finding import Finding
from .tool import Tool, fingerprint_of, fingerprinted

__all__ = ["Drift", "DriftKind", "differences"]

DriftKind: TypeAlias = Literal["changed", "new", "gone", "unpinned", "moved"]

_MAX_VALUE_CHARS = 110
_MAX_DIFFERENCES = 8
_ABSENT: Any = object()


@dataclass(frozen=True, slots=True)
class Drift:
    """The differences between one tool and the lock file of ``Pins``."""

    server: str
    tool: str
    """The name of the tool; empty for the server's instructions."""
    kind: DriftKind
    """The kind of difference.

    "unpinned": the file had the server and no longer does, or never did and must not be extended
    (``Pins(create=False)``). "moved": it was written for another URL.
    """
    fingerprint: str | None
    """The fingerprint of the current definition; None if the tool is gone."""
    differences: tuple[tuple[str, str, str], ...] = ()
    """Each member that differs: a JSON pointer, its text then and its text now, safe to show."""
    pinned: dict[str, Any] | None = field(default=None, repr=False, compare=False)
    """The definition in the file, where the tool changed."""

    @classmethod
    def of(
        cls,
        tool: Tool,
        kind: DriftKind,
        pinned: dict[str, Any] | None = None,
        now: dict[str, Any] | None = None,
    ) -> Drift:
        """Return the differences between ``tool`` and the definition ``pinned`` in the file.

        ``now`` is the definition as it would be stored.
        """
        places: tuple[tuple[str, str, str], ...] = ()
        if pinned is not None:
            places = tuple(_differences("", pinned, now or fingerprinted(tool._definition)))
            pinned = plain(pinned)  # a copy: a hook must not be able to change what is pinned
        return cls(tool.server, tool.name, kind, tool.fingerprint, places, pinned)

    @classmethod
    def of_instructions(cls, server: str, then: str | None, now: str | None) -> Drift:
        """Return the difference of a server's instructions."""
        old, new = (_ABSENT if text is None else text for text in (then, now))
        return cls(server, "", "changed", None, (("instructions", *_side_by_side(old, new)),))

    @property
    def diff(self) -> str:
        """The differences, old text above new, for a person to read."""
        lines = [f"{safe_text(self.tool, 128) or 'the server'}: {self.kind}"]
        for place, old, new in self.differences:
            lines += [f"  {place}", f"    was {old}", f"    now {new}"]
        return "\n".join(lines)

    def findings(self, file: str) -> tuple[Finding, ...]:
        """Return the differences as findings; ``file`` is the name of the lock file."""
        if self.kind == "new":
            text = f"this tool is not in {file}: it came after the file was written"
            return (Finding("not_pinned", text, "tool"),)
        if self.kind == "gone":
            text = f"{file} has this tool, and the server does not offer it any more"
            return (Finding("gone", text),)
        if self.kind == "unpinned":
            text = f"{file} does not have this server: it was deleted, changed, or not there"
            return (Finding("not_pinned", text, "server"),)
        if self.kind == "moved":
            text = f"{file} has this server's name for another URL or other identity= values"
            return (Finding("server_moved", text),)
        if not self.tool:
            sentence = _sentences(self.differences)[0]
            text = f"the server's {sentence}: they changed after {file} was written"
            return (Finding("definition_changed", text, "instructions"),)
        first = f"this tool is not what it was when {file} was written"
        texts = (first, *_sentences(self.differences))
        return tuple(Finding("definition_changed", text, self.fingerprint or "") for text in texts)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Return the differences between two definitions."""
    then, now = fingerprinted(old), fingerprinted(new)
    about = fingerprint_of(now)
    sentences = _sentences(tuple(_differences("", then, now)))
    return tuple(Finding("definition_changed", text, about) for text in sentences)


def _sentences(differences: tuple[tuple[str, str, str], ...]) -> tuple[str, ...]:
    sentences = [f"{place} was {old} and is now {new}" for place, old, new in differences]
    if len(sentences) > _MAX_DIFFERENCES:
        sentences[_MAX_DIFFERENCES:] = [f"{len(sentences) - _MAX_DIFFERENCES} more places differ"]
    return tuple(sentences)


def _differences(place: str, old: Any, new: Any) -> Iterator[tuple[str, str, str]]:
    if type(old) is dict and type(new) is dict:
        for key in sorted({*old, *new}):
            step = safe_text(key.replace("~", "~0").replace("/", "~1"), 60)
            inner = old.get(key, _ABSENT), new.get(key, _ABSENT)
            yield from _differences(f"{place}/{step}" if place else step, *inner)
    elif type(old) is not type(new) or old != new:
        yield place, *_side_by_side(old, new)


def _side_by_side(old: Any, new: Any) -> tuple[str, str]:
    """Both texts, from shortly before where they part."""
    texts = [_text(old), _text(new)]
    start = 0
    if _ABSENT not in (old, new) and max(map(len, texts)) > _MAX_VALUE_CHARS:
        start = max(0, len(os.path.commonprefix(texts)) - 30)  # noqa: RUF071
    lead = "…" if start else ""
    return tuple(lead + safe_text(text[start:], _MAX_VALUE_CHARS) for text in texts)  # type: ignore[return-value]


def _text(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    if type(value) is str:
        return f"'{value}'"
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
