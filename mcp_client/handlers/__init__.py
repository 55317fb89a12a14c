"""The handlers for a server's requests to the host.

::

    handlers.py         ``Handlers``, the requests that they receive, and their responses
    terminal.py         the elicitation handler that asks the person at the terminal
    dispatcher.py       calls the handlers, and sends what they return
    question_checks.py  the checks of a server's request before a handler receives it
    input_rounds.py     calls for which a server requests input
    wire_format.py      parses a server's requests, and encodes responses
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "handlers": [
            "Handlers",
            "ElicitRequest",
            "Accept",
            "Decline",
            "Cancel",
            "RootsRequest",
            "Root",
            "SamplingResult",
            "LogMessage",
            "ServerNotification",
        ],
        "terminal": ["elicit_on_terminal"],
    },
)
