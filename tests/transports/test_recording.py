"""``Recording`` and ``ReplayServer``: what is stored, and played again."""

from __future__ import annotations

import base64
import errno
import json
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import (
    ConfigError,
    ConnectError,
    Handlers,
    HttpServer,
    MemoryServer,
    ServerError,
    StdioServer,
    Tool,
    allow_all,
    connect,
)
from mcp_client.errors import ConnectionLost
from mcp_client.handlers import Accept, ElicitRequest
from mcp_client.testing import Recording, ReplayServer
from tests.support.http_apps import Handshake, Stateless
from tests.support.http_server import Reply, Request, serving
from tests.support.starting import scripted

SERVER = Path(__file__).parents[1] / "support" / "asking_stdio.py"
PASSWORD = "correct horse battery"
TOKEN = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"


def asking(era: str) -> StdioServer:
    return StdioServer(sys.executable, ["-IS", str(SERVER), era])


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class Vault:
    """Tools with secrets in arguments and results, which count their calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, message: dict[str, Any]) -> Any:
        if message["method"] == "tools/list":
            schema = {
                "type": "object",
                "properties": {
                    "password": {"type": "string", "default": "changeme"},
                    "pin": {"type": "string", "writeOnly": True},
                    "place": {"type": "string"},
                },
            }
            return {"tools": [{"name": "open", "inputSchema": schema}]}
        if message["method"] == "tools/call":
            self.calls += 1
            text = f"call {self.calls} at {message['params']['arguments'].get('place')}: {TOKEN}"
            return {"content": [{"type": "text", "text": text}]}
        return NotImplemented


async def recorded(path: Path, *calls: dict[str, Any]) -> list[str]:
    async with connect(Recording(MemoryServer(Vault()), path), approval=allow_all) as session:
        return [(await session.call_tool("open", arguments)).text for arguments in calls]


class TestARecord:
    async def test_of_two_pins_is_the_same_so_that_neither_can_be_found_in_it(
        self, tmp_path: Path, anyio_backend: str
    ) -> None:
        path = tmp_path / "r.jsonl"
        stored = []
        for pin, code in [("123456", 4711), ("654321", 1147)]:
            shared = {"password": code, "place": f"otp={pin}"}
            await recorded(path, {"pin": pin, **shared}, {"pin": pin, "place": "x"}, shared)
            stored.append(path.read_bytes())
        assert stored[0] == stored[1]

    async def test_leaves_out_what_a_server_repeats_of_arguments_that_were_left_out(
        self, tmp_path: Path, anyio_backend: str
    ) -> None:
        path = tmp_path / "r.jsonl"
        echo = base64.b64encode(b"you said " + PASSWORD.encode()).decode()

        def server(message: dict[str, Any]) -> Any:
            if message["method"] == "tools/list":
                return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
            if message["method"] == "tools/call":
                return {"content": [{"type": "text", "text": f"not {PASSWORD}, nor {echo}"}]}
            return NotImplemented

        async with connect(Recording(MemoryServer(server), path), approval=allow_all) as session:
            await session.call_tool("echo", {"password": PASSWORD})
        assert PASSWORD not in path.read_text()
        assert echo[16:32] not in path.read_text()

    async def test_is_for_its_owner_only_and_names_its_format(
        self, tmp_path: Path, anyio_backend: str
    ) -> None:
        path = tmp_path / "r.jsonl"
        path.write_text("of before")
        path.chmod(0o644)
        await recorded(path, {})
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert lines(path)[0]["mcp-client-record"] == 1

    async def test_holds_no_secret_of_arguments_or_results(
        self, tmp_path: Path, anyio_backend: str
    ) -> None:
        path = tmp_path / "r.jsonl"
        await recorded(path, {"password": PASSWORD, "pin": "quiet zebra", "place": "Oslo"})
        text = path.read_text()
        assert PASSWORD not in text
        assert "quiet zebra" not in text
        assert TOKEN not in text
        assert '"place":"Oslo"' in text

    async def test_shows_definitions_as_they_are(self, tmp_path: Path, anyio_backend: str) -> None:
        path = tmp_path / "r.jsonl"
        await recorded(path, {})
        async with connect(ReplayServer(path)) as session:
            tool: Tool = await session.get_tool("open")
        assert tool.input_schema["properties"]["password"] == {
            "type": "string",
            "default": "changeme",
        }

    async def test_is_there_before_the_server_starts(
        self, tmp_path: Path, anyio_backend: str
    ) -> None:
        path = tmp_path / "r.jsonl"
        look = f"import os, sys; sys.exit(os.path.getsize({str(path)!r}) > 0 and 7)"
        with pytest.raises(ConnectError) as caught:
            async with connect(Recording([sys.executable, "-c", look], path)):
                pass
        assert caught.value.exit_code == 7

    async def test_continues_over_a_restart_of_the_server(
        self, tmp_path: Path, anyio_backend: str
    ) -> None:
        path = tmp_path / "r.jsonl"
        async with connect(Recording(scripted(), path), approval=allow_all) as session:
            await session.call_tool("echo", {"n": 1})
            with pytest.raises(ConnectionLost):
                await session.call_tool("kill")
            await session.call_tool("echo", {"n": 2})
        stored = lines(path)
        assert sum("mcp-client-record" in line for line in stored) == 1
        assert [line["error"] for line in stored if "failed" in line] == ["ConnectionLost"]
        echoes = [one for one in stored if one.get("params", {}).get("name") == "echo"]
        assert [one["params"]["arguments"] for one in echoes] == [{"n": 1}, {"n": 2}]

    async def test_of_a_path_that_cannot_be_written_is_a_config_error(
        self, tmp_path: Path, anyio_backend: str
    ) -> None:
        target = tmp_path / "target"
        target.write_text("kept")
        (tmp_path / "link").symlink_to(target)
        for path in (tmp_path / "missing" / "r.jsonl", tmp_path, tmp_path / "link"):
            with pytest.raises(ConfigError, match=r"Recording\("):
                async with connect(Recording(MemoryServer(Vault()), path)):
                    pass
        assert target.read_text() == "kept"
        with pytest.raises(ConfigError, match="give the path of a file"):
            Recording(MemoryServer(Vault()), True)  # type: ignore[arg-type]

    async def test_that_cannot_be_continued_ends_no_call(
        self, tmp_path: Path, anyio_backend: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = tmp_path / "r.jsonl"
        server = MemoryServer(Vault())
        async with connect(Recording(server, path), approval=allow_all) as session:
            await session.list_tools()
            # The descriptor of the record now leads to a device that is always full.
            number = next(
                int(name)
                for name in os.listdir("/proc/self/fd")
                if os.path.realpath(f"/proc/self/fd/{name}") == str(path)
            )
            full = os.open("/dev/full", os.O_WRONLY)
            os.dup2(full, number)
            os.close(full)
            assert (await session.call_tool("open", {})).text.startswith("call 1")
            assert (await session.call_tool("open", {})).text.startswith("call 2")
        assert [one.message for one in caplog.records if "cannot write more" in one.message]


RECORD = [
    {"mcp-client-record": 1, "server": "s"},
    {"request": 1, "id": 1, "method": "tools/call", "params": {"a": "[redacted]"}, "secrets": [1]},
    {"notice": 1, "method": "notifications/progress", "params": {"progressToken": 1}},
    {"question": 1, "id": 7, "method": "elicitation/create", "params": {}},
    {"reply": 7, "result": {"action": "decline"}},
    {"answer": 1, "result": {"content": []}},
    {"request": 2, "id": 2, "method": "ping", "params": {}},
    {"answer": 2, "error": {"code": -1, "message": "no", "data": {"a": [1]}}},
    {"request": 3, "id": 3, "method": "tools/list", "params": {}},
    {"failed": 3, "error": "CallTimeout", "message": "late"},
]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


def _mutated(record: list[dict[str, Any]], draw: Any) -> bytes:
    """A record with a member of a line replaced or left out, or with bytes replaced."""
    lines = json.loads(json.dumps(record))
    for _ in range(draw(st.integers(1, 3))):
        holder = draw(st.sampled_from(lines))
        for _ in range(draw(st.integers(0, 2))):
            inner = [each for each in holder.values() if isinstance(each, dict) and each]
            holder = draw(st.sampled_from(inner)) if inner else holder
        name = draw(st.sampled_from(sorted(holder) or ["a"]))
        if draw(st.booleans()):
            holder.pop(name, None)
        else:
            holder[name] = draw(JUNK)
    data = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    if draw(st.booleans()):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=4)) + data[at + draw(st.integers(0, 9)) :]
    return data


class TestAReplay:
    async def test_distinguishes_values_that_are_left_out_by_the_order_they_come_in(
        self, tmp_path: Path, anyio_backend: str
    ) -> None:
        path = tmp_path / "r.jsonl"
        passed = [{"pin": "111111"}, {"pin": "222222"}, {"pin": "111111"}]
        await recorded(path, *passed)
        async with connect(ReplayServer(path), approval=allow_all) as session:
            texts = [(await session.call_tool("open", each)).text[:6] for each in passed]
            with pytest.raises(ServerError, match="/arguments/pin"):
                await session.call_tool("open", {"pin": "333333"})
            again = await session.call_tool("open", {"pin": "[redacted]"})
        assert texts == ["call 1", "call 2", "call 3"]
        assert again.text.startswith("call 3")

    async def test_knows_what_is_around_a_secret_in_a_text(
        self, tmp_path: Path, anyio_backend: str
    ) -> None:
        path = tmp_path / "r.jsonl"
        await recorded(path, {"place": f"curl -H 'Authorization: Bearer {TOKEN}' x"})
        async with connect(ReplayServer(path), approval=allow_all) as session:
            place = "curl -H 'Authorization: Bearer {}' {}"
            with pytest.raises(ServerError, match="/arguments/place"):
                await session.call_tool("open", {"place": place.format(TOKEN, "y")})
            assert (await session.call_tool("open", {"place": place.format("mine", "x")})).text

    async def test_answers_the_same_requests_in_any_order(
        self, tmp_path: Path, anyio_backend: str
    ) -> None:
        path = tmp_path / "r.jsonl"
        places = ["Oslo", "Rome", "Lima"]
        texts = await recorded(path, *({"place": place} for place in places))
        async with connect(ReplayServer(path), approval=allow_all) as session:
            for place, text in reversed(list(zip(places, texts, strict=True))):
                again = await session.call_tool("open", {"place": place})
                assert again.text == text.replace(TOKEN, "[redacted]")

    async def test_knows_a_secret_again_that_is_not_in_the_record(
        self, tmp_path: Path, anyio_backend: str
    ) -> None:
        path = tmp_path / "r.jsonl"
        await recorded(path, {"password": PASSWORD})
        async with connect(ReplayServer(path), approval=allow_all) as session:
            assert (await session.call_tool("open", {"password": PASSWORD})).text
            with pytest.raises(ServerError, match="/arguments/password"):
                await session.call_tool("open", {"password": "another"})

    async def test_answers_repeated_requests_in_turn_and_then_as_last(
        self, tmp_path: Path, anyio_backend: str
    ) -> None:
        path = tmp_path / "r.jsonl"
        await recorded(path, {}, {})
        async with connect(ReplayServer(path), approval=allow_all) as session:
            texts = [(await session.call_tool("open", {})).text[:6] for _ in range(3)]
        assert texts == ["call 1", "call 2", "call 2"]

    async def test_names_what_differs(self, tmp_path: Path, anyio_backend: str) -> None:
        path = tmp_path / "r.jsonl"
        await recorded(path, {"place": "Oslo", "pin": "1"})
        async with connect(ReplayServer(path), approval=allow_all) as session:
            with pytest.raises(
                ServerError, match=r"line \d+\), but it differs in /arguments/place"
            ):
                await session.call_tool("open", {"place": "Rome", "pin": "1"})
            await session.ping()

    @pytest.mark.parametrize("era", ["handshake", "stateless"])
    async def test_asks_back_as_the_server_did(
        self, era: str, tmp_path: Path, anyio_backend: str
    ) -> None:
        path = tmp_path / "r.jsonl"
        asked: list[str] = []

        def elicit(request: ElicitRequest) -> Accept:
            asked.append(request.message)
            return Accept({"name": "Ada"})

        texts = []
        for server in (asking(era), None):
            async with connect(
                Recording(server, path) if server else ReplayServer(path),
                approval=allow_all,
                handlers=Handlers(elicitation=elicit),
            ) as session:
                texts.append((await session.call_tool("form")).text)
        assert "Ada" in texts[0]
        assert texts[0] == texts[1]
        assert asked == ["Who are you?"] * 2

    @pytest.mark.parametrize("era", ["handshake", "stateless"])
    async def test_repeats_progress_and_log_lines(
        self, era: str, tmp_path: Path, anyio_backend: str
    ) -> None:
        path = tmp_path / "r.jsonl"
        reported: list[Any] = []
        for server in (scripted("--era", era), None):
            async with connect(
                Recording(server, path) if server else ReplayServer(path),
                approval=allow_all,
            ) as session:
                if server is None:
                    await session.ping()  # ids are others than when it was recorded
                await session.call_tool(
                    "flood-progress",
                    {"count": 3},
                    on_progress=lambda *args: reported.append(args[0]),
                )
        assert reported == [0, 1, 2] * 2

    async def test_of_a_process_that_was_killed_answers_what_was_answered(
        self, tmp_path: Path, anyio_backend: str
    ) -> None:
        path = tmp_path / "r.jsonl"
        await recorded(path, {}, {"place": "Rome"})
        data = path.read_bytes()
        path.write_bytes(data[: data.rindex(b'{"answer"') + 20])
        async with connect(ReplayServer(path), approval=allow_all) as session:
            assert (await session.call_tool("open", {})).text.startswith("call 1")
            with pytest.raises(ServerError, match="had no response when it was recorded"):
                await session.call_tool("open", {"place": "Rome"})

    def test_of_what_is_not_a_record_is_a_config_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "r.jsonl"
        head = '{"mcp-client-record":1,"server":"s"}\n'
        request = '{"request":1,"id":1,"method":"m","params":{}}\n'
        for text in [
            "",
            "\n",
            "[]\n",
            "{}\n",
            '{"mcp-client-record":99}\n',
            head + "nonsense\n",
            head + '{"request":1}\n',
            head + '{"answer":1,"result":{}}\n',
            head + '{"answer":[],"result":{}}\n',
            head + '{"request":1,"id":1,"method":"m","params":3}\n',
            head + '{"request":1,"id":1,"method":"m","params":"text"}\n',
            head + '{"request":1,"id":1,"method":"m","params":{},"secrets":["1"]}\n',
            head + '{"request":[],"id":1,"method":"m","params":{}}\n',
            head + '{"request":1,"id":{},"method":3,"params":{}}\n',
            head + request + '{"answer":1,"error":"no"}\n',
            head + request + '{"answer":1,"error":{"code":"1","message":"x"}}\n',
            head + request + '{"answer":1,"result":NaN}\n',
            head + request + '{"notice":1,"method":"m","params":[1]}\n',
            head + request + '{"question":1,"id":1,"method":"m","params":"ab"}\n',
            head + request + '{"failed":1,"error":3,"message":"x"}\n',
        ]:
            path.write_text(text)
            with pytest.raises(ConfigError, match="ReplayServer"):
                ReplayServer(path)
        path.write_bytes(b"\xff\xfe\n")
        with pytest.raises(ConfigError):
            ReplayServer(path)
        with pytest.raises(ConfigError, match="No such file"):
            ReplayServer(tmp_path / "missing")

        def fails(file: int) -> Any:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as broken:
            broken.setattr(os, "fstat", fails)
            with pytest.raises(ConfigError, match=r"ReplayServer\(.*\): Input/output error$"):
                ReplayServer(path)

    async def test_of_what_is_not_a_regular_file_is_refused_at_once(
        self, tmp_path: Path, anyio_backend: str
    ) -> None:
        os.mkfifo(tmp_path / "fifo")
        writer = os.open(tmp_path / "fifo", os.O_RDWR)  # its end ends a thread that reads
        try:
            for path in (tmp_path / "fifo", tmp_path, Path("/dev/zero")):
                with anyio.fail_after(60), pytest.raises(ConfigError, match="ReplayServer"):
                    await anyio.to_thread.run_sync(ReplayServer, path, abandon_on_cancel=True)
        finally:
            os.close(writer)

    @given(data=st.data())
    def test_of_a_record_that_was_changed_is_a_config_error_or_a_server(
        self, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        path = tmp_path_factory.getbasetemp() / "mutated.jsonl"
        path.write_bytes(_mutated(RECORD, data.draw))
        with suppress(ConfigError):
            ReplayServer(path)


@pytest.mark.parametrize("sse", [False, True])
@pytest.mark.parametrize("app", [Stateless, Handshake])
async def test_a_session_over_http_is_recorded_and_replayed(
    app: type[Stateless | Handshake], sse: bool, tmp_path: Path, anyio_backend: str
) -> None:
    path = tmp_path / "r.jsonl"
    with anyio.fail_after(60):
        async with serving(app(sse=sse)) as served:
            url = f"{served.url}?api_key={PASSWORD.replace(' ', '-')}"
            server = HttpServer(url, headers={"Authorization": f"Bearer {TOKEN}"})
            async with connect(Recording(server, path), approval=allow_all) as session:
                first = (await session.call_tool("echo", {"n": 1})).text
        async with connect(ReplayServer(path), approval=allow_all) as session:
            assert (await session.call_tool("echo", {"n": 1})).text == first
    assert TOKEN not in path.read_text()
    assert PASSWORD.replace(" ", "-") not in path.read_text()


async def test_a_bearer_token_that_a_list_repeats_is_not_in_the_record(
    tmp_path: Path, anyio_backend: str
) -> None:
    path, token = tmp_path / "r.jsonl", "abcdEFGH0123-token-of-mine"
    app = Stateless()

    async def handler(request: Request, reply: Reply) -> None:
        if request.method != "POST" or request.message.get("method") != "tools/list":
            await app(request, reply)
            return
        reported = request.headers.get("authorization")
        schema = {"type": "object", "properties": {"a": {"default": reported, "enum": [reported]}}}
        tool = {"name": "t", "description": f"sent with {reported}", "inputSchema": schema}
        result = {"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        await reply.json({"jsonrpc": "2.0", "id": request.message["id"], "result": result})

    async with serving(handler) as served:
        server = HttpServer(served.url, auth=lambda: token)
        async with connect(Recording(server, path), approval=allow_all) as session:
            (tool,) = await session.list_tools()
    assert token in str(tool.description)
    assert '"description":"sent with Bearer [redacted]"' in path.read_text()
    assert token not in path.read_text()
