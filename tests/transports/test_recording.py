"""``connect(record=...)`` and ``ReplayServer``: what is kept, and played again."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import (
    Accept,
    ConfigError,
    ConnectError,
    ConnectionLost,
    ElicitRequest,
    Handlers,
    HttpServer,
    MemoryServer,
    ReplayServer,
    ServerError,
    StdioServer,
    Tool,
    allow_all,
    connect,
)
from tests.server.http_apps import Handshake, Stateless
from tests.server.http_server import serving
from tests.server.start import scripted

SERVER = Path(__file__).parents[1] / "server" / "asking_stdio.py"
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
    async with connect(MemoryServer(Vault()), approval=allow_all, record=path) as session:
        return [(await session.call_tool("open", arguments)).text for arguments in calls]


class TestARecord:
    async def test_is_for_its_owner_only_and_says_its_format(
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
            async with connect([sys.executable, "-c", look], record=path):
                pass
        assert caught.value.exit_code == 7

    async def test_continues_over_a_restart_of_the_server(
        self, tmp_path: Path, anyio_backend: str
    ) -> None:
        path = tmp_path / "r.jsonl"
        async with connect(scripted(), approval=allow_all, record=path) as session:
            await session.call_tool("echo", {"n": 1})
            with pytest.raises(ConnectionLost):
                await session.call_tool("kill")
            await session.call_tool("echo", {"n": 2})
        kept = lines(path)
        assert sum("mcp-client-record" in line for line in kept) == 1
        assert [line["error"] for line in kept if "failed" in line] == ["ConnectionLost"]
        echoes = [one for one in kept if one.get("params", {}).get("name") == "echo"]
        assert [one["params"]["arguments"] for one in echoes] == [{"n": 1}, {"n": 2}]

    async def test_of_a_path_that_cannot_be_written_is_a_config_error(
        self, tmp_path: Path, anyio_backend: str
    ) -> None:
        target = tmp_path / "target"
        target.write_text("kept")
        (tmp_path / "link").symlink_to(target)
        for path in (tmp_path / "missing" / "r.jsonl", tmp_path, tmp_path / "link"):
            with pytest.raises(ConfigError, match="record="):
                async with connect(MemoryServer(Vault()), record=path):
                    pass
        assert target.read_text() == "kept"
        with pytest.raises(ConfigError, match="give the path of a file"):
            connect(MemoryServer(Vault()), record=True)  # type: ignore[arg-type]

    async def test_that_cannot_be_continued_ends_no_call(
        self, tmp_path: Path, anyio_backend: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = tmp_path / "r.jsonl"
        server = MemoryServer(Vault())
        async with connect(server, approval=allow_all, record=path) as session:
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
        assert [one.message for one in caplog.records if "ends here" in one.message]


class TestAReplay:
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
                server or ReplayServer(path),
                approval=allow_all,
                handlers=Handlers(elicitation=elicit),
                **({"record": path} if server else {}),  # type: ignore[arg-type]
            ) as session:
                texts.append((await session.call_tool("form")).text)
        assert "Ada" in texts[0]
        assert texts[0] == texts[1]
        assert asked == ["Who are you?"] * 2

    @pytest.mark.parametrize("era", ["handshake", "stateless"])
    async def test_tells_progress_and_log_lines_again(
        self, era: str, tmp_path: Path, anyio_backend: str
    ) -> None:
        path = tmp_path / "r.jsonl"
        told: list[Any] = []
        for server in (scripted("--era", era), None):
            async with connect(
                server or ReplayServer(path),
                approval=allow_all,
                **({"record": path} if server else {}),  # type: ignore[arg-type]
            ) as session:
                if server is None:
                    await session.ping()  # ids are others than when it was recorded
                await session.call_tool(
                    "flood-progress", {"count": 3}, on_progress=lambda *args: told.append(args[0])
                )
        assert told == [0, 1, 2] * 2

    async def test_of_a_process_that_was_killed_answers_what_was_answered(
        self, tmp_path: Path, anyio_backend: str
    ) -> None:
        path = tmp_path / "r.jsonl"
        await recorded(path, {}, {"place": "Rome"})
        data = path.read_bytes()
        path.write_bytes(data[: data.rindex(b'{"answer"') + 20])
        async with connect(ReplayServer(path), approval=allow_all) as session:
            assert (await session.call_tool("open", {})).text.startswith("call 1")
            with pytest.raises(ServerError, match="had no answer when it was recorded"):
                await session.call_tool("open", {"place": "Rome"})

    def test_of_what_is_no_record_is_a_config_error(self, tmp_path: Path) -> None:
        path = tmp_path / "r.jsonl"
        head = '{"mcp-client-record":1,"server":"s","key":"00"}\n'
        for text in [
            "",
            "\n",
            "[]\n",
            "{}\n",
            '{"mcp-client-record":99,"key":"00"}\n',
            '{"mcp-client-record":1,"key":"zz"}\n',
            head + "nonsense\n",
            head + '{"request":1}\n',
            head + '{"answer":1,"result":{}}\n',
            head + '{"request":1,"id":1,"method":"m","params":3,"digest":""}\n',
        ]:
            path.write_text(text)
            with pytest.raises(ConfigError, match="ReplayServer"):
                ReplayServer(path)
        path.write_bytes(b"\xff\xfe\n")
        with pytest.raises(ConfigError):
            ReplayServer(path)
        with pytest.raises(ConfigError, match="No such file"):
            ReplayServer(tmp_path / "missing")


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
            async with connect(server, approval=allow_all, record=path) as session:
                first = (await session.call_tool("echo", {"n": 1})).text
        async with connect(ReplayServer(path), approval=allow_all) as session:
            assert (await session.call_tool("echo", {"n": 1})).text == first
    assert TOKEN not in path.read_text()
    assert PASSWORD.replace(" ", "-") not in path.read_text()
