"""The providers' own packages take what ``mcp_client.adapters`` gives, for the schemas of real
servers and of the zoo; and the examples run that need such packages. See ``provider_checks``."""

from __future__ import annotations

import json
import os
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


def reference_servers(directory: Path) -> dict[str, StdioServer]:
    """Servers that people use, of the project itself."""
    return {
        "everything": peers.everything(),
        "filesystem": peers.filesystem(directory),
        "memory": peers.memory(directory / "notes.json"),
        "time": peers.time(),
        "git": peers.git(peers.repository(directory)),
    }


async def _listed(servers: dict[str, StdioServer]) -> list[dict[str, Any]]:
    found = []
    for name, server in servers.items():
        async with connect(server, name=name) as session:
            for tool in await session.list_tools():
                found.append({**tool.raw, "name": f"{name}__{tool.name}"})
    return found


def test_with_the_packages_of_the_providers(tmp_path: Path) -> None:
    """Each of ``CHECKS``, all in one process: loading those packages takes most of the time."""
    python = peers.providers()
    tools = anyio.run(_listed, reference_servers(tmp_path))
    assert len(tools) > 40
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(tools))
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [str(python), "-m", "tests.interop.provider_checks", str(file)]
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=1_500)
    assert done.returncode == 0, done.stderr[-4000:]
    outcomes = dict(json.loads(line) for line in done.stdout.splitlines())
    assert outcomes.keys() == {*CHECKS}
    wrong = {check: problem for check, problem in outcomes.items() if problem}
    assert not wrong, "\n\n".join(f"{check}: {problem}" for check, problem in wrong.items())
