"""Skills of the official SDK for TypeScript and of FastMCP: we parse directories as they do."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_client import Host, ServerError, StdioServer, allow_all, connect
from mcp_client.errors import SkillError
from tests.interop import peers

pytestmark = pytest.mark.interop

MAIN = """---
name: pdf-processing
description: >-
  Extract text, fill in forms:
  "quickly", and well.
license: Apache-2.0 # of the text
compatibility: 'needs poppler'
metadata:
  author: acme
  version: "1.0"
  tags: "pdf, 'forms'"
allowed-tools: Read Bash(pdftotext:*)
---

# PDF

Read references/FORMS.md.
"""
ODD = """---
name: odd
description: What YAML 1.1 and 1.2 read differently
updated: 2026-01-01
ready: yes
level: 012
ratio: 1.0
big: 12345678901234567890
nothing:
---
Text
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    forms = tmp_path / "pdf-processing" / "references" / "FORMS.md"
    forms.parent.mkdir(parents=True)
    forms.write_bytes("# Formulare\nÄ\r\n".encode())
    (forms.parents[1] / "SKILL.md").write_text(MAIN, encoding="utf-8")
    (forms.parents[1] / "pixel.bin").write_bytes(bytes(range(256)))
    return tmp_path


def server(peer: str, directory: Path) -> StdioServer:
    return peers.skills(directory) if peer == "typescript" else peers.skills_fastmcp(directory)


@pytest.mark.parametrize("peer", ["typescript", "fastmcp"])
async def test_the_skills_of_a_real_server_are_listed_loaded_and_read(
    peer: str, directory: Path
) -> None:
    async with connect(server(peer, directory), name="docs", approval=allow_all) as session:
        (entry,) = await session.list_skills()
        assert sorted(file.path for file in entry.files) == [
            "SKILL.md",
            "pixel.bin",
            "references/FORMS.md",
        ]
        assert entry.ignored == ("allowed-tools",)
        for skill in (await session.load_skill(entry), await session.load_skill(entry.uri)):
            assert skill.text == MAIN.partition("\n---\n")[2]
            assert skill.frontmatter["metadata"]["tags"] == "pdf, 'forms'"
            assert await skill.read("references/FORMS.md") == "# Formulare\nÄ\r\n".encode()
            assert await skill.read("pixel.bin") == bytes(range(256))
            with pytest.raises(SkillError):
                await skill.read("references/OTHER.md")
        with pytest.raises(ServerError) as unknown:
            await session.load_skill("skill://none/SKILL.md")
        assert unknown.value.code == -32602


async def test_a_file_that_is_changed_on_disk_after_it_was_announced_is_not_returned(
    directory: Path,
) -> None:
    async with connect(peers.skills(directory), approval=allow_all) as session:
        skill = await session.load_skill((await session.list_skills())[0])
        forms = directory / "pdf-processing" / "references" / "FORMS.md"
        forms.write_text("# Other\n", encoding="utf-8")
        with pytest.raises((SkillError, ServerError)):
            await skill.read("references/FORMS.md")


async def test_front_matter_that_yaml_1_1_reads_differently_is_read_as_the_server_reads_it(
    directory: Path,
) -> None:
    odd = directory / "odd"
    odd.mkdir()
    (odd / "SKILL.md").write_text(ODD, encoding="utf-8")
    async with connect(peers.skills(directory), approval=allow_all) as session:
        skill = await session.load_skill("skill://odd/SKILL.md")
    assert skill.frontmatter["updated"] == "2026-01-01"
    assert (skill.frontmatter["ready"], skill.frontmatter["level"]) == ("yes", 12)


async def test_a_host_has_the_skills_of_both(directory: Path) -> None:
    servers = {peer: server(peer, directory) for peer in ("typescript", "fastmcp")}
    async with Host(servers, approval=allow_all) as host:
        listed = await host.list_skills()
        assert [entry.server for entry in listed] == ["typescript", "fastmcp"]
        assert any("2 skills are named 'pdf-processing'" in str(one) for one in listed.findings)
        one, other = [await host.load_skill(entry) for entry in listed]
        assert one.text == other.text
        assert {file.digest for file in one.files} == {file.digest for file in other.files}
