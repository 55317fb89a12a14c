"""Content blocks: the known kinds are parsed, and anything else is left as it came."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.protocol.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    UnknownContent,
    content_block,
)

TEXT = {"type": "text", "text": "hello", "_meta": {"a": 1}}
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png", "annotations": {}}
AUDIO = {"type": "audio", "data": "AAAAAAAA", "mimeType": "audio/wav"}
LINK = {
    "type": "resource_link",
    "uri": "file:///a",
    "name": "a",
    "title": "A",
    "description": "the a",
    "mimeType": "text/plain",
}
INLINE = {"type": "resource", "resource": {"uri": "u:1", "text": "body", "mimeType": "text/plain"}}
BLOB = {"type": "resource", "resource": {"uri": "u:2", "blob": "AAAA"}}


@pytest.mark.parametrize(
    ("block", "read", "displayed"),
    [
        (TEXT, TextContent("hello", TEXT), "hello"),
        (IMAGE, ImageContent("AAAA", "image/png", IMAGE), "[image, image/png, 3 bytes]"),
        (AUDIO, AudioContent("AAAAAAAA", "audio/wav", AUDIO), "[audio, audio/wav, 6 bytes]"),
        (
            LINK,
            ResourceLink("file:///a", "a", "A", "the a", "text/plain", LINK),
            "[resource link: a, file:///a, text/plain]",
        ),
        (
            INLINE,
            EmbeddedResource("u:1", "text/plain", "body", None, INLINE),
            "[resource: u:1, text/plain]\nbody",
        ),
        (BLOB, EmbeddedResource("u:2", None, None, "AAAA", BLOB), "[resource: u:2, 3 bytes]"),
    ],
)
def test_a_known_kind_is_read_and_named_in_text(
    block: dict[str, Any], read: Any, displayed: str
) -> None:
    found = content_block(block)
    assert found == read
    assert type(found) is type(read)
    assert found.type == block["type"]
    assert found.raw == block
    assert str(found) == displayed


def test_optional_members_of_a_wrong_type_are_absent() -> None:
    link = content_block({**LINK, "title": 7, "description": None, "mimeType": []})
    assert isinstance(link, ResourceLink)
    assert (link.title, link.description, link.mime_type) == (None, None, None)


PNG = b64encode(b"\x89PNG\r\n\x1a\n" + bytes(62)).decode()
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEA"


@pytest.mark.parametrize(
    ("block", "kind", "text"),
    [
        ({"type": "image", "data": PNG}, ImageContent, "[image, image/png, 70 bytes]"),
        ({"type": "image", "data": PNG, "mimeType": None}, ImageContent, "image/png"),
        ({"type": "image", "data": PNG, "mimeType": ""}, ImageContent, "image/png"),
        ({"type": "image", "data": f"data:image/png;base64,{PNG}"}, ImageContent, "70 bytes"),
        ({"type": "image", "data": "AAAA"}, ImageContent, "application/octet-stream, 3 bytes"),
        ({"type": "image", "data": "?!"}, ImageContent, "application/octet-stream"),
        ({"type": "audio", "data": WAV}, AudioContent, "[audio, audio/wav, 24 bytes]"),
        ({"type": "resource_link", "uri": "file:///a/b.txt"}, ResourceLink, "link: b.txt, file:"),
        ({"type": "resource_link", "uri": "u:1", "name": None}, ResourceLink, "link: u:1, u:1"),
        (
            {"type": "resource", "resource": {"text": "held"}},
            EmbeddedResource,
            "[resource without an address]\nheld",
        ),
        (
            {"type": "resource", "resource": {"blob": "AAAA", "mimeType": "a/b"}},
            EmbeddedResource,
            "[resource without an address, a/b, 3 bytes]",
        ),
        (
            {"type": "resource", "uri": "u:1", "text": "held"},
            EmbeddedResource,
            "[resource: u:1]\nheld",
        ),
        ({"text": "held"}, TextContent, "held"),
        ({"type": None, "text": "held"}, TextContent, "held"),
        ({"data": "iVBORw0KGgoAAAAN"}, ImageContent, "[image, image/png"),
        ({"data": "AAAA", "mimeType": "audio/wav"}, AudioContent, "[audio, audio/wav"),
        ({"resource": {"uri": "u:1", "text": "held"}}, EmbeddedResource, "[resource: u:1]\nheld"),
        ({"uri": "u:1", "text": "held"}, EmbeddedResource, "[resource: u:1]\nheld"),
        ({"uri": "https://x/y.png"}, ResourceLink, "[resource link: y.png"),
    ],
)
def test_what_a_block_lacks_is_taken_from_what_it_has(block: Any, kind: type, text: str) -> None:
    found = content_block(block)
    assert type(found) is kind
    assert text in str(found)
    assert found.raw == block


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "image", "url": "https://x/y.png"}, "[image without a usable data, url 'https"),
        ({"type": "text"}, "[text without a usable text]"),
        ({"type": "resource_link", "name": "n"}, "[resource link without a usable uri, name 'n']"),
        ({"type": "resource", "resource": {"uri": "u:1"}}, "usable text or blob, uri 'u:1']"),
        ({"type": "video", "data": "x"}, "[content of unknown kind 'video']"),
    ],
)
def test_what_cannot_be_used_is_described_truthfully(block: Any, text: str) -> None:
    assert text in str(content_block(block))


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        (None, ""),
        ("text", ""),
        ([TEXT], ""),
        ({}, ""),
        ({"type": 7, "text": "x"}, ""),
        ({"data": "AAAA"}, ""),
        ({"type": "video", "data": "x"}, "video"),
        ({"type": "text"}, "text"),
        ({"type": "text", "text": None}, "text"),
        ({"type": "image", "data": 1, "mimeType": "image/png"}, "image"),
        ({"type": "audio", "mimeType": "audio/wav"}, "audio"),
        ({"type": "resource_link", "name": "n"}, "resource_link"),
        ({"type": "resource", "resource": "u:1"}, "resource"),
        ({"type": "resource", "resource": {"uri": "u:1"}}, "resource"),
        ({"type": "resource", "resource": {"uri": "u:1", "text": "a", "blob": "b"}}, "resource"),
    ],
)
def test_a_malformed_or_unknown_block_is_left_as_it_came(block: Any, kind: str) -> None:
    assert content_block(block) == UnknownContent(kind, block)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(
    anything
    | st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "x"])},
        optional=dict.fromkeys(
            ("text", "data", "mimeType", "uri", "name", "resource", "title"), anything
        ),
    )
)
def test_any_block_is_read_keeps_its_raw_form_and_is_shown(block: Any) -> None:
    found = content_block(block)
    assert found.raw == block
    assert isinstance(str(found), str)


def test_what_a_block_is_narrows_its_type() -> None:
    block = content_block(IMAGE)
    match block.type:  # mypy in strict mode checks the attributes that each case has
        case "image" | "audio":
            assert block.size == 3
        case "text":
            pytest.fail(block.text)
        case "resource" | "resource_link":
            pytest.fail(block.uri)
        case "unknown":
            pytest.fail(block.kind)


def test_a_malformed_block_does_not_pass_for_the_kind_it_claims() -> None:
    assert content_block({"type": "image", "data": 7}).type == "unknown"


@pytest.mark.parametrize(
    ("block", "displayed"),
    [
        (TEXT, "TextContent('hello')"),
        ({"type": "text", "text": "x" * 5_000_000}, f"TextContent('{'x' * 80}…', 5000000 char"),
        ({**IMAGE, "data": "A" * 4_000_000}, "ImageContent('image/png', 3000000 bytes)"),
        ({**AUDIO, "data": "A" * 4_000_000}, "AudioContent('audio/wav', 3000000 bytes)"),
        (LINK, "ResourceLink('file:///a', 'a')"),
        ({**LINK, "description": "x" * 10_000}, "ResourceLink('file:///a', 'a')"),
        (INLINE, "EmbeddedResource('u:1', 'text/plain', 'body')"),
        (BLOB, "EmbeddedResource('u:2', 3 bytes)"),
        ({"type": "video", "data": "x" * 10_000}, "UnknownContent('video')"),
        ({"type": "text", "text": "\x1b[2J\u202e"}, r"TextContent('\\u{1b}[2J\\u{202e}')"),
    ],
)
def test_the_repr_of_a_block_has_sizes_and_no_data(block: dict[str, Any], displayed: str) -> None:
    assert repr(content_block(block)).startswith(displayed)
    assert len(repr(content_block(block))) < 200
