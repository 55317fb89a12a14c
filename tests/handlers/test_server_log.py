"""The log lines a server sends: asked for, delivered, bounded, made safe."""

from __future__ import annotations

import json
import logging
import math
from typing import Any

import anyio
import pytest

from mcp_client import (
    ConfigError,
    ConnectError,
    Handlers,
    Limits,
    MemoryServer,
    Timeouts,
    allow_all,
    connect,
)
from mcp_client.handlers import LogMessage
from mcp_client.protocol.capabilities import ClientDeclaration, Implementation, ServerFacts
from mcp_client.protocol.era import StatelessEra
from mcp_client.session import server_messages
from mcp_client.testing import JsonRpcError
from tests.support.asking import LATEST, NEWEST_HANDSHAKE, REVISIONS, Asking, text_result
from tests.support.timing import Clock

pytestmark = pytest.mark.one_backend

LEVEL = "io.modelcontextprotocol/logLevel"
EACH_ERA = pytest.mark.parametrize("revision", REVISIONS)


class Logging(Asking):
    """Its tool logs what it is given, then answers."""

    def __init__(self, revision: str, *lines: dict[str, Any]) -> None:
        super().__init__(revision)
        self.lines = lines

    async def called(self, message: dict[str, Any], send: Any) -> Any:
        for line in self.lines:
            self.notify("notifications/message", **line)
        return text_result("done")

    @property
    def levels(self) -> list[Any]:
        """What each request since the first asked for."""
        asked = (m["params"].get("_meta", {}) for m in self.messages if "params" in m)
        return [meta.get(LEVEL) for meta in asked]


async def received(server: Logging, count: int, **options: Any) -> list[LogMessage]:
    """The first lines a handler receives of what the tool logs."""
    lines: list[LogMessage] = []
    enough = anyio.Event()

    async def log(message: LogMessage) -> None:
        lines.append(message)
        if len(lines) >= count:
            enough.set()

    handlers = Handlers(log=log, log_level=options.pop("log_level", None))
    async with connect(
        MemoryServer(server), name="desk", approval=allow_all, handlers=handlers, **options
    ) as session:
        await session.call_tool("ask")
        await enough.wait()
    return lines


@EACH_ERA
async def test_a_log_line_reaches_the_handler_and_the_servers_logger(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = Logging(revision, {"level": "notice", "logger": "db", "data": {"rows": 3}})
    (line,) = await received(server, 1)
    assert (line.server, line.level, line.logger, line.data) == (
        "desk",
        "notice",
        "db",
        {"rows": 3},
    )
    assert line.text == '{"rows":3}'
    (record,) = (r for r in caplog.records if r.name == "mcp_client.server.desk")
    assert (record.levelno, record.getMessage()) == (25, 'db: {"rows":3}')


@pytest.mark.parametrize(
    ("level", "number"),
    [("debug", 10), ("info", 20), ("warning", 30), ("error", 40), ("alert", 50), ("emergency", 50)],
)
async def test_levels_map_to_the_levels_of_logging(
    level: str, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await received(Logging(NEWEST_HANDSHAKE, {"level": level, "data": "x"}), 1)
    assert [r.levelno for r in caplog.records if r.name == "mcp_client.server.desk"] == [number]


async def test_a_log_line_cannot_forge_another_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    evil = "fine\r\n2024 ERROR \x1b[31mforged\u202e"
    server = Logging(LATEST, {"level": "error", "logger": evil, "data": evil})
    (line,) = await received(server, 1)
    assert line.text.isprintable()
    (record,) = (r for r in caplog.records if r.name == "mcp_client.server.desk")
    assert record.getMessage().isprintable()


async def test_a_long_log_line_is_cut_in_text_and_complete_in_data() -> None:
    (line,) = await received(Logging(LATEST, {"level": "info", "data": ["x" * 100_000]}), 1)
    assert len(line.text) < 2_100
    assert line.data == ["x" * 100_000]


@pytest.mark.parametrize(
    ("handlers", "asked"),
    [
        (Handlers(), None),
        (Handlers(log=print), "info"),
        (Handlers(log=print, log_level="error"), "error"),
        (Handlers(log_level="debug"), "debug"),
    ],
)
async def test_in_the_stateless_era_every_request_states_the_level(
    handlers: Handlers, asked: str | None
) -> None:
    server = Logging(LATEST)
    async with connect(MemoryServer(server), approval=allow_all, handlers=handlers) as session:
        await session.call_tool("ask")
        assert set(server.levels[1:]) == {asked}
        await session.set_log_level("alert")
        await session.call_tool("ask")
        assert server.levels[-1] == "alert"
        await session.call_tool("ask", meta={LEVEL: "debug", "com.example/x": 1})
        assert server.levels[-1] == "debug"
    assert server.all("logging/setLevel") == []


@pytest.mark.parametrize(
    ("handlers", "asked"), [(Handlers(log=print), []), (Handlers(log_level="error"), ["error"])]
)
async def test_in_the_handshake_era_the_level_is_set_once(
    handlers: Handlers, asked: list[str]
) -> None:
    server = Logging(NEWEST_HANDSHAKE)
    async with connect(MemoryServer(server), handlers=handlers) as session:
        assert [params["level"] for params in server.all("logging/setLevel")] == asked
        await session.set_log_level("alert")
    assert [params["level"] for params in server.all("logging/setLevel")] == [*asked, "alert"]
    assert not any(server.levels)


async def test_no_level_is_set_on_a_server_without_logging() -> None:
    class Silent(Logging):
        async def __call__(self, message: dict[str, Any], send: Any) -> Any:
            result = await super().__call__(message, send)
            if message.get("method") == "initialize":
                return {**result, "capabilities": {"tools": {}}}
            return result

    server = Silent(NEWEST_HANDSHAKE)
    handlers = Handlers(log_level="error")
    async with connect(MemoryServer(server), handlers=handlers) as session:
        await session.set_log_level("alert")
    assert server.all("logging/setLevel") == []


async def test_the_level_is_set_again_after_a_restart() -> None:
    server = Logging(NEWEST_HANDSHAKE)
    transport = MemoryServer(server)
    async with connect(transport, handlers=Handlers(log_level="error")) as session:
        transport.end()
        await session.list_tools()
        while len(server.all("logging/setLevel")) < 2:
            await anyio.lowlevel.checkpoint()
        assert session.generation == 2


async def test_an_unknown_level_raises_config_error() -> None:
    async with connect(MemoryServer(Logging(LATEST))) as session:
        with pytest.raises(ConfigError, match="loud"):
            await session.set_log_level("loud")


async def test_log_lines_below_the_level_are_dropped() -> None:
    lines = [{"level": level, "data": level} for level in ("debug", "warning", "info", "error")]
    received_lines = await received(Logging(NEWEST_HANDSHAKE, *lines), 2, log_level="warning")
    assert [line.level for line in received_lines] == ["warning", "error"]


def test_a_log_line_that_json_cannot_hold_is_shown_by_its_type() -> None:
    assert server_messages._line({"rate": math.inf}) == "[dict]"


async def test_a_malformed_log_line_is_dropped_and_counted() -> None:
    bad: list[dict[str, Any]] = [{}, {"level": 7, "data": 1}, {"level": "info", "logger": 7}]
    bad += [{"level": None, "data": 1}, {"level": ["info"], "data": 1}]
    server = Logging(NEWEST_HANDSHAKE, *bad, {"level": "info", "data": "sound"})
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.call_tool("ask")
        assert session.stats.dropped_notices == len(bad)


@EACH_ERA
async def test_a_level_that_the_specification_does_not_have_is_shown_at_info(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    lines = [{"level": level, "data": "x"} for level in ("warn", "trace", "\x1b[31m", "info")]
    found = await received(Logging(revision, *lines), 4)
    assert [line.level for line in found] == ["warn", "trace", "\\u{1b}[31m", "info"]
    records = [r for r in caplog.records if r.name == "mcp_client.server.desk"]
    assert [(r.levelno, r.getMessage()) for r in records] == [
        (20, "[warn] x"),
        (20, "[trace] x"),
        (20, "[\\u{1b}[31m] x"),
        (20, "x"),
    ]
    odd = [{"level": "warn", "data": "x"}, {"level": "error", "data": "y"}]
    found = await received(Logging(revision, *odd), 1, log_level="warning")
    assert [line.level for line in found] == ["error"]


async def test_a_flood_of_log_lines_is_cut_each_second_and_counted(
    caplog: pytest.LogCaptureFixture, clock: Clock
) -> None:
    caplog.set_level(logging.DEBUG)
    flood = [{"level": "info", "data": str(n)} for n in range(2_000)]
    server = Logging(NEWEST_HANDSHAKE, *flood)
    async with connect(
        MemoryServer(server), name="desk", approval=allow_all, limits=Limits(log_lines=10)
    ) as session:
        clock.stop()
        await session.call_tool("ask")
        assert session.stats.dropped_notices == 1_990
        clock.jump(1)
        await session.call_tool("ask")
    texts = [r.getMessage() for r in caplog.records if r.name == "mcp_client.server.desk"]
    assert texts == [str(n) for n in range(10)] * 2


@pytest.mark.both_backends
async def test_a_log_handler_that_never_returns_fills_a_bounded_queue_and_delays_no_call() -> None:
    began: list[LogMessage] = []

    async def log(message: LogMessage) -> None:
        began.append(message)
        await anyio.sleep_forever()

    server = Logging(NEWEST_HANDSHAKE, *({"level": "info", "data": n} for n in range(100)))
    async with connect(
        MemoryServer(server),
        approval=allow_all,
        handlers=Handlers(log=log),
        limits=Limits(notices=8),
        timeouts=Timeouts(close=0.05),
    ) as session:
        assert (await session.call_tool("ask")).text == "done"
        while not began:
            await anyio.lowlevel.checkpoint()
        assert session.stats.dropped_notices in (91, 92)
        assert (await session.call_tool("ask")).text == "done"
    assert len(began) == 1


@pytest.mark.both_backends
async def test_a_log_handler_that_raises_gets_the_next_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines: list[Any] = []
    enough = anyio.Event()

    async def log(message: LogMessage) -> None:
        lines.append(message.data)
        if len(lines) == 3:
            enough.set()
        raise ValueError("broken handler")

    server = Logging(LATEST, *({"level": "info", "data": n} for n in range(3)))
    async with connect(
        MemoryServer(server), approval=allow_all, handlers=Handlers(log=log)
    ) as session:
        await session.call_tool("ask")
        await enough.wait()
    assert lines == [0, 1, 2]
    assert caplog.text.count("the log handler raised") == 1


@pytest.mark.both_backends
async def test_a_plain_log_handler_gets_lines_in_order_in_a_thread() -> None:
    import threading

    threads: set[int] = set()
    lines: list[Any] = []

    def log(message: LogMessage) -> None:
        threads.add(threading.get_ident())
        lines.append(message.data)

    server = Logging(LATEST, *({"level": "info", "data": n} for n in range(20)))
    async with connect(
        MemoryServer(server),
        approval=allow_all,
        handlers=Handlers(log=log),
        timeouts=Timeouts(close=30),
    ) as session:
        await session.call_tool("ask")
    assert lines == list(range(20)), "closing delivers what was logged"
    assert threading.get_ident() not in threads


def test_a_request_has_exactly_one_log_level() -> None:
    client = ClientDeclaration(Implementation("c", "1"), {})
    era = StatelessEra(LATEST, ServerFacts(None, {}, None), client)
    assert era.params({}, {LEVEL: "debug"}, None, "info").count(LEVEL) == 1
    assert json.loads(era.params({}, None, None, "info"))["_meta"][LEVEL] == "info"


@pytest.mark.both_backends
async def test_a_failed_connect_leaves_no_log_handler_running() -> None:
    received, let_go = anyio.Event(), anyio.Event()

    async def log(message: LogMessage) -> None:
        received.set()
        try:
            await anyio.sleep_forever()
        finally:
            let_go.set()

    async def server(message: dict[str, Any], send: Any) -> Any:
        params = {"level": "info", "data": "starting"}
        send({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
        await received.wait()
        raise JsonRpcError(-32603, "not today")

    with pytest.raises(ConnectError):
        await connect(MemoryServer(server), handlers=Handlers(log=log), revision="2025-06-18")
    assert let_go.is_set()
