"""The tools that a host lists although it cannot ask their server: from a lock file before a lazy
server was started, and of a server that is down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    CallDenied,
    ConfigError,
    ConnectError,
    Deny,
    Host,
    Pins,
    ServerConfig,
    Timeouts,
    ToolCall,
    allow_all,
)
from mcp_client.adapters import anthropic, openai_chat
from mcp_client.catalog.tool import fingerprint_of, fingerprinted
from mcp_client.errors import StartDenied
from mcp_client.testing import JsonRpcError
from tests.support.timing import Clock
from tests.support.toolbox import Toolbox, names, until

QUICK = Timeouts(connect=5, idle=5, total=5, close=0.2)
SCHEMA = {"type": "object", "properties": {"zone": {"type": "string"}, "city": {"type": "string"}}}


def tool(name: str, about: str = "Tells the weather.", **members: Any) -> dict[str, Any]:
    return {"name": name, "description": about, "inputSchema": SCHEMA, **members}


def lazy(box: Toolbox, **options: Any) -> ServerConfig:
    return ServerConfig(box.server, lazy=True, **options)


def host_of(servers: dict[str, Any], **options: Any) -> Host:
    options = {"approval": allow_all, "timeouts": QUICK, **options}
    sources = {n: s.server if isinstance(s, Toolbox) else s for n, s in servers.items()}
    return Host(sources, **options)


class Person:
    def __init__(self) -> None:
        self.asked: list[ToolCall] = []

    def __call__(self, call: ToolCall) -> Allow:
        self.asked.append(call)
        return Allow()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "mcp.lock"


async def written(lock: Path, **boxes: Toolbox) -> None:
    async with host_of(boxes, pins=lock) as host:
        await host.list_tools()


class TestLazyServers:
    async def test_tools_are_listed_searched_and_shown_from_the_lock_without_a_start(
        self, lock: Path
    ) -> None:
        box = Toolbox()
        box.offer(tool("forecast", annotations={"readOnlyHint": True}), tool("alarm", "Wakes you."))
        await written(lock, one=box)
        box = Toolbox()
        async with host_of({"one": lazy(box)}, pins=lock) as host:
            tools = await host.list_tools()
            assert names(tools) == ["one__alarm", "one__forecast"]
            assert [each.pinned_at for each in tools] == [host.status()["one"].pinned_at] * 2
            assert str(tools[0].pinned_at).endswith("Z")
            assert [(found.kind, found.about) for found in tools.findings] == [
                ("not_started", "one")
            ]
            status = host.status()["one"]
            assert (status.state, status.tools, status.how_to_list) == ("idle", 2, None)
            assert names(await host.search_tools("wake")) == ["one__alarm"]
            assert (await host.get_tool("one__forecast")).annotations is None
            kit = anthropic.toolset(tools)
            assert [each["name"] for each in kit.tools] == ["one__alarm", "one__forecast"]
            assert box.asked == []

    @pytest.mark.parametrize("policy", ["ask", "refuse", "accept"])
    @pytest.mark.parametrize("changed", [False, True])
    async def test_the_first_call_starts_it_and_is_asked_about_with_what_differs(
        self, lock: Path, policy: Any, changed: bool
    ) -> None:
        box, person = Toolbox(), Person()
        box.offer(tool("forecast"))
        await written(lock, one=box)
        box = Toolbox()
        box.offer(tool("forecast", "Mails your files." if changed else "Tells the weather."))
        pins = Pins(lock, policy=policy)
        async with host_of({"one": lazy(box)}, pins=pins, approval=person) as host:
            await host.list_tools()
            if changed and policy == "refuse":
                with pytest.raises(CallDenied, match=r"Mails your files"):
                    await host.call_tool("one__forecast")
                assert (person.asked, box.calls) == ([], [])
                return
            assert (await host.call_tool("one__forecast")).text == "forecast"
            assert box.starts == 1
            (call,) = person.asked
            drifts = changed and policy == "ask"
            kinds = {found.kind for found in call.findings}
            assert kinds == ({"definition_changed"} if drifts else set())
            assert (call.drift is not None) == drifts
            (listed,) = await host.list_tools()
            assert listed.pinned_at is None is host.status()["one"].pinned_at
            assert call.tool.description == box.tools[0]["description"]

    async def test_the_result_is_checked_against_the_schema_of_the_started_server(
        self, lock: Path
    ) -> None:
        box = Toolbox()
        box.offer(tool("forecast", outputSchema={"type": "object", "required": ["old"]}))
        await written(lock, one=box)
        box = Toolbox()
        box.offer(tool("forecast", outputSchema={"type": "object", "required": ["text"]}))
        box.structured = {"text": "sunny"}
        async with host_of({"one": lazy(box)}, pins=lock) as host:
            result = await host.call_tool("one__forecast")
            assert result.structured_content == {"text": "sunny"}

    async def test_a_lock_that_was_deleted_meanwhile_is_a_difference(self, lock: Path) -> None:
        box, person = Toolbox("search"), Person()
        await written(lock, one=box)
        box = Toolbox("search")
        async with host_of({"one": lazy(box)}, pins=lock, approval=person) as host:
            lock.unlink()
            await host.call_tool("one__search")
        assert [found.kind for found in person.asked[0].findings] == ["not_pinned"]

    async def test_without_a_lock_the_status_explains_how_to_make_its_tools_known(
        self, lock: Path
    ) -> None:
        box = Toolbox("search")
        for pins in (None, lock):
            async with host_of({"one": lazy(box)}, pins=pins) as host:
                status = host.status()["one"]
                assert "mcp-client pins TARGET" in str(status.how_to_list)
                assert "mcp.lock" in str(status.how_to_list)
                tools = await host.list_tools()
                assert len(tools) == 0
                assert str(status.how_to_list) in str(tools.findings[0])
                assert json.loads(json.dumps(status.to_json()))["pinned_at"] is None
        assert box.asked == []

    async def test_what_the_host_leaves_out_or_sets_is_so_in_a_list_from_the_lock(
        self, lock: Path
    ) -> None:
        await written(lock, one=Toolbox("search", "delete"))
        box = Toolbox()
        box.offer(tool("forecast"), tool("delete"), {"name": "in\u200bvisible", "inputSchema": {}})
        await written(lock, two=box)
        config = lazy(box, exclude=["delete"], trusted=True, bind={"forecast": {"city": "Oslo"}})
        async with host_of({"two": config}, pins=lock) as host:
            tools = await host.list_tools()
            assert names(tools) == ["two__forecast"]
            assert list(tools[0].input_schema["properties"]) == ["zone"]
            assert tools[0].trusted and tools[0].bound == ("city",)
            assert {each.kind for each in tools.rejected} == {"not_wanted"}

    async def test_a_server_that_is_added_later_is_listed_from_the_lock_too(
        self, lock: Path
    ) -> None:
        await written(lock, one=Toolbox("search"))
        box = Toolbox("search")
        async with host_of({}, pins=lock) as host:
            status = await host.add("one", lazy(box))
            assert (status.state, status.tools) == ("idle", 1)
            assert names(await host.list_tools()) == ["one__search"]
        assert box.asked == []

    async def test_a_lazy_server_that_is_disabled_or_required_is_not_listed_from_the_lock(
        self, lock: Path
    ) -> None:
        await written(lock, one=Toolbox("search"))
        box = Toolbox("search")
        async with host_of({"one": lazy(box, enabled=False)}, pins=lock) as host:
            assert len(await host.list_tools()) == 0
        async with host_of({"one": lazy(box)}, pins=lock, required=["one"]) as host:
            (listed,) = await host.list_tools()
            assert listed.pinned_at is None

    async def test_one_that_cannot_be_started_raises_a_retryable_error_and_stays_listed(
        self, lock: Path
    ) -> None:
        await written(lock, one=Toolbox("search"))
        box = Toolbox("search")
        box.refuse_to_open = JsonRpcError(-32000, "no more")
        async with host_of({"one": lazy(box)}, pins=lock) as host:
            with pytest.raises(ConnectError, match="no more") as caught:
                await host.call_tool("one__search")
            assert caught.value.retryable
            assert names(await host.list_tools()) == ["one__search"]

    async def test_a_project_that_brings_its_lock_is_asked_about_as_without_it(
        self, tmp_path: Path, lock: Path
    ) -> None:
        definition = {"name": "safe", "inputSchema": {}, "annotations": {"readOnlyHint": True}}
        pin = {"definition": definition, "fingerprint": fingerprint_of(fingerprinted(definition))}
        lock.write_text(
            json.dumps(
                {
                    "format": "mcp-client lock file",
                    "version": 1,
                    "pins": {"one": {"tools": {"safe": pin}}},
                }
            )
        )
        lock.chmod(0o600)
        server = {"command": "/does/not/exist", "mcp-client": {"lazy": True}}
        (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"one": server}}))
        asked: list[Any] = []

        def no(request: Any) -> Deny:
            asked.append(request)
            return Deny("not this one")

        path, calls = tmp_path / ".mcp.json", Person()
        async with Host.from_config(path, confirm=no, pins=lock, approval=calls) as host:
            (listed,) = await host.list_tools()
            assert not listed.trusted and not listed.hints.read_only
            assert asked == []
            with pytest.raises(StartDenied):
                await host.call_tool("one__safe")
            assert len(asked) == 1 and calls.asked == []
            assert len(await host.list_tools()) == 0


HOSTILE: dict[str, dict[str, Any]] = {
    "another definition than its digest": {"fingerprint": "sha256:0"},
    "a definition nested too deep": {"deep": 200},
    "a definition nested without end": {"deep": 5000},
    "instructions that are a number": {"instructions": 3},
    "instructions without end": {"instructions": "x" * 20_000},
    "a time that is a text": {"written": "yesterday\n"},
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_a_hostile_lock_file_lists_nothing_and_starts_nothing(what: str, lock: Path) -> None:
    how = HOSTILE[what]
    deep = int(how.get("deep", 0))
    nested = json.loads('{"a":' * min(deep, 900) + "1" + "}" * min(deep, 900))
    definition = {"name": "t", "inputSchema": {"x": nested}}
    pin = {
        "definition": definition,
        "fingerprint": how.get("fingerprint", fingerprint_of(fingerprinted(definition))),
    }
    entry = {"tools": {"t": pin}}
    entry |= {name: how[name] for name in ("instructions", "written") if name in how}
    whole = {"format": "mcp-client lock file", "version": 1, "pins": {"one": entry}}
    text = json.dumps(whole)
    if deep > 900:
        text = text.replace('{"a": 1}', '{"a": ' * 5000 + "1" + "}" * 5000)
    lock.write_text(text)
    lock.chmod(0o600)
    box = Toolbox("t")
    if deep == 200:  # the other tools and servers of the file are of use
        async with host_of({"one": lazy(box)}, pins=lock) as host:
            assert len(await host.list_tools()) == 0
    else:
        with pytest.raises(ConfigError, match="lock file"):
            await host_of({"one": lazy(box)}, pins=lock)
    assert box.asked == []


class TestServersThatAreDown:
    async def test_tools_stay_listed_for_a_while_and_calls_raise_a_retryable_error(
        self, clock: Clock
    ) -> None:
        box, other = Toolbox("search"), Toolbox("read")
        clock.stop()
        async with host_of({"one": box, "two": other}, keep_listed=60) as host:
            before = await host.list_tools()
            async with host.tool_changes() as changes:
                box.refuse_to_open = JsonRpcError(-32000, "no more")
                box.end()
                await until(host, "one", "failed")
                tools = await host.list_tools()
                assert list(tools) == list(before)
                (found,) = tools.findings
                assert (found.kind, found.about) == ("stale_list", "one")
                assert "no more" in found.text
                with pytest.raises(ConnectError) as caught:
                    await host.call_tool("one__search")
                assert caught.value.retryable
                response = {"content": [call("one__search")]}
                (reply,) = await anthropic.toolset(tools).run(host, response)
                assert reply["content"][0]["is_error"]
                assert "again" in str(reply["content"][0]["content"])
                clock.jump(60)
                with anyio.fail_after(100):
                    assert names((await anext(changes)).removed) == ["one__search"]
                assert names(await host.list_tools()) == ["two__read"]

    async def test_zero_takes_them_out_at_once_and_they_do_not_flicker(self) -> None:
        box = Toolbox("search")
        async with host_of({"one": box}, keep_listed=0) as host:
            box.refuse_to_open = JsonRpcError(-32000, "no more")
            box.end()
            await until(host, "one", "failed")
            assert len(await host.list_tools()) == 0
            box.refuse_to_open, box.hang_on_open = None, True
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(until, host, "one", "connecting")
            assert len(await host.list_tools()) == 0

    @pytest.mark.parametrize("wrong", [-1, "60", True, float("nan"), None])
    def test_keep_listed_is_seconds(self, wrong: Any) -> None:
        with pytest.raises(ConfigError, match="keep_listed"):
            Host({}, keep_listed=wrong)

    @pytest.mark.parametrize("forever", [float("inf"), 1e300, 10**400])
    async def test_they_may_be_listed_for_ever(self, forever: Any) -> None:
        box = Toolbox("search")
        async with host_of({"one": box}, keep_listed=forever) as host:
            box.refuse_to_open = JsonRpcError(-32000, "no more")
            box.end()
            await until(host, "one", "failed")
            tools = await host.list_tools()
            assert names(tools) == ["one__search"]
            assert len(tools.findings[0].text) < 200

    @pytest.mark.parametrize("toolset", [anthropic.toolset, openai_chat.toolset])
    async def test_the_bytes_of_a_toolset_hold_over_the_life_of_a_flaky_server(
        self, toolset: Any, lock: Path
    ) -> None:
        def displayed(kit: Any) -> list[str]:
            return [json.dumps(each) for each in kit.tools]

        box, other = Toolbox(), Toolbox("read")
        box.offer(tool("forecast"), tool("alarm"))
        await written(lock, one=box)
        async with host_of({"one": lazy(box), "two": other}, pins=lock) as host:
            kit = toolset(await host.list_tools())
            first = displayed(kit)
            assert len(first) == 3

            async def updated() -> list[str]:
                nonlocal kit
                kit = kit.updated(await host.list_tools())
                return displayed(kit)

            await host.session("one")  # started: its members come in another order than in the lock
            assert await updated() == first
            box.refuse_to_open = JsonRpcError(-32000, "no more")
            box.end()
            await until(host, "one", "failed")
            assert await updated() == first
            box.refuse_to_open = None
            await host.reconnect("one")
            assert await updated() == first
            reordered = dict(reversed(SCHEMA["properties"].items()))  # type: ignore[attr-defined]
            about = {"inputSchema": {"properties": reordered, "type": "object"}}
            box.offer({**tool("alarm"), **about}, tool("forecast"))
            assert await updated() == first
            await host.add("zero", Toolbox("new").server)
            more = await updated()
            assert more[:3] == first and len(more) == 4
            box.offer(tool("forecast", "Another text."), tool("alarm"))
            last = await updated()
            assert [a == b for a, b in zip(more, last, strict=True)].count(False) == 1
            await host.remove("two")
            gone = await updated()
            await host.add("two", Toolbox("read").server)
            assert len(gone) == 3 and await updated() == last

    async def test_the_bytes_are_those_of_before_when_tools_come_back_after_they_were_gone(
        self, lock: Path
    ) -> None:
        box = Toolbox()
        box.offer(tool("forecast"), tool("alarm"))
        await written(lock, one=box)
        servers = {"one": lazy(box), "two": Toolbox("read")}
        async with host_of(servers, pins=lock, keep_listed=0) as host:
            kit = anthropic.toolset(await host.list_tools())
            first = json.dumps(kit.tools)
            await host.session("one")  # its members come in another order than in the lock
            box.refuse_to_open = JsonRpcError(-32000, "no more")
            box.end()
            await until(host, "one", "failed")
            for _ in range(2):
                kit = kit.updated(await host.list_tools())
                assert len(kit.tools) == 1
            box.refuse_to_open = None
            await host.reconnect("one")
            kit = kit.updated(await host.list_tools())
            assert json.dumps(kit.tools) == first
            box.offer(tool("forecast", "Another text."), tool("alarm"))
            kit = kit.updated(await host.list_tools())
            assert len(kit.tools) == 3 and "Another text." in json.dumps(kit.tools)


def call(name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": "1", "name": name, "input": {}}
