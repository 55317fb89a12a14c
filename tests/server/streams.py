"""A pair of streams of JSON objects with a server behind it, as ``StreamServer`` takes it.

```python
wire = Wire(answer)  # as a handler of ``MemoryServer``
async with connect(StreamServer(wire.open)) as session: ...
```
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectSendStream

__all__ = ["Wire"]


class Wire:
    """Each ``open()`` is one connection to a server that is a function of its messages.

    ``spell`` makes what is received from each message of the server.
    """

    def __init__(
        self, answer: Callable[..., Any], spell: Callable[[dict[str, Any]], Any] = dict
    ) -> None:
        self._answer = answer
        self._spell = spell
        self._has_send = len(inspect.signature(answer).parameters) > 1
        self.messages: list[dict[str, Any]] = []
        self.opened: list[Any] = []
        self.closed: list[Any] = []
        """The tasks that entered and exited the context manager."""
        self.line: MemoryObjectSendStream[Any] | None = None
        """What the server sends on; closing it ends the connection."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Any, Any]]:
        self.opened.append(anyio.get_current_task().id)
        sender, receiver = anyio.create_memory_object_stream[Any](100)
        self.line, received = anyio.create_memory_object_stream[Any](100)
        try:
            async with sender, receiver, self.line, received, anyio.create_task_group() as tasks:
                tasks.start_soon(self._serve, receiver, self.line)
                yield received, sender
                tasks.cancel_scope.cancel()
        finally:
            self.closed.append(anyio.get_current_task().id)

    async def _serve(self, receiver: Any, line: MemoryObjectSendStream[Any]) -> None:
        def send(message: dict[str, Any]) -> None:
            line.send_nowait(self._spell(message))

        async for message in receiver:
            self.messages.append(message)
            extra = (send,) if self._has_send else ()
            result = self._answer(message, *extra)
            if inspect.isawaitable(result):
                result = await result
            if result is NotImplemented and "id" in message:
                error = {"code": -32601, "message": "method not found"}
                send({"jsonrpc": "2.0", "id": message["id"], "error": error})
            elif result is not None and "id" in message:
                send({"jsonrpc": "2.0", "id": message["id"], "result": result})
