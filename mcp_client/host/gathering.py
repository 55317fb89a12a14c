"""Resources and prompts of all servers of a host, asked for side by side."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from ..catalog.finding import Finding
from ..catalog.listed import Listed, Rejected
from ..errors import McpError
from ..runtime.background import BackgroundTasks
from ..runtime.event_loop import current
from ..runtime.safe_text import safe_text
from ..runtime.watch import Notifier
from ..session.session import Session
from .missing import why_missing
from .server import HostedServer
from .waiting import wait_for_most

__all__ = ["gather"]

T = TypeVar("T")


async def gather(
    servers: Sequence[HostedServer],
    notifier: Notifier,
    feature: str,
    ask: Callable[[Session], Awaitable[Listed[T]]],
) -> Listed[T]:
    """What the connected servers list that declare ``feature``, a capability or an extension, in
    the order of ``servers``. The
    findings say which servers are missing, and why."""
    found: dict[str, Listed[T]] = {}
    failed: dict[str, str] = {}
    asked: set[str] = set()
    backend = current()
    tasks = BackgroundTasks(backend, "host")

    async def one(server: HostedServer, session: Session) -> None:
        try:
            found[server.name] = await ask(session)
        except McpError as error:
            server.note(error)
            failed[server.name] = safe_text(error.message, 500)
        finally:
            asked.discard(server.name)
            notifier.notify()

    for server in servers:
        session = server.session
        if session is not None and server.is_connected and _has(session, feature):
            asked.add(server.name)
            tasks.start(partial(one, server, session))
    began = backend.now()
    try:
        await wait_for_most(notifier, backend.now, lambda: asked, lambda name: began)
    finally:
        failed.update(dict.fromkeys(asked, "it does not answer"))
        await tasks.aclose(1.0)
    return _joined(servers, found, failed)


def _has(session: Session, feature: str) -> bool:
    return feature in session.capabilities or feature in session.extensions


def _joined(
    servers: Sequence[HostedServer], found: dict[str, Listed[T]], failed: dict[str, str]
) -> Listed[T]:
    entries: list[T] = []
    rejected: list[Rejected] = []
    findings: list[Finding] = []
    for server in servers:
        shown = safe_text(server.name, 60)
        why = failed.get(server.name)
        if why is None and not server.is_connected:
            why = why_missing(server)
        if why is not None:
            text = f"server '{shown}' is missing: {why}"
            findings.append(Finding("missing_server", text, server.name))
        listed = found.get(server.name)
        if listed is not None:
            entries += listed
            rejected += [replace(one, server=server.name) for one in listed.rejected]
            findings += [one.at(f"server '{shown}'") for one in listed.findings]
    return Listed(entries, rejected, findings)
