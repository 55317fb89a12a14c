"""The host side of MCP (Model Context Protocol): find a server's tools and call them.

No call runs until the host's code or a person has approved it.

One directory per subject; imports go down this list only::

    cli/         the command mcp-client: the same from a shell
    desk/        the web page on which people decide the requests of an ApprovalQueue
    adapters/    tools, calls and results in each LLM provider's shape; no provider's package
    stubs.py     typed Python for a server's tools
    sync/        the same for programs without an event loop, and for threads
    code/        scripts of a model that call tools, each call through the gate
    config/      the public names for config files
    host/        many servers as one set of tools: Host, naming, filters, status, config files
    session/     connect, Session, and the life of one tool call, top to bottom
    extensions/  what goes beyond the core: each declared, each in files of its own
    handlers/    what a server may ask of the host: elicitation, sampling, roots; its log
    state/       where decisions, pins, tokens and the audit are kept: memory, folder, database
    audit/       the record of every call, opened before it is decided, and how to verify it
    approval/    the gate every call passes: rules, remembered decisions, the approval hook
    content/     the public names of content, resources and prompts
    catalog/     what a server offers: tools, resources, prompts, their changes, trust, pins
    connection/  the live connection: establish it, one request and its response, deadlines
    auth/        OAuth for the HTTP transports: flows as plain generators inside httpx.Auth
    validation/  arguments and results against their JSON Schemas, within bounds
    transports/  how messages travel; knows JSON-RPC, knows no MCP method
    sandbox/     what a server's process can reach, and what holds it
    protocol/    what the specification says; nothing there waits
    runtime/     knows nothing of MCP: limits, safe text, event loop, files, processes, console
    errors.py    what is raised, as one tree
"""

from importlib import import_module

_HOME = {
    "Accept": "handlers.handlers",
    "Allow": "approval.decision",
    "App": "extensions.apps",
    "ApprovalHook": "approval.decision",
    "ApprovalPage": "desk.page",
    "ApprovalQueue": "approval.queue",
    "ApprovalRequest": "approval.request",
    "Apps": "extensions.apps",
    "AudioContent": "protocol.content",
    "AuditError": "errors",
    "AuditLog": "audit",
    "AuditSink": "audit.sinks",
    "AuthError": "errors",
    "BearerToken": "auth",
    "BrokenPromise": "errors",
    "CallCancelled": "errors",
    "CallDenied": "errors",
    "CallPending": "errors",
    "CallTimeout": "errors",
    "CallWithdrawn": "errors",
    "Cancel": "handlers.handlers",
    "CancelToken": "connection.cancellation",
    "ClientCredentials": "auth",
    "Config": "host.config",
    "ConfigError": "errors",
    "ConfigFile": "host.config_programs",
    "ConfigProblem": "host.config_fields",
    "ConnectError": "errors",
    "ConnectionLost": "errors",
    "ContentBlock": "protocol.content",
    "Decision": "approval.decisions",
    "Decisions": "approval.decisions",
    "Decline": "handlers.handlers",
    "Deny": "approval.decision",
    "DeviceLogin": "auth.steps",
    "ElicitRequest": "handlers.handlers",
    "EmbeddedResource": "protocol.content",
    "EnterpriseAuthorization": "auth",
    "Extension": "extensions.extension",
    "Fact": "approval.request",
    "FileState": "state",
    "FileTokens": "auth",
    "Finding": "catalog.finding",
    "Handlers": "handlers.handlers",
    "Host": "host.host",
    "HttpServer": "transports.http",
    "IdentityProvider": "auth",
    "ImageContent": "protocol.content",
    "Implementation": "protocol.capabilities",
    "InvalidArguments": "errors",
    "InvalidResult": "errors",
    "InvalidSchema": "errors",
    "JsonRpcError": "transports.memory",
    "KeyringTokens": "auth",
    "Limits": "runtime.limits",
    "LogMessage": "handlers.handlers",
    "McpError": "errors",
    "ManagedPolicy": "approval.managed_policy",
    "MemoryServer": "transports.memory",
    "MemoryState": "state",
    "MemoryTokens": "auth",
    "MissingCapability": "errors",
    "Naming": "host.naming",
    "NegotiationError": "errors",
    "NotFound": "errors",
    "NotPending": "errors",
    "NotSent": "errors",
    "OAuth": "auth",
    "OnProgress": "connection.rpc",
    "OpenTelemetryLog": "audit.otel_log",
    "OutcomeUnknown": "errors",
    "PendingApproval": "approval.queue",
    "Pins": "catalog.pins",
    "Policy": "approval.decision",
    "PostgresState": "state.postgres",
    "Prompt": "protocol.prompts",
    "PromptResult": "catalog.library",
    "ProtocolViolation": "errors",
    "Redaction": "audit",
    "Rejected": "catalog.listed",
    "Reloaded": "host.reload",
    "Remember": "approval.decision",
    "ReplayServer": "transports.replay",
    "Resource": "protocol.resources",
    "ResourceLink": "protocol.content",
    "ResourceResult": "catalog.library",
    "ResultNotStored": "errors",
    "Retry": "connection.retry",
    "Root": "handlers.handlers",
    "RootsRequest": "handlers.handlers",
    "Rule": "approval.rules",
    "Rules": "approval.rules",
    "SamplingRequest": "approval.sampling_request",
    "SamplingResult": "handlers.handlers",
    "Script": "approval.script",
    "ServerConfig": "host.options",
    "ServerError": "errors",
    "ServerLike": "host.options",
    "ServerStatus": "host.status",
    "Sandbox": "sandbox.sandbox",
    "Session": "session.session",
    "Skill": "extensions.skill",
    "SkillError": "errors",
    "SkillRequest": "approval.skill_request",
    "StartDenied": "errors",
    "StartRequest": "approval.start_request",
    "State": "state",
    "StateError": "errors",
    "StdioServer": "transports.stdio",
    "Strictness": "validation.strictness",
    "Task": "extensions.tasks",
    "TextContent": "protocol.content",
    "Timeouts": "runtime.limits",
    "Token": "auth",
    "Tool": "catalog.tool",
    "ToolCall": "approval.tool_call",
    "ToolChanged": "errors",
    "ToolFailed": "errors",
    "ToolList": "catalog.tool",
    "ToolResult": "catalog.result",
    "Transport": "transports.base",
    "Trust": "catalog.trust",
    "UiResource": "extensions.ui_resource",
    "Unanswered": "errors",
    "UnknownContent": "protocol.content",
    "UnknownTool": "errors",
    "UrlElicitationRequired": "errors",
    "Watch": "runtime.watch",
    "WorkloadIdentity": "auth",
    "allow_all": "approval.decision",
    "ask_on_terminal": "approval.terminal",
    "connect": "session.connect",
    "deny_all": "approval.decision",
    "elicit_on_terminal": "handlers.terminal",
    "find_configs": "host.config_programs",
    "load_config": "host.config",
    "one_at_a_time": "approval.turns",
    "safe_text": "runtime.safe_text",
    "serve_desk": "desk.serve",
    "verify_audit": "audit",
}
"""Each public name and the module it is loaded from when it is first asked for: importing the
package alone loads none of them. ``__init__.pyi`` says the same to type checkers and editors."""

__all__ = [*_HOME]


def __getattr__(name: str) -> object:
    if name == "errors":  # which was always there without an import of its own
        return import_module(".errors", __name__)
    home = "runtime.version" if name == "__version__" else _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{home}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
