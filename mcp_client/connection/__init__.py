"""The live connection of a session, and one request on it.

::

    connection.py    the connection under a session, and how many calls are under way at once
    establish.py     starts the server and agrees on a revision
    rpc.py           sends one request and receives its response
    call_options.py  the options of a tool call and of a read; ``Retry`` and ``CancelToken``
    deadlines.py     the timeouts of one request, and when they are paused
    telemetry.py     spans and metrics of OpenTelemetry
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "call_options": ["Retry", "CancelToken", "CallProgress", "OnProgress"],
        "..runtime.limits": ["Timeouts", "Limits"],
        "..protocol.capabilities": ["Implementation"],
    },
)
