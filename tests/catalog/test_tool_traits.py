"""How a definition limits the use of a tool: its view, its audience, and tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import Host, MemoryServer, NotSent, Tool, ToolCall, allow_all, connect
from mcp_client.catalog.definition import ToolUi, trait_findings
from tests.support.properties import examples

BOTH = frozenset({"model", "app"})
VIEW = "ui://weather/view.html"


def tool(**members: Any) -> Tool:
    definition = {"name": "t", "inputSchema": {"type": "object"}, **members}
    return Tool("t", "s", False, definition)


def with_ui(ui: Any, **meta: Any) -> Tool:
    return tool(_meta={"ui": ui, **meta})


@pytest.mark.parametrize(
    ("meta", "ui"),
    [
        ({"ui": {"resourceUri": VIEW}}, ToolUi(VIEW, BOTH)),
        (
            {"ui": {"resourceUri": VIEW, "visibility": ["app"]}},
            ToolUi(VIEW, frozenset({"app"})),
        ),
        ({"ui": {"visibility": ["model"]}}, ToolUi(None, frozenset({"model"}))),
        ({"ui/resourceUri": VIEW}, ToolUi(VIEW, BOTH)),
        ({"ui": {"visibility": ["app"]}, "ui/resourceUri": VIEW}, ToolUi(VIEW, frozenset({"app"}))),
        ({"ui": {"resourceUri": VIEW}, "ui/resourceUri": VIEW}, ToolUi(VIEW, BOTH)),
        ({"ui": {}}, ToolUi(None, BOTH)),
        ({}, None),
        ({"other": 1}, None),
    ],
)
def test_a_view_is_read_in_both_forms(meta: Any, ui: ToolUi | None) -> None:
    assert tool(_meta=meta).ui == ui
    assert tool(_meta=meta).findings == ()


def test_a_tool_without_meta_has_no_view_and_is_for_all() -> None:
    assert tool().ui is None
    assert tool().is_for_models
    assert tool().is_for_apps


@pytest.mark.parametrize(
    ("visibility", "who"),
    [
        (None, BOTH),
        ([], frozenset()),
        (["robot"], frozenset()),
        ("model", frozenset()),
        (7, frozenset()),
        ({"model": True}, frozenset()),
        ([["model"]], frozenset()),
        (["model", "robot"], frozenset({"model"})),
    ],
)
def test_an_empty_or_unknown_visibility_is_for_neither(
    visibility: Any, who: frozenset[str]
) -> None:
    found = with_ui({"visibility": visibility})
    assert found.ui is not None
    assert found.ui.visibility == who
    assert (found.is_for_models, found.is_for_apps) == ("model" in who, "app" in who)
    assert bool(found.findings) is (visibility is not None)


@pytest.mark.parametrize(
    "uri",
    [
        "https://evil.example/x",
        "ui:",
        "ui://",
        "UI://x",
        "ui://a b",
        "ui://a\nb",
        "ui://a\u200bb",
        "ui://" + "a" * 3_000,
        "javascript:alert(1)",
        7,
        ["ui://a"],
        "",
    ],
)
def test_what_cannot_be_a_view_is_a_finding_and_not_shown(uri: Any) -> None:
    for found in (with_ui({"resourceUri": uri}), tool(_meta={"ui/resourceUri": uri})):
        assert found.ui == ToolUi(None, BOTH)
        (finding,) = found.findings
        assert "view" in str(finding)
        assert finding.text.isprintable()


@pytest.mark.parametrize("ui", ["x", 7, True, [], ["app"]])
def test_a_view_that_is_not_an_object_is_a_finding_and_does_not_count(ui: Any) -> None:
    assert with_ui(ui).ui is None
    assert with_ui(ui).is_for_models
    assert "not a JSON object" in str(with_ui(ui).findings[0])


def test_of_two_different_views_the_newer_form_counts_and_is_a_finding() -> None:
    found = with_ui({"resourceUri": VIEW}, **{"ui/resourceUri": "ui://other"})
    assert found.ui == ToolUi(VIEW, BOTH)
    assert "two views" in str(found.findings[0])


@pytest.mark.parametrize(
    ("execution", "support", "is_odd"),
    [
        ({"taskSupport": "required"}, "required", False),
        ({"taskSupport": "optional"}, "optional", False),
        ({"taskSupport": "forbidden"}, "forbidden", False),
        ({}, "forbidden", False),
        (None, "forbidden", False),
        ({"taskSupport": "always"}, "forbidden", True),
        ({"taskSupport": True}, "forbidden", True),
        ({"taskSupport": ["required"]}, "forbidden", True),
        ("required", "forbidden", True),
        ([], "forbidden", True),
    ],
)
def test_task_support_is_one_of_three_words_or_forbidden(
    execution: Any, support: str, is_odd: bool
) -> None:
    assert tool(execution=execution).task_support == support
    assert tool(execution=execution).execution == (
        execution if isinstance(execution, dict) else None
    )
    assert bool(tool(execution=execution).findings) is is_odd
    assert tool().task_support == "forbidden"


ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["app", VIEW]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["ui", "resourceUri", "visibility", "taskSupport", "ui/resourceUri"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@examples(200)
@given(ANY_JSON, ANY_JSON, ANY_JSON)
def test_whatever_a_server_sends_there_is_read_and_never_raises(
    meta: Any, execution: Any, icons: Any
) -> None:
    found = tool(_meta=meta, execution=execution, icons=icons)
    assert found.ui is None or found.ui.visibility <= BOTH
    assert found.task_support in ("forbidden", "optional", "required")
    assert all(finding.text.isprintable() for finding in trait_findings(found.raw))
    assert found.fingerprint.startswith("sha256:")
    assert isinstance(found.safe_icons, list)


# ---------------------------------------------------------- who may call it


class Server:
    """Offers one tool for each audience and counts the calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __call__(self, message: dict[str, Any]) -> Any:
        match message["method"]:
            case "tools/list":
                return {
                    "tools": [
                        {
                            "name": name,
                            "description": "Forecast the weather.",
                            "inputSchema": {"type": "object"},
                            "_meta": {"ui": {"resourceUri": VIEW, "visibility": visibility}},
                        }
                        for name, visibility in (
                            ("show", ["model", "app"]),
                            ("refresh", ["app"]),
                            ("hidden", []),
                        )
                    ]
                }
            case "tools/call":
                self.calls.append(message["params"]["name"])
                return {"content": []}
        return NotImplemented


@pytest.mark.parametrize(("name", "why"), [("refresh", "only to its views"), ("hidden", "neither")])
async def test_a_tool_that_is_not_for_models_is_not_called_and_no_one_is_asked(
    name: str, why: str, tmp_path: Path
) -> None:
    server, asked = Server(), list[ToolCall]()
    log = tmp_path / "calls.jsonl"

    async def approve(call: ToolCall) -> Any:
        asked.append(call)
        return allow_all(call)

    async with connect(MemoryServer(server), approval=approve, audit=log) as session:
        assert [tool.name for tool in await session.list_tools()] == ["show", "refresh", "hidden"]
        with pytest.raises(NotSent, match=why) as caught:
            await session.call_tool(name)
        assert caught.value.tool == name
        await session.call_tool("show")
    assert server.calls == ["show"]
    assert [call.tool.name for call in asked] == ["show"]
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert any(name in json.dumps(record) for record in records)


async def test_a_host_refuses_it_too_and_does_not_find_it() -> None:
    server = Server()
    async with Host({"weather": MemoryServer(server)}, approval=allow_all) as host:
        assert len(await host.list_tools()) == 3
        found = await host.search_tools("forecast weather")
        assert [tool.name for tool in found] == ["show"]
        with pytest.raises(NotSent, match="only to its views"):
            await host.call_tool("weather__refresh")
    assert server.calls == []
