"""Icons: what of a server's list may be shown."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_client import Host, HttpServer, MemoryServer, connect
from mcp_client.protocol.metadata import Origin, safe_icons
from mcp_client.transports.http import HttpTransport
from mcp_client.transports.memory import MemoryTransport
from mcp_client.transports.recording import Recorder, RecordingTransport

ORIGIN = ("https", "mcp.example.com", 443)
PNG = "data:image/png;base64,iVBORw0KGgo="
HERE = "https://mcp.example.com/icon.png"


@pytest.mark.parametrize(
    "src",
    [
        HERE,
        "https://mcp.example.com:443/i?a=b",
        "HTTPS://MCP.example.COM/i",
        PNG,
        PNG.replace("png", "jpeg"),
        PNG.replace("png", "jpg"),
        PNG.replace("image/png", "IMAGE/WEBP"),
    ],
)
def test_icons_of_the_servers_origin_and_inline_ones_are_left(src: str) -> None:
    assert safe_icons([{"src": src}], ORIGIN) == [{"src": src}]


@pytest.mark.parametrize(
    "src",
    [
        "http://mcp.example.com/i.png",
        "https://cdn.example.com/i.png",
        "https://mcp.example.com:8443/i.png",
        "https://mcp.example.com:x/i.png",
        "https://user@mcp.example.com/i.png",
        "https://mcp.example.com@evil.example/i.png",
        "https://mcp.example.com\\@evil.example/i.png",
        "https://mcp.example.com/i\n.png",
        "https://mcp.example.com/'onload='x",
        "https://mcp.\u0435xample.com/i.png",
        "https:///i.png",
        "https://[/i.png",
        "//mcp.example.com/i.png",
        "/icon.png",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "ftp://mcp.example.com/i.png",
        "ws://mcp.example.com/i.png",
        "data:image/svg+xml;base64,PHN2Zz4=",
        "data:text/html;base64,PHN2Zz4=",
        "data:image/png,plain",
        "data:image/png;base64,a b",
        "data:image/png;charset=x;base64,AAAA",
        PNG + "\n",
        "data:image/png;base64," + "A" * 256 * 1024,
        HERE + "a" * 3_000,
        "",
        7,
        None,
        [HERE],
    ],
)
def test_any_other_source_is_left_out(src: Any) -> None:
    assert safe_icons([{"src": src}, {"src": PNG}], ORIGIN) == [{"src": PNG}]


@pytest.mark.parametrize(
    ("beginning", "limit"),
    [("data:image/png;base64,", 256 * 1024), (HERE, 2_048)],
    ids=["data", "url"],
)
def test_a_source_as_long_as_the_limit_is_accepted(beginning: str, limit: int) -> None:
    longest = beginning.ljust(limit, "A")
    assert safe_icons([{"src": longest}, {"src": f"{longest}A"}], ORIGIN) == [{"src": longest}]


def test_sizes_within_their_limits_are_left() -> None:
    sizes = ["1" * 20] * 16
    for passed, stored in ((sizes, True), ([*sizes, "1"], False), (["1" * 21], False)):
        (icon,) = safe_icons([{"src": PNG, "sizes": passed}], ORIGIN)
        assert ("sizes" in icon) is stored


@pytest.mark.parametrize("icons", [None, {}, "x", 7, [None, 7, "x", [], {}]])
def test_what_is_not_a_list_of_icons_has_none(icons: Any) -> None:
    assert safe_icons(icons, ORIGIN) == []


def test_without_an_origin_only_inline_icons_are_left() -> None:
    assert safe_icons([{"src": HERE}, {"src": PNG}], None) == [{"src": PNG}]


@pytest.mark.parametrize("media", ["image/svg+xml", "text/html", 7, "image/jpeg"])
def test_a_type_that_is_not_a_safe_image_or_another_one_leaves_the_icon_out(media: Any) -> None:
    assert safe_icons([{"src": PNG, "mimeType": media}], ORIGIN) == []


@pytest.mark.parametrize("media", ["image/jpeg", "image/jpg", "IMAGE/JPG"])
@pytest.mark.parametrize("src", [HERE, PNG.replace("png", "jpeg"), PNG.replace("png", "jpg")])
def test_jpeg_goes_by_two_names(src: str, media: str) -> None:
    icon = {"src": src, "mimeType": media}
    assert safe_icons([icon], ORIGIN) == [icon]


def test_only_the_members_of_an_icon_are_left_and_they_are_copies() -> None:
    sizes = ["48x48"]
    icon = {"src": PNG, "mimeType": "image/png", "sizes": sizes, "theme": "dark", "onload": "x"}
    (stored,) = safe_icons([icon], ORIGIN)
    assert stored == {"src": PNG, "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}
    assert stored["sizes"] is not sizes
    for odd in ({"sizes": [7]}, {"sizes": ["x" * 90]}, {"theme": ["dark"]}, {"sizes": "48x48"}):
        assert safe_icons([{"src": PNG, **odd}], ORIGIN) == [{"src": PNG}]


def test_many_icons_are_cut() -> None:
    assert len(safe_icons([{"src": PNG}] * 1_000, ORIGIN)) == 16


class AtUrl(MemoryTransport):
    """A server in memory that claims to be at a URL."""

    @property
    def origin(self) -> Origin:
        return ORIGIN


ICONS = [{"src": HERE}, {"src": "https://elsewhere.example/i.png"}, {"src": PNG}]
SAFE = [{"src": HERE}, {"src": PNG}]


def offers(message: dict[str, Any]) -> Any:
    named = {"name": "a", "icons": ICONS}
    match message["method"]:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
                "serverInfo": {"version": "1", **named},
            }
        case "tools/list":
            return {"tools": [{"inputSchema": {"type": "object"}, **named}]}
        case "resources/list":
            return {"resources": [{"uri": "a:1", **named}]}
        case "resources/templates/list":
            return {"resourceTemplates": [{"uriTemplate": "a:{x}", **named}]}
        case "prompts/list":
            return {"prompts": [named]}
    return NotImplemented


async def test_everything_a_server_lists_has_its_safe_icons() -> None:
    for server, safe in ((AtUrl(offers), SAFE), (MemoryServer(offers), [{"src": PNG}])):
        async with connect(server, revision="2025-11-25") as session:
            assert session.server_info is not None
            listed = [
                session.server_info,
                *await session.list_tools(),
                *await session.list_resources(),
                *await session.list_resource_templates(),
                *await session.list_prompts(),
            ]
        assert [one.safe_icons for one in listed] == [safe] * 5
        assert [one.icons for one in listed] == [ICONS] * 5


async def test_tools_of_a_host_have_them_too() -> None:
    async with Host({"s": AtUrl(offers)}) as host:
        (tool,) = await host.list_tools()
        assert tool.safe_icons == SAFE


def test_an_http_server_has_the_origin_of_its_url(tmp_path: Any) -> None:
    transport = HttpTransport(HttpServer("HTTPS://Mcp.Example.com/mcp?key=x"))
    assert transport.origin == ORIGIN
    recorder = Recorder(tmp_path / "r.jsonl", None)  # type: ignore[arg-type]
    assert RecordingTransport(transport, recorder).origin == ORIGIN
