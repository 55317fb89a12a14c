"""Sessions: connecting, the methods that a host calls, and the life of one tool call.

::

    connect.py          ``connect`` and its options; refuses two servers under one name
    session_options.py  checks of the options
    session.py          ``Session``: one server, and how to call it
    call.py             the life of one call, top to bottom
    call_state.py       the state of a call while it is made, and what an observer of calls is
    observers.py        observers of a call: audit, pins, bound arguments, traces
    tool_validation.py  arguments and results against the tool's schemas
    binding.py          ``bind=``: arguments that the host sets
    journal.py          calls with an ``idempotency_key``
    started_tasks.py    ``start_tool`` and ``resume_task``, and the contents of ``task.to_json()``
    library.py          facts of a session, resources, prompts, completion and skills
    server_messages.py  messages that a server sends on its own, and its log
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__, {"session": ["Session"], "..runtime.watch": ["Watch"]}
)
