"""A lock file of tool definitions: what they were when they were reviewed, and how they differ now.

```python
connect(server, pins="mcp.lock")                       # or Pins("mcp.lock", policy="refuse")
```

The first list of a server is written down: whole definitions, under the name that the host gave
the server. Later every call compares the definition it was built from with the file as it is at
that moment. A difference is drift: a definition changed, a tool is new, a tool is gone, the file no
longer has the server, or has it for another URL. What happens then is the policy:

- "ask": the difference, old beside new, is among the findings of the call, so that the approver
  sees it. A yes for this call or the session leaves the file as it is; a yes for always
  (``Allow(remember="always")``) writes the new definition down, as ``Pins.accept`` does.
- "refuse": the call is refused before anybody is asked (``CallDenied``).
- "accept": the file follows the server; the difference is among the list's findings, once.

The file is made for code review: JSON, sorted, one value a line, ASCII, so that invisible
characters are visible. It is replaced atomically, processes that write it take turns, and a file
that other users may write is refused.

Files of version 1 did not cover ``execution``, ``icons`` and ``_meta.ui``. A tool that is otherwise
what such a file has is not drift: at the first list, what it has of these members is written
down beside the rest, and a finding of that list shows it. Until then a server could change them
unseen, which is why they are shown. It could not change what a person approved (texts, schemas,
annotations), because the old fingerprint covers that. A tool that is hidden from the first list
stays as it is in the file, and is shown in the same way when it comes back. With
``Pins(create=False)``, or where the file cannot be written, this object remembers what was found,
and the finding comes with each run until ``Pins.accept``, or ``mcp-client pins --accept``, writes
it down.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..errors import CallDenied, ConfigError
from ..runtime.atomic_file import OwnFile, Stamp
from ..runtime.keyed_digest import keyed
from ..runtime.safe_text import safe_text
from .drift import Drift
from .finding import Finding
from .fingerprint import covered_before, fingerprint_of, fingerprinted, uncovered_before
from .tool import Tool

__all__ = ["Pins", "Policy"]

Servers: TypeAlias = "dict[str, dict[str, Pin]]"
"""Servers, their tools, and each tool as it was written down."""
Policy: TypeAlias = Literal["ask", "refuse", "accept"]

_VERSION = 2
_PARTIAL = 1
"""The version whose entries cover less: see above."""
_SHOWN = 300
_REMEDY = "put back an older one, or delete it to write down again what the servers offer"
_KEY = re.compile(r"[0-9a-f]{64}")


_log = logging.getLogger("mcp_client")


@dataclass(frozen=True, slots=True)
class Pin:
    """A tool as it was when it was written down."""

    fingerprint: str
    definition: dict[str, Any]
    is_partial: bool = False
    """Whether it is from a file of version 1, which did not cover all of the definition."""

    @classmethod
    def of(cls, tool: Tool) -> Pin:
        return cls(tool.fingerprint, fingerprinted(tool._definition))

    def is_of(self, tool: Tool) -> bool:
        """Whether ``tool`` is what was written down, as far as that goes."""
        if self.is_partial:
            return self.fingerprint == fingerprint_of(covered_before(tool._definition))
        return self.fingerprint == tool.fingerprint

    def to_json(self) -> dict[str, Any]:
        partial = {"version": _PARTIAL} if self.is_partial else {}
        return {"fingerprint": self.fingerprint, "definition": self.definition, **partial}


@dataclass(slots=True)
class _Book:
    """What a lock file contains."""

    servers: Servers = field(default_factory=dict)
    identities: dict[str, str] = field(default_factory=dict)
    """Where each server is, for those of which that can be said on every machine."""
    key: bytes | None = None
    """Digests in ``identities`` are keyed with it."""
    skills: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Servers and their skills by URI, each as ``skill_request.pinned`` has it."""

    def copy(self) -> _Book:
        servers = {server: dict(tools) for server, tools in self.servers.items()}
        skills = {server: dict(each) for server, each in self.skills.items()}
        return _Book(servers, dict(self.identities), self.key, skills)


class Pins:
    """A lock file of tools. One may serve any number of sessions; give each server its name."""

    def __init__(
        self, path: str | os.PathLike[str], *, policy: Policy = "ask", create: bool = True
    ) -> None:
        """Raises ``ConfigError`` for an unknown policy. The file is read when it is needed.

        With ``create=False`` nothing is pinned on first use: a missing file is a ``ConfigError``
        when connecting, and the tools of a server it does not have are drift.
        """
        if policy not in ("ask", "refuse", "accept"):
            raise ConfigError(f"Pins(policy={policy!r}): give 'ask', 'refuse' or 'accept'")
        if type(create) is not bool:
            raise ConfigError(f"Pins(create={create!r}): give True or False")
        self._file = OwnFile(path, "lock file", _REMEDY)
        self.policy = policy
        self.create = create
        self._drifts: dict[str, tuple[Drift, ...]] = {}
        self._seen: set[str] = set()
        self._completed: dict[tuple[str, str], tuple[Pin, Pin]] = {}
        """Partial pins by server and tool, and what they were completed to."""
        self._identities: dict[str, Callable[[], str | None]] = {}
        self._last: tuple[Stamp | None, _Book] = (None, _Book())

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

    def identify(self, server: str, identity: Callable[[], str | None]) -> None:
        """Tell where ``server`` is: ``Transport.pinned_identity``. ``connect`` does this."""
        self._identities[server] = functools.cache(identity)

    def drift(self, server: str) -> tuple[Drift, ...]:
        """How the last list of ``server`` differed from the file, without what was accepted."""
        return self._drifts.get(server, ())

    def has_gone(self, server: str, tool: str) -> bool:
        return any(drift.tool == tool and drift.kind == "gone" for drift in self.drift(server))

    def accept(self, server: str, tools: Iterable[Tool]) -> None:
        """Write down ``tools`` as what ``server`` has: from now on none of it is drift."""
        with self._file.locked():
            book = self._book().copy()
            book.servers[server] = {tool.name: Pin.of(tool) for tool in tools}
            self._write(book, server)
        self._drifts.pop(server, None)

    # ------------------------------------------------------ on the way of a call

    def drift_of(self, tool: Tool) -> Drift | None:
        """How this very definition differs from the file as it is now.

        Not from the last list: that may be of another session with the same name, or newer than
        the definition a call was built from.
        """
        if self.policy == "accept":
            return None
        found = self._drifts_in(self._book(), tool.server, [tool])
        return found[0] if found else None

    def refuse(self, tool: Tool) -> None:
        """Raises ``CallDenied`` where the policy says so."""
        drift = self.drift_of(tool) if self.policy == "refuse" else None
        if drift is not None:
            reason = "; ".join(map(str, drift.findings(self.name)))
            raise CallDenied(
                f"refused, for {reason}. If that is right, write it down: Pins.accept(...)",
                reason=reason,
                server=tool.server,
                tool=tool.name,
            )

    def has_drifted(self, tool: Tool) -> bool:
        return self.drift_of(tool) is not None

    def approved(self, tool: Tool) -> None:
        """Write down a definition that was approved for always by somebody who saw the drift."""
        with self._file.locked():
            book = self._book().copy()
            book.servers.setdefault(tool.server, {})[tool.name] = Pin.of(tool)
            self._write(book, tool.server)
        rest = (other for other in self.drift(tool.server) if other.tool != tool.name)
        self._drifts[tool.server] = tuple(rest)

    # -------------------------------------------------------------------- skills

    def accept_skills(self, server: str, skills: Iterable[Any]) -> None:
        """Write down these entries of ``list_skills()``: from now on none of it is drift."""
        from .skill_file import pinned

        self.write_skills(server, {skill.uri: pinned(skill.files) for skill in skills})

    def skills(self, server: str) -> Mapping[str, Any] | None:
        """What is written down of the server's skills; None where none was."""
        return self._book().skills.get(server)

    def has_moved(self, server: str) -> bool:
        """Whether the server is elsewhere than when it was written down."""
        return self._has_moved(self._book(), server)

    def write_skills(self, server: str, skills: Mapping[str, Any]) -> None:
        """Write down ``skills``, beside the others of the server."""
        with self._file.locked():
            book = self._book().copy()
            book.skills[server] = {**book.skills.get(server, {}), **skills}
            self._write(book, server, seen=False)

    # ------------------------------------------------------------------ the list

    def compare(self, server: str, tools: Iterable[Tool]) -> list[Finding]:
        """Compare a list with the file, write down what the policy says, and say what differs."""
        tools = list(tools)
        book = self._book()
        if self._must_write(book, server, tools):
            with self._file.locked():
                book = self._book()
                findings = self._findings(book, server, tools)
                if self._must_write(book, server, tools):
                    partial = self._partial(book, server, tools)
                    findings += self._uncovered(partial, is_written=True)
                    book = book.copy()
                    book.servers[server] = {tool.name: Pin.of(tool) for tool in tools}
                    self._write(book, server)
        else:
            findings = self._findings(book, server, tools)
            partial = self._partial(book, server, tools)
            if partial:
                findings += self._complete(server, partial)
        self._seen.add(server)
        accepted = self.policy == "accept"
        self._drifts[server] = () if accepted else tuple(self._all_drifts(book, server, tools))
        return findings

    def _must_write(self, book: _Book, server: str, tools: list[Tool]) -> bool:
        if self.policy == "accept" and (self.create or server in book.servers):
            return server not in book.servers or bool(self._all_drifts(book, server, tools))
        return self.create and server not in book.servers and server not in self._seen

    def _findings(self, book: _Book, server: str, tools: list[Tool]) -> list[Finding]:
        if server not in book.servers and server not in self._seen and self.create:
            if self.policy != "refuse":
                return []
            # Perhaps the path or the server's name is mistyped, and nothing is refused at all.
            text = (
                f"{self.name} did not have the server '{safe_text(server, 60)}': its tools were "
                f"written down unseen ({len(tools)} of them); Pins(create=False) refuses instead"
            )
            _log.warning("%s: %s (%s)", server, text, self.path)
            return [Finding("not_pinned", text, "server")]
        return [
            finding.at(f"tool '{safe_text(drift.tool, 128)}'")
            for drift in self._all_drifts(book, server, tools)
            for finding in drift.findings(self.name)
        ]

    # ---------------------------------------------------- entries of version 1

    def _partial(self, book: _Book, server: str, tools: list[Tool]) -> list[tuple[Pin, Tool]]:
        """The tools of which ``book`` has an entry that is right and does not cover all of it."""
        known = book.servers.get(server)
        if known is None or not any(pin.is_partial for pin in known.values()):
            return []
        if self._has_moved(book, server):
            return []
        found = ((self._pin(server, tool.name, known), tool) for tool in tools)
        return [(pin, t) for pin, t in found if pin and pin.is_partial and pin.is_of(t)]

    def _complete(self, server: str, partial: list[tuple[Pin, Tool]]) -> list[Finding]:
        """Cover all of these tools from now on. Returns what is to be looked at."""
        for pin, tool in partial:
            self._completed[server, tool.name] = pin, Pin.of(tool)
        is_written = self.create
        try:
            if self.create:
                with self._file.locked():
                    book = self._book().copy()
                    for pin, tool in partial:
                        if book.servers.get(server, {}).get(tool.name) == pin:
                            book.servers[server][tool.name] = Pin.of(tool)
                    self._write(book, server)
        except ConfigError as error:
            is_written = False
            _log.warning("%s: what %s did not cover is not kept: %s", server, self.name, error)
        return self._uncovered(partial, is_written)

    def _uncovered(self, partial: list[tuple[Pin, Tool]], is_written: bool) -> list[Finding]:
        """What of these tools was not compared with anything, and why."""
        advice = f"now in {self.name}" if is_written else "accept the tool to write them down there"
        findings: list[Finding] = []
        for _, tool in partial:
            members = uncovered_before(tool._definition)
            if members:
                text = json.dumps(members, sort_keys=True, ensure_ascii=False)
                finding = Finding(
                    "not_pinned",
                    f"{self.name} did not cover these members when it was written, so that they "
                    f"may have changed since; {advice}: {safe_text(text, _SHOWN)}",
                    "members",
                )
                findings.append(finding.at(f"tool '{safe_text(tool.name, 128)}'"))
                _log.warning("%s: %s", tool.server, findings[-1])
        return findings

    def _pin(self, server: str, tool: str, known: Mapping[str, Pin]) -> Pin | None:
        """What is known of a tool: the entry of the file, completed where that was partial."""
        pin = known.get(tool)
        if pin is not None and pin.is_partial:
            partial, whole = self._completed.get((server, tool), (None, pin))
            if partial == pin:
                return whole
        return pin

    def _all_drifts(self, book: _Book, server: str, tools: list[Tool]) -> list[Drift]:
        found = self._drifts_in(book, server, tools)
        names = {tool.name for tool in tools}
        known = book.servers.get(server, {})
        return found + [Drift(server, name, "gone", None) for name in known if name not in names]

    def _drifts_in(self, book: _Book, server: str, tools: list[Tool]) -> list[Drift]:
        known = book.servers.get(server)
        if known is None:
            if self.create and server not in self._seen:
                return []  # it has not been listed yet
            return [Drift(server, tool.name, "unpinned", tool.fingerprint) for tool in tools]
        if self._has_moved(book, server):
            return [Drift(server, tool.name, "moved", tool.fingerprint) for tool in tools]
        return list(self._drifts_from(server, known, tools))

    def _drifts_from(
        self, server: str, known: Mapping[str, Pin], tools: list[Tool]
    ) -> Iterator[Drift]:
        for tool in tools:
            old = self._pin(server, tool.name, known)
            if old is None:
                yield Drift(server, tool.name, "new", tool.fingerprint)
            elif not old.is_of(tool):
                yield Drift.of(tool, "changed", old.definition)

    def _has_moved(self, book: _Book, server: str) -> bool:
        identity = self._identity_of(server, book.key)
        return identity is not None and book.identities.get(server, identity) != identity

    def _identity_of(self, server: str, key: bytes | None) -> str | None:
        identity = self._identities.get(server)
        text = None if identity is None else identity()
        return None if text is None else _keyed_once(text, key)

    # ------------------------------------------------------------------ the file

    def read(self) -> Servers:
        """What is written down. Raises ``ConfigError`` where the file cannot be used."""
        if not self.create and self._file.stamp() is None:
            raise ConfigError(f"the lock file {self.path} does not exist, and Pins(create=False)")
        return self._book().copy().servers

    def _book(self) -> _Book:
        last = self._last
        stamp = self._file.stamp()
        if stamp is None:
            return _Book()
        if stamp != last[0]:
            found = self._file.read()
            if found is None:
                return _Book()
            last = self._last = found[0], self._parsed(found[1])
        return last[1]

    def _parsed(self, text: bytes) -> _Book:
        try:
            book = json.loads(text)
        except (ValueError, RecursionError):
            raise self._file.unusable("it is not JSON") from None
        version = book.get("version") if type(book) is dict else None
        if type(version) is not int or version not in (_PARTIAL, _VERSION):
            raise self._file.unusable(f"it is not a lock file of version {_VERSION}")
        identities, key = book.get("identities", {}), book.get("key")
        if type(identities) is not dict or not all(type(one) is str for one in identities.values()):
            raise self._file.unusable("identities is not an object of strings")
        if key is not None and (type(key) is not str or not _KEY.fullmatch(key)):
            raise self._file.unusable("its key is not 64 hexadecimal digits")
        servers = {
            server: {
                name: self._checked(server, name, entry, version) for name, entry in entries.items()
            }
            for server, entries in self._objects(book.get("servers"), "servers").items()
        }
        skills = self._objects(book.get("skills", {}), "skills")
        if not all(_is_skill(one) for each in skills.values() for one in each.values()):
            raise self._file.unusable("a skill is neither 'dynamic' nor an object of digests")
        return _Book(servers, identities, None if key is None else bytes.fromhex(key), skills)

    def _objects(self, value: Any, what: str) -> dict[str, dict[str, Any]]:
        if type(value) is not dict or not all(type(item) is dict for item in value.values()):
            raise self._file.unusable(f"{what} is not an object of objects")
        return value

    def _checked(self, server: str, name: str, entry: Any, version: int) -> Pin:
        definition = entry.get("definition") if type(entry) is dict else None
        place = f"{safe_text(server, 60)}/{safe_text(name, 60)}"
        if type(definition) is not dict or definition.get("name") != name:
            raise self._file.unusable(f"{place} has no definition with that name")
        version = entry.get("version", version)
        if type(version) is not int or version not in (_PARTIAL, _VERSION):
            raise self._file.unusable(f"{place} has a version that is not known")
        is_partial = version == _PARTIAL
        parts = (covered_before if is_partial else fingerprinted)(definition)
        pin = Pin(fingerprint_of(parts), definition, is_partial)
        if entry.get("fingerprint") != pin.fingerprint:
            raise self._file.unusable(
                f"{place} has a fingerprint that does not match its definition"
            )
        return pin

    def _write(self, book: _Book, server: str, *, seen: bool = True) -> None:
        """Replace the file by ``book``, in which the entry of ``server`` is new; ``seen``: that of
        its tools, which have been listed."""
        book.key = book.key or secrets.token_bytes(32)
        identity = self._identity_of(server, book.key)
        book.identities.pop(server, None)
        if identity is not None:
            book.identities[server] = identity
        whole: dict[str, Any] = {
            "version": _VERSION,
            "servers": {
                name: {tool: pin.to_json() for tool, pin in tools.items()}
                for name, tools in book.servers.items()
            },
        }
        if book.identities:
            whole |= {"identities": book.identities, "key": book.key.hex()}
        if book.skills:
            whole["skills"] = book.skills
        text = json.dumps(whole, indent=2, sort_keys=True, ensure_ascii=True) + "\n"
        self._last = self._file.replace(text), book
        if seen:
            self._seen.add(server)


def _is_skill(one: Any) -> bool:
    return one == "dynamic" or (
        type(one) is dict and bool(one) and all(type(digest) is str for digest in one.values())
    )


@functools.lru_cache(maxsize=64)
def _keyed_once(text: str, key: bytes | None) -> str:
    return keyed(text, key)
