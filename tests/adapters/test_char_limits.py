"""How long an answer may be: for all tools, or for each."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mcp_client import ConfigError, ToolResult
from mcp_client.adapters.running import MAX_CHARS, char_limits
from tests.support.provider_shapes import CHAT, Provider, every_provider
from tests.support.schemas import tool_of
from tests.support.worlds import Server, opened


@every_provider
async def test_each_tool_has_its_own_limit_by_its_qualified_name(provider: Provider) -> None:
    tools = [tool_of({"type": "object"}, name) for name in ("docs__read", "docs__list", "log__all")]
    kit = provider.toolset(tools)
    long = ToolResult.from_wire({"content": [{"type": "text", "text": "x" * 9_000}]}, "s", "t")
    names = ("docs__read", "docs__list", "log__all")
    calls = kit.calls(provider.response([(name, name, {}) for name in names]))

    def lengths(max_chars: Any) -> list[bool]:
        found = kit.results([(call, long) for call in calls], max_chars=max_chars)
        return [len(response) > 5_000 for _, response in provider.raw_replies(found)]

    assert lengths({"docs__read": 20_000, "docs__*": 600}) == [True, False, True]
    assert lengths({"docs__*": 600, "docs__read": 20_000}) == [False, False, True]
    assert lengths(lambda name: 600 if name == "log__all" else 20_000) == [True, True, False]


@pytest.mark.parametrize(
    "wrong",
    [0, -1, True, 1.5, "9", None, {"a": 0}, {"a": True}, {"a": "9"}, {3: 9}, [("a", 1)]],
    ids=str,
)
async def test_what_is_not_a_limit_is_refused_before_anything_is_sent(wrong: Any) -> None:
    server = Server()
    async with opened(server) as session:
        kit = CHAT.toolset(await session.list_tools())
        with pytest.raises(ConfigError, match="max_chars="):
            await kit.run(session, CHAT.response([("1", "echo", {"text": "x"})]), max_chars=wrong)
        with pytest.raises(ConfigError, match="max_chars="):
            kit.results([], max_chars=wrong)
    assert server.ran == []


def test_a_coroutine_function_is_not_a_limit() -> None:
    async def limit(name: str) -> int:
        return 9

    passed: Any = limit
    with pytest.raises(ConfigError, match="a function of the qualified name"):
        char_limits(passed)


@pytest.mark.parametrize("wrong", [None, 0, -5, True, 2.0, "9"], ids=str)
def test_a_function_that_gives_no_number_costs_no_response(
    wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert char_limits(lambda name: wrong)("read\x1b") == MAX_CHARS
    assert f"max_chars returned a {type(wrong).__name__} for read" in caplog.text
    assert "\x1b" not in caplog.text


@pytest.mark.parametrize("name", ["one", "two"])
def test_a_function_that_raises_costs_no_response(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def limit(asked: str) -> int:
        if asked == "one":
            raise KeyError(asked)
        return 7

    with caplog.at_level(logging.ERROR, "mcp_client"):
        assert char_limits(limit)(name) == (MAX_CHARS if name == "one" else 7)
    assert ("max_chars failed for one" in caplog.text) == (name == "one")
