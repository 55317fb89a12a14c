"""The client of the probes, as root or as an ordinary user: ``python -m tests.sandbox.client``.

Reads what to try as JSON from its standard input, and prints one line of JSON for each server that
it opened: see ``Trial``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import anyio

from mcp_client import ConnectError, Sandbox, Session, StdioServer, allow_all, connect
from tests.sandbox.world import World

SETTINGS: dict[str, Callable[[World], dict[str, Any]]] = {
    "default": lambda world: {},
    "read": lambda world: {"read": [world.facts["readable"], world.facts["replaced"]]},
    "write": lambda world: {"write": [world.facts["writable"], world.facts["replaced"]]},
    "loopback": lambda world: {"network": "loopback"},
    "all": lambda world: {"network": "all"},
}
BOUND = 90.0


@dataclasses.dataclass(frozen=True)
class Trial:
    """One server that probes are tried in."""

    engine: str
    """``none`` is without a sandbox."""
    setting: str
    language: str
    command: tuple[str, ...]
    """What runs the server, before its script."""
    probes: tuple[str, ...]
    setuid: str | None = None


@dataclasses.dataclass
class Report:
    engine: str
    setting: str
    language: str
    problem: str | None = None
    """Why the server was not opened."""
    sentences: str = ""
    """The sentences of ``session.sandbox``."""
    outcomes: dict[str, str] = dataclasses.field(default_factory=dict)
    """By probe: "held ...", "open ..." or "vanished"."""
    left: tuple[str, ...] = ()
    """What is there after the session was closed, and should not be."""


async def run(trial: Trial) -> Report:
    report = Report(trial.engine, trial.setting, trial.language)
    names = {"SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "API_KEY"}
    with World(trial.setuid) as world:
        os.environ |= dict.fromkeys(names, world.secret) | {"HOME": str(world.home)}
        tempfile.tempdir = os.environ["TMPDIR"] = str(world.scratch)
        secret = os.open(world.home / "notes.txt", os.O_RDONLY)
        os.set_inheritable(secret, True)
        try:
            await _try_all(trial, world, report)
        except ConnectError as error:
            report.problem = str(error)
        finally:
            os.close(secret)
        left = world.end_daemons()
        for name in {"daemon", "node_daemon"} & set(report.outcomes):
            report.outcomes[name] = "open" if left else "held it is gone"
        report.left = ("a process",) * left
        report.left += tuple(path.name for path in world.scratch.iterdir())
    return report


async def _try_all(trial: Trial, world: World, report: Report) -> None:
    script = "server.mjs" if trial.language == "node" else "server.py"
    command, *before = trial.command
    options: dict[str, Any] = {}
    if trial.engine != "none":
        grants = SETTINGS[trial.setting](world)
        options["sandbox"] = Sandbox(**grants)
    server = StdioServer(command, [*before, str(world.top / "program" / script)], **options)
    async with connect(server, approval=allow_all, name="probes") as session:
        if session.sandbox is not None:
            report.sentences = "; ".join(session.sandbox.sentences)
        world.replace_directory()
        files = world.snapshot()
        for name in trial.probes:
            reported = await _reply(name, session, world)
            earlier, files = files, world.snapshot()
            report.outcomes[name] = _outcome(name, reported, files != earlier, world)


async def _reply(name: str, session: Session, world: World) -> dict[str, Any]:
    world.send()
    knocking = world.knocking() if name == "be_reached_by_tcp" else contextlib.nullcontext()
    with knocking:
        result = await session.call_tool("probe", {"name": name, "world": world.facts})
    return dict(json.loads(result.text))


def _outcome(name: str, reported: dict[str, Any], changed: bool, world: World) -> str:
    kind = reported["kind"]
    if "broken" in reported:
        return f"broken {reported['broken']}"
    if kind == "write":
        if changed:
            return "open"
        if name == "create_by_directory_that_became_a_link" and "got" in reported:
            assert (world.top / "replaced-before" / "by-link").exists()
            return "held it went into the directory that was granted"
        return "vanished" if "got" in reported else f"held {reported['refused']}"
    if "refused" in reported:
        return f"held {reported['refused']}"
    if kind == "read" and world.secret not in reported["got"]:
        return "held nothing of it"
    return f"open {reported['got'][:80] if kind != 'read' else ''}".strip()


async def main() -> None:
    trials = json.load(sys.stdin)
    for each in trials:
        with anyio.fail_after(BOUND):
            report = await run(Trial(**each))
        print(json.dumps(dataclasses.asdict(report)), flush=True)


if __name__ == "__main__":
    anyio.run(main)
