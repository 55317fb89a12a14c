"""The commands by which people approve calls and servers for other programs and commands.

``desk``: the approval page, until Ctrl-C. Calls wait in the state of ``--state``, else in the
user's state directory. While a desk runs, the calls of ``--approve web`` go there by themselves.
The file ``desk.json`` in the user's state directory has its place, and is locked as long as that
desk lives.

``confirm CONFIG [SERVER]``: approve the servers of a config file, without a terminal. Everything
that would be asked at a terminal is shown, with a fingerprint of it. ``--yes`` with that
fingerprint approves exactly this, permanently. The approval is stored with the other decisions, and
is needed again if anything changes. Nothing is started.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

from ..approval.decision import Allow, Answer, Deny
from ..approval.remembered import ApprovalMemory
from ..approval.start_request import StartRequest
from ..approval.terminal import everything
from ..config.config import Config, load_config
from ..config.start_gate import start_of
from ..errors import NotFound
from ..runtime.atomic_file import lock
from ..runtime.console_layout import Page
from ..runtime.daemon_thread import run_in_thread
from ..runtime.directory import CLOSED_IN_CHILDREN
from ..runtime.limits import Timeouts
from ..runtime.safe_text import near, safe_text
from .exits import DONE, REFUSED, UsageError
from .output import note, print_document, print_json, print_text
from .session import decisions_of, sandbox_of, state_file, state_of

__all__ = ["confirm", "desk"]
_COLUMNS = 100


async def desk(options: argparse.Namespace) -> int:
    """Serve the page for the requests that wait in a state.

    Those of ``--approve web``, and of programs with ``ApprovalQueue(decisions=...)`` of that state.
    """
    from ..approval.queue import ApprovalQueue
    from ..desk.http import check_extra
    from ..desk.serve import serve_desk

    check_extra("mcp-client desk", "starlette", "uvicorn")
    state = state_of(options)
    async with serve_desk(ApprovalQueue(decisions=state.decisions)) as page:
        with _known_to_commands(getattr(state, "path", options.state)):
            print_document(options, {"url": page.url}, page.url)
            sys.stdout.flush()
            note("the address lets in once; Ctrl-C ends the page")
            await anyio.sleep_forever()
    return 0


@contextmanager
def _known_to_commands(state: Path | str) -> Iterator[None]:
    """Let commands find the file of this desk, unless another desk runs."""
    file = os.open(state_file("desk.json"), os.O_RDWR | os.O_CREAT | CLOSED_IN_CHILDREN, 0o600)
    with open(file, "r+b") as stream:
        if lock(file, 0.0):
            stream.truncate()
            stream.write(json.dumps({"state": str(state)}).encode())
            stream.flush()
        else:
            note("another desk runs: calls of --approve web go there; use --state DIR")
        yield


async def confirm(options: argparse.Namespace) -> int:
    """Show what the file starts.

    Returns 0 if all of it is confirmed, 3 if an approval is missing.
    """
    config, sandbox = load_config(options.config), sandbox_of(options)
    for problem in config.problems:
        note(problem)
    requests: dict[str, StartRequest] = {}
    for name in _names(config, options.server):
        look = config._starts[name].request  # at the files that it names
        requests[name] = await run_in_thread(look, sandbox)
    for fingerprint in options.yes:
        if all(request.fingerprint != fingerprint for request in requests.values()):
            raise UsageError(
                f"--yes {safe_text(fingerprint, 80)}: nothing has this fingerprint now; check "
                "what 'mcp-client confirm' shows without --yes"
            )
    memory = ApprovalMemory(store=decisions_of(options))
    missing = []
    for name, request in requests.items():
        if request.fingerprint in options.yes:
            await _remember(config, name, options)
        elif memory.recall(request) is None:
            missing.append(name)
    _show(options, requests, missing)
    return REFUSED if missing else DONE


def _names(config: Config, server: str | None) -> list[str]:
    if server is None:
        return list(config.servers)
    if server not in config.servers:
        text = f"unknown server {safe_text(server, 60)!r} in {config.path}"
        raise NotFound(f"{text}{near(server, config.servers)}")
    return [server]


async def _remember(config: Config, name: str, options: argparse.Namespace) -> None:
    """Pass the gate of each start, which stores the approval. Raises ``StartDenied``."""

    def decide(request: StartRequest) -> Answer:
        if request.fingerprint in options.yes:
            return Allow(remember="always", source="person")
        return Deny("it has changed since it was shown")

    decisions, sandbox = decisions_of(options), sandbox_of(options)
    await start_of(config, name, decide, decisions, options.audit, Timeouts(), sandbox).decide()


def _show(
    options: argparse.Namespace, requests: dict[str, StartRequest], missing: list[str]
) -> None:
    if options.json:
        found = [
            {
                "name": name,
                "facts": [{"label": fact.label, "text": fact.text} for fact in request.facts()],
                "fingerprint": request.fingerprint,
                "confirmed": name not in missing,
            }
            for name, request in requests.items()
        ]
        print_json({"servers": found})
        return
    for name, request in requests.items():
        page = Page(_COLUMNS)
        everything(page, request)
        page.fact("Fingerprint", request.fingerprint)
        page.fact("Confirmed", "no" if name in missing else "yes")
        print_text("\n".join(page.lines[1:]) + "\n", whole=True)
    for name in missing:
        words = ["mcp-client", "confirm", options.config, name, "--yes", requests[name].fingerprint]
        note(f"to confirm it: {shlex.join(words)}")
