"""A request to start or connect to a server of a config file: a frozen value.

2026-07-28 and 2025-11-25 ``basic/security_best_practices`` (local server compromise), SEP-1024: the
exact, complete command is shown before it first runs, with a warning if it looks dangerous.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias
from urllib.parse import urlsplit

from ..catalog.finding import Finding
from ..errors import McpError, StartDenied
from ..runtime.frozen import frozen_dataclass
from ..runtime.safe_text import safe_text
from .request import (
    ApprovalRequest,
    Choice,
    Fact,
    RequestKind,
    StoredAs,
    facts_of,
    finding_facts,
    named,
    new_id,
    optional_text,
    text,
    texts,
)

if TYPE_CHECKING:
    from .decision import Remember

__all__ = ["CONFINED", "CONNECTS", "STARTS", "Scope", "StartRequest"]

Scope: TypeAlias = Literal["user", "project"]

STARTS = Finding(
    "start", "a program would be started: it runs on this machine with all of your rights"
)
CONFINED = Finding(
    "start", "a program would be started: it runs on this machine, within what a sandbox grants"
)
CONNECTS = Finding("start", "a server would be connected to: it gets what is sent to it")
"""The first finding of every request, so that a hook which requires none denies it."""


@frozen_dataclass
class StartRequest(ApprovalRequest):
    """A server that would be started, or connected to.

    It does not contain the values of the host's variables. It contains the values in a project's
    file, in ``env`` and ``headers``, for a person to see.
    """

    kind: ClassVar[RequestKind] = "start"
    _covers_once = "This start only."
    _members: ClassVar = {
        "command": optional_text,
        "args": texts,
        "env_names": texts,
        "cwd": optional_text,
        "url": optional_text,
        "header_names": texts,
        "variables": named(texts),
        "fingerprint": text,
        "path": lambda value: Path(text(value)),
        "scope": lambda value: "user" if value == "user" else "project",
        "env_file": optional_text,
        "env": named(text),
        "headers": named(text),
        "oauth": named(text),
        "program": optional_text,
        "whole_url": optional_text,
        "confined": texts,
        "granted": texts,
    }

    server: str
    """The server's name in the file."""
    command: str | None
    """The program, run without a shell; None for a server at a URL."""
    args: tuple[str, ...] = field(repr=False)
    """All arguments, complete. Values of the host's variables are shown as ``--key=${KEY}``."""
    env_names: tuple[str, ...]
    """The names of the server's variables besides HOME, PATH and the like."""
    cwd: str | None
    """The working directory of the program."""
    url: str | None
    """The URL without user, password and query."""
    header_names: tuple[str, ...]
    """The headers that are sent to the server at the URL."""
    findings: tuple[Finding, ...]
    """The findings for the person who decides; the first one states that this is a start."""
    variables: Mapping[str, tuple[str, ...]] = field(hash=False)
    """The values from outside the file, by name, and the places that use them.

    Example: ``{"TOKEN": ("headers.Authorization",)}``. Inputs are ``input:ID``. Secrets, which are
    read after the approval, are ``file:PATH`` and ``keyring:SERVICE/USER``.
    """
    fingerprint: str
    """A digest of the request, which changes whenever the request changes."""
    path: Path
    """The path of the config file."""
    scope: Scope
    """"project" for a file that may have come with a repository, "user" for the person's own."""
    env_file: str | None = None
    """The file that contains some of ``env_names``."""
    env: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    """The values in a project's file, with ``${NAME}`` for values of the host.

    They may be secrets of the file: show them to the person who decides.
    """
    headers: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    """The headers in a project's file, as for ``env``."""
    oauth: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The login options of the file: ``client_id``, ``redirect_uri``, ``scopes``.

    It also names the source of a ``client_secret``.
    """
    program: str | None = None
    """The file of ``command``; None if it was not found, or not searched."""
    whole_url: str | None = field(default=None, repr=False)
    """The complete URL in a project's file, including the parts that ``url`` omits."""
    confined: tuple[str, ...] = ()
    """The rights of a program in its sandbox: files it can read and write, and the network.

    Empty without a sandbox: the program can then do whatever the user can.
    """
    granted: tuple[str, ...] = field(default=(), repr=False)
    """All grants of the sandbox beside the system, for programs.

    Each is "read" or "write", a real path, and the path as configured if it was a link.
    """
    id: str = field(default_factory=lambda: new_id("start"), compare=False)
    """The id of the start, as in the audit."""

    def __str__(self) -> str:
        """Return all facts in one line that is safe to show and to store, the whole command last.

        ``whole_url`` and the values of ``env`` and ``headers`` are omitted. Facts that could be
        confused with the next one are quoted.
        """
        named = replace(self, env={}, headers={}, whole_url=None)
        return "; ".join(
            f"{fact.label.lower()}: {_word(fact.text) if fact.kind in _ONE_WORD else fact.text}"
            for fact in named.facts()
        )

    @property
    def asks(self) -> str:  # type: ignore[override]  # a constant for the other kinds
        """The question for a person: whether to start a program, or to connect to a server."""
        if self.command is None:
            return "May this server be connected to?"
        return _MAY_IT_START_CONFINED if self.confined else _MAY_IT_START

    @property
    def prompt(self) -> str:  # type: ignore[override]
        """The question for a person, in two words."""
        return "Connect?" if self.command is None else "Start it?"

    @property
    def subject(self) -> str:
        """The command line, with words quoted as in a shell; or the URL."""
        if self.command is None:
            return _word(self.url or "")
        return _words([self.command, *self.args])

    def facts(self) -> tuple[Fact, ...]:
        """The facts for the person who decides."""
        place = "one of your own settings"
        if self.scope == "project":
            place = "not one of your own settings: it may have come with a project"
        facts = facts_of(
            ("Server", self.server, "server"),
            ("From", str(self.path), "file"),
            ("Which is", place, "scope"),
        )
        facts += finding_facts(self.findings)
        facts += _values("Variables", self.env_names, self.env, "env")
        facts += facts_of(("Some from", self.env_file, "env_file"))
        facts += _values("Headers", self.header_names, self.headers, "headers")
        for name, value in self.oauth.items():
            facts.append(Fact("Login", f"{name}: {_word(value)}", "oauth"))
        for name, places in self.variables.items():
            facts.append(Fact("Puts in", f"{_word(name)} -> {_words(places)}", "variable"))
        is_other = self.program not in (None, self.command)
        is_program = self.command is not None
        confined = "; ".join(self.confined) or "not confined: it can do whatever you can"
        facts += facts_of(
            ("In directory", self.cwd, "cwd"),
            (
                "Whole URL",
                None if is_program or not self.whole_url else _word(self.whole_url),
                "whole_url",
            ),
            ("Program", _word(self.program or "") if is_program and is_other else None, "program"),
            ("Confinement", confined if is_program else None, "confinement"),
            # It is beside the question, whatever is above.
            ("Command" if is_program else "URL", self.subject, "subject"),
        )
        return tuple(facts)

    def _question_facts(self) -> tuple[Fact, ...]:
        is_known = self.findings[:1] and self.findings[0] in (STARTS, CONFINED, CONNECTS)
        brief = replace(self, findings=self.findings[1:]) if is_known else self
        return tuple(one for one in brief.facts() if self.confined or one.kind != "confinement")

    def _without_values(self) -> StartRequest:
        """Return the request with only the names of ``env`` and ``headers``, no ``whole_url``."""
        return replace(
            self,
            env=dict.fromkeys(self.env, _LEFT_OUT),
            headers=dict.fromkeys(self.headers, _LEFT_OUT),
            whole_url=None if self.whole_url is None else _LEFT_OUT,
        )

    def choices(self) -> tuple[Choice, ...]:
        """The possible reaches of an approval."""
        return ("once", "always")

    def refusal(self, message: str, **fields: Any) -> McpError:
        """Return the error for a denial."""
        done = "connected to" if self.command is None else "started"
        text = f"the server was not {done}: {message}"
        return StartDenied(text, **fields, server=safe_text(self.server, 60))

    def _covers(self, remember: Remember, until: str) -> str:
        return (
            f"Each start of {self.server} from {self.path}, until it is revoked, if the host "
            "stores approvals. You are asked again if anything above changes."
        )

    def _stored_as(self) -> StoredAs:
        """Store it for this file's server of that name. Arguments and queries may be secret."""
        where = urlsplit(self.url or "")
        target = self.command or f"{where.scheme}://{where.netloc}"
        return StoredAs(target, "", self.fingerprint, is_guessable=True)

    def _server_is(self) -> str:
        return str(self.path)

    def _asked_for(self) -> Any:
        return [str(self.path), self.fingerprint]


_LEFT_OUT = "[redacted]"
_ONE_WORD = ("server", "file", "cwd", "env_file")
_MAY_IT_START = "May this program be started? It runs on this machine with all of your rights."
_MAY_IT_START_CONFINED = "May this program be started? It runs on this machine, in a sandbox."


def _values(
    label: str, names: Iterable[str], values: Mapping[str, str], kind: str
) -> Iterator[Fact]:
    unknown = [name for name in names if name not in values]
    if unknown:
        yield Fact(label, _words(unknown), kind)
    for name, value in values.items():
        yield Fact(label, f"{name}={value}", kind)


def _words(words: Iterable[str]) -> str:
    return " ".join(map(_word, words))


def _word(text: str) -> str:
    """Return the whole word, quoted so that the rest of the line cannot be confused with it."""
    return shlex.quote(safe_text(text, sys.maxsize))
