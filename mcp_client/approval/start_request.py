"""A server from a config file that is to be started or connected to, as the host and people are
asked about it: a frozen value.

2026-07-28 and 2025-11-25 ``basic/security_best_practices`` (local server compromise), SEP-1024: the
exact command is shown, whole, before it first runs, with a warning where it looks dangerous.
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
    KeptAs,
    RequestKind,
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
"""The first finding of every request, so that no hook that allows what has no findings says yes."""


@frozen_dataclass
class StartRequest(ApprovalRequest):
    """A server that would be started, or connected to. Values of the host's variables are not in
    it; those that a project's file has itself are, in ``env`` and ``headers``, for a person to see.
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
    """The name the file gives it."""
    command: str | None
    """What is run, without a shell; None for a server at a URL."""
    args: tuple[str, ...] = field(repr=False)
    """All of them, whole. What a variable of the host brings is shown as in the file:
    ``--key=${KEY}``."""
    env_names: tuple[str, ...]
    """The variables the server gets besides HOME, PATH and the like."""
    cwd: str | None
    """The folder it runs in."""
    url: str | None
    """Without user, password and query."""
    header_names: tuple[str, ...]
    """The headers that are sent to the server at the URL."""
    findings: tuple[Finding, ...]
    """What looks dangerous; the first one says that this is a start."""
    variables: Mapping[str, tuple[str, ...]] = field(hash=False)
    """What is put in from outside the file, by name, and where it goes:
    ``{"TOKEN": ("headers.Authorization",)}``. Inputs are ``input:ID``, and secrets, which are read
    after the yes, ``file:PATH`` and ``keyring:SERVICE/USER``."""
    fingerprint: str
    """Changes whenever what is asked about changes."""
    path: Path
    """The config file."""
    scope: Scope
    """"project" for a file that may have come with a repository, "user" for the person's own."""
    env_file: str | None = None
    """The file that some of ``env_names`` come from."""
    env: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    """The values that a project's file has itself, with ``${NAME}`` for what comes from the host.
    They may be secrets of the file: show them to the person who decides."""
    headers: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    """Likewise."""
    oauth: Mapping[str, str] = field(default_factory=dict, hash=False)
    """How a person would log in, as far as the file says: ``client_id``, ``redirect_uri``,
    ``scopes``, and where a ``client_secret`` comes from."""
    program: str | None = None
    """The file that ``command`` is; None where it was not found, or not looked for."""
    whole_url: str | None = field(default=None, repr=False)
    """The URL of a project's file with what ``url`` leaves out, as ``env`` has its values."""
    confined: tuple[str, ...] = ()
    """What a program can do in its sandbox: what it can read and write, and what of the network it
    reaches. Empty where it has none, and can do whatever you can."""
    granted: tuple[str, ...] = field(default=(), repr=False)
    """Everything that its sandbox grants beside the system, one by one, for programs: "read" or
    "write", a real path, and how that was named if it was by a link."""
    id: str = field(default_factory=lambda: new_id("start"), compare=False)
    """The start's, as in the audit."""

    def __str__(self) -> str:
        """All of it but ``whole_url`` and the values of ``env`` and ``headers`` in one line that is
        safe to show and to keep: each fact, the whole command last. What could be taken for the
        next is quoted."""
        named = replace(self, env={}, headers={}, whole_url=None)
        return "; ".join(
            f"{fact.label.lower()}: {_word(fact.text) if fact.kind in _ONE_WORD else fact.text}"
            for fact in named.facts()
        )

    @property
    def asks(self) -> str:  # type: ignore[override]  # a constant for the other kinds
        """What a person is asked: whether a program may be started, or a server connected to."""
        if self.command is None:
            return "May this server be connected to?"
        return _MAY_IT_START_CONFINED if self.confined else _MAY_IT_START

    @property
    def prompt(self) -> str:  # type: ignore[override]
        """What a person is asked, in two words."""
        return "Connect?" if self.command is None else "Start it?"

    @property
    def subject(self) -> str:
        """The command line, each word quoted where a shell would need that; or the URL."""
        if self.command is None:
            return _word(self.url or "")
        return _words([self.command, *self.args])

    def facts(self) -> tuple[Fact, ...]:
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
            ("In folder", self.cwd, "cwd"),
            (
                "Whole URL",
                None if is_program or not self.whole_url else _word(self.whole_url),
                "whole_url",
            ),
            ("Program", _word(self.program or "") if is_program and is_other else None, "program"),
            ("Confinement", confined if is_program else None, "confinement"),
            # It stands beside the question, whatever stands above.
            ("Command" if is_program else "URL", self.subject, "subject"),
        )
        return tuple(facts)

    def _question_facts(self) -> tuple[Fact, ...]:
        said = self.findings[:1] and self.findings[0] in (STARTS, CONFINED, CONNECTS)
        brief = replace(self, findings=self.findings[1:]) if said else self
        return tuple(one for one in brief.facts() if self.confined or one.kind != "confinement")

    def _without_values(self) -> StartRequest:
        """With the names in ``env`` and ``headers`` alone, and no ``whole_url``."""
        return replace(
            self,
            env=dict.fromkeys(self.env, _LEFT_OUT),
            headers=dict.fromkeys(self.headers, _LEFT_OUT),
            whole_url=None if self.whole_url is None else _LEFT_OUT,
        )

    def choices(self) -> tuple[Choice, ...]:
        return ("once", "always")

    def refusal(self, message: str, **fields: Any) -> McpError:
        done = "connected to" if self.command is None else "started"
        text = f"the server was not {done}: {message}"
        return StartDenied(text, **fields, server=safe_text(self.server, 60))

    def _covers(self, remember: Remember, until: str) -> str:
        return (
            f"Each start of {self.server} from {self.path}, until it is revoked, where the host "
            "keeps answers. You are asked again if anything above changes."
        )

    def _kept_as(self) -> KeptAs:
        """For the server of that name of this file. Arguments and queries may be secret."""
        where = urlsplit(self.url or "")
        shown = self.command or f"{where.scheme}://{where.netloc}"
        return KeptAs(shown, "", self.fingerprint, is_guessable=True)

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
    """Whole, and quoted so that it cannot be taken for anything else in the line."""
    return shlex.quote(safe_text(text, sys.maxsize))
