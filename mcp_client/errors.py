"""The errors that this package raises: one tree, ordered by the stage of the call.

Each class answers two questions: did anything happen, and may the call be repeated?

McpError                     .message .server .tool .retryable .follows .attempts .advice
├── NotSent                  nothing reached the server
│   ├── UnknownTool          the server offers no such tool
│   ├── ToolChanged          .expected .found: not the tool a typed stub was generated from
│   ├── InvalidArguments     .path: not a JSON object, or not valid for the tool's schema
│   ├── InvalidSchema        the tool's own schema exceeds a limit
│   ├── CallDenied           .reason .source .model_reason .by .rule: the call was not approved
│   ├── CallPending          .ticket .tickets .paused: the call waits for approval
│   ├── CallWithdrawn        .reason: the caller cancelled the call before it was sent
│   ├── StateError           .busy: the database with the state is busy, or cannot be reached
│   └── ConnectError         .exit_code .stderr_tail .http_status .body_excerpt .retry_after
│       │                    .no_such_command
│       ├── NegotiationError no revision in common
│       ├── StartDenied      .reason .source .model_reason .by .rule: a config file's server was not
│       │                    confirmed, or a policy refuses the server
│       └── AuthError        .challenge .oauth_error: the server requires a login
├── OutcomeUnknown           the request was sent and no response came: the call may have run
│   ├── CallTimeout          .clock ("connect", "idle" or "total")
│   ├── CallCancelled        .reason: the caller cancelled the call after it was sent
│   ├── Unanswered           .result: the server requested input that the handler did not supply
│   └── ConnectionLost       .why .exit_code .stderr_tail .http_status .body_excerpt
├── ServerError              .code .data .server_message: the server answered with an error
│   │                        (over HTTP: .http_status .body_excerpt .retry_after)
│   ├── NotFound             the server has no such resource or prompt
│   ├── MissingCapability    .required: the client has to declare these; nothing was run
│   └── UrlElicitationRequired .elicitations: a person has to visit these first
├── BrokenPromise            .result: the tool ran, and its response cannot be used
│   ├── ProtocolViolation    the response breaks the specification
│   ├── InvalidResult        .path: the structured content breaks the tool's output schema
│   └── ResultNotStored      .bytes: a call with this idempotency_key ran; its result is not stored
├── SkillError               .reason .uri: the skill does not match its entry
├── ToolFailed               .result: raised only by ``ToolResult.raise_for_error()``
├── NotPending               .ids .reason .by: the request is not pending; also a ``LookupError``
├── AuditError               .path .line .reason: a log that was changed, or cannot be written
└── ConfigError              .option: a wrong argument or configuration; nothing was started

If ``call_tool(..., idempotency_key=...)`` is a step of a durable engine (DBOS, Restate,
Temporal), each error requires one of three actions:

======  ==================================  ======================================================
wait    ``CallPending``                     run the step again once the tickets are decided
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
    """A proposal for fixing the cause of an error."""

    text: str
    """The advice for a program that uses this package."""
    kind: str = ""
    """The topic, such as "login" or "revision", for which the shell has its own wording."""
    about: str = ""
    """The object of the advice, such as the URL to log in at."""


class McpError(Exception):
    """The base class of every error that this package raises on purpose.

    Each class declares its fields with their defaults; all are keyword arguments of every error.
    """

    server: str | None = None
    """The name the host gave the server."""
    tool: str | None = None
    """The tool that was called, if a call failed."""
    retryable: bool = False
    """Whether a repetition may succeed and cannot repeat a side effect."""
    follows: bool = False
    """Whether an earlier attempt with the same ``idempotency_key`` may have run."""
    attempts: int = 1
    """The number of attempts, if ``Retry`` repeated the call."""
    advice: Advice | None = None
    """How to fix the cause; ``message`` ends with it."""

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
        """The error text without the server's standard error, safe to show to a model."""
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
        return f"{text}\n  the server's first and last lines on standard error:\n{shown}"


class NotSent(McpError):
    """Nothing of this attempt reached the server, so it had no side effect."""


class UnknownTool(NotSent):
    """The server offers no tool of that name."""


class ToolChanged(NotSent):
    """The tool's definition differs from the one that the typed stub was generated from."""

    expected: str = ""
    """The fingerprint in the stub."""
    found: str = ""
    """The fingerprint of the server's current definition."""


class InvalidArguments(NotSent):
    """The arguments are not a JSON object, or strict validation found them invalid."""

    path: str = ""
    """A JSON pointer to the invalid value; empty for the whole object."""


class InvalidSchema(NotSent):
    """The tool's own schema exceeds one of the limits for schemas in ``Limits``.

    Parts that cannot be checked for another reason are skipped, with a finding of the tool.
    """


class CallDenied(NotSent):
    """The call was not approved."""

    reason: str = ""
    """The hook's reason, or why there was no decision."""
    source: str = "gate"
    """The source of the denial: "hook", "person", "rule", "memory", or "gate" for no decision."""
    model_reason: str = ""
    """The part of the reason that a model may see."""
    by: str | None = None
    """The name of the person who denied the call, if the hook returned one."""
    rule: str = ""
    """The rule that denied the call. It is in ``str(error)`` but not in ``message``."""

    def __str__(self) -> str:
        return f"{super().__str__()} ({self.rule})" if self.rule else super().__str__()


class CallPending(NotSent):
    """The call waits for approval and was not sent; an approval hook may raise this.

    Once the ticket is granted, the same call (the same ``ToolCall.key``) is sent, once.
    ``Toolset.run`` raises this error if calls of a response wait. The others have run, so continue
    with ``kit.resume(target, error.paused)`` instead of running the response again.
    """

    ticket: str = ""
    """The ticket to pass to ``ApprovalQueue.decide``; the first if there are several."""
    tickets: tuple[str, ...] = ()
    """The tickets: one for each call that waits."""
    paused: str | None = None
    """The argument for ``Toolset.resume``; None for a single call. Treat it as a secret."""

    def __init__(
        self, message: str, *, ticket: str = "", tickets: tuple[str, ...] = (), **fields: Any
    ) -> None:
        tickets = tuple(tickets) or ((ticket,) if ticket else ())
        ticket = ticket or next(iter(tickets), "")
        super().__init__(message, ticket=ticket, tickets=tickets, **fields)


class CallWithdrawn(NotSent):
    """The caller cancelled the call before it was sent."""

    reason: str = ""
    """The caller's reason."""


class StateError(NotSent):
    """The database with the state is unavailable: nothing was sent. The next attempt reconnects."""

    retryable = True
    busy: bool = False
    """Whether the database is overloaded; False if it cannot be reached or does not respond."""


class ConnectError(NotSent):
    """The server could not be reached, or was gone before the request was written."""

    exit_code: int | None = None
    """The exit code of the server's process; negative for a signal; None while it runs."""
    stderr_tail: str = ""
    """The first and last lines that the server wrote to its standard error."""
    http_status: int | None = None
    """The HTTP status of the refusal; 404 if the server no longer knows the session."""
    body_excerpt: str = ""
    """The beginning of the body of that refusal, made safe to show."""
    retry_after: float | None = None
    """Seconds the server asked to wait before another attempt."""
    no_such_command: bool = False
    """Whether the server's command was not found or is not executable."""


class NegotiationError(ConnectError):
    """Client and server have no protocol revision in common, or cannot agree on one."""


class StartDenied(ConnectError):
    """The start of a server was not confirmed, or a ``ManagedPolicy`` refuses the server."""

    reason: str = ""
    """The reason of ``confirm``, the policy that refuses, or why there was no decision."""
    source: str = "gate"
    """The source of the denial: "hook" (``confirm``), "person", "rule", "policy" or "gate"."""
    model_reason: str = ""
    """The part of the reason that a model may see."""
    by: str | None = None
    """The name of the person who denied the start, if the hook returned one."""
    rule: str = ""
    """The rule that denied the start, as in ``CallDenied``."""


class AuthError(ConnectError):
    """The server requires a login, or the login failed."""

    challenge: str | None = None
    """The server's ``WWW-Authenticate`` header, unchanged."""
    oauth_error: str | None = None
    """The error code of an authorization server, such as "invalid_grant" or "access_denied"."""


class OutcomeUnknown(McpError):
    """The request was sent and no response came: the tool may have run."""


class CallTimeout(OutcomeUnknown):
    """A timeout expired."""

    clock: str = "total"
    """The name of the timeout: "connect", "idle" or "total"."""


class CallCancelled(OutcomeUnknown):
    """The caller cancelled the call after it was sent."""

    reason: str = ""
    """The caller's reason."""


class Unanswered(OutcomeUnknown):
    """The server requested input, and the handler did not supply a valid response.

    The handler raised, took too long, returned an invalid value or rejected the question. The call
    was not continued, and the effect of what it had begun is not known.
    """

    result: Any = None
    """The server's request for input."""


class ConnectionLost(OutcomeUnknown):
    """The connection ended while the request was under way."""

    why: str = ""
    """The cause, as a clause without a full stop: "the server exited with code 1"."""
    exit_code: int | None = None
    """The exit code of the server's process; negative for a signal; None while it runs."""
    stderr_tail: str = ""
    """The first and last lines that the server wrote to its standard error."""
    http_status: int | None = None
    """The HTTP status that a gateway returned in place of the server."""
    body_excerpt: str = ""
    """The beginning of the body of that response, made safe to show."""


class ServerError(McpError):
    """The server responded with an error: ``code`` and ``data`` as it sent them."""

    code: int | None = None
    """The JSON-RPC error code; None if the server returned only an HTTP status."""
    data: Any = None
    """The data of the server's error, unchanged."""
    server_message: str = ""
    """The server's error message, safe to show; empty if it returned only an HTTP status."""
    http_status: int | None = None
    """The HTTP status of the error, if it was not a success."""
    body_excerpt: str = ""
    """The beginning of a response that was not a JSON-RPC error, made safe to show."""
    retry_after: float | None = None
    """Seconds the server asked to wait before another attempt."""


class NotFound(ServerError):
    """The server has no such resource or prompt; the shell uses this for its own names, too."""


class MissingCapability(ServerError):
    """The server requires a capability that this client does not declare.

    The message names the option of ``connect`` that declares it: a handler or an extension.
    """

    required: Any = None
    """The missing capabilities, as a dict in the form of the specification."""


class UrlElicitationRequired(ServerError):
    """A person has to visit a URL before the server accepts the request.

    The elicitation handler was shown each URL; ``retryable`` is true if it accepted them all.
    """

    elicitations: tuple[Any, ...] = ()
    """One ``ElicitRequest`` for each URL; ``elicitation_id`` identifies it when it is completed."""


class BrokenPromise(McpError):
    """The server's response breaks the specification or the tool's own schema."""

    result: Any = None
    """The complete response."""


class ProtocolViolation(BrokenPromise):
    """The response breaks the specification."""


class InvalidResult(BrokenPromise):
    """The structured content breaks the tool's output schema."""

    path: str = ""
    """A JSON pointer to the invalid value; empty for the whole content."""


class ResultNotStored(BrokenPromise):
    """An earlier call with this ``idempotency_key`` ran, and its result could not be stored.

    The call is settled: it is never sent again with this key. The earlier caller got the result.
    """

    bytes: int = 0
    """The size of the result as JSON text; 0 if a number in it is too large."""


class SkillError(McpError):
    """A skill was not loaded, or one of its files not read, because it cannot be verified.

    Do not use anything the server sent. ``load_skill(uri)`` fetches the entry again, and asks for
    approval again if the entry has changed.
    """

    reason: str = "invalid"
    """The check that failed: "unlisted", "size", "digest", "frontmatter", "limit" or "invalid".

    "unlisted": the entry has no such file. "frontmatter": SKILL.md differs from the entry. "limit":
    see ``Limits(skill_files=, skill_bytes=)``. "invalid": the specification is broken.
    """
    uri: str = ""
    """The URI of the file that cannot be verified, or of the skill's SKILL.md."""


class ToolFailed(McpError):
    """The tool ran and reported an error (``isError``): only ``raise_for_error()`` raises it."""

    result: Any = None
    """The ``ToolResult`` whose ``is_error`` is true."""


class NotPending(McpError, LookupError):
    """The request to decide is not pending, so nothing was decided."""

    ids: tuple[str, ...] = ()
    """The ids that are not pending, of those that were to be decided."""
    reason: str = ""
    """The state of the first: "decided", "withdrawn", "expired" or "gone"; empty if unknown."""
    by: str | None = None
    """The person who decided the request, if known."""


class AuditError(McpError):
    """An audit log was changed or cannot be written; calls do not raise it."""

    path: str = ""
    """The file of the log that is wrong, or that cannot be written."""
    line: int | None = None
    """The first wrong line in the file ``path``, counted from 1; None for the whole file."""
    reason: str = ""
    """The fault, as a sentence without the path; by default the message."""

    def __init__(
        self, message: str, *, path: str | os.PathLike[str] = "", reason: str = "", **fields: Any
    ) -> None:
        super().__init__(message, path=os.fspath(path), reason=reason or message, **fields)


class ConfigError(McpError):
    """A wrong argument or configuration; nothing was started."""

    option: str = ""
    """The wrong option as code writes it; ``message`` begins with it. Empty if the text has it."""


_FIRST_LINES, _LAST_LINES = 4, 8


def ends_of(text: str) -> list[str]:
    """Return the first and last lines of ``text``: errors are often first, usage advice last."""
    lines = text.splitlines()
    left = len(lines) - _FIRST_LINES - _LAST_LINES
    if left <= 1:
        return lines
    return [*lines[:_FIRST_LINES], f"[{left} more lines]", *lines[-_LAST_LINES:]]


def _is_field(kind: type, name: str) -> bool:
    return any(name in vars(each).get("__annotations__", ()) for each in kind.__mro__)


def _copied(cls: type[McpError], args: tuple[Any, ...], fields: dict[str, Any]) -> McpError:
    """Return the same error, as ``copy`` and ``pickle`` make it."""
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
    """Return the exit code of ``mcp-client`` for this error: ``sys.exit(exit_code(error))``."""
    if getattr(error, "http_status", None) in (401, 403):  # a login is required
        return 6
    return next((code for code, kinds in _EXIT_CODES if isinstance(error, kinds)), 8)
