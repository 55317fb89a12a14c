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
    terminal/       a person at the terminal: yes or no to a call, and answers to a server
    handlers.py     what a server may ask of us: elicitation, sampling, roots
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
    files.py        a file of our own, replaced as a whole by processes that take turns
    display.py      a server's text, made safe to look at
    backend.py      asyncio and trio, asked directly in this one file
    protocol/       what the specification says; nothing there waits
    transports/     how messages travel; knows JSON-RPC, knows no MCP method
"""

from .answers import Answers, Remembered
from .bounds import Limits, Timeouts
from .connecting import connect
from .decision import Allow, ApprovalHook, Deny, Remember, allow_all, deny_all
from .display import safe_text
from .errors import (
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
from .protocol.elicitation import Choice, FormField
from .result import ToolResult
from .rules import Explanation, Rule, Rules
from .session import Session
from .subscriptions import ToolChanges, ToolWatch
from .terminal import ask_on_terminal, elicit_on_terminal
from .tool import Hints, Rejected, Tool, ToolCall, ToolList
from .transports.http import HttpServer
from .transports.memory import JsonRpcError, MemoryServer
from .transports.stdio import StdioServer

__version__ = "0.1.0"

__all__ = [
    "Accept",
    "Allow",
    "Answers",
    "ApprovalHook",
    "AudioContent",
    "AuthError",
    "BrokenPromise",
    "CallDenied",
    "CallTimeout",
    "Cancel",
    "Choice",
    "ConfigError",
    "ConnectError",
    "ConnectionLost",
    "ContentBlock",
    "Decline",
    "Deny",
    "Drift",
    "ElicitRequest",
    "EmbeddedResource",
    "Explanation",
    "FormField",
    "Handlers",
    "Hints",
    "HttpServer",
    "ImageContent",
    "Implementation",
    "InvalidArguments",
    "InvalidResult",
    "InvalidSchema",
    "JsonRpcError",
    "Limits",
    "LogMessage",
    "McpError",
    "MemoryServer",
    "NegotiationError",
    "NotSent",
    "OutcomeUnknown",
    "Pins",
    "ProtocolViolation",
    "Rejected",
    "Remember",
    "Remembered",
    "ResourceLink",
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
    "Tool",
    "ToolCall",
    "ToolChanges",
    "ToolFailed",
    "ToolList",
    "ToolResult",
    "ToolWatch",
    "UnknownContent",
    "UnknownTool",
    "allow_all",
    "ask_on_terminal",
    "connect",
    "deny_all",
    "elicit_on_terminal",
    "safe_text",
]
