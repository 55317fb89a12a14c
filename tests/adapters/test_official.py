"""``mcp_client.adapters.official``. What is checked beside the official SDK, of either generation,
is in ``interop/official_checks.py``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_client import ConfigError, MemoryServer, connect
from mcp_client.adapters import official
from tests.interop import peers

ROOT = Path(__file__).parents[2]


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "use",
    [lambda session: official.server(lambda: session), lambda _: official.handlers()],
    ids=["server", "handlers"],
)
def test_without_the_sdk_the_error_states_what_to_install(
    monkeypatch: pytest.MonkeyPatch, use: Callable[[Any], Any]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.types", None)
    with pytest.raises(ConfigError, match=r"needs the official SDK .*pip install 'mcp>=1.24'"):
        use(None)


async def test_a_session_without_the_sdk_states_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.types", None)
    async with connect(MemoryServer(lambda message: NotImplemented)) as session:
        with pytest.raises(ConfigError, match="needs the official SDK"):
            official.client_session(session)


@pytest.mark.interop
@pytest.mark.one_backend
@pytest.mark.parametrize("version", ["1.30.0", "2.3.0"])
def test_beside_each_generation_of_the_sdk(version: str) -> None:
    python = peers.official_python(version)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [str(python), "-W", "error", "-m", "tests.interop.official_checks"]
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("passed: ") >= 12
