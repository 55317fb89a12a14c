"""A server request that no handler can be given gets an error, and the clocks of calls go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mcp_client import Decline, Handlers, Limits, Timeouts
from mcp_client.handlers.dispatcher import Dispatcher
from mcp_client.protocol.era import Era
from mcp_client.protocol.jsonrpc import Request
from mcp_client.runtime.event_loop import Backend
from mcp_client.runtime.stats import Stats
from tests.server.asking import FORM


class Line:
    """A transport as far as a dispatcher uses one."""

    alive = True

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send_soon(self, text: str, headers: Any) -> None:
        self.sent.append(json.loads(text))


class NoTasks:
    """A backend that cannot start work."""

    def spawn(self, work: Any) -> Any:
        raise RuntimeError("no task can be started")


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


@pytest.mark.parametrize("broken", ["tasks", "clocks"])
def test_a_request_that_cannot_be_handled_is_answered_and_the_clocks_go_on(
    broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    handlers = Handlers(elicitation=lambda request: Decline())
    dispatcher = Dispatcher(handlers, "desk", Timeouts(), Limits(), Stats())
    backend: Any = NoTasks()
    line: Any = Line()
    era: Any = FormsEra()
    clocks = Clocks()
    _started(dispatcher, backend)
    pause = clocks.broken if broken == "clocks" else clocks.pause
    _asked(dispatcher, line, Request("q", *FORM), era, pause)
    (answer,) = line.sent
    assert (answer["id"], answer["error"]["code"]) == ("q", -32603)
    assert clocks.paused == 0
    assert "cannot be handled" in caplog.text
    assert "Traceback" in caplog.text


def _started(dispatcher: Dispatcher, backend: Backend) -> None:
    dispatcher.start(backend)


def _asked(dispatcher: Dispatcher, line: Any, request: Request, era: Era, pause: Any) -> None:
    dispatcher.asked(line, request, era, pause)
