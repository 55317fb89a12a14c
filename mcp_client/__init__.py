"""The host side of MCP (Model Context Protocol): find a server's tools, call them, and let nothing
run that nobody approved.

The way of a call, and where each step lives::

    session.py      one server, agreed on a revision; call_tool
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
    audit.py        the record of every call, opened before it is decided
    terminal.py     asking the person at the terminal
    rounds.py       when the answer is a question
    wire.py         one request out, one answer back: ids, clocks, progress, cancelling
    result.py       what you get
    errors.py       what is raised, as one tree

Before the first call, and below it::

    connecting.py   connect: from what a host gives to a session
    connection.py   the connection under a session, made anew when it is lost
    opening.py      from a transport to a wire: start, agree on a revision, start again
    bounds.py       how long and how much: Timeouts, Limits
    metaschema.py   whether a schema is one, told cheaply
    findings.py     what looks wrong in a tool's texts: a hint, and not a proof
    pins.py         a lock file of tools: what they were, and what became of them
    subscriptions.py  what a server tells us unasked, in either era, as one stream
    redaction.py    what a record may show: no secrets, and not without end
    journal.py      the file of records, which lines are only ever added to
    chain.py        lines that vouch for one another, and how to check them
    files.py        a file of our own, replaced as a whole by processes that take turns
    display.py      a server's text, made safe to look at
    backend.py      asyncio and trio, asked directly in this one file
    protocol/       what the specification says; nothing there waits
    transports/     how messages travel; knows JSON-RPC, knows no MCP method
"""

from .answers import Answers, Remembered
from .audit import AuditSink
from .bounds import Limits, Timeouts
from .chain import OpenCall, Verified, verify_audit
from .connecting import connect
from .decision import Allow, ApprovalHook, Deny, Remember, allow_all, deny_all
from .display import safe_text
from .errors import (
    AuditError,
    AuthError,
    BrokenPromise,
    CallDenied,
    CallTimeout,
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
    UnknownTool,
)
from .journal import AuditLog
from .pins import Drift, Pins
from .protocol.capabilities import Implementation
from .protocol.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    UnknownContent,
)
from .redaction import Redaction
from .result import ToolResult
from .rules import Explanation, Rule, Rules
from .session import Session
from .subscriptions import ToolChanges, ToolWatch
from .terminal import ask_on_terminal
from .tool import Hints, Rejected, Tool, ToolCall, ToolList
from .transports.http import HttpServer
from .transports.memory import JsonRpcError, MemoryServer
from .transports.stdio import StdioServer

__version__ = "0.1.0"

__all__ = [
    "Allow",
    "Answers",
    "ApprovalHook",
    "AudioContent",
    "AuditError",
    "AuditLog",
    "AuditSink",
    "AuthError",
    "BrokenPromise",
    "CallDenied",
    "CallTimeout",
    "ConfigError",
    "ConnectError",
    "ConnectionLost",
    "ContentBlock",
    "Deny",
    "Drift",
    "EmbeddedResource",
    "Explanation",
    "Hints",
    "HttpServer",
    "ImageContent",
    "Implementation",
    "InvalidArguments",
    "InvalidResult",
    "InvalidSchema",
    "JsonRpcError",
    "Limits",
    "McpError",
    "MemoryServer",
    "NegotiationError",
    "NotSent",
    "OpenCall",
    "OutcomeUnknown",
    "Pins",
    "ProtocolViolation",
    "Redaction",
    "Rejected",
    "Remember",
    "Remembered",
    "ResourceLink",
    "Rule",
    "Rules",
    "ServerError",
    "Session",
    "StdioServer",
    "TextContent",
    "Timeouts",
    "Tool",
    "ToolCall",
    "ToolChanges",
    "ToolFailed",
    "ToolList",
    "ToolResult",
    "ToolWatch",
    "UnknownContent",
    "UnknownTool",
    "Verified",
    "allow_all",
    "ask_on_terminal",
    "connect",
    "deny_all",
    "safe_text",
    "verify_audit",
]
