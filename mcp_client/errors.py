"""Every error this package raises, in one tree cut by the stage of the call.

Each class answers two questions: did anything happen, and may the call be repeated?

McpError                     .message .server .tool .retryable .follows .attempts .advice
├── NotSent                  nothing reached the server
│   ├── UnknownTool          the server offers no such tool
│   ├── ToolChanged          .expected .found: not the tool a typed stub was generated from
│   ├── InvalidArguments     .path: they are not a JSON object, or break the tool's schema
│   ├── InvalidSchema        the tool's own schema exceeds a limit
│   ├── CallDenied           .reason .source .told .by .rule: the approval hook did not say yes
│   ├── CallPending          .ticket .tickets .paused: it waits for approval
│   ├── CallWithdrawn        .reason: its caller cancelled it before it was sent
│   ├── StateError           .busy: the database with the state is busy, or cannot be reached
│   └── ConnectError         .exit_code .stderr_tail .http_status .body_excerpt .retry_after
│       │                    .no_such_command
│       ├── NegotiationError no revision in common
│       ├── StartDenied      .reason .source .told .by .rule: a config file's server was not
│       │                    confirmed, or a policy refuses the server
│       └── AuthError        .challenge .oauth_error: the server requires a login
├── OutcomeUnknown           the request left, the answer did not come: it may have run
│   ├── CallTimeout          .clock ("connect", "idle" or "total")
│   ├── CallCancelled        .reason: its caller cancelled it while it was under way
│   ├── Unanswered           .result: the server asked back, and our handler had no answer
│   └── ConnectionLost       .why .exit_code .stderr_tail .http_status .body_excerpt
├── ServerError              .code .data .server_message: the server answered with an error
│   │                        (over HTTP: .http_status .body_excerpt .retry_after)
│   ├── NotFound             it has no such resource or prompt
│   ├── MissingCapability    .required: the client has to declare these; nothing was run
│   └── UrlElicitationRequired .elicitations: a person has to visit these first
├── BrokenPromise            .result: the tool ran, and its answer cannot be used
│   ├── ProtocolViolation    the answer breaks the specification
│   ├── InvalidResult        .path: the structured content breaks the tool's output schema
│   └── ResultNotStored      .bytes: a call with this idempotency_key ran; its result is not stored
├── SkillError               .reason .uri: the skill is not, or not all, what its entry says
├── ToolFailed               .result: raised only by ``ToolResult.raise_for_error()``
├── NotPending               .ids .reason .by: it is not pending; a ``LookupError`` too
├── AuditError               .path .line .reason: a log that was changed, or cannot be written
└── ConfigError              .option: a wrong argument or configuration; nothing was started

Where ``call_tool(..., idempotency_key=...)`` is a step of a durable engine (DBOS, Restate,
Temporal), each error asks for one of three things:

======  ==================================  ======================================================
ask     ``CallPending``                     run the step again once the tickets are decided
retry   ``Retry().permits(error)``:         run the step again after a pause: nothing was sent, or
        ``StateError``, most                nothing is repeated
        ``ConnectError``, a busy server
final   all others                          the result of the step. After ``OutcomeUnknown`` the
                                            call may have run, and ``state.calls.unsettled()`` lists
                                            it for a person; ``AuthError`` needs a login first
======  ==================================  ======================================================
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

__all__ = [
    "AuditError",
    "AuthError",
    "BrokenPromise",
    "CallCancelled",
    "CallDenied",
    "CallPending",
    "CallTimeout",
    "CallWithdrawn",
    "ConfigError",
    "ConnectError",
    "ConnectionLost",
    "InvalidArguments",
    "InvalidResult",
    "InvalidSchema",
    "McpError",
    "MissingCapability",
    "NegotiationError",
    "NotFound",
    "NotPending",
    "NotSent",
    "OutcomeUnknown",
    "ProtocolViolation",
    "ResultNotStored",
    "ServerError",
    "SkillError",
    "StartDenied",
    "StateError",
    "ToolChanged",
    "ToolFailed",
    "Unanswered",
    "UnknownTool",
    "UrlElicitationRequired",
    "exit_code",
]


class Advice(NamedTuple):
    """What can be done about an error."""

    text: str
    """In the words of a program that uses this package."""
    kind: str = ""
    """What the shell has words of its own for: "login", "header", "connect_timeout", "revision",
    "env", "terminal", "issuer", "result", "sandbox", "home", "command"; "program" where only a
    program can do it, and empty where the text suits all."""
    about: str = ""
    """What those words are about, such as the URL to log in at."""


class McpError(Exception):
    """The base class: ``except McpError`` catches whatever this package raises on purpose.

    Each class declares its fields with their defaults; all are keyword arguments of every error.
    """

    server: str | None = None
    """The name the host gave the server."""
    tool: str | None = None
    """The tool that was called, where a call is what failed."""
    retryable: bool = False
    """True where doing the same again may succeed and cannot repeat a side effect."""
    follows: bool = False
    """True if an earlier attempt with the same ``idempotency_key`` may have run. What the error
    states, such as that nothing was sent, is about this attempt alone."""
    attempts: int = 1
    """How often the call was attempted, where ``Retry`` repeated it."""
    advice: Advice | None = None
    """What can be done about it, which ``message`` ends with."""

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        for name in fields:
            if not _is_field(type(self), name):
                raise TypeError(f"{type(self).__name__} has no field {name!r}")
        self.__dict__.update(fields)

    def __reduce__(self) -> tuple[Any, ...]:
        return _copied, (type(self), self.args, self.__dict__)

    @property
    def message(self) -> str:
        """What happened, without the server's standard error: this may be shown to a model."""
        message = str(self.args[0]) if self.args else type(self).__name__
        option = getattr(self, "option", "")
        message = f"{option}: {message}" if option else message
        message += f"; {self.advice.text}" if self.advice and self.advice.text else ""
        return message if self.attempts == 1 else f"{message} ({self.attempts} attempts)"

    def __str__(self) -> str:
        place = "/".join(part for part in (self.server, self.tool) if part)
        text = f"{place}: {self.message}" if place else self.message
        tail = getattr(self, "stderr_tail", "")
        if not tail:
            return text
        shown = "\n".join(f"    {line}" for line in ends_of(tail))
        return f"{text}\n  the server's first and last words on standard error:\n{shown}"


class NotSent(McpError):
    """Nothing of this attempt reached the server: it can have had no side effect."""


class UnknownTool(NotSent):
    """The server offers no tool of that name."""


class ToolChanged(NotSent):
    """The tool is defined otherwise than when the typed stub that calls it was generated."""

    expected: str = ""
    """The fingerprint in the stub."""
    found: str = ""
    """The fingerprint of the server's definition now."""


class InvalidArguments(NotSent):
    """The arguments are not a JSON object, or break the tool's input schema in strict mode."""

    path: str = ""
    """A JSON pointer to the value that is wrong; empty for all of them."""


class InvalidSchema(NotSent):
    """The tool's own schema exceeds one of the limits for schemas in ``Limits``.

    What cannot be judged for another reason is skipped, with a finding of the tool.
    """


class CallDenied(NotSent):
    """The approval hook did not say yes."""

    reason: str = ""
    """What the hook said, or why it gave no answer."""
    source: str = "gate"
    """What decided: "hook", "person", "rule" or "memory"; "gate" where there was no answer."""
    told: str = ""
    """Why there was no answer, as far as it concerns a model."""
    by: str | None = None
    """The name of the person who said so, where the hook gave one."""
    rule: str = ""
    """The rule that said so, which a model is not told: ``str(error)`` has it, not ``message``."""

    def __str__(self) -> str:
        return f"{super().__str__()} ({self.rule})" if self.rule else super().__str__()


class CallPending(NotSent):
    """The call waits for approval, and its caller does not: once the ticket is granted, the same
    call (the same ``ToolCall.key``) goes out, once. An approval hook may raise this.

    ``Toolset.run`` raises it where calls of a response wait. The others have run, and to run the
    response again would repeat them: ``kit.resume(target, error.paused)`` goes on instead.
    """

    ticket: str = ""
    """What ``ApprovalQueue.decide`` takes to answer it; of several tickets the first."""
    tickets: tuple[str, ...] = ()
    """All of them: one for each call that waits."""
    paused: str | None = None
    """What ``Toolset.resume`` takes; None where one call was made alone. A secret: together with
    the ``context`` it gives what the calls of the response returned."""

    def __init__(
        self, message: str, *, ticket: str = "", tickets: tuple[str, ...] = (), **fields: Any
    ) -> None:
        tickets = tuple(tickets) or ((ticket,) if ticket else ())
        ticket = ticket or next(iter(tickets), "")
        super().__init__(message, ticket=ticket, tickets=tickets, **fields)


class CallWithdrawn(NotSent):
    """The caller cancelled the call before it was sent."""

    reason: str = ""
    """What the caller gave as reason."""


class StateError(NotSent):
    """The database with the state cannot be used now, so this attempt sent nothing. The next one
    connects again by itself. The error names no secret of the connection."""

    retryable = True
    busy: bool = False
    """True where the database answers and has too much to do: waiting for others took too long, or
    it has no connection left. False where it cannot be reached, or does not answer."""


class ConnectError(NotSent):
    """The server could not be reached, or was gone before the request was written."""

    exit_code: int | None = None
    """What the server's process ended with; negative for a signal; None while it runs."""
    stderr_tail: str = ""
    """What the server wrote to its standard error: of much, the first lines and the last."""
    http_status: int | None = None
    """The status of an HTTP server's refusal; 404 where it no longer knows our session."""
    body_excerpt: str = ""
    """The beginning of the body of that refusal, made safe to show."""
    retry_after: float | None = None
    """Seconds the server asked to wait before another attempt."""
    no_such_command: bool = False
    """Whether the server's command was not found, or is not one that can be run."""


class NegotiationError(ConnectError):
    """Client and server have no protocol revision in common, or cannot agree on one."""


class StartDenied(ConnectError):
    """A server was not started or connected to: one of a config file, because that was not
    confirmed, or any, because a ``ManagedPolicy`` refuses it."""

    reason: str = ""
    """What ``confirm`` said, or why there was no answer; or which policy refuses what."""
    source: str = "gate"
    """What decided: "hook" where ``confirm`` said no, "person" or "rule"; "policy" for that of an
    organisation; "gate" where there was no answer."""
    told: str = ""
    """Why there was no answer, as far as it concerns a model."""
    by: str | None = None
    """The name of the person who said so, where the hook gave one."""
    rule: str = ""
    """The rule that said so, as in ``CallDenied``."""


class AuthError(ConnectError):
    """The server requires a login, or the login failed."""

    challenge: str | None = None
    """The server's ``WWW-Authenticate`` header, as it came."""
    oauth_error: str | None = None
    """The error code of an authorization server, such as "invalid_grant" or "access_denied"."""


class OutcomeUnknown(McpError):
    """The request left and no answer came: the tool may have run."""


class CallTimeout(OutcomeUnknown):
    """A timeout expired."""

    clock: str = "total"
    """Which one: "connect", "idle" or "total"."""


class CallCancelled(OutcomeUnknown):
    """The caller cancelled the call while it was under way."""

    reason: str = ""
    """What the caller gave as reason."""


class Unanswered(OutcomeUnknown):
    """The server asked for input, and the handler raised, took too long, gave an invalid answer or
    rejected the question. The call was not continued, and what it had begun is not known."""

    result: Any = None
    """What the server asked."""


class ConnectionLost(OutcomeUnknown):
    """The connection ended while the request was under way."""

    why: str = ""
    """What ended it, as a sentence without its end: "the server exited with code 1"."""
    exit_code: int | None = None
    """What the server's process ended with; negative for a signal; None while it runs."""
    stderr_tail: str = ""
    """What the server wrote to its standard error: of much, the first lines and the last."""
    http_status: int | None = None
    """The status a gateway answered with in place of the server."""
    body_excerpt: str = ""
    """The beginning of the body of that response, made safe to show."""


class ServerError(McpError):
    """The server answered with an error: ``code`` and ``data`` as it sent them."""

    code: int | None = None
    """The JSON-RPC error code; None where the server gave an HTTP status only."""
    data: Any = None
    """What the server sent with the error, as it came."""
    server_message: str = ""
    """What the server said, safe to show; empty where it gave an HTTP status only."""
    http_status: int | None = None
    """The HTTP status that the error came with, where that was not a success."""
    body_excerpt: str = ""
    """The beginning of an answer that was not a JSON-RPC error, made safe to show."""
    retry_after: float | None = None
    """Seconds the server asked to wait before another attempt."""


class NotFound(ServerError):
    """What was asked for is not there: a resource or a prompt that the server does not have. The
    shell raises it for other names, too: of a server in a config file, a decision, a login."""


class MissingCapability(ServerError):
    """The server does what was asked only for clients that declare more than this one did: a
    handler, or an extension. The message says which option of ``connect`` does that."""

    required: Any = None
    """The capabilities that are missing, in the form of the specification: a dict."""


class UrlElicitationRequired(ServerError):
    """A person has to visit a URL before the request can be served; it was not. The elicitation
    handler was shown each; ``retryable`` is whether it said yes to all."""

    elicitations: tuple[Any, ...] = ()
    """An ``ElicitRequest`` each; their ``elicitation_id`` tells when one is completed."""


class BrokenPromise(McpError):
    """The server's answer is not what the specification or its own schema promises."""

    result: Any = None
    """The whole answer: nothing is lost."""


class ProtocolViolation(BrokenPromise):
    """The answer breaks the specification."""


class InvalidResult(BrokenPromise):
    """The structured content breaks the tool's output schema."""

    path: str = ""
    """A JSON pointer to the value that is wrong; empty for all of it."""


class ResultNotStored(BrokenPromise):
    """An earlier call with this ``idempotency_key`` ran, and its result is too large to be stored.

    The call is settled: with this key it is never sent again. Its own caller was given the result.
    """

    bytes: int = 0
    """The size of the result as JSON text."""


class SkillError(McpError):
    """A skill was not loaded, or a file of it not read, because it cannot be verified. Nothing of
    what the server sent may be used. ``load_skill(uri)`` fetches its entry again, and asks again
    for approval where it has changed."""

    reason: str = "invalid"
    """Why: "unlisted" (the entry has no such file), "size", "digest", "frontmatter" (that of
    SKILL.md is not the entry's), "limit" (``Limits(skill_files=, skill_bytes=)``), or "invalid"
    (the entry or the answer breaks the specification)."""
    uri: str = ""
    """The URI of the file that cannot be verified, or of the skill's SKILL.md."""


class ToolFailed(McpError):
    """The tool ran and reported an error (``isError``): only ``raise_for_error()`` raises it."""

    result: Any = None
    """The ``ToolResult`` whose ``is_error`` is true."""


class NotPending(McpError, LookupError):
    """What was to be decided is not pending. Nothing was decided."""

    ids: tuple[str, ...] = ()
    """The ids that are not pending, of those that were to be decided."""
    reason: str = ""
    """Of the first: "decided", "withdrawn", "expired" or "gone" (its caller); empty if unknown."""
    by: str | None = None
    """Who decided it, if that is known."""


class AuditError(McpError):
    """An audit log is not what was written to it, or cannot be written; calls do not raise it."""

    path: str = ""
    """The file of the log that is wrong, or that cannot be written."""
    line: int | None = None
    """The first line that is wrong, counted in the file ``path`` from 1; None for the whole."""
    reason: str = ""
    """What is wrong, as a sentence without the path; the message where nothing else was given."""

    def __init__(
        self, message: str, *, path: str | os.PathLike[str] = "", reason: str = "", **fields: Any
    ) -> None:
        super().__init__(message, path=os.fspath(path), reason=reason or message, **fields)


class ConfigError(McpError):
    """A wrong argument or configuration; nothing was started."""

    option: str = ""
    """The option that is wrong, as code writes it: ``message`` begins with it. Empty if the text
    names what is wrong."""


_FIRST_LINES, _LAST_LINES = 4, 8


def ends_of(text: str) -> list[str]:
    """The first lines and the last: an error often stands first, and advice on usage last."""
    lines = text.splitlines()
    left = len(lines) - _FIRST_LINES - _LAST_LINES
    if left <= 1:
        return lines
    return [*lines[:_FIRST_LINES], f"[{left} more lines]", *lines[-_LAST_LINES:]]


def _is_field(kind: type, name: str) -> bool:
    return any(name in vars(each).get("__annotations__", ()) for each in kind.__mro__)


def _copied(cls: type[McpError], args: tuple[Any, ...], fields: dict[str, Any]) -> McpError:
    """The same error, as ``copy`` and ``pickle`` make it."""
    error = cls.__new__(cls, *args)
    error.__dict__.update(fields)
    return error


_EXIT_CODES: tuple[tuple[int, tuple[type[BaseException], ...]], ...] = (
    (4, (NotFound, UnknownTool)),
    (2, (ConfigError, InvalidArguments)),
    (3, (CallDenied, CallPending, StartDenied, ToolChanged)),
    (130, (CallWithdrawn, KeyboardInterrupt)),
    (6, (AuthError,)),
    (5, (ConnectError, StateError)),
    (8, (InvalidSchema,)),
    (4, (NotSent,)),  # the server does not offer the feature at all
    (7, (OutcomeUnknown,)),
    (1, (ToolFailed, AuditError)),
)


def exit_code(error: BaseException) -> int:
    """Return the exit code with which ``mcp-client`` ends after this error, for a script that ends
    so, too: ``sys.exit(exit_code(error))``. ``mcp-client --help`` lists the codes."""
    if getattr(error, "http_status", None) in (401, 403):  # a login is required
        return 6
    return next((code for code, kinds in _EXIT_CODES if isinstance(error, kinds)), 8)
