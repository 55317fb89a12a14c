"""The host side of MCP (Model Context Protocol): find a server's tools, call them, and let nothing
run that nobody approved.

The way of a call, and where each step lives::

    session.py      one server, agreed on a revision; call_tool
    features.py     what it offers besides tools: resources, prompts, completion
    catalog.py      the tool's definition in force
    call.py         the life of one call, top to bottom: freeze, check, ask, send, check, hand over
    tool.py         Tool and ToolCall, frozen values
    trust.py        which of a tool's hints may be believed
    validation.py   arguments and results against their JSON Schemas
    quick.py        a compiled check that can say yes, and else says nothing
    burden.py       what a schema may cost to judge: caps, and whether in place is safe
    judge.py        what jsonschema says, in place or in the worker
    worker.py       the process that is killed when judging takes too long
    decision.py     what a hook answers: yes or no, and how far a yes goes
    constraints.py  what arguments must be, for a rule or an answer to hold
    rules.py        an ordered policy: what needs no asking
    answers.py      what somebody has said yes to beforehand, kept and revoked
    approval.py     asking: the gate no call goes round
    audit/          the record of every call, opened before it is decided, and how to check it
    terminal/       a person at the terminal: yes or no to a call, and answers to a server
    handlers.py     what a server may ask of us: elicitation, sampling, roots
    questions.py    a server's question from the wire, its answer to the wire
    answering.py    asking the handlers, in either era, within bounds
    rounds.py       when the answer is a question
    wire.py         one request out, one answer back: ids, clocks, progress, cancelling
    clock.py        the clocks of a request, and when they stand still
    cancelling.py   a call that can be called off
    telling.py      telling a host's callback, at nobody's expense
    log_notices.py  the log lines a server sends
    result.py       what you get
    tracing.py      a span a request, where the host traces
    errors.py       what is raised, as one tree

Before the first call, and below it::

    connecting.py   connect: from what a host gives to a session
    connection.py   the connection under a session, made anew when it is lost
    opening.py      from a transport to a wire: start, agree on a revision, start again
    bounds.py       how long and how much: Timeouts, Limits
    keyboard.py     lines from the person at the terminal
    stopwatch.py    the time of one connection, which stands still while a person logs in
    metaschema.py   whether a schema is one, told cheaply
    findings.py     what looks wrong in a tool's texts: a hint, and not a proof
    pins.py         a lock file of tools: what they were, and what became of them
    listed.py       what a server lists, and what was left out
    listing.py      one list of a server's: pages, freshness, quarantine
    resources.py    the resources of a server: listed, read, followed
    prompts.py      the prompts of a server, and completion
    library.py      what is kept of a server besides its tools, made when it is wanted
    listening.py    one thing a server tells of, and the stream on which it does
    subscriptions.py  what a server tells us unasked, in either era
    watching.py     changes as async iterators
    files.py        a file of our own, replaced as a whole by processes that take turns
    display.py      a server's text, made safe to look at
    backend.py      asyncio and trio, asked directly in this one file
    protocol/       what the specification says; nothing there waits
    transports/     how messages travel; knows JSON-RPC, knows no MCP method
    auth/           OAuth for the HTTP transports: flows as plain generators inside httpx.Auth
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .bounds import Limits, Timeouts
from .cancelling import Call
from .connecting import connect
from .decision import Allow, ApprovalHook, Deny, Remember, allow_all, deny_all
from .display import safe_text
from .errors import (
    AuditError,
    AuthError,
    BrokenPromise,
    CallCancelled,
    CallDenied,
    CallTimeout,
    CallWithdrawn,
    ConfigError,
    ConnectError,
    ConnectionLost,
    InvalidArguments,
    InvalidResult,
    InvalidSchema,
    McpError,
    NegotiationError,
    NotSent,
    OutcomeUnknown,
    ProtocolViolation,
    ServerError,
    ToolFailed,
    Unanswered,
    UnknownTool,
    UrlElicitationRequired,
)
from .listed import Listed, Rejected
from .protocol.capabilities import Implementation
from .protocol.carried import Annotations
from .protocol.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    UnknownContent,
)
from .result import ToolResult
from .session import Session
from .tool import Hints, Tool, ToolCall, ToolList
from .transports.stdio import StdioServer

if TYPE_CHECKING:
    from .answers import Answers, Remembered
    from .audit import AuditLog, AuditSink, OpenCall, Redaction, Verified, verify_audit
    from .auth import (
        BearerToken,
        ClientCredentials,
        EnterpriseAuthorization,
        FileTokens,
        IdentityProvider,
        KeyringTokens,
        MemoryTokens,
        OAuth,
        Token,
        TokenStore,
        WorkloadIdentity,
    )
    from .handlers import (
        Accept,
        Cancel,
        Decline,
        ElicitRequest,
        Handlers,
        LogMessage,
        Root,
        RootsRequest,
        SamplingMessage,
        SamplingRequest,
        SamplingResult,
    )
    from .pins import Drift, Pins
    from .prompts import PromptResult
    from .protocol.elicitation import Choice, FormField
    from .protocol.prompts import Completion, Prompt, PromptArgument, PromptMessage
    from .protocol.resources import Resource, ResourceContents, ResourceTemplate, ResourceUpdate
    from .resources import ResourceResult
    from .rules import Explanation, Rule, Rules
    from .terminal import ask_on_terminal, elicit_on_terminal
    from .transports.http import HttpServer
    from .transports.memory import JsonRpcError, MemoryServer
    from .watching import ListChanges, ListWatch, ResourceWatch, ToolChanges, ToolWatch

__version__ = "0.1.0"

__all__ = [
    "Accept",
    "Allow",
    "Annotations",
    "Answers",
    "ApprovalHook",
    "AudioContent",
    "AuditError",
    "AuditLog",
    "AuditSink",
    "AuthError",
    "BearerToken",
    "BrokenPromise",
    "Call",
    "CallCancelled",
    "CallDenied",
    "CallTimeout",
    "CallWithdrawn",
    "Cancel",
    "Choice",
    "ClientCredentials",
    "Completion",
    "ConfigError",
    "ConnectError",
    "ConnectionLost",
    "ContentBlock",
    "Decline",
    "Deny",
    "Drift",
    "ElicitRequest",
    "EmbeddedResource",
    "EnterpriseAuthorization",
    "Explanation",
    "FileTokens",
    "FormField",
    "Handlers",
    "Hints",
    "HttpServer",
    "IdentityProvider",
    "ImageContent",
    "Implementation",
    "InvalidArguments",
    "InvalidResult",
    "InvalidSchema",
    "JsonRpcError",
    "KeyringTokens",
    "Limits",
    "ListChanges",
    "ListWatch",
    "Listed",
    "LogMessage",
    "McpError",
    "MemoryServer",
    "MemoryTokens",
    "NegotiationError",
    "NotSent",
    "OAuth",
    "OpenCall",
    "OutcomeUnknown",
    "Pins",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "PromptResult",
    "ProtocolViolation",
    "Redaction",
    "Rejected",
    "Remember",
    "Remembered",
    "Resource",
    "ResourceContents",
    "ResourceLink",
    "ResourceResult",
    "ResourceTemplate",
    "ResourceUpdate",
    "ResourceWatch",
    "Root",
    "RootsRequest",
    "Rule",
    "Rules",
    "SamplingMessage",
    "SamplingRequest",
    "SamplingResult",
    "ServerError",
    "Session",
    "StdioServer",
    "TextContent",
    "Timeouts",
    "Token",
    "TokenStore",
    "Tool",
    "ToolCall",
    "ToolChanges",
    "ToolFailed",
    "ToolList",
    "ToolResult",
    "ToolWatch",
    "Unanswered",
    "UnknownContent",
    "UnknownTool",
    "UrlElicitationRequired",
    "Verified",
    "WorkloadIdentity",
    "allow_all",
    "ask_on_terminal",
    "connect",
    "deny_all",
    "elicit_on_terminal",
    "safe_text",
    "verify_audit",
]

_LATER = {
    "answers": ("Answers", "Remembered"),
    "audit": ("AuditLog", "AuditSink", "OpenCall", "Redaction", "Verified", "verify_audit"),
    "auth": (
        "BearerToken",
        "ClientCredentials",
        "EnterpriseAuthorization",
        "FileTokens",
        "IdentityProvider",
        "KeyringTokens",
        "MemoryTokens",
        "OAuth",
        "Token",
        "TokenStore",
        "WorkloadIdentity",
    ),
    "handlers": (
        "Accept",
        "Cancel",
        "Decline",
        "ElicitRequest",
        "Handlers",
        "LogMessage",
        "Root",
        "RootsRequest",
        "SamplingMessage",
        "SamplingRequest",
        "SamplingResult",
    ),
    "pins": ("Drift", "Pins"),
    "prompts": ("PromptResult",),
    "protocol.elicitation": ("Choice", "FormField"),
    "protocol.prompts": ("Completion", "Prompt", "PromptArgument", "PromptMessage"),
    "protocol.resources": ("Resource", "ResourceContents", "ResourceTemplate", "ResourceUpdate"),
    "resources": ("ResourceResult",),
    "rules": ("Explanation", "Rule", "Rules"),
    "terminal": ("ask_on_terminal", "elicit_on_terminal"),
    "transports.http": ("HttpServer",),
    "transports.memory": ("JsonRpcError", "MemoryServer"),
    "watching": ("ListChanges", "ListWatch", "ResourceWatch", "ToolChanges", "ToolWatch"),
}
"""Found in these modules when they are asked for: who does not use them does not load them."""
_MODULES = {name: module for module, names in _LATER.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{module}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
