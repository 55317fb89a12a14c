"""Load skills of a server after an approval, and compare each file with its digest."""

import sys
from pathlib import Path

import anyio

from mcp_client import Allow, Deny, StdioServer, ToolCall, connect
from mcp_client.approval import SkillRequest
from mcp_client.errors import SkillError

GUIDES = StdioServer(sys.executable, [str(Path(__file__).parents[1] / "servers" / "guides.py")])


async def approve(request: ToolCall | SkillRequest) -> Allow | Deny:
    if not isinstance(request, SkillRequest):
        return Deny("only skills are loaded here")
    print(f"{request.server} has {request.name}: {len(request.files)} files, {request.size} bytes")
    return Allow(remember="session")  # for these files; asked again when one has changed


async def main() -> None:
    async with connect(GUIDES, name="guides", approval=approve) as session:
        for entry in await session.list_skills():
            skill = await session.load_skill(entry)
            try:
                notes = await skill.read_text("references/NOTES.md")
            except SkillError as error:
                print(f"not used, for its {error.reason}: {error}")
            else:
                print(skill.for_model())  # with a note for the model about whose text it is
                print(skill.for_model(notes, "references/NOTES.md"))


anyio.run(main)
