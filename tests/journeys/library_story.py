"""Resources, prompts, completion, links and changes: one story for any transport and revision."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mcp_client import (
    HttpServer,
    MemoryServer,
    ServerError,
    Session,
    StdioServer,
    allow_all,
    connect,
)
from mcp_client.content import ImageContent
from tests.support.http_apps import LibraryApp
from tests.support.http_server import serving
from tests.support.library import Handshake, Library, Stateless
from tests.support.starting import in_memory, library

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]


def shelf(revision: str) -> Library:
    return Stateless() if revision == REVISIONS[-1] else Handshake()


@asynccontextmanager
async def a_server(
    transport: str, revision: str
) -> AsyncIterator[StdioServer | HttpServer | MemoryServer]:
    if transport == "stdio":
        yield library("stateless" if revision == REVISIONS[-1] else "handshake")
    elif transport == "memory":
        yield in_memory(shelf(revision))
    else:
        async with serving(LibraryApp(shelf(revision))) as served:
            yield HttpServer(served.url)


PLAYS = [
    (transport, revision)
    for transport in ("memory", "stdio", "http")
    for revision in REVISIONS
    if transport != "http" or revision != "2024-11-05"  # which has another kind of HTTP
]


async def play(transport: str, revision: str) -> None:
    async with (
        a_server(transport, revision) as server,
        connect(server, name="library", approval=allow_all, revision=revision) as session,
    ):
        assert session.protocol_version == revision
        await it_lists_and_reads(session)
        await it_fills_in_templates_and_prompts(session)
        await it_follows_a_link(session)
        await it_hears_of_changes(session)


async def it_lists_and_reads(session: Session) -> None:
    books = await session.list_resources()
    assert [book.uri for book in books] == ["book:emma", "book:ulysses"]
    read = await session.read_resource(books[0].uri)
    assert read.contents[0].text == "Emma Woodhouse"
    cover = (await session.read_resource("book:cover")).contents[0]
    assert (cover.bytes, cover.mime_type) == (b"\x89PNG cover", "image/png")
    with pytest.raises(ServerError, match="no resource 'book:none'"):
        await session.read_resource("book:none")


async def it_fills_in_templates_and_prompts(session: Session) -> None:
    template = (await session.list_resource_templates())[0]
    found = await session.complete(template, {"name": "title", "value": "ul"})
    assert (found.values, found.total, found.has_more) == (("ulysses",), 1, False)
    uri = template.expand(title=found.values[0])
    assert (await session.read_resource(uri)).contents[0].text == "Stately, plump"
    (prompt,) = await session.list_prompts()
    assert [(a.name, a.required) for a in prompt.arguments] == [("title", True)]
    filled = await session.get_prompt(prompt.name, {"title": "emma"})
    assert [str(message) for message in filled.messages] == [
        "Sum up emma.",
        "[resource link: emma, book:emma]",
    ]
    assert (await session.follow(filled.links[0])).contents[0].text == "Emma Woodhouse"


async def it_follows_a_link(session: Session) -> None:
    result = await session.call_tool("find")
    inside, outside = result.links
    assert (await session.follow(inside)).text.endswith("Emma Woodhouse")
    assert (await session.follow(outside)).text.endswith("as the server read it")
    picture = result.content[-1]
    assert isinstance(picture, ImageContent) and picture.bytes == b"\x89PNG cover"
    assert picture.annotations is not None and picture.annotations.audience == ("user",)


async def it_hears_of_changes(session: Session) -> None:
    async with (
        session.subscribe_resource("book:emma") as updates,
        session.resource_changes() as changes,
    ):
        await session.call_tool("write", {"uri": "book:emma", "text": "Handsome, clever"})
        update = await anext(updates)
        assert update.uri == "book:emma"
        assert (await session.read_resource(update.uri)).contents[0].text == "Handsome, clever"
        await session.call_tool("add", {"uri": "book:new"})
        assert [book.uri for book in (await anext(changes)).added] == ["book:new"]
    assert [book.uri for book in await session.list_resources()][1] == "book:new"
