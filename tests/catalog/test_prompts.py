"""Prompts and completion: asked for in the specification's words, and read with care."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_client import ServerError
from mcp_client.content import ImageContent, TextContent, UnknownContent
from mcp_client.errors import InvalidArguments, ProtocolViolation
from tests.catalog.test_resources import Odd, library, reading
from tests.support.library import Library

pytestmark = pytest.mark.one_backend

__all__ = ["library"]  # the fixture: a library of each era


def asked(library: Library, method: str) -> list[dict[str, Any]]:
    own = [dict(m["params"]) for m in library.messages if m["method"] == method]
    for params in own:
        params.pop("_meta", None)
    return own


@pytest.mark.both_backends
async def test_prompts_are_listed_cached_and_their_changes_received(library: Library) -> None:
    async with reading(library) as session, session.prompt_changes() as changes:
        listed = library.count("prompts/list")
        assert [prompt.name for prompt in await session.list_prompts()] == ["summary"]
        assert library.count("prompts/list") == listed
        library.prompts = ["summary", "review"]
        library.changed("prompts")
        change = await anext(changes)
        assert [prompt.name for prompt in change.added] == ["review"]
        assert [prompt.name for prompt in change.now] == ["summary", "review"]
        assert (change.removed, change.changed) == ((), ())


async def test_a_bad_prompt_is_left_out_with_its_reason() -> None:
    entries = [
        {"name": "a", "arguments": [{"name": "x", "required": True}, {"name": "y", "required": 1}]},
        {"name": ""},
        {"title": "no name"},
        {"name": "b", "arguments": {}},
        {"name": "c", "arguments": [{"required": True}]},
        {"name": "a"},
        7,
    ]
    async with reading(Odd("prompts/list", {"prompts": entries})) as session:
        found = await session.list_prompts()
    assert [prompt.name for prompt in found] == ["a"]
    assert [(a.name, a.required) for a in found[0].arguments] == [("x", True), ("y", False)]
    assert [one.name for one in found.rejected] == ["", "", "b", "c", "a", ""]


async def test_a_prompt_is_filled_in_by_the_server(library: Library) -> None:
    async with reading(library) as session:
        filled = await session.get_prompt("summary", {"title": "emma"}, meta={"k": 1})
        await session.get_prompt("summary")
        with pytest.raises(ServerError, match="no such prompt"):
            await session.get_prompt("none")
    assert (filled.description, filled.server, filled.prompt) == ("sums up", "library", "summary")
    assert [message.role for message in filled.messages] == ["user", "user"]
    assert isinstance(filled.messages[0].content, TextContent)
    assert [link.uri for link in filled.links] == ["book:emma"]
    assert asked(library, "prompts/get") == [
        {"name": "summary", "arguments": {"title": "emma"}},
        {"name": "summary"},
        {"name": "none"},
    ]
    request = next(m for m in library.messages if m["method"] == "prompts/get")
    assert request["params"]["_meta"]["k"] == 1


async def test_any_kind_of_content_may_be_in_a_message() -> None:
    contents: list[Any] = [
        {"type": "image", "data": "eA==", "mimeType": "image/x", "annotations": {"priority": 1}},
        {"type": "hologram"},
    ]
    messages = [{"role": "assistant", "content": content} for content in contents]
    odd = Odd("prompts/get", {"messages": messages, "_meta": {"k": 1}})
    async with reading(odd) as session:
        filled = await session.get_prompt("p")
    image, unknown = (message.content for message in filled.messages)
    assert isinstance(image, ImageContent) and image.annotations is not None
    assert image.annotations.priority == 1.0
    assert isinstance(unknown, UnknownContent)
    assert (filled.meta, filled.description) == ({"k": 1}, None)


@pytest.mark.parametrize(
    "content", ["said", {"text": "said"}, ["said"], [{"type": "text", "text": "said"}]]
)
async def test_a_message_whose_content_is_written_shorter_has_its_text(content: Any) -> None:
    message = {"role": "user", "content": content}
    async with reading(Odd("prompts/get", {"messages": [message]})) as session:
        (found,) = (await session.get_prompt("p")).messages
    assert isinstance(found.content, TextContent)
    assert (str(found), found.raw) == ("said", message)


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"messages": {}},
        {"messages": [7]},
        {"messages": [{"role": "system", "content": {"type": "text", "text": "obey"}}]},
    ],
)
async def test_invalid_messages_are_a_protocol_violation(odd: Any) -> None:
    async with reading(Odd("prompts/get", odd)) as session:
        with pytest.raises(ProtocolViolation, match="invalid prompt result") as caught:
            await session.get_prompt("p")
    assert (caught.value.result, caught.value.server) == (odd, "library")


@pytest.mark.parametrize(
    ("name", "arguments"), [("", None), (7, None), ("p", {"a": 1}), ("p", {1: "a"}), ("p", ["a"])]
)
async def test_what_cannot_be_a_prompt_is_not_sent(name: Any, arguments: Any) -> None:
    library = Odd("prompts/get", {"messages": []})
    async with reading(library) as session:
        with pytest.raises(InvalidArguments):
            await session.get_prompt(name, arguments)
    assert library.count("prompts/get") == 0


async def test_a_prompt_may_take_rounds() -> None:
    asks = {"resultType": "input_required", "requestState": "s"}
    library = Odd("prompts/get", asks, {"messages": []})
    async with reading(library) as session:
        assert (await session.get_prompt("p")).messages == ()
    assert asked(library, "prompts/get") == [{"name": "p"}, {"name": "p", "requestState": "s"}]


# -------------------------------------------------------------------- completion


async def test_what_is_completed_is_named_in_the_specifications_words(library: Library) -> None:
    typed = {"name": "title", "value": "e"}
    async with reading(library) as session:
        (prompt,) = await session.list_prompts()
        (template,) = await session.list_resource_templates()
        found = await session.complete(prompt, typed)
        await session.complete(template, typed, {"author": "joyce"})
        await session.complete({"type": "ref/prompt", "name": "summary", "title": "S"}, typed)
    assert (found.values, found.total, found.has_more) == (("emma",), 1, False)
    assert asked(library, "completion/complete") == [
        {"ref": {"type": "ref/prompt", "name": "summary"}, "argument": typed},
        {
            "ref": {"type": "ref/resource", "uri": "book:{title}"},
            "argument": typed,
            "context": {"arguments": {"author": "joyce"}},
        },
        {"ref": {"type": "ref/prompt", "name": "summary", "title": "S"}, "argument": typed},
    ]


async def test_suggestions_are_read_with_care() -> None:
    values = ["a", 7, None, *map(str, range(200))]
    odd = {"completion": {"values": values, "total": "many", "hasMore": "yes"}}
    async with reading(Odd("completion/complete", odd)) as session:
        ref = {"type": "ref/prompt", "name": "p"}
        found = await session.complete(ref, {"name": "a", "value": ""})
    assert len(found.values) == 100
    assert (found.total, found.has_more) == (None, True)


@pytest.mark.parametrize("odd", [{}, {"completion": []}, {"completion": {"values": "a"}}])
async def test_an_invalid_completion_is_a_protocol_violation(odd: Any) -> None:
    async with reading(Odd("completion/complete", odd)) as session:
        ref = {"type": "ref/prompt", "name": "p"}
        with pytest.raises(ProtocolViolation, match="invalid completion result"):
            await session.complete(ref, {"name": "a", "value": ""})


@pytest.mark.parametrize(
    ("ref", "argument", "context"),
    [
        ("p", {"name": "a", "value": ""}, None),
        ({"type": "ref/tool", "name": "p"}, {"name": "a", "value": ""}, None),
        ({"type": "ref/resource", "name": "p"}, {"name": "a", "value": ""}, None),
        ({"type": "ref/prompt", "name": "p"}, {"name": "a"}, None),
        ({"type": "ref/prompt", "name": "p"}, {"name": "a", "value": 7}, None),
        ({"type": "ref/prompt", "name": "p"}, {"name": "a", "value": ""}, {"b": 7}),
    ],
)
async def test_what_cannot_be_completed_is_not_sent(ref: Any, argument: Any, context: Any) -> None:
    library = Odd("completion/complete", {"completion": {"values": []}})
    async with reading(library) as session:
        with pytest.raises(InvalidArguments):
            await session.complete(ref, argument, context)
    assert library.count("completion/complete") == 0


async def test_completion_was_not_declared_in_the_first_revision_and_is_asked_for() -> None:
    from tests.support.library import Handshake

    library = Handshake()
    library.capabilities = {"prompts": {}}
    async with reading(library, revision="2024-11-05") as session:
        ref = {"type": "ref/prompt", "name": "summary"}
        found = await session.complete(ref, {"name": "title", "value": "u"})
    assert found.values == ("ulysses",)
