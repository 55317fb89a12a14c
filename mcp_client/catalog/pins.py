"""A lock file of tools: what they were when somebody looked, and what became of them.

```python
connect(server, pins="mcp.lock")                       # or Pins("mcp.lock", policy="refuse")
```

The first list of a server is written down, whole definitions under the name that the host gave
the server. A list that differs later is drift: a definition changed, a tool is new, a tool has
gone. What then happens is the policy:

- "ask": a call of a tool that changed or is new carries the difference, old beside new, among its
  findings, so that whoever approves it sees it. An approved call writes the new definition down.
- "refuse": such a call is refused before anybody is asked (``CallDenied``).
- "accept": the file follows the server; the difference is among the list's findings, once.

The file is made for code review: JSON, sorted, one value a line, ASCII, so that characters nobody
sees are seen. It is replaced at once and as a whole, and processes that write it take turns.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..errors import CallDenied, ConfigError
from ..runtime.atomic_file import OwnFile, Stamp
from ..runtime.safe_text import safe_text
from .tool import Tool, ToolCall, fingerprint_of, fingerprinted

__all__ = ["Drift", "Pins", "Policy", "differences"]

Book: TypeAlias = "dict[str, dict[str, Pin]]"
"""Servers, their tools, and each tool as it was."""
Policy: TypeAlias = Literal["ask", "refuse", "accept"]

_VERSION = 1
_SHOWN = 110
_MOST = 8
_ABSENT: Any = object()
_REMEDY = "put back an older one, or delete it to write down anew what the servers offer"


@dataclass(frozen=True, slots=True)
class Pin:
    """A tool as it was when it was written down."""

    fingerprint: str
    definition: dict[str, Any]

    @classmethod
    def of(cls, tool: Tool) -> Pin:
        return cls(tool.fingerprint, fingerprinted(tool._definition))


@dataclass(frozen=True, slots=True)
class Drift:
    """What became of one tool since the file was written."""

    server: str
    tool: str
    kind: Literal["changed", "new", "gone"]
    fingerprint: str | None
    """Of the definition as it is now; None where the tool has gone."""
    differences: tuple[tuple[str, str, str], ...] = ()
    """Each member that differs: a JSON pointer, its text then and its text now, safe to show."""

    @property
    def diff(self) -> str:
        """The differences, old text above new, for a person to read."""
        lines = [f"{safe_text(self.tool, 128)}: {self.kind}"]
        for place, old, new in self.differences:
            lines += [f"  {place}", f"    was {old}", f"    now {new}"]
        return "\n".join(lines)

    def findings(self, file: str) -> tuple[str, ...]:
        """The same as sentences."""
        if self.kind == "new":
            return (f"this tool is not in {file}: it came after the file was written",)
        if self.kind == "gone":
            return (f"{file} has this tool, and the server does not offer it any more",)
        shown = _sentences(self.differences)
        return (f"this tool is not what it was when {file} was written", *shown)


class Pins:
    """A lock file of tools. One may serve any number of sessions; give each server its name."""

    def __init__(self, path: str | os.PathLike[str], *, policy: Policy = "ask") -> None:
        """Raises ``ConfigError`` for a policy there is not. The file is read when it is needed."""
        if policy not in ("ask", "refuse", "accept"):
            raise ConfigError(f"Pins(policy={policy!r}): give 'ask', 'refuse' or 'accept'")
        self._file = OwnFile(path, "lock file", _REMEDY)
        self.policy = policy
        self._drifts: dict[str, tuple[Drift, ...]] = {}
        self._last: tuple[Stamp | None, Book] = (None, {})

    @classmethod
    def of(cls, pins: Pins | str | os.PathLike[str] | None) -> Pins | None:
        if pins is None or isinstance(pins, Pins):
            return pins
        if isinstance(pins, str | os.PathLike):
            return cls(pins)
        raise ConfigError(f"pins={pins!r}: give the path of a file, or Pins(...)")

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def name(self) -> str:
        """The file's name, as findings call it."""
        return self.path.name

    def drift(self, server: str) -> tuple[Drift, ...]:
        """How the last list of ``server`` differed from the file, and was not accepted since."""
        return self._drifts.get(server, ())

    def has_gone(self, server: str, tool: str) -> bool:
        return any(drift.tool == tool and drift.kind == "gone" for drift in self.drift(server))

    def accept(self, server: str, tools: Iterable[Tool]) -> None:
        """Write down ``tools`` as what ``server`` has: nothing of it is drift from now on."""
        entry = {tool.name: Pin.of(tool) for tool in tools}
        with self._file.locked():
            book = self.read()
            book[server] = entry
            self._write(book)
        self._drifts.pop(server, None)

    # ------------------------------------------------------ on the way of a call

    def all_findings(self, tool: Tool) -> tuple[str, ...]:
        """What whoever approves a call of ``tool`` should know: drift comes first."""
        drift = self._drift_of(tool)
        return (*(() if drift is None else drift.findings(self.name)), *tool.findings)

    def refuse(self, call: ToolCall) -> None:
        """Raises ``CallDenied`` where the policy says so."""
        drift = self._drift_of(call.tool) if self.policy == "refuse" else None
        if drift is not None:
            reason = "; ".join(drift.findings(self.name))
            raise CallDenied(
                f"refused, for {reason}. If that is right, write it down: Pins.accept(...)",
                reason=reason,
                server=call.server,
                tool=call.tool.name,
            )

    def has_drifted(self, tool: Tool) -> bool:
        return self._drift_of(tool) is not None

    def approved(self, tool: Tool) -> None:
        """Write down a definition that somebody approved knowing the difference."""
        drift = self._drift_of(tool)
        if drift is None:
            return
        with self._file.locked():
            book = self.read()
            book.setdefault(tool.server, {})[tool.name] = Pin.of(tool)
            self._write(book)
        rest = (other for other in self.drift(tool.server) if other is not drift)
        self._drifts[tool.server] = tuple(rest)

    def _drift_of(self, tool: Tool) -> Drift | None:
        drifts = self._drifts.get(tool.server)
        if not drifts:
            return None
        for drift in drifts:
            if drift.tool == tool.name and drift.fingerprint == tool.fingerprint:
                return drift
        return None

    # ------------------------------------------------------------------ the list

    def compare(self, server: str, tools: Iterable[Tool]) -> list[str]:
        """Compare a list with the file, write down what is to be, and say what differs."""
        tools = list(tools)
        book = self.read()
        drifts = _drifts(server, book.get(server), tools)
        if server not in book or (drifts and self.policy == "accept"):
            with self._file.locked():
                book = self.read()
                drifts = _drifts(server, book.get(server), tools)
                if server not in book or self.policy == "accept":
                    book[server] = {tool.name: Pin.of(tool) for tool in tools}
                    self._write(book)
        self._drifts[server] = () if self.policy == "accept" else tuple(drifts)
        return [
            f"tool '{safe_text(drift.tool, 128)}': {finding}"
            for drift in drifts
            for finding in drift.findings(self.name)
        ]

    # ------------------------------------------------------------------ the file

    def read(self) -> Book:
        """What is written down. Raises ``ConfigError`` where it cannot be used."""
        stamp = self._file.stamp()
        if stamp is None:
            return {}
        if stamp != self._last[0]:
            found = self._file.read()
            self._last = (None, {}) if found is None else (found[0], self._parsed(found[1]))
        book = self._last[1]
        return {server: dict(tools) for server, tools in book.items()}

    def _parsed(self, text: bytes) -> Book:
        try:
            book = json.loads(text)
        except (ValueError, RecursionError):
            raise self._file.unusable("it is no JSON") from None
        if type(book) is not dict or book.get("version") != _VERSION:
            raise self._file.unusable(f"it is no lock file of version {_VERSION}")
        return {
            server: {name: self._checked(server, name, entry) for name, entry in entries.items()}
            for server, entries in self._objects(book.get("servers"), "servers").items()
        }

    def _objects(self, value: Any, what: str) -> dict[str, dict[str, Any]]:
        if type(value) is not dict or not all(type(item) is dict for item in value.values()):
            raise self._file.unusable(f"{what} is no object of objects")
        return value

    def _checked(self, server: str, name: str, entry: Any) -> Pin:
        definition = entry.get("definition") if type(entry) is dict else None
        place = f"{safe_text(server, 60)}/{safe_text(name, 60)}"
        if type(definition) is not dict or definition.get("name") != name:
            raise self._file.unusable(f"{place} has no definition of that name")
        pin = Pin(fingerprint_of(definition), definition)
        if entry.get("fingerprint") != pin.fingerprint:
            raise self._file.unusable(f"{place} has a definition that its fingerprint is not of")
        return pin

    def _write(self, book: Book) -> None:
        servers = {
            server: {
                name: {"fingerprint": pin.fingerprint, "definition": pin.definition}
                for name, pin in tools.items()
            }
            for server, tools in book.items()
        }
        whole = {"version": _VERSION, "servers": servers}
        text = json.dumps(whole, indent=2, sort_keys=True, ensure_ascii=True) + "\n"
        self._last = self._file.replace(text), book


def _drifts(server: str, known: dict[str, Pin] | None, tools: list[Tool]) -> list[Drift]:
    if known is None:
        return []
    found: list[Drift] = []
    for tool in tools:
        old = known.get(tool.name)
        if old is None:
            found.append(Drift(server, tool.name, "new", tool.fingerprint))
        elif old.fingerprint != tool.fingerprint:
            places = tuple(_differences("", old.definition, fingerprinted(tool._definition)))
            found.append(Drift(server, tool.name, "changed", tool.fingerprint, places))
    names = {tool.name for tool in tools}
    found += [Drift(server, name, "gone", None) for name in known if name not in names]
    return found


def differences(old: Tool, new: Tool) -> tuple[str, ...]:
    """How two definitions differ, in sentences that are safe to show."""
    places = _differences("", fingerprinted(old._definition), fingerprinted(new._definition))
    return _sentences(tuple(places))


def _sentences(differences: tuple[tuple[str, str, str], ...]) -> tuple[str, ...]:
    shown = [f"{place} was {old} and is now {new}" for place, old, new in differences]
    if len(shown) > _MOST:
        shown[_MOST:] = [f"{len(shown) - _MOST} more places differ"]
    return tuple(shown)


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
    if _ABSENT not in (old, new) and max(map(len, texts)) > _SHOWN:
        start = max(0, len(os.path.commonprefix(texts)) - 30)  # noqa: RUF071
    lead = "…" if start else ""
    return tuple(lead + safe_text(text[start:], _SHOWN) for text in texts)  # type: ignore[return-value]


def _text(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    if type(value) is str:
        return f"'{value}'"
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
