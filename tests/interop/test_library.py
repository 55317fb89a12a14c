"""Resources, prompts, completion, links and subscriptions on real servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mcp_client import NotSent, ServerError, Session, StdioServer, allow_all, connect
from mcp_client.content import EmbeddedResource, ImageContent
from tests.interop import http_peers, peers

pytestmark = pytest.mark.interop
STATELESS = "2026-07-28"


@asynccontextmanager
async def connected(peer: str, revision: str) -> AsyncIterator[Session]:
    if peer == "http":
        async with http_peers.library() as url, _session(url, revision) as session:
            yield session
    else:
        async with _session(peers.library(peer), revision) as session:
            yield session


@asynccontextmanager
async def _session(server: StdioServer | str, revision: str) -> AsyncIterator[Session]:
    async with connect(server, name="library", approval=allow_all, revision=revision) as session:
        yield session


@pytest.mark.parametrize(
    ("peer", "revision"),
    [
        ("2.3.0", STATELESS),
        ("2.3.0", "2025-11-25"),
        ("1.12.4", "2025-06-18"),
        ("1.6.0", "2024-11-05"),
        ("http", STATELESS),
    ],
)
async def test_what_the_official_sdk_offers_besides_tools(peer: str, revision: str) -> None:
    async with connected(peer, revision) as session:
        assert session.protocol_version == revision
        listed = await session.list_resources()
        assert [resource.uri for resource in listed] == ["book://emma", "cover://emma"]
        assert not listed.rejected and not listed.findings
        emma, cover = [(await session.read_resource(one.uri)).contents[0] for one in listed]
        assert (emma.text, emma.mime_type) == ("Emma Woodhouse", "text/plain")
        assert (cover.bytes, cover.mime_type) == (b"\x89PNG cover", "image/png")
        (template,) = await session.list_resource_templates()
        uri = template.expand(title="ulysses")
        assert (await session.read_resource(uri)).contents[0].text == "Stately, plump"
        (prompt,) = await session.list_prompts()
        assert [argument.name for argument in prompt.arguments] == ["title"]
        filled = await session.get_prompt(prompt.name, {"title": "emma"})
        assert [str(message) for message in filled.messages] == ["Sum up emma."]
        if revision == STATELESS:
            await it_completes_links_and_announces_changes(session)
            with pytest.raises(ServerError, match="no resource 'book://none'"):
                await session.read_resource("book://none")
        else:
            with pytest.raises(NotSent, match=r"resources\.subscribe"):
                session.subscribe_resource("book://emma")
        assert session.stats.late_answers == session.stats.stray_answers == 0


async def it_completes_links_and_announces_changes(session: Session) -> None:
    (template,) = await session.list_resource_templates()
    found = await session.complete(template, {"name": "title", "value": "ul"})
    assert (found.values, found.total) == (("ulysses",), 1)
    link = (await session.call_tool("find")).links[0]
    assert (await session.follow(link)).contents[0].text == "Emma Woodhouse"
    async with (
        session.subscribe_resource("book://emma") as updates,
        session.resource_changes() as changes,
    ):
        (await session.call_tool("write", {"text": "handsome"})).raise_for_error()
        update = await anext(updates)
        assert (update.uri, update.certain) == ("book://emma", True)
        assert (await session.read_resource(update.uri)).contents[0].text == "handsome"
        (await session.call_tool("add", {"title": "new"})).raise_for_error()
        assert [one.uri for one in (await anext(changes)).added] == ["book://new"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_what_the_reference_server_offers_besides_tools(transport: str) -> None:
    if transport == "http":
        async with http_peers.everything("streamableHttp") as url:
            await announce_everything(url)
    else:
        await announce_everything(peers.everything())


async def announce_everything(server: StdioServer | str) -> None:
    async with connect(server, name="everything", approval=allow_all) as session:
        listed = await session.list_resources()
        assert len(listed) > 3 and not listed.rejected
        assert (await session.read_resource(listed[0].uri)).contents[0].text
        text, blob = await session.list_resource_templates()
        assert text.variables == blob.variables == ("resourceId",)
        read = (await session.read_resource(blob.expand(resourceId=1))).contents[0]
        assert read.bytes.startswith(b"Resource 1: ")
        found = await session.complete(text, {"name": "resourceId", "value": "1"})
        assert found.values == ("1",)
        prompts = {prompt.name: prompt for prompt in await session.list_prompts()}
        completable = prompts["completable-prompt"]
        teams = await session.complete(completable, {"name": "department", "value": "Eng"})
        assert teams.values == ("Engineering",)
        known = {"department": "Engineering"}
        names = await session.complete(completable, {"name": "name", "value": ""}, known)
        assert names.values
        filled = await session.get_prompt("args-prompt", {"city": "Oslo"})
        assert "Oslo" in str(filled.messages[0])
        await it_points_and_shows(session)
        await it_announces_updates(session, listed[0].uri)


async def it_points_and_shows(session: Session) -> None:
    result = await session.call_tool("get-resource-links", {"count": 3})
    assert len(result.links) == 3
    for link in result.links:
        assert link.uri in result.text
        assert (await session.follow(link)).contents[0].uri == link.uri
    arguments = {"messageType": "success", "includeImage": True}
    marked = await session.call_tool("get-annotated-message", arguments)
    image = marked.content[1]
    assert isinstance(image, ImageContent)
    assert image.bytes.startswith(b"\x89PNG") and len(image.bytes) == image.size
    assert image.annotations is not None
    assert (image.annotations.audience, image.annotations.priority) == (("user",), 0.5)
    inside = await session.call_tool(
        "get-resource-reference", {"resourceType": "Blob", "resourceId": 1}
    )
    (embedded,) = [block for block in inside.content if isinstance(block, EmbeddedResource)]
    assert embedded.bytes.startswith(b"Resource 1: ")


async def it_announces_updates(session: Session, uri: str) -> None:
    async with session.subscribe_resource(uri) as updates:
        await session.call_tool("toggle-subscriber-updates")
        assert (await anext(updates)).uri == uri
        await session.call_tool("toggle-subscriber-updates")
