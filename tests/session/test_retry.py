"""Calls that failed are attempted again where the host wants that, and only where it is safe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    CallDenied,
    CallTimeout,
    CancelToken,
    ConfigError,
    ConnectError,
    McpError,
    MemoryServer,
    Retry,
    ServerError,
    Session,
    Timeouts,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.errors import (
    CallCancelled,
    CallWithdrawn,
    ConnectionLost,
    Unanswered,
    UnknownTool,
    UrlElicitationRequired,
)
from mcp_client.transports.memory import MemoryTransport
from tests.support.http_apps import Handshake, Stateless
from tests.support.http_server import Reply, Request, serving
from tests.support.timing import Clock

pytestmark = pytest.mark.one_backend

NOW = Retry(backoff=0)


class Flaky:
    """A server whose connection ends during the first calls, or before they are sent."""

    def __init__(self, lost: int = 0, refused: int = 0, **annotations: bool) -> None:
        self.lost, self.refused = lost, refused
        self.annotations = annotations
        self.calls: list[dict[str, Any]] = []
        self.transports: list[Wire] = []

    def __call__(self, message: dict[str, Any]) -> Any:
        match message.get("method"):
            case "tools/list":
                tool = {"name": "run", "inputSchema": {"type": "object"}}
                return {"tools": [{**tool, "annotations": self.annotations}], "ttlMs": 3_600_000}
            case "tools/call":
                self.calls.append(message["params"])
                if self.lost:
                    self.lost -= 1
                    self.transports[-1].end()
                return {"content": [{"type": "text", "text": "done"}]}
        return NotImplemented


class Wire(MemoryTransport):
    def __init__(self, server: Flaky) -> None:
        super().__init__(server)
        self.server = server
        server.transports.append(self)

    def clone(self) -> MemoryTransport:
        return Wire(self.server)

    async def exchange(self, id: Any, text: str, *rest: Any) -> Any:
        if '"tools/call"' in text and self.server.refused:
            self.server.refused -= 1
            raise ConnectError("the server is busy", retryable=True)
        return await super().exchange(id, text, *rest)


async def test_nothing_is_attempted_again_by_default() -> None:
    server = Flaky(refused=1)
    async with connect(Wire(server), approval=allow_all) as session:
        with pytest.raises(ConnectError) as caught:
            await session.call_tool("run")
    assert caught.value.attempts == 1
    assert server.calls == []


@pytest.mark.parametrize("where", ["connect", "call_tool"])
async def test_what_was_not_sent_is_attempted_again(where: str) -> None:
    server = Flaky(refused=2)
    options: dict[str, Any] = {"retry": NOW}
    for_all, for_one = (options, {}) if where == "connect" else ({}, options)
    async with connect(Wire(server), approval=allow_all, **for_all) as session:
        assert (await session.call_tool("run", **for_one)).text == "done"
    assert len(server.calls) == 1


async def test_the_last_error_states_how_many_attempts_there_were() -> None:
    server = Flaky(refused=9)
    async with connect(Wire(server), approval=allow_all, retry=NOW) as session:
        with pytest.raises(ConnectError, match=r"the server is busy \(3 attempts\)") as caught:
            await session.call_tool("run")
    assert caught.value.attempts == 3
    assert server.refused == 6


@pytest.mark.parametrize(
    ("annotations", "trusted", "safe", "calls"),
    [
        ({}, True, False, 1),
        ({"readOnlyHint": True}, False, False, 1),
        ({"readOnlyHint": True}, True, False, 2),
        ({"idempotentHint": True}, True, False, 2),
        ({"readOnlyHint": True, "destructiveHint": True}, True, False, 1),
        ({}, False, True, 2),
    ],
)
async def test_what_may_have_run_is_repeated_only_on_a_trusted_hint_or_the_callers_word(
    annotations: dict[str, bool], trusted: bool, safe: bool, calls: int
) -> None:
    server = Flaky(lost=1, **annotations)
    async with connect(Wire(server), approval=allow_all, trusted=trusted, retry=NOW) as session:
        retry = Retry(backoff=0, safe=True) if safe else None
        try:
            await session.call_tool("run", retry=retry)
        except ConnectionLost:
            assert calls == 1
    assert len(server.calls) == calls


@pytest.mark.parametrize("app", [Handshake, Stateless])
@pytest.mark.parametrize(
    ("status", "options", "retry", "repeated"),
    [
        (503, {}, Retry(backoff=0, safe=True), True),
        (503, {"trusted": True}, NOW, True),
        (503, {}, NOW, False),
        (503, {"trusted": True}, Retry(attempts=1), False),
        (429, {}, NOW, True),
        (500, {}, Retry(backoff=0, safe=True), True),
        (500, {"trusted": True}, NOW, False),
        (501, {}, Retry(backoff=0, safe=True), False),
        (400, {}, Retry(backoff=0, safe=True), False),
    ],
)
async def test_a_call_that_a_busy_server_refused_is_repeated_where_that_does_no_harm(
    status: int, options: dict[str, Any], retry: Retry, repeated: bool, app: Any
) -> None:
    served, refused = app(), 0
    served.annotations["echo"] = {"readOnlyHint": True}

    async def handler(request: Request, reply: Reply) -> None:
        nonlocal refused
        if request.rpc_method == "tools/call" and not refused:
            refused += 1
            await reply.send(status, b"busy", {"Retry-After": "0"})
        else:
            await served(request, reply)

    async with (
        serving(handler) as server,
        connect(server.url, approval=allow_all, retry=retry, **options) as session,
    ):
        if repeated:
            assert (await session.call_tool("echo", {})).text == "{}"
        else:
            with pytest.raises(ServerError, match="busy"):
                await session.call_tool("echo", {})
    assert len(server.saying("tools/call")) == 1 + repeated


async def test_one_approval_covers_all_attempts_of_the_same_call() -> None:
    server = Flaky(lost=2)
    asked: list[ToolCall] = []
    passed = {"n": 1}

    async def approve(call: ToolCall) -> Allow:
        asked.append(call)
        passed["n"] = 7  # the call was frozen before
        return Allow({"n": 2})

    async with connect(Wire(server), approval=approve) as session:
        await session.call_tool("run", passed, retry=Retry(backoff=0, safe=True))
    assert len(asked) == 1
    assert [call["arguments"] for call in server.calls] == [{"n": 2}] * 3


@pytest.mark.both_backends
async def test_a_call_whose_definition_changed_between_attempts_is_asked_about_again() -> None:
    server = Flaky(lost=1)
    asked: list[ToolCall] = []

    async def approve(call: ToolCall) -> Allow:
        asked.append(call)
        server.annotations["destructiveHint"] = True
        return Allow()

    async with connect(Wire(server), approval=approve) as session:
        await session.call_tool("run", retry=Retry(backoff=0, safe=True))
    assert len(asked) == 2
    assert asked[0].tool.fingerprint != asked[1].tool.fingerprint


async def test_each_attempt_is_in_the_record() -> None:
    server, records = Flaky(lost=1), list[Any]()
    async with connect(Wire(server), approval=allow_all, audit=records.append) as session:
        await session.call_tool("run", retry=Retry(backoff=0, safe=True))
    opened = [record for record in records if record["event"] == "opened"]
    closed = [record for record in records if record["event"] == "closed"]
    assert opened[1]["repeats"] == opened[0]["call"]
    assert [record["outcome"] for record in closed] == ["ConnectionLost", "ok"]


@pytest.mark.both_backends
async def test_the_total_timeout_of_the_call_covers_all_attempts(clock: Clock) -> None:
    server = Flaky(refused=9)
    async with connect(Wire(server), approval=allow_all) as session:
        clock.stop()
        with pytest.raises(ConnectError) as caught:
            await session.call_tool("run", timeout=2, retry=Retry(attempts=5, backoff=60))
    assert caught.value.attempts == 1
    assert server.refused == 8


async def test_the_time_that_attempts_take_counts_for_the_total_timeout() -> None:
    class Silent(Flaky):
        async def __call__(self, message: dict[str, Any]) -> Any:
            if message.get("method") == "tools/call":
                self.calls.append(message["params"])
                await anyio.sleep_forever()
            return super().__call__(message)

    server = Silent()
    retry = Retry(attempts=50, backoff=0, safe=True)
    async with connect(Wire(server), approval=allow_all) as session:
        with anyio.fail_after(30), pytest.raises(CallTimeout) as caught:
            await session.call_tool("run", timeout=Timeouts(idle=0.2, total=0.5), retry=retry)
    assert caught.value.attempts == len(server.calls) <= 3
    assert any(named in str(caught.value) for named in ("0.5 s (total", "0.2 s (idle"))


@pytest.mark.both_backends
async def test_a_call_is_cancelled_between_two_attempts() -> None:
    server, token = Flaky(lost=1), CancelToken()
    async with connect(Wire(server), approval=allow_all) as session:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:

                async def make() -> None:
                    retry = Retry(backoff=3_600, safe=True)
                    with pytest.raises(CallCancelled, match="it may have run"):
                        await session.call_tool("run", timeout=30_000, retry=retry, cancel=token)

                tasks.start_soon(make)
                while server.lost:
                    await anyio.lowlevel.checkpoint()
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
                token.cancel()
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("error", "retry", "permitted"),
    [
        (ConnectError("m", retryable=True), Retry(), True),
        (ConnectError("m"), Retry(safe=True), False),
        (CallDenied("m"), Retry(safe=True), False),
        (UnknownTool("m"), Retry(safe=True), False),
        (CallTimeout("m"), Retry(), False),
        (CallTimeout("m"), Retry(safe=True), True),
        (CallTimeout("m", retryable=True), Retry(), True),
        (ConnectionLost("m", retryable=True), Retry(), True),
        (Unanswered("m", retryable=True), Retry(safe=True), False),
        (CallCancelled("m", retryable=True), Retry(safe=True), False),
        (ServerError("m", code=-1), Retry(safe=True), False),
        (ServerError("m", code=-1, retryable=True), Retry(), True),
        (UrlElicitationRequired("m", code=-1, retryable=True), Retry(safe=True), False),
    ],
)
def test_which_errors_permit_another_attempt(
    error: McpError, retry: Retry, permitted: bool
) -> None:
    assert retry.permits(error) is permitted


def test_the_pause_grows_with_jitter_and_is_never_less_than_the_server_asks_for() -> None:
    retry = Retry(backoff=1)
    for attempts, least in ((1, 0.5), (2, 1.0), (3, 2.0)):
        pauses = [retry.pause(ConnectError("m"), attempts) for _ in range(50)]
        assert least <= min(pauses) <= max(pauses) <= 3 * least
        assert len(set(pauses)) > 1
    assert retry.pause(ConnectError("m", retry_after=20.0), 1) == 20.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: Retry(attempts=0),
        lambda: Retry(attempts=1.5),  # type: ignore[arg-type]
        lambda: Retry(backoff=-1),
        lambda: Retry(backoff="1"),  # type: ignore[arg-type]
        lambda: Retry(safe=1),  # type: ignore[arg-type]
        lambda: connect(MemoryServer(Flaky()), retry=3),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_option_is_refused_by_name(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError, match=r"attempts|backoff|safe|retry"):
        make()


async def test_a_wrong_retry_of_one_call_is_refused_by_name() -> None:
    async def call(session: Session) -> None:
        await session.call_tool("run", retry=True)  # type: ignore[arg-type]

    async with connect(MemoryServer(Flaky()), approval=allow_all) as session:
        with pytest.raises(ConfigError, match="retry=True"):
            await call(session)


async def test_a_call_whose_list_could_not_be_fetched_has_not_run() -> None:
    app, token, lists, refused = Stateless(), CancelToken(), list[Request](), anyio.Event()

    async def handler(request: Request, reply: Reply) -> None:
        if request.rpc_method != "tools/list":
            await app(request, reply)
            return
        lists.append(request)
        if len(lists) == 2:
            refused.set()
        await reply.send(500)

    async with (
        serving(handler) as server,
        connect(server.url, approval=allow_all, revision="2026-07-28") as session,
        anyio.create_task_group() as tasks,
    ):

        async def cancel() -> None:
            await refused.wait()
            token.cancel()

        tasks.start_soon(cancel)
        retry = Retry(attempts=9, backoff=0.01, safe=True)
        with pytest.raises(CallWithdrawn):
            await session.call_tool("echo", retry=retry, cancel=token)
    assert app.calls == []
