"""``toolset(code=True)``: three tools for a model in place of all, for every provider."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from mcp_client import ConfigError, Host, MemoryServer, ServerConfig, allow_all, sync
from tests.support.provider_shapes import ANTHROPIC, CHAT, Provider, Wanted, every_provider
from tests.support.schemas import tool_of
from tests.support.worlds import Server, opened

SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
TOOLS = [
    tool_of(SCHEMA, "create_event", description="Put an appointment into a calendar."),
    tool_of({"type": "object"}, "send-letter", description="Send a letter by electronic mail."),
    *[tool_of({"type": "object"}, f"other_{n}", description="Nothing of use.") for n in range(50)],
]
OWN = ["search_tools", "describe_tools", "run_code"]


def scripts(provider: Provider, *codes: Any) -> dict[str, Any]:
    wanted: list[Wanted] = [(str(n), "run_code", {"code": code}) for n, code in enumerate(codes)]
    return provider.response(wanted)


@every_provider
@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
def test_a_model_is_shown_three_tools_whatever_there_are(provider: Provider, strict: bool) -> None:
    few = provider.toolset(TOOLS[:1], code=True, strict=strict)
    many = provider.toolset(TOOLS, code=True, strict=strict)
    assert few.tools == many.tools == few.updated(TOOLS).tools
    assert [one["name"] for one in provider.declarations(few)] == OWN
    assert provider.schemas(few)["run_code"]["required"] == ["code"]
    assert many.names == {}
    assert many.changes == ()


@every_provider
async def test_a_search_and_a_description_state_how_a_tool_is_called(provider: Provider) -> None:
    kit = provider.toolset(TOOLS, code=True)
    wanted: list[Wanted] = [
        ("1", "search_tools", {"query": "calendar appointment"}),
        ("2", "describe_tools", {"names": ["server.create_event", "server.nothing"]}),
        ("3", "search_tools", {"query": "letter mail"}),
    ]
    found = dict(provider.raw_replies(await kit.run(None, provider.response(wanted))))
    for id in ("1", "2"):
        assert "class server:" in found[id]
        assert "create_event(*, title: str)" in found[id]
        assert "Put an appointment into a calendar." in found[id]
    assert "Unknown tool 'server.nothing'" in found["2"]
    assert "async def send_letter_" in found["3"]


@every_provider
async def test_a_script_is_run_and_its_output_is_the_response(provider: Provider) -> None:
    server = Server()
    async with opened(server) as session:
        kit = provider.toolset(await session.list_tools(), code=True)
        codes = "print(await desk.echo(text='hi'))\n2", "1 / 0", "", "x = 1", 5, "#" * 100_001
        messages = await kit.run(session, scripts(provider, *codes))
    answers = [text for _, text in provider.replies(messages)]
    assert answers[0].endswith("instructions):\nhi\n2")
    assert "ZeroDivisionError: division by zero" in answers[1]
    assert (
        answers[2] == answers[4] == "Nothing was run. Give the argument 'code': the Python to run."
    )
    assert answers[3].endswith("The script ended without output: print the values that you need.")
    assert answers[5] == "Nothing was run. The code has more than 100,000 characters."
    if provider is ANTHROPIC:
        failed = [block.get("is_error", False) for block in messages[0]["content"]]
        assert failed == [False, True, True, False, True, True]


async def test_a_tool_that_is_always_shown_is_called_as_any_other_and_others_are_not() -> None:
    server = Server()
    async with opened(server) as session:
        kit = CHAT.toolset(await session.list_tools(), code=True, always=["ec*"])
        assert [one["name"] for one in CHAT.declarations(kit)] == [*OWN, "echo"]
        wanted: list[Wanted] = [("1", "echo", {"text": "x"}), ("2", "fail", {})]
        reply = CHAT.replies(await kit.run(session, CHAT.response(wanted)))
    assert reply[0][1].endswith("x")
    assert "Unknown tool 'fail'. Call tools within run_code" in reply[1][1]
    assert server.ran == [("echo", {"text": "x"})]


async def test_a_large_output_is_stored_to_be_read() -> None:
    async with opened(Server()) as session:
        kit = CHAT.toolset(await session.list_tools(), code=True, large_results="keep")
        assert [one["name"] for one in CHAT.declarations(kit)] == [*OWN, "read_result"]
        response = scripts(CHAT, "print('a' * 3000 + 'needle')")
        ((_, reply),) = CHAT.raw_replies(await kit.run(session, response, max_chars=1_000))
        assert "read_result" in reply
        assert len(reply) < 2_000


async def test_the_tools_of_a_host_are_called_by_server() -> None:
    first, second = Server(), Server()
    servers: dict[str, Any] = {
        "one": MemoryServer(first),
        "the-other": ServerConfig(MemoryServer(second)),
    }
    async with Host(servers, approval=allow_all) as host:
        kit = CHAT.toolset(await host.list_tools(), code=True)
        search: list[Wanted] = [("1", "search_tools", {"query": "echo"})]
        ((_, found),) = CHAT.raw_replies(await kit.run(host, CHAT.response(search)))
        assert "class one:" in found
        other = next(w.rstrip(":") for w in found.split() if w.startswith("the_other_"))
        code = f"print(await one.echo(text='a'))\nprint(await {other}.echo(text='b'))"
        ((_, reply),) = CHAT.replies(await kit.run(host, scripts(CHAT, code)))
    assert reply.endswith("a\nb")
    assert (first.ran, second.ran) == ([("echo", {"text": "a"})], [("echo", {"text": "b"})])


def test_scripts_are_run_in_threads_too() -> None:
    with sync.connect(MemoryServer(Server()), name="desk", approval=allow_all) as session:
        kit = CHAT.toolset(session.list_tools(), code=True)
        ((_, reply),) = CHAT.replies(kit.run(session, scripts(CHAT, "await desk.echo(text='x')")))
    assert reply.endswith("x")


async def test_too_many_scripts_of_one_response_are_not_run() -> None:
    async with opened(Server()) as session:
        kit = CHAT.toolset(await session.list_tools(), code=True)
        reply = CHAT.replies(await kit.run(session, scripts(CHAT, *["1"] * 10)))
    assert [text.startswith("Nothing was run. At most 8") for _, text in reply] == (
        [False] * 8 + [True] * 2
    )


async def test_what_only_has_call_tool_cannot_make_the_calls_of_a_script() -> None:
    class Other:
        async def call_tool(self, name: str, arguments: Any = None) -> Any:
            raise AssertionError

    kit = CHAT.toolset(TOOLS, code=True)
    with pytest.raises(ConfigError, match="give it a Session or a Host"):
        await kit.run(Other(), scripts(CHAT, "1"))


def test_without_the_package_the_option_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    with pytest.raises(ConfigError, match=r'pip install "mcp-client-host\[code\]"'):
        CHAT.toolset(TOOLS, code=True)


@pytest.mark.slow
def test_a_program_that_runs_no_script_loads_nothing_of_it() -> None:
    program = (
        "import sys\n"
        "from mcp_client import MemoryServer, allow_all, sync\n"
        "from mcp_client.adapters import openai_chat\n"
        "tools = {'tools': [{'name': 'a', 'inputSchema': {'type': 'object'}}]}\n"
        "answers = {'tools/list': tools, 'tools/call': {'content': []}}\n"
        "server = MemoryServer(lambda m: answers.get(m['method'], NotImplemented))\n"
        "with sync.connect(server, approval=allow_all) as session:\n"
        "    kit = openai_chat.toolset(session.list_tools())\n"
        "    session.call_tool('a')\n"
        "print([m for m in sys.modules if m.startswith(('mcp_client.code', 'pydantic_monty'))])\n"
    )
    reply = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert reply.stdout == "[]\n"
