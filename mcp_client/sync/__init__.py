"""The client for programs without an event loop: ``from mcp_client.sync import connect``.

::

    with connect(StdioServer("python", ["weather.py"]), approval=ask) as session:
        print(session.call_tool("get_weather", {"location": "Oslo"}).text)

Everything has the names, options, errors and documentation of the async package. Nothing is
awaited: ``async with`` is ``with``, ``async for`` is ``for``, and ``aclose`` is ``close``. Without
``with``: ``session = connect(...).open()`` ... ``session.close()``.

Any number of threads may use one session at once. One thread of the process runs the event loop
of all sessions; hooks and handlers may be plain functions, which run in threads of their own, or
async ones, which run in that loop and cannot use a session of this module (``NotSent``). A session
that is dropped is closed with a ``ResourceWarning``; one that is open when the program ends is
closed silently. A forked process cannot use its parent's sessions.

Ctrl-C cancels the calls that all threads wait for, and notifies the servers. The main thread raises
``KeyboardInterrupt``; each other thread raises ``CallCancelled``, or ``CallWithdrawn`` for calls
that it begins until the main thread has handled the ``KeyboardInterrupt``. For this, a session that
the main thread opens replaces Python's own handler of SIGINT until it is closed, as ``asyncio.run``
does. A handler that your program has set is not replaced. Then close the session inside the block
of the pool (``with ThreadPoolExecutor() as pool, connect(...) as session``), or call ``cancel()``
of the ``CancelToken`` of the calls.

Unless documented otherwise, a method here calls the async one of the same name and waits for it.

The modules::

    connecting.py  ``connect``: a session that is not open yet
    session.py     sessions, views, skills and tasks whose methods block
    host.py        ``Host``, whose methods block
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "connecting": ["connect", "Connecting"],
        "session": ["Session", "App", "Skill", "Task"],
        "host": ["Host", "Watch"],
    },
)
