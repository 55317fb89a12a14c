"""The client for programs without an event loop: ``from mcp_client.sync import connect``.

::

    with connect(StdioServer("python", ["weather.py"]), approval=ask) as session:
        print(session.call_tool("get_weather", {"location": "Oslo"}).text)

Everything has the names, options, errors and documentation of the async package. Nothing is
awaited: ``async with`` is ``with``, ``async for`` is ``for``, and ``aclose`` is ``close``. Without
``with``: ``session = connect(...).open()`` ... ``session.close()``.

Any number of threads may use one session at once. One thread of the process runs the event loop
of all sessions; hooks and handlers may be plain functions, which run in threads of their own, or
async ones, which run in that loop and cannot use a session of this module (``NotSent``). Ctrl-C
cancels the call that the main thread waits for, and the server is told. A session that is dropped
is closed with a ``ResourceWarning``; one that is open when the program ends is closed silently. A
forked process cannot use its parent's sessions.

Where it is not said otherwise, a method here is the async one of the same name, and waits for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .connecting import Connecting, connect

if TYPE_CHECKING:
    from ..runtime.portal import BlockingWatch as Watch
    from .host import Host
    from .session import App, Session, Skill, Task
else:

    def __getattr__(name: str) -> object:
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(home, __name__), "BlockingWatch" if name == "Watch" else name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


_HOME = {
    "App": ".session",
    "Host": ".host",
    "Session": ".session",
    "Skill": ".session",
    "Task": ".session",
    "Watch": "..runtime.portal",
}
"""The names that are loaded when they are first asked for, so that a script starts sooner."""

__all__ = ["App", "Connecting", "Host", "Session", "Skill", "Task", "Watch", "connect"]
