"""A server request that no handler can be given gets an error, and the clocks of calls go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from mcp_client import Handlers
from mcp_client.approval.remembered import ApprovalMemory
from mcp_client.handlers import Decline, ElicitRequest
from mcp_client.handlers.dispatcher import Dispatcher
from mcp_client.protocol.jsonrpc import Request
from mcp_client.runtime.event_loop import current
from mcp_client.runtime.session_context import SessionContext
from tests.support.asking import FORM


class Line:
    """A transport as far as a dispatcher uses one."""

    alive = True

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def send(self, text: str, headers: Any) -> None:
        self.send_soon(text, headers)

    def send_soon(self, text: str, headers: Any) -> None:
        self.sent.append(json.loads(text))


class FewTasks:
    """A backend that can start so many tasks and no more."""

    def __init__(self, tasks: int) -> None:
        self.left = tasks

    def now(self) -> float:
        return 0.0

    def spawn(self, work: Any) -> Any:
        if not self.left:
            raise RuntimeError("no task can be started")
        self.left -= 1


class Clocks:
    def __init__(self) -> None:
        self.paused = 0

    def pause(self) -> Callable[[], None]:
        self.paused += 1
        return self.resume

    def resume(self) -> None:
        self.paused -= 1

    def broken(self) -> Callable[[], None]:
        raise RuntimeError("the clocks cannot be paused")


class FormsEra:
    """An era as far as reading a form needs one."""

    revision = "2025-11-25"
    full_forms = True


@pytest.mark.parametrize(("broken", "tasks"), [("tasks", 0), ("tasks", 1), ("clocks", 9)])
def test_a_request_that_cannot_be_handled_is_answered_and_the_clocks_go_on(
    broken: str, tasks: int, caplog: pytest.LogCaptureFixture
) -> None:
    handlers = Handlers(elicitation=lambda request: Decline())
    dispatcher = Dispatcher(handlers, SessionContext("desk"), ApprovalMemory())
    backend: Any = FewTasks(tasks)
    line: Any = Line()
    era: Any = FormsEra()
    clocks = Clocks()
    dispatcher.start(backend)
    pause = clocks.broken if broken == "clocks" else clocks.pause
    dispatcher.on_request(line, Request("q", *FORM), era, pause)
    (response,) = line.sent
    assert (response["id"], response["error"]["code"]) == ("q", -32603)
    assert clocks.paused == 0
    assert "cannot handle" in caplog.text
    assert "Traceback" in caplog.text


async def test_handlers_of_other_connections_are_cancelled_and_those_of_this_one_go_on() -> None:
    called: list[ElicitRequest] = []
    cancelled = anyio.Event()
    go_on = anyio.Event()

    async def handler(request: ElicitRequest) -> Decline:
        called.append(request)
        try:
            await go_on.wait()
        except BaseException:
            cancelled.set()
            raise
        return Decline()

    dispatcher = Dispatcher(Handlers(elicitation=handler), SessionContext("desk"), ApprovalMemory())
    dispatcher.start(current())
    old, new, era, clocks = Line(), Line(), FormsEra(), Clocks()
    for line in (old, new):
        _request(dispatcher, line, era, clocks)
    while len(called) < 2:
        await anyio.lowlevel.checkpoint()
    dispatcher.cancel_all_but(new)  # type: ignore[arg-type]
    await cancelled.wait()
    assert clocks.paused == 1
    go_on.set()
    while not new.sent:
        await anyio.lowlevel.checkpoint()
    assert new.sent[0]["result"] == {"action": "decline"}
    assert (old.sent, clocks.paused) == ([], 0)
    await dispatcher.aclose()


def _request(dispatcher: Dispatcher, line: Any, era: Any, clocks: Clocks) -> None:
    dispatcher.on_request(line, Request("q", *FORM), era, clocks.pause)
