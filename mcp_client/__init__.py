"""The host side of MCP (Model Context Protocol): find a server's tools and call them.

No call runs until the host's code or a person has approved it.

The most important names are here. Every other public name is in one submodule, which also has those
of its names that are here::

    mcp_client.errors      every error, as one tree
    mcp_client.approval    requests, decisions, rules, queues and policies
    mcp_client.handlers    questions of a server, and responses to them
    mcp_client.content     content of results and messages, resources, prompts; safe_text
    mcp_client.catalog     tools, results, findings, pins
    mcp_client.auth        logins and credentials over HTTP, and where tokens are stored
    mcp_client.state       where decisions, pins, tokens and the audit are stored
    mcp_client.audit       records of calls, and their verification
    mcp_client.session     Session and Watch
    mcp_client.host        Host, the status of its servers, their options and names
    mcp_client.config      config files: find and load them
    mcp_client.connection  timeouts, limits, retries, cancellation
    mcp_client.transports  servers over stdio and HTTP, and Transport for one's own
    mcp_client.validation  how strictly arguments and results are validated
    mcp_client.sandbox     Sandbox
    mcp_client.extensions  tasks, apps and skills
    mcp_client.desk        the page on which people decide requests
    mcp_client.adapters    a module for each LLM provider
    mcp_client.stubs       typed Python for a server's tools
    mcp_client.testing     servers for tests: of functions, in memory, or made of a record
    mcp_client.sync        connect, Host and Session without an event loop

One directory per subject; imports go down this list only::

    cli/         the command mcp-client: the same from a shell
    desk/        the web page on which people decide the requests of an ApprovalQueue
    adapters/    tools, calls and results in each LLM provider's shape; no provider's package
    stubs.py     typed Python for a server's tools
    testing/     servers for users' own tests: of functions, in memory, or made of a record
    sync/        the same for programs without an event loop, and for threads
    code/        scripts of a model that call tools, each call through the gate
    host/        many servers as one set of tools: Host, naming, filters, status
    config/      config files: find and load them; who may start a server of one
    session/     connect, Session, and the life of one tool call, top to bottom
    extensions/  the extensions of the protocol: each declared, each in files of its own
    handlers/    handlers for a server's requests: elicitation, sampling, roots
    state/       where decisions, pins, tokens and the audit are stored: memory, directory, database
    audit/       the record of every call, opened before it is decided, and how to verify it
    approval/    the gate every call passes: rules, remembered decisions, the approval hook
    content/     the public names of content, resources and prompts
    catalog/     the offers of a server: tools, resources, prompts, their changes, trust, pins
    connection/  the live connection: establish it, one request and its response, deadlines
    auth/        OAuth for the HTTP transports: flows as plain generators inside httpx.Auth
    validation/  arguments and results against their JSON Schemas, within bounds
    transports/  the transport of messages: JSON-RPC, without any MCP method
    sandbox/     the rights of a server's process, and their enforcement
    protocol/    the protocol as the specification defines it; nothing there waits
    processes/   processes of servers: started without a shell, none left behind
    runtime/     knows nothing of MCP: limits, safe text, event loop, files, console
    errors.py    the errors, as one tree
"""

from .runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "session.connect": ["connect"],
        "session": ["Session"],
        "host": ["Host", "ServerConfig"],
        "transports": ["StdioServer", "HttpServer"],
        "testing": ["MemoryServer"],
        "auth": ["OAuth"],
        "approval": [
            "Allow",
            "Deny",
            "ToolCall",
            "ApprovalRequest",
            "Rules",
            "Rule",
            "allow_all",
            "deny_all",
            "ask_on_terminal",
            "ApprovalQueue",
        ],
        "catalog": ["Tool", "ToolList", "ToolResult", "Finding", "Pins"],
        "connection": ["Timeouts", "Limits", "Retry", "CancelToken"],
        "handlers": ["Handlers"],
        "state": ["FileState"],
        "audit": ["AuditLog"],
        "sandbox": ["Sandbox"],
        "errors": [
            "McpError",
            "NotSent",
            "OutcomeUnknown",
            "ServerError",
            "BrokenPromise",
            "ToolFailed",
            "ConfigError",
            "CallDenied",
            "CallPending",
            "CallTimeout",
            "ConnectError",
        ],
        "content": [],
        "config": [],
        "desk": [],
        "extensions": [],
        "validation": [],
        "adapters": [],
        "stubs": [],
        "sync": [],
        "runtime.version": ["__version__"],
    },
    rooms=True,
)
