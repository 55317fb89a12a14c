"""Remembered answers: which calls somebody has said yes to beforehand.

```python
connect(server, name="files", answers="answers.json")        # or Answers("answers.json")
```

A yes with ``remember="session"`` is kept by the session (``session.answers``), one with
``remember="always"`` in the store that ``connect`` was given. Both are for calls of one tool:

- of the same server, by the name the host gave it and by what is run or where it is (never by what
  the server says of itself),
- with the same definition, and the same trust: when either changes, it is asked anew, and what is
  answered then takes the old answer's place,
- with arguments as the answer's ``where`` wants them, if it says so,
- with no finding, on the arguments or in the catalogue, that was not there when the answer was
  given; drift from the ``pins`` is a finding.

A no is never remembered. The file is JSON for its owner alone (0600). It is replaced at once and as
a whole, and processes that write it take turns; what one of them revokes, the others do not use.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from ..catalog.tool import ToolCall
from ..errors import ConfigError
from ..protocol.canonical_json import sha256
from ..runtime.safe_text import safe_text
from .decision import Allow, Remember

if TYPE_CHECKING:
    from pathlib import Path

    from ..runtime.atomic_file import OwnFile, Stamp
    from .constraints import Constraints

__all__ = ["Answers", "ApprovalMemory", "OneCallApproval", "Remembered"]

_log = logging.getLogger("mcp_client")
_VERSION = 1
_LATEST = 1e11
_REMEDY = "put back an older one, or delete it to be asked anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """One yes that is remembered."""

    server: str
    """The name the host gave the server."""
    identity: str
    """What is run, or where it is, as a text that tells servers apart and holds no secret."""
    tool: str
    fingerprint: str
    """Of the tool's definition as it was when the answer was given."""
    trusted: bool
    scope: Literal["session", "always"]
    where: Mapping[str, Any] | None = field(default=None, hash=False)
    """What the arguments must be; None for any."""
    when: float
    """Seconds since the beginning of 1970, UTC."""
    findings: tuple[str, ...] = ()
    """Digests of what was found when the answer was given."""
    _constraints: Constraints = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        from .constraints import Constraints

        constraints = Constraints(self.where)
        object.__setattr__(self, "where", constraints.wanted or None)
        object.__setattr__(self, "_constraints", constraints)

    def covers(self, call: ToolCall, identity: str) -> bool:
        return (
            self.tool == call.tool.name
            and self.server == call.server
            and self.identity == identity
            and self.trusted is call.trusted
            and self.fingerprint == call.tool.fingerprint
            and all(_digest(finding) in self.findings for finding in call.findings)
            and (not self._constraints or self._constraints.hold(call.arguments) is True)
        )

    def replaces(self, other: Remembered) -> bool:
        return (self.server, self.identity, self.tool, self.where) == (
            other.server,
            other.identity,
            other.tool,
            other.where,
        )

    def to_json(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if not f.name.startswith("_")}


class Answers:
    """A store of remembered answers: a file, or without a path, this object while it lives.

    Any number of sessions may share one. Raises ``ConfigError`` where the file cannot be used:
    it is no such file, or others than its owner may read or write it.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._file = None if path is None else _own_file(path)
        self._last: tuple[Stamp | None, tuple[Remembered, ...]] = (None, ())
        self._turn = threading.Lock()

    @classmethod
    def of(cls, answers: Answers | str | os.PathLike[str] | None) -> Answers | None:
        if answers is None or isinstance(answers, Answers):
            return answers
        if isinstance(answers, str | os.PathLike):
            return cls(answers)
        raise ConfigError(f"answers={answers!r}: give the path of a file, or Answers(...)")

    def __repr__(self) -> str:
        return f"<Answers, {self.path or 'in memory'}>"

    @property
    def path(self) -> Path | None:
        """The file; None where there is none."""
        return None if self._file is None else self._file.path

    def list(self) -> tuple[Remembered, ...]:
        """What is remembered now, the newest last."""
        if self._file is None:
            return self._last[1]
        stamp = self._file.stamp()
        if stamp is None:
            return ()
        last = self._last
        if stamp != last[0]:
            found = self._file.read()
            last = self._last = (None, ()) if found is None else (found[0], self._parsed(found[1]))
        return last[1]

    def revoke(
        self,
        answer: Remembered | None = None,
        *,
        server: str | None = None,
        tool: str | None = None,
    ) -> int:
        """Forget one answer of the list, or all about a server, a tool, or a tool of a server.

        From the next call on it is asked again. Returns how many were forgotten.
        """
        if answer is None and server is None and tool is None:
            raise ConfigError("revoke() of nothing: give an answer, server= or tool=, or clear()")
        return self._drop(
            lambda one: (
                (answer is None or one == answer)
                and (server is None or one.server == server)
                and (tool is None or one.tool == tool)
            )
        )

    def clear(self) -> int:
        """Forget everything. Returns how much that was."""
        return self._drop(lambda one: True)

    def find(self, call: ToolCall, identity: str) -> Remembered | None:
        """The answer that covers ``call``."""
        return next((one for one in self.list() if one.covers(call, identity)), None)

    def add(self, answer: Remembered) -> None:
        """Remember ``answer``, in place of what it replaces."""
        with self._changing():
            kept = [one for one in self.list() if not answer.replaces(one)]
            self._write((*kept, answer))

    def _drop(self, unwanted: Any) -> int:
        with self._changing():
            before = self.list()
            kept = tuple(one for one in before if not unwanted(one))
            if len(kept) != len(before):
                self._write(kept)
            return len(before) - len(kept)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._turn, nullcontext() if self._file is None else self._file.locked():
            yield

    def _write(self, answers: tuple[Remembered, ...]) -> None:
        if self._file is None:
            self._last = None, answers
            return
        whole = {"version": _VERSION, "answers": [one.to_json() for one in answers]}
        text = json.dumps(whole, indent=2, sort_keys=True, ensure_ascii=True) + "\n"
        self._last = self._file.replace(text), answers

    # ------------------------------------------------------------------ the file

    def _parsed(self, text: bytes) -> tuple[Remembered, ...]:
        assert self._file is not None
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError):
            raise self._file.unusable("it is no JSON") from None
        if type(whole) is not dict or whole.get("version") != _VERSION:
            raise self._file.unusable(f"it is no file of answers of version {_VERSION}")
        if set(whole) != {"version", "answers"} or type(whole["answers"]) is not list:
            raise self._file.unusable("it has no list of answers, or something else beside it")
        return tuple(self._checked(*item) for item in enumerate(whole["answers"], 1))

    def _checked(self, number: int, entry: Any) -> Remembered:
        assert self._file is not None
        if type(entry) is not dict or set(entry) != set(_TYPES):
            raise self._file.unusable(f"answer {number} has not exactly the members of one")
        for name, kinds in _TYPES.items():
            if type(entry[name]) not in kinds:
                raise self._file.unusable(f"answer {number} has a {name} of the wrong type")
        if not 0 <= entry["when"] < _LATEST:
            raise self._file.unusable(f"answer {number} has a when that is no time")
        if entry["scope"] != "always" or not all(type(one) is str for one in entry["findings"]):
            raise self._file.unusable(f"answer {number} is none that is kept in a file")
        try:
            return Remembered(**{**entry, "findings": tuple(entry["findings"])})
        except ConfigError as error:
            raise self._file.unusable(f"answer {number}: {safe_text(error, 200)}") from None


_TYPES: dict[str, tuple[type, ...]] = {
    "server": (str,),
    "identity": (str,),
    "tool": (str,),
    "fingerprint": (str,),
    "trusted": (bool,),
    "scope": (str,),
    "where": (dict, type(None)),
    "when": (int, float),
    "findings": (list,),
}


class ApprovalMemory:
    """What is remembered for one session: its own answers, and those of the host's store."""

    def __init__(
        self, identity: Callable[[], str | None] = lambda: None, store: Answers | None = None
    ) -> None:
        """Where ``identity`` tells none, nothing is kept beyond the session, nor found from before.

        It is asked when it is first needed: it costs a digest.
        """
        self.session = Answers()
        self.store = store
        self._identity = cache(identity)
        self._warned = False

    @property
    def waits(self) -> bool:
        """Whether looking into the store means reading a file."""
        return self.store is not None and self.store.path is not None

    def recall(self, call: ToolCall) -> Allow | None:
        found = self.session.find(call, self._identity() or "") if self.session.list() else None
        if found is None and self.store is not None:
            identity = self._identity()
            found = None if identity is None else self.store.find(call, identity)
        if found is None:
            return None
        day = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(found.when))
        return Allow(reason=f"remembered for this tool, {found.scope}, on {day}", source="memory")

    def keep(self, call: ToolCall, remember: Remember) -> None:
        """Raises ``ConfigError`` where the store cannot be written."""
        identity = self._identity()
        store = self.store if remember.scope == "always" and identity is not None else None
        if store is None and remember.scope == "always" and not self._warned:
            self._warned = True
            _log.warning(
                "%s: an answer for always is kept until the session ends: %s",
                call.server,
                "connect(answers=...) names no store"
                if self.store is None
                else "what this server is cannot be told apart from others later",
            )
        (store or self.session).add(
            Remembered(
                server=call.server,
                identity=identity or "",
                tool=call.tool.name,
                fingerprint=call.tool.fingerprint,
                trusted=call.trusted,
                scope="session" if store is None else "always",
                where=remember.where,
                when=float(int(time.time())),
                findings=_digests(call.findings),
            )
        )


class OneCallApproval:
    """The yes to one call, for when that same call has to be made again."""

    __slots__ = ("_allow", "_call")

    def __init__(self) -> None:
        self._call: ToolCall | None = None

    def keep(self, call: ToolCall, allow: Allow) -> None:
        self._call, self._allow = call, allow

    def recall(self, call: ToolCall) -> Allow | None:
        old = self._call
        if old is None or not _same_call(old, call) or not set(call.findings) <= set(old.findings):
            return None
        reason = "this very call was allowed, and is made again because the server did not run it"
        return Allow(self._allow.arguments, reason=reason, source="memory")


def _same_call(one: ToolCall, other: ToolCall) -> bool:
    return (
        one.server == other.server
        and one.arguments_json == other.arguments_json
        and one.meta_json == other.meta_json
        and one.trusted is other.trusted
        and one.tool.fingerprint == other.tool.fingerprint
    )


def _own_file(path: str | os.PathLike[str]) -> OwnFile:
    from ..runtime.atomic_file import OwnFile

    return OwnFile(path, "answers", _REMEDY, private=True)


def _digests(findings: Iterable[str]) -> tuple[str, ...]:
    # Not the sentences: one about an argument may quote it.
    return tuple(sorted({_digest(finding) for finding in findings}))


def _digest(finding: str) -> str:
    return sha256(finding)
