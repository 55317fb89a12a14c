"""A lock file of reviewed tool definitions, to detect later changes.

```python
connect(server, pins="mcp.lock")                       # or Pins("mcp.lock", policy="refuse")
```

The first list of a server is stored: complete definitions and the server's instructions, under the
host's name for the server. A host lists the tools of a lazy server from the file until the server
is started (``ServerConfig(lazy=True)``).

Later every call compares the definition it was built from with the file at that moment. A
difference is drift: a definition changed, a tool is new, a tool is gone, the file no longer has the
server, or has it for another URL. The policy decides what happens:

- "ask": the difference, with old and new values, is among the findings of the call, so that the
  approver sees it. An approval for this call or the session does not change the file. A permanent
  one (``Allow(remember="always")``) stores the new definition, as ``Pins.accept`` does.
- "refuse": the call is refused before approval is requested (``CallDenied``).
- "accept": the file follows the server; the difference is logged, and is among the findings of the
  list, once.

Instructions that changed are a finding of the list. ``Toolset.instructions`` omits them until they
are accepted, unless the policy is "accept".

The file is made for code review: JSON, sorted, one value a line, ASCII, so that invisible
characters are visible. See ``runtime.json_file``; a file that other users may write is refused.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..errors import CallDenied, ConfigError
from ..protocol.canonical_json import keyed
from ..protocol.json_paths import copy_of
from ..runtime.callbacks import in_thread
from ..runtime.json_file import JsonFile
from ..runtime.limits import Limits
from ..runtime.option_names import with_option_names
from ..runtime.safe_text import safe_text
from ..runtime.session_context import KnownSecrets
from ..runtime.storage import Object, Storage
from ..runtime.strict_json import is_deeper
from .drift import Drift
from .finding import Finding
from .tool import Tool, fingerprint_of, fingerprinted

__all__ = ["DYNAMIC", "MAX_INSTRUCTIONS", "DriftPolicy", "Pinned", "Pins", "pinned"]

DriftPolicy: TypeAlias = Literal["ask", "refuse", "accept"]
"""The policy for drift: see ``mcp_client.catalog.pins``."""

DYNAMIC = "dynamic"
"""The entry of a skill that lists no files."""
_PINS = "pins"
_MEMBERS = {"tools", "skills", "identity", "instructions", "written"}
_MAX_LOGGED_CHARS = 1_000
MAX_INSTRUCTIONS = 16_384
"""Characters of a server's instructions that are written down, and shown to a model at most."""
_WRITTEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_REMEDY = "restore a backup, or delete it to store the current definitions again"

_log = logging.getLogger("mcp_client")


@dataclass(frozen=True, slots=True)
class Pin:
    """A tool as it was when it was written down."""

    fingerprint: str
    definition: dict[str, Any]

    @classmethod
    def of(cls, tool: Tool, secrets: KnownSecrets | None) -> Pin:
        """Return the stored form of ``tool``, without ``secrets``: anyone may read the file.

        The name is stored unchanged, because calls use it.
        """
        definition = fingerprinted(tool._definition)
        if secrets is not None:
            clean = {**secrets.json(definition), "name": definition["name"]}
            if clean != definition:
                return cls(fingerprint_of(clean), clean)
        return cls(tool.fingerprint, definition)

    def to_json(self) -> Object:
        """Return the pin as a dict."""
        return {"fingerprint": self.fingerprint, "definition": self.definition}


@dataclass(slots=True)
class _Entry:
    """The stored data of a server."""

    tools: dict[str, Pin] | None = None
    skills: dict[str, Any] | None = None
    """The entries of skills by URI, each as ``pinned`` returns it."""
    identity: str | None = None
    """A keyed digest of the server's address, if it is the same on every machine."""
    instructions: str | None = None
    """The server's instructions, without its secrets, cut to ``MAX_INSTRUCTIONS``."""
    written: str | None = None
    """When the tools or the instructions were last written down: ISO 8601, UTC."""

    def to_json(self) -> Object:
        members = {name: getattr(self, name) for name in ("identity", "instructions", "written")}
        entry: Object = {name: value for name, value in members.items() if value is not None}
        if self.tools is not None:
            entry["tools"] = {name: pin.to_json() for name, pin in self.tools.items()}
        if self.skills is not None:
            entry["skills"] = self.skills
        return entry


def pinned(files: Iterable[Any]) -> Any:
    """Return the entry of a skill with these files: each URI with its digest."""
    return {file.uri: file.digest for file in files} or DYNAMIC


@dataclass(frozen=True, slots=True)
class Pinned:
    """The tools of a server that was not started, as the lock file has them."""

    definitions: list[dict[str, Any]]
    """Copies, in the order of their names."""
    instructions: str | None
    written: str
    """The time at which they were stored: ISO 8601, UTC; empty if the file does not have it."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The stored data at one stamp of the state."""

    stamp: Hashable = None
    servers: Mapping[str, _Entry] = field(default_factory=dict)
    key: bytes | None = None
    """Identities are keyed with it."""

    def tools(self, server: str) -> dict[str, Pin] | None:
        entry = self.servers.get(server)
        return None if entry is None else entry.tools


@with_option_names()
class Pins:
    """A lock file of tools. One may serve any number of sessions; give each server its name."""

    def __init__(
        self,
        where: str | os.PathLike[str] | Storage,
        *,
        policy: DriftPolicy = "ask",
        create: bool = True,
    ) -> None:
        """Take ``where``, the path of the file or a ``State``, which is read when needed.

        Raises ``ConfigError`` for an unknown policy. With ``create=False`` nothing is pinned on
        first use. Connecting then raises ``ConfigError`` for a file that is missing or has no
        server, and the tools of a server it does not have are drift.
        """
        if policy not in ("ask", "refuse", "accept"):
            raise ConfigError(f"Pins(policy={policy!r}): give 'ask', 'refuse' or 'accept'")
        if type(create) is not bool:
            raise ConfigError(f"Pins(create={create!r}): give True or False")
        if not isinstance(where, Storage):
            where = JsonFile(where, "lock file", (_PINS, "keys"), _REMEDY, private=False)
        self._state = where
        self.policy = policy
        """The policy for drift: "ask", "refuse" or "accept"."""
        self.create = create
        """Whether a server that the file does not have is pinned on first use."""
        self._drifts: dict[str, tuple[Drift, ...]] = {}
        self._seen: set[str] = set()
        self._instructions: dict[str, str | None] = {}
        """The instructions of each server that was listed, in their stored form."""
        self._identities: dict[str, Callable[[], str | None]] = {}
        self._secrets: dict[str, KnownSecrets] = {}
        self._last = _Snapshot()
        self._key: bytes | None = None

    @classmethod
    def _of(cls, pins: Pins | str | os.PathLike[str] | None) -> Pins | None:
        if pins is None or isinstance(pins, Pins):
            return pins
        if isinstance(pins, str | os.PathLike):
            return cls(pins)
        raise ConfigError(f"pins={pins!r}: give the path of a file, or Pins(...)")

    @property
    def path(self) -> Path | None:
        """The lock file; None if pins are stored in another state."""
        return self._state.path if isinstance(self._state, JsonFile) else None

    @property
    def name(self) -> str:
        """The name of the file, for findings."""
        return "the lock file" if self.path is None else self.path.name

    def _identify(
        self, server: str, identity: Callable[[], str | None], secrets: KnownSecrets | None = None
    ) -> None:
        """Set the ``Transport.pinned_identity`` and the secrets of ``server``, for ``connect``."""
        self._identities[server] = functools.cache(identity)
        if secrets is not None:
            self._secrets[server] = secrets

    def _pin_of(self, tool: Tool) -> Pin:
        return Pin.of(tool, self._secrets.get(tool.server))

    def drift(self, server: str) -> tuple[Drift, ...]:
        """Return the drift in the last list of ``server``, without accepted differences."""
        return self._drifts.get(server, ())

    def _was_removed(self, server: str, tool: str) -> bool:
        return any(drift.tool == tool and drift.kind == "gone" for drift in self.drift(server))

    def accept(self, server: str, tools: Iterable[Tool]) -> None:
        """Store ``tools`` and the last instructions of ``server`` as accepted.

        None of it is drift afterwards.
        """
        pins = {tool.name: self._pin_of(tool) for tool in tools}
        self._change(
            server,
            lambda entry: replace(
                entry, tools=pins, instructions=self._instructions.get(server, entry.instructions)
            ),
        )
        self._seen.add(server)
        self._drifts.pop(server, None)

    # ------------------------------------------------------ on the way of a call

    async def _drift_of(self, tool: Tool) -> Drift | None:
        """Return the difference of this definition from the file as it is now.

        Not from the last list: that may be of another session with the same name, or newer than
        the definition a call was built from.
        """
        if self.policy == "accept":
            return None
        snapshot = await in_thread(self._snapshot) if self._state.is_remote else self._snapshot()
        found = self._drifts_in(snapshot, tool.server, [tool])
        return found[0] if found else None

    def _check_policy(self, tool: Tool, drift: Drift | None) -> None:
        """Raises ``CallDenied`` where the definition has drifted and the policy is to refuse it."""
        if drift is not None and self.policy == "refuse":
            reason = "; ".join(map(str, drift.findings(self.name)))
            raise CallDenied(
                f"call refused: {reason}. To accept the new definition, call Pins.accept(...)",
                reason=reason,
                server=tool.server,
                tool=tool.name,
            )

    def _accept_tool(self, tool: Tool) -> None:
        """Store a definition that a person who saw the drift approved permanently."""
        pin = {tool.name: self._pin_of(tool)}
        self._change(
            tool.server, lambda entry: replace(entry, tools={**(entry.tools or {}), **pin})
        )
        self._seen.add(tool.server)
        rest = (other for other in self.drift(tool.server) if other.tool != tool.name)
        self._drifts[tool.server] = tuple(rest)

    # -------------------------------------------------------------------- skills

    def accept_skills(self, server: str, skills: Iterable[Any]) -> None:
        """Write down these entries of ``list_skills()``: from now on none of it is drift."""
        self._write_skills(server, {skill.uri: pinned(skill.files) for skill in skills})

    def _skills(self, server: str) -> Mapping[str, Any] | None:
        """Return the stored skills of the server; None without any."""
        entry = self._snapshot().servers.get(server)
        return None if entry is None else entry.skills

    def _write_skills(self, server: str, skills: Mapping[str, Any]) -> None:
        """Write down ``skills``, beside the others of the server."""
        self._change(
            server, lambda entry: replace(entry, skills={**(entry.skills or {}), **skills})
        )

    # ------------------------------------------------------------------ the list

    def _compare(
        self, server: str, tools: Iterable[Tool], instructions: str | None = None
    ) -> tuple[list[Finding], str | None]:
        """Compare a list with the file, store what the policy permits, and return the drift."""
        tools = list(tools)
        stored = self._instructions[server] = self._written_down(server, instructions)
        before = snapshot = self._snapshot()
        if self._must_write(snapshot, server, tools):

            def written(entry: _Entry) -> _Entry:
                nonlocal before
                before = _Snapshot(None, {server: entry} if entry.to_json() else {}, snapshot.key)
                if not self._must_write(before, server, tools):
                    return entry
                pins = {tool.name: self._pin_of(tool) for tool in tools}
                return replace(entry, tools=pins, instructions=stored)

            snapshot = _Snapshot(None, {server: self._change(server, written)}, self._key)
        findings = self._findings(before, server, tools)
        self._seen.add(server)
        accepted = self.policy == "accept"
        if accepted and findings:  # the list of a host may not be the first one that has them
            text = safe_text("; ".join(one.text for one in findings), _MAX_LOGGED_CHARS)
            _log.warning("%s: %s follows the server: %s", server, self.name, text)
        now = () if accepted else tuple(self._all_drifts(snapshot, server, tools))
        self._drifts[server] = now
        is_new = any(one.kind in ("unpinned", "moved") or not one.tool for one in now)
        return findings, None if is_new or instructions is None else instructions

    def _written_down(self, server: str, instructions: str | None) -> str | None:
        """The instructions of a server as they are written down."""
        secrets = self._secrets.get(server)
        if instructions is None or not instructions.strip():
            return None
        text = instructions if secrets is None else secrets.text(instructions)
        return text[:MAX_INSTRUCTIONS]

    def _pinned(self, server: str, limits: Limits) -> Pinned | None:
        """Return the stored data of a server that was not started; None without any.

        Afterwards a file without the server is drift. Raises ``ConfigError`` for more than the
        server itself might send.
        """
        snapshot = self._snapshot()
        entry = snapshot.servers.get(server)
        if entry is None or entry.tools is None or self._has_moved(server, snapshot):
            return None
        place = safe_text(server, 60)
        if len(entry.tools) > limits.tools:
            raise self._unusable(f"{place} has more than {limits.tools} tools (Limits.tools)")
        for name, pin in entry.tools.items():
            if is_deeper(json.dumps(pin.definition).encode(), limits.depth):
                where = f"{place}/{safe_text(name, 60)}"
                raise self._unusable(f"{where} is nested deeper than {limits.depth} (Limits.depth)")
        self._seen.add(server)
        definitions = [copy_of(pin.definition) for _, pin in sorted(entry.tools.items())]
        return Pinned(definitions, entry.instructions, entry.written or "")

    def _must_write(self, snapshot: _Snapshot, server: str, tools: list[Tool]) -> bool:
        is_known = snapshot.tools(server) is not None
        if self.policy == "accept" and (self.create or is_known):
            return not is_known or bool(self._all_drifts(snapshot, server, tools))
        return self.create and not is_known and server not in self._seen

    def _findings(self, snapshot: _Snapshot, server: str, tools: list[Tool]) -> list[Finding]:
        if snapshot.tools(server) is None and server not in self._seen and self.create:
            if self.policy != "refuse":
                return []
            # Perhaps the path or the server's name is mistyped, and nothing is refused at all.
            text = (
                f"{self.name} did not have the server '{safe_text(server, 60)}': its tools were "
                f"stored unreviewed ({len(tools)} of them); Pins(create=False) refuses instead"
            )
            _log.warning("%s: %s (%s)", server, text, self.path)
            return [Finding("not_pinned", text, "server")]
        return [
            finding.at(f"tool '{safe_text(drift.tool, 128)}'") if drift.tool else finding
            for drift in self._all_drifts(snapshot, server, tools)
            for finding in drift.findings(self.name)
        ]

    def _all_drifts(self, snapshot: _Snapshot, server: str, tools: list[Tool]) -> list[Drift]:
        found = self._drifts_in(snapshot, server, tools)
        names = {tool.name for tool in tools}
        known = snapshot.tools(server) or {}
        found += [Drift(server, name, "gone", None) for name in known if name not in names]
        entry, current = snapshot.servers.get(server), self._instructions.get(server)
        if entry is not None and entry.tools is not None and entry.instructions != current:
            found.append(Drift.of_instructions(server, entry.instructions, current))
        return found

    def _drifts_in(self, snapshot: _Snapshot, server: str, tools: list[Tool]) -> list[Drift]:
        known = snapshot.tools(server)
        if known is None:
            if self.create and server not in self._seen:
                return []  # it has not been listed yet
            return [Drift(server, tool.name, "unpinned", tool.fingerprint) for tool in tools]
        if self._has_moved(server, snapshot):
            return [Drift(server, tool.name, "moved", tool.fingerprint) for tool in tools]
        return list(self._drifts_from(server, known, tools))

    def _drifts_from(
        self, server: str, known: Mapping[str, Pin], tools: list[Tool]
    ) -> Iterator[Drift]:
        for tool in tools:
            old = known.get(tool.name)
            if old is None:
                yield Drift(server, tool.name, "new", tool.fingerprint)
            elif old.fingerprint != tool.fingerprint:
                now = self._pin_of(tool)
                if old.fingerprint != now.fingerprint:
                    yield Drift.of(tool, "changed", old.definition, now.definition)

    def _has_moved(self, server: str, snapshot: _Snapshot | None = None) -> bool:
        """Whether the server is elsewhere than when it was written down."""
        snapshot = self._snapshot() if snapshot is None else snapshot
        entry = snapshot.servers.get(server)
        if entry is None or entry.identity is None:
            return False
        identity = self._identity_of(server, snapshot.key)
        return identity is not None and entry.identity != identity

    def _identity_of(self, server: str, key: bytes | None) -> str | None:
        identity = self._identities.get(server)
        text = None if identity is None else identity()
        return None if text is None else _keyed_once(text, key)

    # ------------------------------------------------------------------ the state

    def _read(self) -> dict[str, tuple[str, ...]]:
        """Return the stored tools by server. Raises ``ConfigError`` if the file cannot be used."""
        servers = self._snapshot().servers
        if not servers and not self.create:
            where = self.name if self.path is None else f"the lock file {self.path}"
            raise ConfigError(f"{where} does not exist or has no server, and Pins(create=False)")
        return {server: tuple(entry.tools or ()) for server, entry in servers.items()}

    def _snapshot(self) -> _Snapshot:
        last, stamp = self._last, self._state.stamp(_PINS)
        if stamp != last.stamp or stamp is None:
            servers = self._state.list(_PINS)
            parsed = {server: self._parsed(server, entry) for server, entry in servers.items()}
            last = self._last = _Snapshot(stamp, parsed, self._state.known_secret(_PINS))
        return last

    def _change(self, server: str, change: Callable[[_Entry], _Entry]) -> _Entry:
        """Replace the stored data of a server, and its current address."""
        identity = None
        if self._identity_of(server, None) is not None:
            self._key = self._state.secret(_PINS)
            identity = self._identity_of(server, self._key)
        after = _Entry()

        def changed(found: Object | None) -> Object:
            nonlocal after
            before = _Entry() if found is None else self._parsed(server, found)
            after = change(before)
            if after is not before:
                after.identity = identity
                if (after.tools, after.instructions) != (before.tools, before.instructions):
                    after.written = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
            return after.to_json()

        self._state.change(_PINS, server, changed)
        return after

    def _parsed(self, server: str, entry: Object) -> _Entry:
        place = safe_text(server, 60)
        identity, tools, skills = entry.get("identity"), entry.get("tools"), entry.get("skills")
        if set(entry) - _MEMBERS or not isinstance(identity, str | None):
            raise self._unusable(f"{place} has members that no server has here")
        instructions, written = entry.get("instructions"), entry.get("written")
        if not isinstance(instructions, str | None) or len(instructions or "") > MAX_INSTRUCTIONS:
            raise self._unusable(f"the instructions of {place} are not a str, or too long")
        if written is not None and not (type(written) is str and _WRITTEN.fullmatch(written)):
            raise self._unusable(f"{place} has a time 'written' that is not one in UTC")
        if not isinstance(tools, dict | None) or not isinstance(skills, dict | None):
            raise self._unusable(f"the tools or skills of {place} are not an object")
        if not all(map(_is_skill, (skills or {}).values())):
            raise self._unusable("a skill is neither 'dynamic' nor an object of digests")
        pins = {name: self._pin(place, name, one) for name, one in (tools or {}).items()}
        return _Entry(None if tools is None else pins, skills, identity, instructions, written)

    def _pin(self, server: str, name: str, entry: Any) -> Pin:
        definition = entry.get("definition") if type(entry) is dict else None
        place = f"{server}/{safe_text(name, 60)}"
        if type(definition) is not dict or definition.get("name") != name:
            raise self._unusable(f"{place} has no definition with that name")
        pin = Pin(fingerprint_of(fingerprinted(definition)), definition)
        if entry.get("fingerprint") != pin.fingerprint:
            raise self._unusable(f"{place} has a fingerprint that does not match its definition")
        return pin

    def _unusable(self, why: str) -> ConfigError:
        return self._state.unusable(_PINS, why)


def _is_skill(one: Any) -> bool:
    return one == DYNAMIC or (
        type(one) is dict and bool(one) and all(type(digest) is str for digest in one.values())
    )


_keyed_once = functools.lru_cache(maxsize=64)(keyed)
