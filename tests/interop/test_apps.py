"""Views of real servers, and one of them in a real browser under the policy made for it.

The servers are on the official SDKs for TypeScript, with ext-apps, and for Python, and on FastMCP.
The view in the browser is written with ext-apps too: it talks to its host as the reference
implementation does.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from html import escape
from typing import Any

import anyio
import pytest

from mcp_client import NotSent, Session, ToolCall, allow_all, connect
from mcp_client.extensions import App, Apps, ClientInfo, UiResource
from tests.interop import chromium, peers
from tests.interop.chromium import Page, until
from tests.support.http_server import Reply, Request, serving

pytestmark = pytest.mark.interop

REVISIONS = ["2026-07-28", "2025-11-25"]
CORS = {"Access-Control-Allow-Origin": "*"}


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("peer", ["typescript", "python", "fastmcp"])
async def test_the_view_of_a_real_server_is_returned_and_may_call_it(
    peer: str, revision: str
) -> None:
    domain = "https://time.example.com"
    servers = {"python": peers.apps_python, "fastmcp": peers.apps_fastmcp}
    server = peers.apps(domain) if peer == "typescript" else servers[peer]()
    async with connect(
        server,
        name="apps",
        approval=allow_all,
        client_info=ClientInfo("tests", "1", extensions=[Apps()]),
        revision=revision,
    ) as session:
        assert [(t.name, t.is_for_models, t.is_for_apps) for t in await session.list_tools()] == [
            ("show", True, True),
            ("refresh", False, True),
            ("model_only", True, False),
        ]
        tool = await session.get_tool("show")
        view = await session.read_ui(tool)
        assert view.html.startswith("<!doctype html>")
        assert f"connect-src 'self' {domain};" in view.csp
        assert view.domains == (domain,)
        assert view.allow.endswith("clipboard-write")
        assert view.prefers_border is True
        if peer != "typescript":
            assert view.findings[0].text.startswith("frameDomains: '*' left out")
        if peer == "python":  # whose tool looks at what the host declares
            assert (await session.call_tool("show")).text == "a view"
        app = session.app(tool)
        assert not (await app.call_tool("refresh")).is_error
        with pytest.raises(NotSent, match="not offer the tool to its views"):
            await app.call_tool("model_only")
        with pytest.raises(NotSent, match="only to its views"):
            await session.call_tool("refresh")


async def test_a_server_sees_whether_the_host_renders() -> None:
    async with connect(peers.apps_python(), name="apps", approval=allow_all) as session:
        assert (await session.call_tool("show")).text == "no view"


# ------------------------------------------------------------------------ in a browser

HOST = """<!doctype html><title>Host</title>
<iframe sandbox="allow-scripts allow-same-origin" allow="%(allow)s"></iframe>
<script>
const frame = document.querySelector("iframe");
const origin = new URL("%(view)s").origin;
const seen = window.seen = [];
const post = (message) => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, origin);
const initialized = {
  protocolVersion: "2026-01-26",
  hostInfo: { name: "host", version: "1.0.0" },
  hostCapabilities: { serverTools: {}, serverResources: {}, logging: {}, openLinks: {} },
  hostContext: {},
};
addEventListener("message", async ({ source, origin: from, data }) => {
  if (source !== frame.contentWindow || from !== origin) return;
  if (data.method === "notifications/message") seen.push([data.params.logger, data.params.data]);
  if (data.method === "ui/initialize") return post({ id: data.id, result: initialized });
  if (data.method === "ui/notifications/initialized") {
    post({ method: "ui/notifications/tool-input", params: { arguments: {} } });
    post({ method: "ui/notifications/tool-result", params: %(result)s });
  }
  const answer = await fetch("/app", { method: "POST", body: JSON.stringify(data) });
  const said = await answer.json();
  if (said !== null) post(said);
});
frame.src = "%(view)s";
</script>"""


@dataclass
class Site:
    """A host page on one origin, the view on another, and two more to be asked for data."""

    page: str
    declared: str
    undeclared: str
    asked: list[str]


@asynccontextmanager
async def a_web_host() -> AsyncIterator[tuple[Site, list[ToolCall]]]:
    asked: list[str] = []
    calls: list[ToolCall] = []

    def approve(call: ToolCall) -> Any:
        calls.append(call)
        return allow_all(call)

    async def data(request: Request, reply: Reply) -> None:
        asked.append(request.headers["host"])
        await reply.json({}, headers=CORS)

    peers.apps()  # where it is missing, the test is skipped before there is a task group
    async with AsyncExitStack() as stack:
        declared, undeclared = [
            (await stack.enter_async_context(serving(data, path=""))).url for _ in range(2)
        ]
        session = await stack.enter_async_context(
            connect(
                peers.apps(declared, undeclared),
                name="apps",
                approval=approve,
                client_info=ClientInfo("tests", "1", extensions=[Apps()]),
            )
        )
        tool = await session.get_tool("show")
        view, app = await session.read_ui(tool), session.app(tool)
        displayed = await stack.enter_async_context(serving(showing(view), path="/view"))
        host = await hosting(session, app, view, displayed.url)
        page = await stack.enter_async_context(serving(host, path="/"))
        calls.clear()
        yield Site(page.url, declared, undeclared, asked), calls


def showing(view: UiResource) -> Any:
    """Serves the view as a host has to."""

    async def respond(request: Request, reply: Reply) -> None:
        head = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": view.csp}
        await reply.send(200, view.html.encode(), head)

    return respond


async def hosting(session: Session, app: App, view: UiResource, displayed: str) -> Any:
    """Serves the host's page, and pipes what the view posts."""
    result = (await session.call_tool("show", {"from": "host"})).raw
    html = HOST % {"view": displayed, "allow": escape(view.allow), "result": json.dumps(result)}

    async def respond(request: Request, reply: Reply) -> None:
        if request.path == "/app":
            await reply.json(await app.handle(request.message))
        else:
            await reply.send(200, html.encode(), {"Content-Type": "text/html; charset=utf-8"})

    return respond


@pytest.mark.one_backend
async def test_a_browser_keeps_a_view_to_the_policy_and_its_host_to_the_gate() -> None:
    browser = peers.chromium()
    async with a_web_host() as (site, calls):

        def look() -> tuple[dict[str, list[Any]], list[str]]:
            with chromium.browsing(*browser) as page:
                page.open(site.page)
                until(lambda: "done" in messages_of(page), "the view is not done")
                return messages_of(page), page.complaints

        reported, complaints = await anyio.to_thread.run_sync(look)
    assert reported["shown"] == [{"from": "host"}]
    assert reported["fetch"] == [[site.declared, True], [site.undeclared, False]]
    assert site.asked == [site.declared.removeprefix("http://")]
    blocked = [line for line in complaints if "Connecting to" in line]
    assert len(blocked) == 1
    assert f"'{site.undeclared}/' violates" in blocked[0]
    assert "connect-src" in blocked[0]
    assert {"camera", "clipboard-write"} <= set(reported["allowed"][0])
    assert not {"microphone", "geolocation"} & set(reported["allowed"][0])
    assert reported["call"][0] == ["refresh", {"from": "view"}]
    assert [tool for tool, response in reported["call"] if isinstance(response, str)] == [
        "model_only",
        "none",
    ]
    assert reported["read"] == ["9 to 5"]
    assert "Invalid URL" in reported["open"][0]
    assert [(call.tool.name, call.origin) for call in calls] == [("refresh", "app")]


def messages_of(page: Page) -> dict[str, list[Any]]:
    """What the view has reported to its host, by kind."""
    found: dict[str, list[Any]] = {}
    for kind, data in json.loads(page.run("return JSON.stringify(window.seen || [])")):
        found.setdefault(kind, []).append(data)
    return found
