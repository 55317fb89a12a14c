"""What a ``ServerConfig`` takes, and which tools its filters leave."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mcp_client import ConfigError, ServerConfig
from mcp_client.host.options import ToolFilter


@pytest.mark.parametrize(
    "options",
    [
        {"include": "search_*"},
        {"exclude": [""]},
        {"include": [3]},
        {"enabled": 1},
        {"lazy": "yes"},
        {"description": 3},
    ],
)
def test_a_wrong_option_is_refused_by_its_name(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        ServerConfig("https://example.com/mcp", **options)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("node x.js", "StdioServer('node', ['x.js'])"),
        ("example.com/mcp", "https://example.com/mcp"),
        ("", "give a URL"),
        (["node", 3], "a list of str"),
    ],
)
def test_what_is_not_a_server_is_refused_at_once(server: Any, expected: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(expected)):
        ServerConfig(server)


def test_a_config_does_not_show_its_server() -> None:
    assert "s3cret" not in repr(ServerConfig(["run", "--token=s3cret"]))


@pytest.mark.parametrize(
    ("include", "exclude", "tool", "left_out"),
    [
        ((), (), "anything", False),
        (("search_*",), (), "search_web", False),
        (("search_*",), (), "delete", True),
        ((), ("delete*",), "delete_all", True),
        ((), ("delete*",), "DELETE", False),
        (("*",), ("delete*",), "delete_all", True),
        (("a", "b?"), (), "bc", False),
        (("a",), (), "a\nb", True),
    ],
)
def test_exclude_wins_over_include(
    include: tuple[str, ...], exclude: tuple[str, ...], tool: str, left_out: bool
) -> None:
    assert (ToolFilter(include, exclude).why_left_out(tool) is not None) is left_out


def test_the_reason_names_the_option() -> None:
    assert "exclude='d*'" in (ToolFilter(exclude=["d*"]).why_left_out("delete") or "")
    assert "include=['a', 'b']" in (ToolFilter(["a", "b"]).why_left_out("delete") or "")


def test_options_are_passed_by_name() -> None:
    with pytest.raises(TypeError):
        ServerConfig("https://example.com/mcp", True)  # type: ignore[call-arg]
