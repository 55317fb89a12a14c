"""Any view of a server, and anything that the view posts: a view or one error, and no call
that the gate did not see."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import Deny, ToolCall, connect
from mcp_client.content import Resource, ResourceResult
from mcp_client.errors import ProtocolViolation
from mcp_client.extensions import App, UiResource
from mcp_client.protocol.uris import policy_of
from tests.support.properties import examples
from tests.support.starting import in_memory
from tests.support.views import MIME_TYPE, VIEW, StatelessViews

NAMES = [
    *("csp", "connectDomains", "resourceDomains", "frameDomains", "baseUriDomains"),
    *("permissions", "camera", "clipboardWrite", "domain", "prefersBorder"),
    *("ui", "uri", "mimeType", "text", "blob", "_meta"),
]
texts = st.one_of(
    st.sampled_from([VIEW, MIME_TYPE, "https://a.example", "*", "'none'; script-src *", "PHA+"]),
    st.text(max_size=20),
)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(NAMES) | texts, inner, max_size=6)
    ),
    max_leaves=20,
)
DIRECTIVES = [directive.split(" ")[0] for directive in policy_of({}).header.split("; ")]
DEFAULTS = [directive.split(" ")[0] for directive in policy_of(None).header.split("; ")]


@pytest.mark.slow
@given(values, values, st.booleans())
@examples(300)
def test_any_contents_are_a_view_with_the_pages_policy_or_one_error(
    ui: Any, piece: Any, has_contents: bool
) -> None:
    if not has_contents:
        piece = {"uri": VIEW, "mimeType": MIME_TYPE, "text": "<p>", "_meta": {"ui": ui}}
    listed = Resource.from_wire({"uri": VIEW, "name": "", "_meta": {"ui": ui}}, "clock")
    result = ResourceResult.from_wire({"contents": [piece]}, "clock", VIEW)
    try:
        view = UiResource.from_result(result, listed, most=1_000)
    except ProtocolViolation:
        assert has_contents
        return
    assert [one.split(" ")[0] for one in view.csp.split("; ")] in (DIRECTIVES, DEFAULTS)
    assert set(view.allow.split("; ")) <= {"", "camera", "clipboard-write"}
    assert view.domain is None or isinstance(view.domain, str)
    assert view.prefers_border in (None, True, False)
    assert all(finding.text.isprintable() for finding in view.findings)
    assert view.digest.startswith("sha256:")


members = {
    "id": st.one_of(st.integers(0, 5), texts, values),
    "method": st.one_of(
        st.sampled_from(
            [
                *("tools/call", "resources/read", "ping", "ui/open-link", "tools/list"),
                *("notifications/cancelled", "notifications/message", "completion/complete"),
            ]
        ),
        values,
    ),
    "params": st.one_of(
        values,
        st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["show", "refresh", "model_only", "none"]) | values,
                "arguments": values,
                "uri": st.sampled_from(["data:hours", VIEW]) | values,
                "url": texts | values,
                "requestId": st.integers(0, 5) | values,
                "data": values,
            },
        ),
    ),
    "result": values,
}
calls = st.builds(
    lambda number, name, arguments: {
        "jsonrpc": "2.0",
        "id": number,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments},
    },
    st.integers(0, 5),
    st.sampled_from(["show", "refresh", "model_only", "nobody", "none"]),
    st.dictionaries(texts, values, max_size=2),
)
versions = st.sampled_from(["2.0", "2.0", "2.0", "1.0", 2])
messages = st.one_of(values, calls, st.fixed_dictionaries({"jsonrpc": versions}, optional=members))


@pytest.mark.slow
@given(st.lists(messages, max_size=8))
@examples(150)
def test_any_messages_of_a_view_are_answered_or_ignored_and_call_nothing_by_themselves(
    posted: list[Any],
) -> None:
    views = StatelessViews()
    asked: list[ToolCall] = []

    async def approve(call: ToolCall) -> Deny:
        asked.append(call)
        return Deny()

    async def story() -> None:
        async with connect(in_memory(views), name="clock", approval=approve) as session:
            app = session.app(await session.get_tool("show"))
            async with anyio.create_task_group() as tasks:
                for message in posted:
                    tasks.start_soon(one, app, message)

    async def one(app: App, message: Any) -> None:
        response = await app.handle(message)
        if response is not None:
            assert set(response) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
            assert response["id"] in (None, message.get("id"))
            json.dumps(response)

    anyio.run(story)
    assert not views.calls
    assert {call.origin for call in asked} <= {"app"}
    assert {call.tool.name for call in asked} <= {"show", "refresh"}
    sent = {message["method"] for message in views.messages if "id" in message}
    assert sent <= {"server/discover", "tools/list", "resources/read"}
