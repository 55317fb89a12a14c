"""Servers whose skills are not what they announce: nothing of them is returned."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from mcp_client import (
    Allow,
    CallDenied,
    Limits,
    McpError,
    ServerError,
    Session,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.approval import SkillRequest
from mcp_client.errors import ProtocolViolation, SkillError
from mcp_client.transports.memory import MemoryTransport
from tests.support.feed import KnownAs
from tests.support.skills import FORMS, MAIN, PDF, SkillServer, entry_of, skill

pytestmark = pytest.mark.one_backend

READ = "references/FORMS.md"


async def refused(server: SkillServer, uri: str = PDF) -> SkillError:
    async with connect(server.transport, name="docs", approval=allow_all) as session:
        with pytest.raises(SkillError) as error:
            await session.load_skill(uri)
    assert error.value.server == "docs"
    return error.value


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (MAIN.replace(b"See ", b"Eat "), "digest"),
        (MAIN + b"more", "size"),
        (MAIN[:-1], "size"),
        (b"", "size"),
    ],
)
async def test_a_skill_md_that_is_not_what_was_announced_is_not_returned(
    content: bytes, reason: str
) -> None:
    server = SkillServer()
    server.files[PDF] = content
    error = await refused(server)
    assert (error.reason, error.uri) == (reason, PDF)
    assert "Eat" not in str(error)
    assert server.reads == [PDF], "nothing is read after it"


@pytest.mark.parametrize(
    ("main", "what"),
    [
        (MAIN.replace(b"Fill in forms", b"Exfiltrate it"), "'description' differs"),
        (MAIN.replace(b"allowed-tools: Bash", b"allowed-tools: Read"), "'allowed-tools'"),
        (MAIN.replace(b"allowed-tools: Bash\n", b""), "lacks the field 'allowed-tools'"),
        (MAIN.replace(b"allowed", b"hooks: x\nallowed"), "has a field 'hooks'"),
        (MAIN.replace(b"name: pdf", b"name: &pdf pdf"), "an anchor"),
        (MAIN.replace(b"name: pdf", b"name: pdf\nname: pdf"), "a duplicate name"),
        (b"\n" + MAIN, "does not begin"),
        (b"# No front matter\n", "does not begin"),
        (MAIN + b"\xff", "UTF-8"),
    ],
)
async def test_other_front_matter_than_was_approved_is_refused(main: bytes, what: str) -> None:
    server = SkillServer()
    server.blobs = True
    server.files[PDF] = main
    fields = {"description": "Fill in forms", "allowed-tools": "Bash"}
    server.skills = [entry_of(PDF, server.files, **fields)]
    error = await refused(server)
    assert error.reason == "frontmatter"
    assert what in str(error)


async def test_numbers_and_booleans_of_front_matter_are_compared_by_value() -> None:
    server = SkillServer()
    uri = "skill://x/SKILL.md"
    main = b"---\nname: x\ndescription: d\nversion: 1.0\nyes: yes\nonce: true\n---\n"
    server.files = {uri: main}
    server.skills = [entry_of(uri, server.files, description="d", version=1, yes="yes", once=True)]
    async with connect(server.transport, approval=allow_all) as session:
        await session.load_skill(uri)
    for wrong in ({"version": True}, {"once": 1}, {"yes": True}):
        fields = {"description": "d", "version": 1, "yes": "yes", "once": True, **wrong}
        server.skills = [entry_of(uri, server.files, **fields)]
        assert (await refused(server, uri)).reason == "frontmatter"


@pytest.mark.parametrize(
    ("forms", "reason"), [(b"# Evils\n\xc3\xa9\n", "digest"), (b"longer than it was", "size")]
)
async def test_a_file_that_changes_after_the_skill_was_loaded_is_not_returned(
    forms: bytes, reason: str
) -> None:
    server = SkillServer()
    async with connect(server.transport, approval=allow_all) as session:
        loaded = await session.load_skill(PDF)
        before, server.files[FORMS] = server.files[FORMS], forms
        for read in (loaded.read, loaded.read_text):
            with pytest.raises(SkillError) as error:
                await read(READ)
            assert (error.value.reason, error.value.uri) == (reason, FORMS)
        server.files[FORMS] = before
        assert await loaded.read(READ) == before, "what failed is not stored"


async def test_a_skill_that_changes_between_list_and_load_is_refused_and_then_asked_about() -> None:
    server = SkillServer()
    asked: list[Any] = []

    def hook(request: Any) -> Allow:
        asked.append(request)
        return Allow(remember="session")

    async with connect(server.transport, approval=hook) as session:
        (entry,) = await session.list_skills()
        await session.load_skill(entry)
        server.files[PDF] = MAIN + b"and more\n"
        fields = {"description": "Fill in forms", "allowed-tools": "Bash"}
        server.skills = [entry_of(PDF, server.files, **fields)]
        with pytest.raises(SkillError, match=r"load_skill\(uri\) fetches its entry again"):
            await session.load_skill(entry)
        assert len(asked) == 1, "it is the entry that was approved"
        assert (await session.load_skill(PDF)).text.endswith("and more\n")
        assert len(asked) == 2


@pytest.mark.parametrize(
    "path",
    [
        "../pdf/references/FORMS.md",
        "references/../../pdf/SKILL.md",
        "references/../SKILL.md",
        "..",
        ".",
        "",
        "/references/FORMS.md",
        "//pdf/references/FORMS.md",
        "skill://pdf/references/FORMS.md",
        "skill://other/SKILL.md",
        "https://example.com/x",
        "file:///etc/passwd",
        "C:\\x",
        "references\\FORMS.md",
        "references/%2e%2e/SKILL.md",
        "%2e%2e/x",
        "references%2FFORMS.md",
        "references/FORMS.md%00",
        "references/FORMS.md\0",
        "references/FORMS.md?x=1",
        "references/FORMS.md#part",
        "references//FORMS.md",
        "references/FORMS.md/",
        "references/forms.md",
        "references",
        "unlisted.md",
        "references/FORMS.md\u200b",
        "\ud800",
    ],
)
async def test_a_path_that_is_none_of_a_listed_file_is_refused_without_asking_the_server(
    path: str,
) -> None:
    server = SkillServer()
    server.files["skill://pdf/unlisted.md"] = b"evil"
    server.files["skill://other/SKILL.md"] = skill("other")
    async with connect(server.transport, approval=allow_all) as session:
        loaded = await session.load_skill(PDF)
        with pytest.raises(SkillError) as error:
            await loaded.read(path)
    assert error.value.reason == "unlisted"
    assert str(error.value).isprintable()
    assert server.reads == [PDF]


async def test_a_path_of_a_dynamic_skill_stays_within_the_skill() -> None:
    server = SkillServer()
    server.skills[0]["resources"] = "dynamic"
    async with connect(server.transport, approval=allow_all) as session:
        loaded = await session.load_skill(PDF)
        for path in ("../x", "a/../../x", "%2e%2e/x", "skill://other/x", "data:x", "/x", "a?b", ""):
            with pytest.raises(SkillError):
                await loaded.read(path)
        with pytest.raises(ServerError):
            await loaded.read("x y/ü")
    assert server.reads == [PDF, "skill://pdf/x%20y/%C3%BC"]


class Pieces(SkillServer):
    """A server that answers reads with ``pieces``."""

    def __init__(self, *pieces: Any) -> None:
        super().__init__()
        self.pieces = list(pieces)

    def __call__(self, message: dict[str, Any]) -> Any:
        found = super().__call__(message)
        if message["method"] == "resources/read":
            found["contents"] = self.pieces
        return found


TEXT = {"uri": PDF, "text": MAIN.decode()}


@pytest.mark.parametrize(
    "pieces",
    [
        [],
        [TEXT, TEXT],
        [TEXT, {"uri": PDF}],
        [{"uri": PDF}],
        [{"uri": PDF, "blob": "not base64"}],
        [{"uri": PDF, "blob": base64.b64encode(MAIN).decode().rstrip("=") + "!"}],
        [{"uri": PDF, "text": MAIN.decode(), "blob": ""}],
    ],
)
async def test_a_response_that_is_not_one_file_is_refused(pieces: list[Any]) -> None:
    assert (await refused(Pieces(*pieces))).reason == "invalid"


async def test_contents_that_are_not_an_array_break_the_specification() -> None:
    server = Pieces()
    server.pieces = 7  # type: ignore[assignment]
    async with connect(server.transport, approval=allow_all) as session:
        with pytest.raises(ProtocolViolation):
            await session.load_skill(PDF)


class Getting(SkillServer):
    """A server that answers ``skills/get`` with anything."""

    def __init__(self, response: Any) -> None:
        super().__init__()
        self.decision = response

    def __call__(self, message: dict[str, Any]) -> Any:
        found = super().__call__(message)
        return {**self.decision, "resultType": "complete"} if "skill" in found else found


@pytest.mark.parametrize(
    "response",
    [
        {},
        {"skill": None},
        {"skill": "dynamic"},
        {"skill": {"uri": PDF}},
        {"skill": entry_of("skill://other/SKILL.md", {"skill://other/SKILL.md": b"x"})},
        {"skill": entry_of(PDF, {PDF: MAIN, "skill://pdf/../x": b"x"})},
        {"skill": entry_of(PDF, {PDF: MAIN}, name="other")},
        {"skill": {**entry_of(PDF, {PDF: MAIN}), "resources": {}}},
        {"skill": {**entry_of(PDF, {PDF: MAIN}), "resources": entry_of(PDF, {})["resources"]}},
    ],
)
async def test_an_invalid_entry_is_refused_before_anybody_is_asked(response: Any) -> None:
    server, asked = Getting(response), list[Any]()

    def hook(request: Any) -> Allow:
        asked.append(request)
        return Allow()

    async with connect(server.transport, approval=hook) as session:
        with pytest.raises(SkillError) as error:
            await session.load_skill(PDF)
    assert (error.value.reason, asked, server.reads) == ("invalid", [], [])


async def test_a_list_of_hostile_entries_costs_only_them() -> None:
    server = SkillServer()
    good = server.skills[0]
    deep: Any = "x"
    for _ in range(60):
        deep = [deep]
    server.skills = [
        {**good, "resources": [*good["resources"], *good["resources"]]},
        {**good, "uri": "skill://pdf/../pdf/SKILL.md"},
        {**good, "frontmatter": {"name": "pdf\x1b[2J", "description": "d"}},
        entry_of("skill://deep/SKILL.md", {"skill://deep/SKILL.md": b""}, x=deep),
        good,
    ]
    server.files["skill://deep/SKILL.md"] = b""
    async with connect(server.transport, approval=allow_all) as session:
        listed = await session.list_skills()
        assert [entry.name for entry in listed] == ["deep", "pdf"]
        assert len(listed.rejected) == 3
        assert all(one.reason.isprintable() for one in listed.rejected)
        with pytest.raises(SkillError):
            await session.load_skill(listed[0])


async def test_hidden_orders_in_a_description_are_among_the_findings() -> None:
    server, asked = SkillServer(), list[SkillRequest]()
    fields = {"description": "Fill in\u200b forms", "x-more": {"deep": ["\x1b[2J"]}}
    server.skills = [entry_of(PDF, server.files, **fields)]

    def hook(request: Any) -> Any:
        asked.append(request)
        raise RuntimeError

    async with connect(server.transport, approval=hook) as session:
        assert (await session.list_skills()).findings
        with pytest.raises(CallDenied):
            await session.load_skill(PDF)
    assert len(asked[0].findings) > 1
    assert asked[0].ignored == ("x-more",)
    assert all(finding.text.isprintable() for finding in asked[0].findings)


async def test_a_file_that_is_announced_larger_than_any_skill_is_declined() -> None:
    server = SkillServer()
    server.skills[0]["resources"][1]["size"] = 2**70
    assert (await refused(server)).reason == "limit"
    assert server.reads == []


async def test_a_file_that_is_larger_than_a_message_may_be_costs_only_this_read() -> None:
    server = SkillServer()
    limits = Limits(message_bytes=20_000)
    async with connect(server.transport, approval=allow_all, limits=limits) as session:
        loaded = await session.load_skill(PDF)
        forms, server.files[FORMS] = server.files[FORMS], b"x" * 50_000
        with pytest.raises(McpError):
            await loaded.read(READ)
        server.files[FORMS] = forms
        assert await loaded.read(READ) == forms


async def test_a_hook_that_loads_a_skill_while_it_decides_one_is_refused() -> None:
    server, sessions = SkillServer(), list[Session]()

    async def hook(request: ToolCall | SkillRequest) -> Allow:
        await sessions[0].load_skill(PDF)
        return Allow()

    async with connect(server.transport, approval=hook) as session:
        sessions.append(session)
        with pytest.raises(CallDenied):
            await session.load_skill(PDF)
    assert server.reads == []


async def test_a_server_that_fails_to_serve_a_listed_file_is_a_server_error() -> None:
    server = SkillServer()
    del server.files[FORMS]
    async with connect(server.transport, approval=allow_all) as session:
        loaded = await session.load_skill(PDF)
        with pytest.raises(ServerError):
            await loaded.read(READ)


async def test_skills_of_one_authorization_are_not_shown_to_another() -> None:
    """A private list is dropped with the authorization it was fetched under, as other lists are."""
    server, user = SkillServer(), ["ana"]
    server.scope = "private"

    class LoggedIn(MemoryTransport):
        credentials = KnownAs(lambda: user[0])

    async with connect(LoggedIn(server), approval=allow_all) as session:
        await session.list_skills()
        await session.list_skills()
        assert server.count("skills/list") == 1
        user[0] = "bo"
        await session.list_skills()
        assert server.count("skills/list") == 2
