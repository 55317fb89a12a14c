"""Every error this package raises, in one tree cut by the stage of the call.

Each class answers two questions: did anything happen, and may I try again?

McpError                     .server .tool .retryable
├── NotSent                  nothing reached the server
│   ├── UnknownTool          the server offers no such tool
│   ├── InvalidArguments     the arguments are no JSON object, or break the tool's schema
│   ├── InvalidSchema        the tool's own schema cannot be used
│   ├── CallDenied           the approval hook did not say yes
│   ├── CallWithdrawn        .reason: its caller cancelled it before it was sent
│   └── ConnectError         .exit_code .stderr_tail .http_status .body_excerpt .retry_after
│       ├── NegotiationError no revision in common
│       └── AuthError        .challenge .oauth_error: the server wants to know who is asking
├── OutcomeUnknown           the request left, the answer did not come: it may have run
│   ├── CallTimeout          .clock ("connect", "idle" or "total")
│   ├── CallCancelled        .reason: its caller cancelled it while it was under way
│   ├── Unanswered           .result: the server asked back, and our handler had no answer
│   └── ConnectionLost       .exit_code .stderr_tail .http_status
├── ServerError              .code .data: the server answered with an error
│   │                        (over HTTP: .http_status .body_excerpt .retry_after)
│   └── UrlElicitationRequired .elicitations: a person has to visit these first
├── BrokenPromise            .result: the server answered against its own word
│   ├── ProtocolViolation    the answer is not what the specification says
│   └── InvalidResult        .path: the structured content breaks the tool's output schema
├── ToolFailed               .result: raised only by ``ToolResult.raise_for_error()``
├── AuditError               .path .line .reason: a log that was changed, or cannot be written
└── ConfigError              a wrong argument or configuration; nothing was started
"""

from __future__ import annotations

import os
from typing import Any

__all__ = [
    "AuditError",
    "AuthError",
    "BrokenPromise",
    "CallCancelled",
    "CallDenied",
    "CallTimeout",
    "CallWithdrawn",
    "ConfigError",
    "ConnectError",
    "ConnectionLost",
    "InvalidArguments",
    "InvalidResult",
    "InvalidSchema",
    "McpError",
    "NegotiationError",
    "NotSent",
    "OutcomeUnknown",
    "ProtocolViolation",
    "ServerError",
    "ToolFailed",
    "Unanswered",
    "UnknownTool",
    "UrlElicitationRequired",
]


class McpError(Exception):
    """The root: ``except McpError`` catches whatever this package raises on purpose."""

    server: str | None
    """The name the host gave the server."""
    tool: str | None
    """The tool that was called, where a call is what failed."""
    retryable: bool
    """True where doing the same again may succeed and cannot repeat a side effect."""

    def __init__(
        self,
        message: str,
        *,
        server: str | None = None,
        tool: str | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.server = server
        self.tool = tool
        self.retryable = retryable

    def __reduce__(self) -> tuple[Any, ...]:
        # Through a process pool and back: not through ``__init__``, whose options have no default.
        return _revived, (type(self), self.args), self.__dict__

    def __str__(self) -> str:
        message = str(self.args[0]) if self.args else type(self).__name__
        place = "/".join(part for part in (self.server, self.tool) if part)
        return f"{place}: {message}" if place else message


class NotSent(McpError):
    """Nothing reached the server: no side effect can have happened."""


class UnknownTool(NotSent):
    """The server offers no tool of that name."""


class InvalidArguments(NotSent):
    """The arguments are no JSON object, or break the tool's input schema in strict mode."""

    path: str
    """A JSON pointer to the value that is wrong; empty for the whole."""

    def __init__(self, message: str, *, path: str = "", **rest: Any) -> None:
        super().__init__(message, **rest)
        self.path = path


class InvalidSchema(NotSent):
    """The tool's own schema is no schema, is of an unknown dialect, points elsewhere, or exceeds a
    cap of ``Limits``."""


class CallDenied(NotSent):
    """The approval hook did not say yes; ``reason`` is what it said, or what befell it."""

    reason: str
    source: str
    """Who said so: "hook", "person", "rule" or "memory"; "gate" where there was no answer."""
    by: str | None
    """The name of the person who said so, where the hook gave one."""

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        source: str = "gate",
        by: str | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(message, **rest)
        self.reason = reason
        self.source = source
        self.by = by


class CallWithdrawn(NotSent):
    """The caller cancelled the call before it was sent; ``reason`` is what the caller gave."""

    reason: str

    def __init__(self, message: str, *, reason: str = "", **rest: Any) -> None:
        super().__init__(message, **rest)
        self.reason = reason


class ConnectError(NotSent):
    """The server could not be reached, or was gone before the request was written."""

    exit_code: int | None
    """What the server's process ended with; negative for a signal; None while it runs."""
    stderr_tail: str
    """The last lines the server wrote to its standard error."""
    http_status: int | None
    """What an HTTP server refused with; 404 where it no longer knows our session."""
    body_excerpt: str
    """The beginning of what it said to that, made safe to show."""
    retry_after: float | None
    """Seconds it asked to wait before asking again."""

    def __init__(
        self,
        message: str,
        *,
        exit_code: int | None = None,
        stderr_tail: str = "",
        http_status: int | None = None,
        body_excerpt: str = "",
        retry_after: float | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(message, **rest)
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail
        self.http_status = http_status
        self.body_excerpt = body_excerpt
        self.retry_after = retry_after

    def __str__(self) -> str:
        return _with_tail(super().__str__(), self.stderr_tail)


class NegotiationError(ConnectError):
    """Client and server have no protocol revision in common, or cannot agree on one."""


class AuthError(ConnectError):
    """The server wants to know who is asking."""

    challenge: str | None
    """Its ``WWW-Authenticate`` header, as it came."""
    oauth_error: str | None
    """The error code of an authorization server, such as "invalid_grant" or "access_denied"."""

    def __init__(
        self,
        message: str,
        *,
        challenge: str | None = None,
        oauth_error: str | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(message, **rest)
        self.challenge = challenge
        self.oauth_error = oauth_error


class OutcomeUnknown(McpError):
    """The request left and no answer came: the tool may have run."""


class CallTimeout(OutcomeUnknown):
    """A clock ran out; ``clock`` says which: "connect", "idle" or "total"."""

    clock: str

    def __init__(self, message: str, *, clock: str, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.clock = clock


class CallCancelled(OutcomeUnknown):
    """The caller cancelled the call while it was under way; ``reason`` is what the caller gave."""

    reason: str

    def __init__(self, message: str, *, reason: str = "", **rest: Any) -> None:
        super().__init__(message, **rest)
        self.reason = reason


class Unanswered(OutcomeUnknown):
    """The server asked back, and the handler raised, took too long, answered nonsense or rejected
    the question: so it was not asked again, and what it had begun is not known. ``result`` is what
    it asked."""

    result: Any

    def __init__(self, message: str, *, result: Any = None, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.result = result


class ConnectionLost(OutcomeUnknown):
    """The connection ended while the request was under way."""

    exit_code: int | None
    stderr_tail: str
    http_status: int | None
    """The status with which a gateway gave the server up."""

    def __init__(
        self,
        message: str,
        *,
        exit_code: int | None = None,
        stderr_tail: str = "",
        http_status: int | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(message, **rest)
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail
        self.http_status = http_status

    def __str__(self) -> str:
        return _with_tail(super().__str__(), self.stderr_tail)


class ServerError(McpError):
    """The server answered with an error: ``code`` and ``data`` as it sent them."""

    code: int | None
    """The JSON-RPC error code; None where an HTTP status is all the server gave."""
    data: Any
    http_status: int | None
    body_excerpt: str
    """The beginning of an answer that was no JSON-RPC error, made safe to show."""
    retry_after: float | None
    """Seconds the server asked to wait before asking again."""

    def __init__(
        self,
        message: str,
        *,
        code: int | None,
        data: Any = None,
        http_status: int | None = None,
        body_excerpt: str = "",
        retry_after: float | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(message, **rest)
        self.code = code
        self.data = data
        self.http_status = http_status
        self.body_excerpt = body_excerpt
        self.retry_after = retry_after


class UrlElicitationRequired(ServerError):
    """A person has to visit a URL before the request can be served; it was not. The elicitation
    handler was shown each; ``retryable`` is whether it said yes to all."""

    elicitations: tuple[Any, ...]
    """An ``ElicitRequest`` each; their ``elicitation_id`` tells when one is completed."""

    def __init__(self, message: str, *, elicitations: tuple[Any, ...] = (), **rest: Any) -> None:
        super().__init__(message, **rest)
        self.elicitations = elicitations


class BrokenPromise(McpError):
    """The server answered against its own word. ``result`` is the whole answer: nothing is lost."""

    result: Any

    def __init__(self, message: str, *, result: Any = None, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.result = result


class ProtocolViolation(BrokenPromise):
    """The answer is not what the specification says an answer is."""


class InvalidResult(BrokenPromise):
    """The structured content breaks the tool's output schema at ``path`` (a JSON pointer)."""

    path: str

    def __init__(self, message: str, *, path: str = "", **rest: Any) -> None:
        super().__init__(message, **rest)
        self.path = path


class ToolFailed(McpError):
    """The tool ran and reported an error (``isError``): only ``raise_for_error()`` raises it."""

    result: Any

    def __init__(self, message: str, *, result: Any, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.result = result


class AuditError(McpError):
    """An audit log is not what was written to it, or cannot be written to; no call raises this."""

    path: str
    line: int | None
    """The first line that is wrong, counted in the file ``path`` from 1; None for the whole."""
    reason: str

    def __init__(
        self,
        message: str,
        *,
        path: str | os.PathLike[str] = "",
        line: int | None = None,
        reason: str = "",
        **rest: Any,
    ) -> None:
        super().__init__(message, **rest)
        self.path = os.fspath(path)
        self.line = line
        self.reason = reason or message


class ConfigError(McpError):
    """A wrong argument or configuration; nothing was started."""


def _with_tail(message: str, tail: str) -> str:
    if not tail:
        return message
    shown = "\n".join("    " + line for line in tail.splitlines()[-10:])
    return f"{message}\n  the server's last words on standard error:\n{shown}"


def _revived(cls: type[McpError], args: tuple[Any, ...]) -> McpError:
    return cls.__new__(cls, *args)
