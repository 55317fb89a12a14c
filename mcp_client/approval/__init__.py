"""The gate that every tool call passes, and the hooks and rules that decide there.

A hook receives an ``ApprovalRequest`` and returns ``Allow`` or ``Deny``. It can be a function,
``Rules``, an ``ApprovalQueue`` or ``ask_on_terminal``.

::

    tool_call.py         the request to make a tool call
    script.py            the script that makes a call
    request.py           the base class of all requests for approval
    skill_request.py     the request to load a skill
    start_request.py     the request to start or connect to a server of a config file
    sampling_request.py  the request of a server to use the host's model
    decision.py          the decisions of an approval hook: ``Allow`` or ``Deny``
    remember.py          how far an approval reaches: one call, a session, an hour, always
    question.py          the timeout of a request that waits for its decision
    gate.py              where every request is decided
    rules.py             an ordered policy that decides calls without asking a person
    constraints.py       the constraints of a rule on arguments
    rules_file.py        rules from a TOML or JSON file
    managed_policy.py    an organisation's policy for a machine
    start_patterns.py    how a policy names servers: by command and by URL
    remembered.py        the decisions that hold for one session
    decisions.py         the store of decisions: remembered approvals, confirmed starts, tickets
    stored_decision.py   one stored decision, as a value
    tickets.py           requests that outlast their caller or its process
    queue.py             requests that wait for a decision from anywhere: a page, a chat, a ticket
    queue_parts.py       its changes, logins on another device, ended requests; one call at a time
    terminal.py          the approval hook that asks the person at the terminal, and their editor
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "tool_call": ["ToolCall"],
        "script": ["Script"],
        "request": ["ApprovalRequest", "Fact"],
        "skill_request": ["SkillRequest"],
        "start_request": ["StartRequest"],
        "sampling_request": ["SamplingRequest"],
        "decision": [
            "Allow",
            "Deny",
            "ApprovalHook",
            "Policy",
            "Remember",
            "allow_all",
            "deny_all",
            "quick",
        ],
        "rules": ["Rules", "Rule"],
        "managed_policy": ["ManagedPolicy"],
        "decisions": ["Decisions", "Decision"],
        "queue": ["ApprovalQueue", "PendingApproval"],
        "terminal": ["ask_on_terminal"],
        "queue_parts": ["one_at_a_time"],
    },
)
