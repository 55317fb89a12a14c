"""Remembered answers: which calls a person or a hook has allowed in advance.

```python
connect(server, name="files", answers="answers.json")        # or Answers("answers.json")
```

A yes with ``remember="session"`` is kept by the session (``session.answers``), one with
``remember="always"`` in the store that ``connect`` was given. Both are for calls of one tool:

- of the same server, by the name the host gave it and by what is run or where it is (never by what
  the server says of itself),
- with the same definition and the same trust: if either changes, the call is asked about again,
  and the new answer replaces the old one,
- with an equal ``context``, the host's word on whose call it is, and of the same ``origin``: a yes
  to a call of the host's own holds for none that a view makes, and the reverse,
- with arguments as the answer's ``where`` requires, or exactly the same arguments and ``_meta``
  where the answer is for these only,
- without findings, on the arguments or in the catalog, that were not there when the answer was
  given; drift from the ``pins`` is a finding.

A yes to loading a skill (``SkillRequest``) is for the skill of that server and URI, with exactly
the files and digests that it had, and for an equal context.

A no is never remembered. The file is JSON, readable and writable by its owner only (0600), see
``answers_file``. Processes that write it take turns; an answer that one process revokes is not
used by the others from their next call on. What may contain a secret (arguments, the words of
a command, a URL's path and query) is in the file only as a digest keyed with the file's own key.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakSet

from ..catalog.call_context import CallOrigin, context_from_json, context_key, same_context
from ..errors import ConfigError
from ..protocol.canonical_json import canonical_of, plain
from ..runtime.keyed_digest import keyed
from ..runtime.safe_text import safe_text
from .request import ApprovalRequest, RequestKind

if TYPE_CHECKING:
    from pathlib import Path

    from ..runtime.atomic_file import Stamp
    from .answers_file import AnswersFile, Contents
    from .constraints import Constraints

__all__ = ["Answers", "Remembered"]

_log = logging.getLogger("mcp_client.approval")
_PROCESS_KEY = os.urandom(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """One yes that is remembered."""

    server: str
    """The name the host gave the server."""
    identity: str
    """What is run, or where it is, as text that tells servers apart and contains no secret."""
    tool: str
    """Its name; the URI of a skill."""
    fingerprint: str
    """Of the tool's definition when the answer was given; the digest of a skill."""
    trusted: bool
    scope: Literal["session", "always"]
    where: Mapping[str, Any] | None = field(default=None, hash=False)
    """What the arguments must be; None for any, unless ``exact`` is given."""
    exact: str | None = None
    """Digest of the only arguments and ``_meta`` it is for; None where ``where`` decides."""
    context: Hashable = None
    """Whose calls it is for: those of an equal context."""
    origin: CallOrigin = "host"
    """Where these calls come from, as in ``ToolCall.origin``."""
    when: float
    """Seconds since the beginning of 1970, UTC."""
    by: str | None = None
    """Who gave the answer, where it named a person."""
    expires: float | None = None
    """When it ends; None where only its scope limits it."""
    findings: tuple[tuple[str, str], ...] = ()
    """What was found when the answer was given: of each finding its kind and ``about``."""
    kind: RequestKind = "call"
    """What it is for: calls of a tool, a skill, a start, or uses of the host's model."""
    _constraints: Constraints = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        from .constraints import Constraints

        constraints = Constraints(self.where)
        object.__setattr__(self, "where", constraints.wanted or None)
        object.__setattr__(self, "_constraints", constraints)

    def covers(self, call: ApprovalRequest, identity: str, key: bytes | None = None) -> bool:
        """Whether it allows ``call`` of the server ``identity``; ``key`` is that of its store."""
        arguments: Any = call  # only a yes to a call has constraints, and only calls are asked
        return (
            self.kind == call.kind
            and self.tool == call.subject
            and self.trusted is call.trusted
            and self.fingerprint == call.fingerprint
            and self.origin == call.origin
            and self._holds_for(call, identity)
            and (self.exact is None or self.exact == keyed(call.exactly or "", key))
            and (not self._constraints or self._constraints.hold(arguments.arguments) is True)
        )

    def _holds_for(self, call: ApprovalRequest, identity: str) -> bool:
        return (
            self.server == call.server
            and self.identity == identity
            and same_context(self.context, call.context)
            and all(one.known_as in self.findings for one in call.findings)
            and not self.has_expired
        )

    @property
    def has_expired(self) -> bool:
        return self.expires is not None and time.time() >= self.expires

    def replaces(self, other: Remembered) -> bool:
        """Whether both are answers to the same question, so that only the newer one counts."""
        return self._question == other._question

    @property
    def _question(self) -> tuple[Hashable, ...]:
        where = None if self.where is None else canonical_of(plain(self.where))
        context = context_key(self.context)
        what = self.tool, self.kind, where, self.exact
        return self.server, self.identity, *what, context, self.origin

    def to_json(self) -> dict[str, Any]:
        from .answers_file import OPTIONAL, TYPES

        members = {name: getattr(self, name) for name in TYPES}
        if self.origin == "host":  # as in files that were written before there was another
            del members["origin"]
        if self.kind == "call":  # likewise
            del members["kind"]
        return {k: v for k, v in members.items() if v is not None or k not in OPTIONAL}


class _Book:
    """The answers of a store, found by server and tool; by digest where they are for one call."""

    def __init__(self, key: bytes | None, answers: tuple[Remembered, ...] = ()) -> None:
        self.key = key
        self._answers: dict[tuple[Hashable, ...], Remembered] = {}
        self._index: dict[tuple[str, str, str | None], dict[Hashable, Remembered]] = {}
        self._with_exact: set[tuple[str, str]] = set()
        for answer in answers:
            self.add(answer)

    def __len__(self) -> int:
        return len(self._answers)

    def all(self) -> tuple[Remembered, ...]:
        """Those that have not expired."""
        answers = tuple(self._answers.values())  # others may be adding to it
        return tuple(answer for answer in answers if not answer.has_expired)

    def add(self, answer: Remembered) -> None:
        question = answer._question
        self._answers.pop(question, None)  # the newest stands last
        self._answers[question] = answer
        place = answer.server, answer.tool, answer.exact
        self._index.setdefault(place, {})[question] = answer
        if answer.exact is not None:
            self._with_exact.add((answer.server, answer.tool))

    def find(self, call: ApprovalRequest, identity: str) -> Remembered | None:
        place = call.server, call.subject
        found = self._index.get((*place, None), {})
        answers = tuple(found.values())
        if place in self._with_exact and call.exactly is not None:
            exact = keyed(call.exactly, self.key)
            answers += tuple(self._index.get((*place, exact), {}).values())
        if not answers:
            return None
        identity = keyed(identity, self.key)
        return next((one for one in answers if one.covers(call, identity, self.key)), None)

    def with_keyed_digests(self, answer: Remembered) -> Remembered:
        """``answer`` with digests that only this book's key can make."""
        identity = keyed(answer.identity, self.key)
        exact = answer.exact and keyed(answer.exact, self.key)
        if (identity, exact) == (answer.identity, answer.exact):
            return answer  # it is from a book with this key
        return replace(answer, identity=identity, exact=exact)


class Answers:
    """A store of remembered answers: a file, or without a path, this object while it lives.

    Any number of sessions may share one. Raises ``ConfigError`` where the file cannot be used:
    it has another format, or others than its owner may read or write it.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._file: AnswersFile | None = None
        if path is not None:
            from .answers_file import AnswersFile

            self._file = AnswersFile(path)
        self._last: tuple[Contents | None, _Book]
        self._last = None, _Book(_PROCESS_KEY if path is None else None)
        self.kept = 0
        """How many answers there are in a store that is not a file."""
        self._lock = threading.Lock()
        self._reading = threading.Lock()  # a book and what it was read from change together
        self.observers: WeakSet[Any] = WeakSet()  # their ``revoked`` gets what is forgotten

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
        """The file, or None."""
        return None if self._file is None else self._file.path

    def list(self) -> tuple[Remembered, ...]:
        """What is remembered now, the newest last."""
        return self._book().all()

    def revoke(
        self,
        answer: Remembered | None = None,
        *,
        server: str | None = None,
        tool: str | None = None,
        by: str | None = None,
    ) -> int:
        """Forget one answer of the list, or all about a server, a tool, or a tool of a server.

        The next such call is asked about again. ``by`` is who revokes them, for the record. Returns
        how many were forgotten.
        """
        if answer is None and server is None and tool is None:
            raise ConfigError(
                "revoke() names nothing to forget: give an answer, server= or tool=, or use clear()"
            )
        return self._drop(
            lambda one: (
                (answer is None or one == answer)
                and (server is None or one.server == server)
                and (tool is None or one.tool == tool)
            ),
            by,
        )

    def clear(self, *, by: str | None = None) -> int:
        """Forget everything. Returns how many answers that were."""
        return self._drop(lambda one: True, by)

    def find(self, call: ApprovalRequest, identity: str) -> Remembered | None:
        """The answer that covers ``call`` of the server with this ``lasting_identity``."""
        return self._book().find(call, identity)

    def add(self, answer: Remembered) -> None:
        """Remember ``answer``, in place of an older answer to the same question."""
        with self._changing():
            known, book = self._current()
            if self._file is None:
                book.add(book.with_keyed_digests(answer))
                self.kept = len(book)
            elif not self._append(self._file, known, book, answer):
                self._write(book.key, (*book.all(), answer))

    def _append(
        self, file: AnswersFile, known: Contents | None, book: _Book, answer: Remembered
    ) -> bool:
        """Whether the file could be added to. Otherwise it is to be replaced."""
        if known is None or known.key is None:
            return False
        answer = book.with_keyed_digests(answer)
        with self._reading:
            added = file.append(known, answer.to_json())
            if added is None:
                return False
            book.add(answer)
            self._last = added, book
        return True

    def _drop(self, is_unwanted: Callable[[Remembered], bool], by: str | None) -> int:
        kept: list[Remembered] = []
        revoked: list[Remembered] = []
        with self._changing():
            book = self._book()
            for one in book.all():
                (revoked if is_unwanted(one) else kept).append(one)
            if revoked:
                self._write(book.key, tuple(kept))
        for observer in list(self.observers) if revoked else ():
            observer.revoked(tuple(revoked), by)
        return len(revoked)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock, nullcontext() if self._file is None else self._file.locked():
            yield

    def _book(self) -> _Book:
        return self._current()[1]

    def _current(self) -> tuple[Contents | None, _Book]:
        """What is remembered now, and which contents of the file that is."""
        last = self._last
        if self._file is None:
            return last
        stamp = self._file.stamp()
        if stamp is None:
            return None, _Book(None)
        if last[0] is None or stamp != last[0].stamp:
            with self._reading:
                return self._read(self._file, stamp)
        return last

    def _read(self, file: AnswersFile, stamp: Stamp) -> tuple[Contents | None, _Book]:
        known, book = self._last
        if known is not None and known.stamp == stamp:
            return known, book  # another thread has read it meanwhile
        found = file.read(known)
        if found is None:
            return None, _Book(None)
        contents, entries, follows = found
        answers = tuple(self._answer(file, *entry) for entry in entries)
        if follows:
            for answer in answers:
                book.add(answer)
        else:
            book = _Book(contents.key, answers)
        self._last = contents, book
        return self._last

    def _answer(self, file: AnswersFile, number: int, members: dict[str, Any]) -> Remembered:
        try:
            context = context_from_json(members.get("context"))
            findings = tuple((kind, about) for kind, about in members["findings"])
            return Remembered(**{**members, "findings": findings, "context": context})
        except (ConfigError, ValueError) as error:
            raise file.unusable(f"answer {number}: {safe_text(error, 200)}") from None

    def _write(self, key: bytes | None, answers: tuple[Remembered, ...]) -> None:
        key = key or os.urandom(32)
        book = _Book(key)
        for answer in answers:
            book.add(book.with_keyed_digests(answer))
        if self._file is None:
            self._last, self.kept = (None, book), len(book)
            return
        with self._reading:
            self._last = self._file.replace(key, [one.to_json() for one in book.all()]), book
