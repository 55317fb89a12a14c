"""Skills on FastMCP: those of the directory in the arguments, over stdio."""

import sys
from pathlib import Path

from fastmcp import FastMCP  # type: ignore[import-not-found,unused-ignore]
from fastmcp.server.providers.skills import (  # type: ignore[import-not-found,unused-ignore]
    SkillsDirectoryProvider,
)
from fastmcp.skills.extension import (  # type: ignore[import-not-found,unused-ignore]
    SkillsExtension,
)

provider = SkillsDirectoryProvider(roots=Path(sys.argv[1]), experimental_skills=True)
mcp = FastMCP("skills")
mcp.add_provider(provider)
mcp.add_extension(SkillsExtension(providers=[provider]))
mcp.run(show_banner=False)
