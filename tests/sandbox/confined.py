"""Running a command in a sandbox without a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from mcp_client import Sandbox
from mcp_client.sandbox.bubblewrap import confine, exit_code
from mcp_client.sandbox.confined_group import ConfinedGroup
from mcp_client.sandbox.sandbox import Grants

__all__ = ["needs_bubblewrap", "run", "shell"]

needs_bubblewrap = pytest.mark.needs("bubblewrap")

ENV = {"PATH": "/usr/bin:/bin"}


def run(
    sandbox: Sandbox,
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] = ENV,
) -> tuple[int | None, str, str]:
    """The exit code, as a session reports it, and what was written to both streams."""
    place = None if cwd is None else str(cwd)
    launch, _ = confine(sandbox, Grants.of(sandbox, argv, env, place), argv, env, place)
    group = ConfinedGroup(launch)
    with group.start(argv, {}, None, None) as popen:
        try:
            output, errors = popen.communicate(timeout=30)
        finally:
            group.kill()
            group.close()
    return exit_code(popen.returncode), output.decode(), errors.decode()


def shell(sandbox: Sandbox, script: str, cwd: Path | None = None) -> tuple[int | None, str, str]:
    return run(sandbox, ["/bin/sh", "-c", script], cwd=cwd)
