"""A server that is hostile with its resources: each sin costs what it costs, and nothing else."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from mcp_client import Limits, Session, allow_all, connect
from mcp_client.catalog.watch import ResourceWatch
from mcp_client.errors import InvalidArguments, ProtocolViolation
from mcp_client.protocol.offers import ResourceUpdate
from tests.catalog.test_resources import Odd, reading
from tests.support.http_server import Reply, Request, serving
from tests.support.library import ID, Handshake, Library, Stateless
from tests.support.starting import in_memory

pytestmark = pytest.mark.one_backend

KINDS: dict[str, tuple[str, Callable[[Session], Any]]] = {
    "resources/list": ("resources", lambda session: session.list_resources()),
    "resources/templates/list": (
        "resourceTemplates",
        lambda session: session.list_resource_templates(),
    ),
    "prompts/list": ("prompts", lambda session: session.list_prompts()),
}


@pytest.mark.parametrize("method", sorted(KINDS))
@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ({"nextCursor": {}}, "not a string"),
        ({"nextCursor": "n"}, r"more than 3 pages \(Limits\.pages\)"),
        (None, "without an array"),
    ],
)
async def test_a_list_without_an_end_or_a_sense_is_an_error(
    method: str, rest: Any, reason: str
) -> None:
    member, ask = KINDS[method]
    numbers = iter(range(1_000))

    def page() -> Any:
        if rest is None:
            return {member: {"a": 1}}
        cursor = f"n{next(numbers)}" if rest["nextCursor"] == "n" else rest["nextCursor"]
        return {member: [], "nextCursor": cursor}

    class Endless(Stateless):
        def respond(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
            return page() if message.get("method") == method else super().respond(message, send)

    async with reading(Endless(), limits=Limits(pages=3)) as session:
        with pytest.raises(ProtocolViolation, match=reason):
            await ask(session)
        await session.ping()


async def test_a_list_that_is_too_large_is_an_error() -> None:
    page = {"resources": [{"uri": "a:1", "name": "x" * 5_000}]}
    async with reading(Odd("resources/list", page), limits=Limits(list_bytes=1_000)) as session:
        with pytest.raises(ProtocolViolation, match=r"Limits\.list_bytes"):
            await session.list_resources()


async def test_a_blob_that_is_too_large_is_refused_and_the_session_goes_on() -> None:
    pieces = {"contents": [{"uri": "a:1", "blob": "A" * 400_000}]}
    odd = Odd("resources/read", pieces)
    async with reading(odd, limits=Limits(message_bytes=300_000)) as session:
        with pytest.raises(ProtocolViolation):
            await session.read_resource("a:1")
        assert len(await session.list_resources()) == 2


async def test_invalid_base64_of_a_blob_raises_only_when_it_is_decoded() -> None:
    pieces = [{"uri": "a:1", "blob": "not base64!"}, {"uri": "a:2", "text": "fine"}]
    async with reading(Odd("resources/read", {"contents": pieces})) as session:
        read = await session.read_resource("a:")
    assert read.contents[1].text == "fine"
    assert "[resource: a:1, " in read.text
    with pytest.raises(ProtocolViolation):
        _ = read.contents[0].bytes


@functools.cache
def flood() -> bytes:
    """100,000 updates, each of another part of the book; STREAM represents the stream's id."""
    notice = (
        '{"jsonrpc":"2.0","method":"notifications/resources/updated",'
        '"params":{"uri":"book:emma/%d","_meta":{"' + ID + '":STREAM}}}'
    )
    return "\n".join([notice % number for number in range(100_000)]).encode()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Handshake, Stateless])
async def test_a_flood_of_100_000_updates_costs_bounded_memory(kind: type[Library]) -> None:
    library = kind()
    async with reading(library) as session, session.subscribe_resource("book:emma") as updates:
        if kind is Handshake:
            library.send(flood().replace(b"STREAM", b"null"))
        else:
            ((id, (_, send)),) = library.streams.items()
            send(flood().replace(b"STREAM", str(id).encode()))
        first = await anext(updates)
        assert first.certain
        assert first.uri.startswith("book:emma")
        await session.ping()
        assert isinstance(updates, ResourceWatch)
        assert len(updates._waiting) <= Limits().watched


@pytest.mark.both_backends
async def test_updates_of_too_many_parts_come_as_one_for_the_resource() -> None:
    library = Handshake()
    async with (
        reading(library, limits=Limits(watched=4)) as session,
        session.subscribe_resource("book:emma") as updates,
    ):
        for number in range(5):
            library._unasked("resources/updated", uri=f"book:emma/{number}")
        library._unasked("resources/updated", uri="book:emma/" + "x" * 70_000)
        assert await anext(updates) == ResourceUpdate("book:emma")
        with anyio.move_on_after(0.01) as nothing:
            await anext(updates)
        assert nothing.cancelled_caught


@pytest.mark.slow
@pytest.mark.both_backends
async def test_a_flood_of_changes_of_lists_costs_one_more_list() -> None:
    library = Handshake()
    async with reading(library) as session:
        await session.list_prompts()
        notice = json.dumps({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"})
        library.send("\n".join([notice] * 100_000).encode())
        await session.list_prompts()
        await session.list_prompts()
        assert library.count("prompts/list") == 2


async def test_no_url_of_a_server_is_ever_fetched() -> None:
    async def trap(request: Request, reply: Reply) -> None:
        await reply.send(200, b"fetched")

    async with serving(trap) as web:
        icons = [{"src": f"{web.url}/icon.png"}]
        link = {"type": "resource_link", "uri": f"{web.url}/page", "name": "n", "icons": icons}
        entry = {"uri": f"{web.url}/page", "name": "n", "icons": icons}

        class Luring(Stateless):
            def _resources_list(self, params: dict[str, Any]) -> Any:
                return {"resources": [entry]}

            def _tools_call(self, params: dict[str, Any]) -> Any:
                return {"content": [link]}

            def _resources_read(self, params: dict[str, Any]) -> Any:
                return {"contents": [{"uri": params["uri"], "text": "from the server"}]}

        library = Luring()
        async with connect(in_memory(library), name="library", approval=allow_all) as session:
            (listed,) = await session.list_resources()
            result = await session.call_tool("find")
            assert result.links[0].icons == icons
            assert library.count("resources/read") == 0
            for read in (
                await session.follow(result.links[0]),
                await session.read_resource(listed.uri),
            ):
                assert read.contents[0].text == "from the server"
    assert web.connections == 0


@pytest.mark.parametrize("value", ["../../etc/passwd", "x?token=1", "x#y", "a/b", "%2e%2e/", "\n"])
async def test_a_value_stays_where_the_template_puts_it(value: str) -> None:
    entry = {"uriTemplate": "file:///notes/{name}/text", "name": "n"}
    odd = Odd("resources/templates/list", {"resourceTemplates": [entry]})
    async with reading(odd) as session:
        (template,) = await session.list_resource_templates()
    uri = template.expand(name=value)
    assert uri.count("/") == 5
    assert not set(uri) & set("?#\n")
    assert uri.startswith("file:///notes/") and uri.endswith("/text")
    with pytest.raises(InvalidArguments):
        template.expand(name="..")
