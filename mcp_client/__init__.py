"""The host side of MCP (Model Context Protocol): find a server's tools, call them, and let nothing
run that was not approved.

One folder a subject; imports go down this list only::

    cli/         the command mcp-client: the same from a shell
    desk/        the web page on which people decide the calls of an ApprovalQueue
    adapters/    tools, calls and results in each LLM provider's shape; no provider's package
    stubs.py     typed Python for a server's tools
    sync.py      the same for programs without an event loop, and for threads
    host/        many servers as one set of tools: Host, naming, filters, status, config files
    session/     connect, Session, and the life of one tool call, top to bottom
    extensions/  what goes beyond the core: each declared, each in files of its own
    handlers/    what a server may ask of the host: elicitation, sampling, roots; its log
    approval/    the gate every call passes: rules, remembered answers, the approval hook
    state.py     where decisions, pins, tokens and the audit are kept: in memory, in a folder
    audit/       the record of every call, opened before it is decided, and how to verify it
    catalog/     what a server offers: tools, resources, prompts, their changes, trust, pins
    connection/  the live connection: establish it, one request and its response, deadlines
    auth/        OAuth for the HTTP transports: flows as plain generators inside httpx.Auth
    validation/  arguments and results against their JSON Schemas, within bounds
    transports/  how messages travel; knows JSON-RPC, knows no MCP method
    protocol/    what the specification says; nothing there waits
    runtime/     knows nothing of MCP: limits, safe text, event loop, files, processes, console
    errors.py    what is raised, as one tree
    _version.py  the version of this package
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__ as __version__

if TYPE_CHECKING:
    from .approval.decision import Allow, ApprovalHook, Deny, Policy, Remember, allow_all, deny_all
    from .approval.decisions import Decision, Decisions
    from .approval.queue import (
        ApprovalQueue,
        DecidedApproval,
        PendingApproval,
        PendingChanges,
    )
    from .approval.request import ApprovalRequest, Fact
    from .approval.rules import Explanation, Rule, Rules
    from .approval.sampling_request import SamplingMessage, SamplingRequest
    from .approval.skill_request import SkillRequest
    from .approval.start_request import StartRequest
    from .approval.terminal import ask_on_terminal
    from .approval.tool_call import ToolCall
    from .approval.turns import one_at_a_time
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
    from .catalog.drift import Drift
    from .catalog.finding import Finding
    from .catalog.listed import Listed, Rejected
    from .catalog.pins import Pins
    from .catalog.prompts import PromptResult
    from .catalog.resources import ResourceResult
    from .catalog.result import ToolResult
    from .catalog.skill_file import SkillFile
    from .catalog.tool import Hints, Tool, ToolList
    from .catalog.tool_traits import ToolUi
    from .catalog.watch import ListChanges, ListWatch, ResourceWatch, ToolChanges, ToolWatch
    from .connection.call_options import Retry
    from .connection.cancellation import CancelToken
    from .desk.page import ApprovalPage
    from .desk.serve import Desk, serve_desk
    from .errors import (
        AuditError,
        AuthError,
        BrokenPromise,
        CallCancelled,
        CallDenied,
        CallPending,
        CallTimeout,
        CallWithdrawn,
        ConfigError,
        ConnectError,
        ConnectionLost,
        InvalidArguments,
        InvalidResult,
        InvalidSchema,
        McpError,
        MissingCapability,
        NegotiationError,
        NotFound,
        NotPending,
        NotSent,
        OutcomeUnknown,
        ProtocolViolation,
        ServerError,
        SkillError,
        StartDenied,
        ToolChanged,
        ToolFailed,
        Unanswered,
        UnknownTool,
        UrlElicitationRequired,
    )
    from .extensions.apps import App, Apps
    from .extensions.extension import Extension
    from .extensions.skill import Skill
    from .extensions.skill_entry import SkillEntry
    from .extensions.tasks import Task
    from .extensions.ui_resource import UiResource
    from .handlers.handlers import (
        Accept,
        Cancel,
        Decline,
        ElicitRequest,
        Handlers,
        LogMessage,
        Root,
        RootsRequest,
        SamplingResult,
    )
    from .handlers.terminal import elicit_on_terminal
    from .host.changes import HostToolWatch
    from .host.config import Config, load_config
    from .host.config_places import ConfigFile, find_configs
    from .host.config_problem import ConfigProblem
    from .host.host import Host
    from .host.server_config import ServerConfig
    from .host.status import ServerStatus, StatusWatch
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
    from .protocol.metadata import Annotations
    from .protocol.prompts import Completion, Prompt, PromptArgument, PromptMessage
    from .protocol.resources import Resource, ResourceContents, ResourceTemplate, ResourceUpdate
    from .runtime.limits import Limits, Timeouts
    from .runtime.safe_text import safe_text
    from .session.connect import connect
    from .session.session import Session
    from .state import FileState, MemoryState, State
    from .transports.http import HttpServer
    from .transports.memory import JsonRpcError, MemoryServer
    from .transports.replay import ReplayServer
    from .transports.stdio import StdioServer

__all__ = [
    "Accept",
    "Allow",
    "Annotations",
    "App",
    "ApprovalHook",
    "ApprovalPage",
    "ApprovalQueue",
    "ApprovalRequest",
    "Apps",
    "AudioContent",
    "AuditError",
    "AuditLog",
    "AuditSink",
    "AuthError",
    "BearerToken",
    "BrokenPromise",
    "CallCancelled",
    "CallDenied",
    "CallPending",
    "CallTimeout",
    "CallWithdrawn",
    "Cancel",
    "CancelToken",
    "Choice",
    "ClientCredentials",
    "Completion",
    "Config",
    "ConfigError",
    "ConfigFile",
    "ConfigProblem",
    "ConnectError",
    "ConnectionLost",
    "ContentBlock",
    "DecidedApproval",
    "Decision",
    "Decisions",
    "Decline",
    "Deny",
    "Desk",
    "Drift",
    "ElicitRequest",
    "EmbeddedResource",
    "EnterpriseAuthorization",
    "Explanation",
    "Extension",
    "Fact",
    "FileState",
    "FileTokens",
    "Finding",
    "FormField",
    "Handlers",
    "Hints",
    "Host",
    "HostToolWatch",
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
    "MemoryState",
    "MemoryTokens",
    "MissingCapability",
    "NegotiationError",
    "NotFound",
    "NotPending",
    "NotSent",
    "OAuth",
    "OpenCall",
    "OutcomeUnknown",
    "PendingApproval",
    "PendingChanges",
    "Pins",
    "Policy",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "PromptResult",
    "ProtocolViolation",
    "Redaction",
    "Rejected",
    "Remember",
    "ReplayServer",
    "Resource",
    "ResourceContents",
    "ResourceLink",
    "ResourceResult",
    "ResourceTemplate",
    "ResourceUpdate",
    "ResourceWatch",
    "Retry",
    "Root",
    "RootsRequest",
    "Rule",
    "Rules",
    "SamplingMessage",
    "SamplingRequest",
    "SamplingResult",
    "ServerConfig",
    "ServerError",
    "ServerStatus",
    "Session",
    "Skill",
    "SkillEntry",
    "SkillError",
    "SkillFile",
    "SkillRequest",
    "StartDenied",
    "StartRequest",
    "State",
    "StatusWatch",
    "StdioServer",
    "Task",
    "TextContent",
    "Timeouts",
    "Token",
    "TokenStore",
    "Tool",
    "ToolCall",
    "ToolChanged",
    "ToolChanges",
    "ToolFailed",
    "ToolList",
    "ToolResult",
    "ToolUi",
    "ToolWatch",
    "UiResource",
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
    "find_configs",
    "load_config",
    "one_at_a_time",
    "safe_text",
    "serve_desk",
    "verify_audit",
]

_LATER = {
    "state": ("FileState", "MemoryState", "State"),
    "approval.decision": (
        "Allow",
        "ApprovalHook",
        "Deny",
        "Policy",
        "Remember",
        "allow_all",
        "deny_all",
    ),
    "catalog.listed": (
        "Listed",
        "Rejected",
    ),
    "catalog.result": ("ToolResult",),
    "catalog.tool_traits": ("ToolUi",),
    "catalog.tool": (
        "Hints",
        "Tool",
        "ToolList",
    ),
    "connection.call_options": ("Retry",),
    "connection.cancellation": ("CancelToken",),
    "errors": (
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
        "ServerError",
        "SkillError",
        "StartDenied",
        "ToolChanged",
        "ToolFailed",
        "Unanswered",
        "UnknownTool",
        "UrlElicitationRequired",
    ),
    "extensions.apps": ("App", "Apps"),
    "extensions.extension": ("Extension",),
    "extensions.skill": ("Skill",),
    "extensions.skill_entry": ("SkillEntry",),
    "catalog.skill_file": ("SkillFile",),
    "extensions.ui_resource": ("UiResource",),
    "extensions.tasks": ("Task",),
    "protocol.capabilities": ("Implementation",),
    "protocol.content": (
        "AudioContent",
        "ContentBlock",
        "EmbeddedResource",
        "ImageContent",
        "ResourceLink",
        "TextContent",
        "UnknownContent",
    ),
    "protocol.metadata": ("Annotations",),
    "runtime.limits": (
        "Limits",
        "Timeouts",
    ),
    "runtime.safe_text": ("safe_text",),
    "session.connect": ("connect",),
    "session.session": ("Session",),
    "transports.stdio": ("StdioServer",),
    "approval.queue": ("ApprovalQueue", "DecidedApproval", "PendingApproval", "PendingChanges"),
    "approval.decisions": ("Decision", "Decisions"),
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
    "desk.page": ("ApprovalPage",),
    "desk.serve": ("Desk", "serve_desk"),
    "handlers.handlers": (
        "Accept",
        "Cancel",
        "Decline",
        "ElicitRequest",
        "Handlers",
        "LogMessage",
        "Root",
        "RootsRequest",
        "SamplingResult",
    ),
    "host.config": ("Config", "load_config"),
    "host.config_places": ("ConfigFile", "find_configs"),
    "host.config_problem": ("ConfigProblem",),
    "host.server_config": ("ServerConfig",),
    "host.changes": ("HostToolWatch",),
    "host.host": ("Host",),
    "host.status": ("ServerStatus", "StatusWatch"),
    "catalog.drift": ("Drift",),
    "catalog.finding": ("Finding",),
    "catalog.pins": ("Pins",),
    "catalog.prompts": ("PromptResult",),
    "protocol.elicitation": ("Choice", "FormField"),
    "protocol.prompts": ("Completion", "Prompt", "PromptArgument", "PromptMessage"),
    "protocol.resources": ("Resource", "ResourceContents", "ResourceTemplate", "ResourceUpdate"),
    "catalog.resources": ("ResourceResult",),
    "approval.request": ("ApprovalRequest", "Fact"),
    "approval.sampling_request": ("SamplingMessage", "SamplingRequest"),
    "approval.skill_request": ("SkillRequest",),
    "approval.start_request": ("StartRequest",),
    "approval.tool_call": ("ToolCall",),
    "approval.rules": ("Explanation", "Rule", "Rules"),
    "approval.terminal": ("ask_on_terminal",),
    "approval.turns": ("one_at_a_time",),
    "handlers.terminal": ("elicit_on_terminal",),
    "transports.http": ("HttpServer",),
    "transports.memory": ("JsonRpcError", "MemoryServer"),
    "transports.replay": ("ReplayServer",),
    "catalog.watch": ("ListChanges", "ListWatch", "ResourceWatch", "ToolChanges", "ToolWatch"),
}
"""Found in these modules when asked for: importing the package alone loads none of them."""
_MODULES = {name: module for module, names in _LATER.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "errors":  # which was always there without an import of its own
        return import_module(".errors", __name__)
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{module}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
