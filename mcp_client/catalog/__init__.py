"""The offers of a server: tools, resources and prompts, their lists, changes, trust and pins.

The names of resources, prompts and content are in ``mcp_client.content``.

::

    tool.py             a tool: a frozen value, its fingerprint, and whether its server is trusted
    tools.py            the tools of one server, and whether the host trusts their annotations
    paged_list.py       one list of a server: fetched page by page, cached, refreshed
    read_requests.py    requests that only read: pages of lists and their end, contents, prompts
    bound_schema.py     a schema without the arguments that the host sets
    call_values.py      a call: its context and origin, and its result
    library.py          the resources and prompts of one session
    finding.py          findings to consider before an approval, and lists that have them
    definition.py       a definition: hints, audience, view, task support, and findings about it
    orders.py           text that tries to instruct the model
    order_rules.py      the words of orders, and rules for what must not be together in a sentence
    pins.py             the lock file of tool definitions
    drift.py            how a definition differs from an earlier one
    subscriptions.py    the subscriptions of one session
    subscription.py     the change notifications of one topic
    watch.py            the changes that a session passes to the host
    tool_index.py       search among thousands of tools (BM25)
    schema_types.py     JSON Schemas as Python types
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "tool": ["Tool", "ToolList"],
        "tools": ["Trust"],
        "call_values": ["ToolResult"],
        "finding": ["Finding", "Rejected"],
        "pins": ["Pins"],
    },
)
