"""What the commands with a server print, and how they end, with a session that is made up."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_client import Tool
from mcp_client.catalog.finding import Finding
from mcp_client.cli import session_commands
from mcp_client.cli.exits import UsageError
from mcp_client.errors import InvalidArguments, NotFound, ServerError, UnknownTool

pytestmark = pytest.mark.one_backend


class Listed(list[Any]):
    rejected = (SimpleNamespace(name="bad", reason="why"),)
    findings = (Finding("odd_name", "odd"),)


def tool(name: str, **more: Any) -> Tool:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    return Tool(name, "s", False, {"name": name, "inputSchema": schema, **more})


def answering(value: Any) -> Callable[..., Any]:
    async def respond(*_: Any, **__: Any) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return respond


def options(passed: dict[str, Any] | None = None, **members: Any) -> Namespace:
    """Of a command, in a session with these members."""
    own = {"name": "s", "capabilities": members.pop("capabilities", {})}
    answers = {name: answering(value) for name, value in members.items()}
    passed_value = {"json": False, "save": None, "terminal": False, "config": None, "command": "x"}
    return Namespace(
        **passed_value | {"session": SimpleNamespace(**own, **answers)} | (passed or {})
    )


async def test_tools_are_a_line_each_with_the_beginning_of_what_they_are_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    listed = Listed([tool("t", description="one\n two\nthree\nfour"), tool("u")])
    assert await session_commands.tools(options(list_tools=listed)) == 0
    out, err = capsys.readouterr()
    assert out == "t(a: int)\n    one\n    two\n    three\nu(a: int)\n"
    assert err == f"left out: bad: why\nlook at this: {listed.findings[0]}\n"
    assert await session_commands.tools(options({"json": True}, list_tools=listed)) == 0
    document = {"tools": [one.raw for one in listed]}
    assert json.loads(capsys.readouterr().out) == document


async def test_a_bound_argument_is_in_no_definition_that_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    schema = {"type": "object", "properties": {"a": {}, "tenant": {}}, "required": ["a", "tenant"]}
    definition = {"name": "t", "inputSchema": schema, "x-more": [1]}
    one = Tool("t", "s", False, definition, bound=("tenant",))
    left = {"type": "object", "properties": {"a": {}}, "required": ["a"]}
    passed = {"json": True, "tool": "t", "query": ["t"], "limit": 5}
    found: dict[str, Any] = {"list_tools": Listed([one]), "search_tools": [one], "get_tool": one}
    for command in (session_commands.tools, session_commands.search, session_commands.describe):
        assert await command(options(passed, **found)) == 0
        document = json.loads(capsys.readouterr().out)
        (displayed,) = document.get("tools", [document])
        assert displayed == {**definition, "inputSchema": left}, command.__name__


async def test_a_note_is_printed_with_a_tool_in_full_and_not_with_a_list(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = tool("t", description="word " * 1_700)
    (finding,) = one.findings
    listed = Listed([one])
    listed.findings = one.findings  # type: ignore[assignment]
    assert await session_commands.tools(options(list_tools=listed)) == 0
    assert "look at this" not in capsys.readouterr().err
    assert await session_commands.describe(options({"tool": "t"}, get_tool=one)) == 0
    assert capsys.readouterr().err == f"{finding}\n"


async def test_a_tool_is_described_with_what_to_look_at(
    capsys: pytest.CaptureFixture[str],
) -> None:
    more = {"title": "T", "description": "about\n\nit", "outputSchema": {"type": "object"}}
    one = tool("t\u202e", **more)
    assert await session_commands.describe(options({"tool": "t"}, get_tool=one)) == 0
    out, err = capsys.readouterr()
    reported = "(a: int) -> {...}\n\nT\n\nabout\n\nit\n\nArguments:\n  a  int  required"
    assert reported in out
    assert '\n\nResult:\n{\n  "type": "object"\n}\n' in out
    assert out.endswith(f"\nFingerprint: {one.fingerprint}\n")
    assert err.splitlines() == [f"look at this: {each}" for each in one.findings] != []
    assert await session_commands.describe(options({"tool": "t"}, get_tool=tool("t"))) == 0
    out = capsys.readouterr().out
    assert "\nExample:\n  call t a:=1\n" in out
    assert "Result" not in out


async def test_an_unknown_tool_is_reported_with_the_nearest_name() -> None:
    unknown = UnknownTool("unknown", server="s", tool="tols")
    for name, expected in (
        ("tols", "the server has no tool 'tols'; did you mean tools?"),
        ("x", "un"),
    ):
        passed = options({"tool": name}, get_tool=unknown, list_tools=Listed([tool("tools")]))
        with pytest.raises(UnknownTool) as caught:
            await session_commands.describe(passed)
        assert caught.value.message.startswith(expected)
        assert (caught.value.server, caught.value.tool) == ("s", "tols")


async def test_what_is_missing_or_misspelled_is_reported_before_the_call(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = SimpleNamespace(content=[], raw={"r": 1}, structured_content=None, is_error=True)
    passed = options({"tool": "t", "arguments": []}, get_tool=tool("t"), call_tool=result)
    with pytest.raises(InvalidArguments, match="missing: a; nothing was sent; the tool is t"):
        await session_commands.call(passed)
    passed.arguments = ["a=1", "aa=2"]
    assert await session_commands.call(passed) == 1
    assert "the tool has no argument 'aa'" in capsys.readouterr().err
    result.is_error, passed.json = False, True
    assert await session_commands.call(passed) == 0
    assert json.loads(capsys.readouterr().out) == {"r": 1}


def test_twenty_missing_names_are_shown() -> None:
    names = [f"n{number}" for number in range(21)]
    for count, more in ((20, ""), (21, " and 1 more")):
        error = session_commands._incomplete(names[:count], "it", "s", "t")
        assert error.message == f"missing: {', '.join(names[:20])}{more}; nothing was sent; it"


async def test_a_search_wants_words(capsys: pytest.CaptureFixture[str]) -> None:
    passed = options({"query": [], "limit": 1}, list_tools=Listed(), search_tools=[tool("t")])
    with pytest.raises(UsageError, match="describe in a few words"):
        await session_commands.search(passed)
    passed.query = ["a"]
    assert await session_commands.search(passed) == 0
    assert capsys.readouterr().out == "t(a: int)\n"
    passed.json = True
    assert await session_commands.search(passed) == 0
    assert json.loads(capsys.readouterr().out) == {"tools": [tool("t").raw]}


async def test_resources_and_templates_are_rows(capsys: pytest.CaptureFixture[str]) -> None:
    one = SimpleNamespace(uri="u", title=None, name="n", raw={"r": 1})
    two = SimpleNamespace(uri_template="v{x}", title="T", name="n", raw={"r": 2})
    passed: dict[str, Any] = {"capabilities": {"resources": {}}, "list_resources": Listed([one])}
    both = options(**passed, list_resource_templates=Listed([two]))
    assert await session_commands.resources(both) == 0
    out, err = capsys.readouterr()
    assert [line.split() for line in out.splitlines()] == [["u", "n"], ["v{x}", "T"]]
    assert err == "left out: bad: why\n" * 2
    none = ServerError("x", code=-32601)
    assert await session_commands.resources(options(**passed, list_resource_templates=none)) == 0
    assert capsys.readouterr().out.split() == ["u", "n"]
    broken = options(**passed, list_resource_templates=ServerError("x", code=-32000))
    with pytest.raises(ServerError):
        await session_commands.resources(broken)
    assert capsys.readouterr().out == ""
    assert await session_commands.resources(options({"json": True}, list_resources=None)) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"resources": [], "resourceTemplates": []}
    assert err == "s has no resources\n"


async def test_a_resource_that_there_is_not_is_not_found() -> None:
    wrong = ServerError("x", code=-32602, server_message="no", data={"d": 1})
    with pytest.raises(NotFound) as caught:
        await session_commands.read(options({"uri": "u"}, read_resource=wrong))
    assert caught.value.message == "the server has no resource 'u': no (code -32602)"
    assert (caught.value.code, caught.value.data, caught.value.server) == (-32602, {"d": 1}, "s")
    for error in (NotFound("gone", code=-32602), ServerError("x", code=-32000)):
        with pytest.raises(ServerError) as other:
            await session_commands.read(options({"uri": "u"}, read_resource=error))
        assert other.value is error


async def test_what_is_listed_or_read_is_the_server_s_json_where_that_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = SimpleNamespace(contents=[], raw={"r": 1})
    assert (
        await session_commands.read(options({"uri": "u", "json": True}, read_resource=found)) == 0
    )
    assert json.loads(capsys.readouterr().out) == {"r": 1}
    listed = Listed([prompt_of("p")])
    passed = options({"json": True}, capabilities={"prompts": {}}, list_prompts=listed)
    assert await session_commands.prompts(passed) == 0
    assert json.loads(capsys.readouterr().out) == {"prompts": [{"name": "p"}]}
    passed = options({"json": True, "tool": "t"}, get_tool=tool("t"))
    assert await session_commands.describe(passed) == 0
    assert json.loads(capsys.readouterr().out) == tool("t").raw


def prompt_of(name: str) -> Any:
    needs = {"a": True, "b": False}
    arguments = [SimpleNamespace(name=each, required=its) for each, its in needs.items()]
    return SimpleNamespace(name=name, arguments=arguments, description="d", raw={"name": name})


async def test_prompts_are_listed_and_got(capsys: pytest.CaptureFixture[str]) -> None:
    message = SimpleNamespace(role="user", content=SimpleNamespace(type="odd"))
    got = SimpleNamespace(messages=[message], raw={"m": 1})
    passed = options(
        {"prompt": "p", "arguments": ["b=1"]},
        capabilities={"prompts": {}},
        list_prompts=Listed([prompt_of("p")]),
        get_prompt=got,
    )
    assert await session_commands.prompts(passed) == 0
    assert capsys.readouterr().out == "p(a, b?)\n    d\n"
    with pytest.raises(InvalidArguments, match=r"missing: a; nothing was sent; .* p\(a, b\?\)"):
        await session_commands.prompt(passed)
    passed.arguments = ["a=1"]
    assert await session_commands.prompt(passed) == 0
    assert capsys.readouterr().out == "user:\n"
    passed.json = True
    assert await session_commands.prompt(passed) == 0
    assert json.loads(capsys.readouterr().out) == {"m": 1}
    passed.prompt = "pp"
    with pytest.raises(NotFound, match=r"unknown prompt 'pp'"):
        await session_commands.prompt(passed)
    for word in ("a", "=1"):
        passed.arguments = [word]
        with pytest.raises(UsageError, match="write name=value"):
            await session_commands.prompt(passed)


async def test_an_argument_of_a_prompt_or_a_template_is_completed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, two = prompt_of("p"), SimpleNamespace(uri_template="v{x}")
    asked: list[Any] = []

    async def complete(*words: Any) -> Any:
        asked.append(words)
        return SimpleNamespace(values=["x", "y"], raw={"c": 1})

    passed = options(
        capabilities={"prompts": {}, "resources": {}},
        list_prompts=Listed([one]),
        list_resource_templates=Listed([two]),
    )
    passed.session.complete, passed.argument = complete, "a=1"
    for passed.prompt, ref in (("p", one), ("v{x}", two)):
        for passed.arguments, known in (([], None), (["b=2"], {"b": "2"})):
            assert await session_commands.complete(passed) == 0
            assert asked.pop() == (ref, {"name": "a", "value": "1"}, known)
            assert capsys.readouterr().out == "x\ny\n"
    passed.json = True
    assert await session_commands.complete(passed) == 0
    assert json.loads(capsys.readouterr().out) == {"c": 1}
