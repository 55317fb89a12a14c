"""The providers' own packages take what ``mcp_client.adapters`` gives, for the schemas of real
servers and of the zoo; and the examples run that need such packages. See ``provider_checks``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import StdioServer, connect
from tests.interop import peers
from tests.interop.provider_checks import CHECKS

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


def reference_servers(folder: Path) -> dict[str, StdioServer]:
    """Servers that people use, of the project itself."""
    git = shutil.which("git")
    assert git is not None
    subprocess.run([git, "init", "-q", folder], check=True)
    return {
        "everything": peers.everything(),
        "filesystem": peers.filesystem(folder),
        "memory": peers.memory(folder / "notes.json"),
        "time": peers.time(),
        "git": peers.git(folder),
    }


async def _listed(servers: dict[str, StdioServer]) -> list[dict[str, Any]]:
    found = []
    for name, server in servers.items():
        async with connect(server, name=name) as session:
            for tool in await session.list_tools():
                found.append({**tool.raw, "name": f"{name}__{tool.name}"})
    return found


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is wrong, by the name of the check; all of them in one process."""
    python = peers.providers()
    folder = tmp_path_factory.mktemp("providers")
    tools = anyio.run(_listed, reference_servers(folder))
    assert len(tools) > 40
    file = folder / "tools.json"
    file.write_text(json.dumps(tools))
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [str(python), "-m", "tests.interop.provider_checks", str(file)]
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=1_500)
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("check", CHECKS)
def test_with_the_packages_of_the_providers(check: str, outcomes: dict[str, str]) -> None:
    assert outcomes[check] == ""
