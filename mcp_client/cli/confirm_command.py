"""``confirm CONFIG [SERVER]``: approve the servers of a config file, without a terminal.

Everything that would be asked at a terminal is shown, with a fingerprint of it. ``--yes`` with that
fingerprint approves exactly this, permanently. The approval is stored with the other decisions, and
is needed again if anything changes. Nothing is started.
"""

from __future__ import annotations

import argparse
import shlex

from ..approval.decision import Allow, Answer, Deny
from ..approval.remembered import ApprovalMemory
from ..approval.start_request import StartRequest
from ..approval.terminal import everything
from ..config.config import Config, load_config
from ..config.start_gate import start_of
from ..errors import NotFound
from ..runtime.console_layout import Page
from ..runtime.daemon_thread import run_in_thread
from ..runtime.limits import Timeouts
from ..runtime.safe_text import near, safe_text
from .exits import DONE, REFUSED, UsageError
from .output import note, print_json, print_text
from .session import decisions_of, sandbox_of

__all__ = ["confirm"]

_COLUMNS = 100


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
