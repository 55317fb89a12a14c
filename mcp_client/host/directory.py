"""The tools of all servers under their qualified names: looked up, listed, and not found.

A tool stays known while its server is down, so that a call of it reports what is wrong with the
server. Tools in the lock file of pins are known by name before their server is listed. Those of a
lazy server are listed from the lock file.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from anyio.lowlevel import checkpoint

from ..catalog.finding import Finding, Rejected
from ..catalog.tool import Tool, ToolList
from ..errors import StartDenied, UnknownTool
from ..runtime.limits import seconds_text
from ..runtime.safe_text import one_line, safe_text
from .naming import Names

if TYPE_CHECKING:
    from .server import HostedServer

__all__ = ["Directory", "Entry", "why_unavailable"]

_SLICE_TOOLS = 500
_MAX_NEAR = 3
_MAX_CANDIDATES = 200
_MAX_COMPARED = 20_000
"""Names that are looked at for what is close: it takes a few microseconds for each."""
_MAX_NAME_CHARS = 128
_MAX_CHARS, _MAX_SHORT_CHARS = 500, 200


@dataclass(slots=True, eq=False)
class Entry:
    """A tool that can be called by a qualified name."""

    server: HostedServer
    tool_name: str
    """The server's name for the tool."""
    tool: Tool | None = None
    """The tool with its qualified name; None if only its name is known."""
    source: Tool | None = None
    """The tool as the session has it."""


@dataclass(slots=True, eq=False)
class _Known:
    """The known tools of one server."""

    source: ToolList | None = None
    """The tools as its session lists them; None if only names are known."""
    entries: Mapping[str, Entry] = field(default_factory=dict)
    """The entries by the server's own names."""
    qualified_names: list[str] = field(default_factory=list)
    tools: tuple[Tool, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    doubles: Mapping[str, Rejected] = field(default_factory=dict)
    """The rejected tools, by the name that two of its tools would have."""


class Directory:
    """A directory of the tools of all servers under their qualified names."""

    def __init__(self, names: Names) -> None:
        self.entries: dict[str, Entry] = {}
        """The entries by qualified name."""
        self._names = names
        self._known: dict[str, _Known] = {}
        """The known tools by server."""
        self._listing: tuple[tuple[int, tuple[_Known, ...]], ToolList] | None = None

    # ------------------------------------------------------------------- filling

    def know(self, server: HostedServer, tools: Iterable[str]) -> None:
        """Note tools that ``server`` had in an earlier run: they are known until it is listed."""
        known = self._known.setdefault(server.name, _Known())
        for tool in tools:
            if server.leaves_out(tool) is not None:
                continue
            try:
                name = self._names.of(server.name, tool)
            except ValueError:
                continue
            self.entries.setdefault(name, Entry(server, tool))
            known.qualified_names.append(name)

    async def take(self, server: HostedServer) -> bool:
        """Take over the list of ``server``, if it is another. Returns whether a tool is."""
        tools, known = server.listing.current, self._known.get(server.name, _Known())
        if tools is None or known.source is tools:
            return False
        old = known.entries
        entries: dict[str, Entry] = {}
        rejected: list[Rejected] = list(tools.rejected)
        changed = False
        for number, tool in enumerate(tools):
            if number % _SLICE_TOOLS == _SLICE_TOOLS - 1:
                await checkpoint()  # so that a long list does not stop the event loop
            entry = old.get(tool.name)
            if entry is None or entry.source != tool:
                changed = True
                try:
                    name = self._names.of(server.name, tool.name)
                except ValueError as error:
                    shown = safe_text(tool.name, _MAX_NAME_CHARS)
                    rejected.append(Rejected(shown, str(error), "unnamed"))
                    continue
                entry = Entry(server, tool.name, replace(tool, _qualified_name=name), tool)
            entries[tool.name] = entry
        doubles = self._without_doubles(server, entries)
        rejected += (one for same in doubles.values() for one in same)
        if server.listing.current is not tools or server.closed:
            return False
        self.forget(server)
        found = tuple(entry.tool for entry in entries.values() if entry.tool is not None)
        names = [tool.qualified_name for tool in found]
        self.entries.update(zip(names, entries.values(), strict=True))
        self._known[server.name] = _Known(
            tools,
            entries,
            names,
            found,
            tuple(replace(one, server=server.name) for one in rejected),
            {name: replace(same[0], server=server.name) for name, same in doubles.items()},
        )
        return changed or len(entries) != len(old)

    def _without_doubles(
        self, server: HostedServer, entries: dict[str, Entry]
    ) -> dict[str, list[Rejected]]:
        """Take out tools that would have one name.

        This happens only by design of their server, because it needs two names with one hash.
        """
        by_name: dict[str, list[str]] = {}
        for tool, entry in entries.items():
            assert entry.tool is not None
            by_name.setdefault(entry.tool.qualified_name, []).append(tool)
        rejected: dict[str, list[Rejected]] = {}
        for name, tools in by_name.items():
            other = self.entries.get(name)
            if len(tools) == 1 and (other is None or other.server is server):
                continue
            for tool in tools:
                del entries[tool]
                reason = f"another tool has the same name here, {name}"
                one = Rejected(safe_text(tool, _MAX_NAME_CHARS), reason, "same_name")
                rejected.setdefault(name, []).append(one)
        return rejected

    def forget(self, server: HostedServer) -> None:
        """Remove the tools of a server."""
        known = self._known.pop(server.name, _Known())
        for name in known.qualified_names:
            if name in self.entries and self.entries[name].server is server:
                del self.entries[name]

    # ------------------------------------------------------------------- listing

    def listing(self, servers: Iterable[HostedServer], version: int) -> ToolList:
        """Return the tools of servers that are there, in the order of the servers.

        It is the same object while nothing changed; ``version`` is that of the servers' states.
        """
        key = version, tuple(self._known.values())
        if self._listing is not None and self._listing[0] == key:
            return self._listing[1]
        tools: list[Tool] = []
        rejected: list[Rejected] = []
        findings: list[Finding] = []
        for server in servers:
            shown = safe_text(server.name, 60)
            why = why_unavailable(server)
            if why is not None:
                text = f"server '{shown}' is missing: {why}"
                findings.append(Finding("missing_server", text, server.name))
            known = self._known.get(server.name)
            if server.offers_tools and known is not None and known.source is not None:
                tools += known.tools
                rejected += known.rejected
                findings += [one.at(f"server '{shown}'") for one in known.source.own_findings]
                about = _how_listed(server)
                findings += [] if about is None else [about]
        listing = ToolList(tools, rejected, findings)
        self._listing = key, listing
        return listing

    # --------------------------------------------------------------- not finding

    def unknown(self, name: str, servers: Sequence[HostedServer]) -> UnknownTool:
        """Return an error with the reason why the tool is unknown, and similar names."""
        quoted = safe_text(name, _MAX_NAME_CHARS)
        rejected = self._rejection(name)
        if rejected is not None:
            text = (
                f"the tool {quoted!r} of server '{safe_text(rejected.server, 60)}' cannot be used: "
                f"{rejected.reason}"
            )
            return UnknownTool(text, server=rejected.server, tool=quoted)
        text = f"no server has a tool {quoted!r}"
        near = near_names(name, self.entries)
        if near:
            text += f"; close to it: {', '.join(safe_text(one, 64) for one in near)}"
        elif self.entries:
            some = [safe_text(one, 64) for one in list(self.entries)[:20]]
            text += f"; there are: {', '.join(some)}" + (", ..." if len(self.entries) > 20 else "")
        missing = [(safe_text(one.name, 60), why_unavailable(one, short=True)) for one in servers]
        reasons = [f"{server}: {why}" for server, why in missing if why is not None]
        if reasons:
            more = ", ..." if len(reasons) > 5 else ""
            # Advice that is the same for several of them is there once, for all.
            advice = {
                str(one.error.advice.text) for one in servers if one.error and one.error.advice
            }
            for each in sorted(advice):
                common_advice = f"; {safe_text(each, 200)}"
                if sum(one.endswith(common_advice) for one in reasons[:5]) > 1:
                    reasons = [one.removesuffix(common_advice) for one in reasons]
                    more += common_advice
            text += f". Servers whose tools are missing: {', '.join(reasons[:5])}{more}"
        wanted = [one for one in servers if not one.offers_tools and one.state != "disabled"]
        is_near = any(one.busy or one.is_asking for one in wanted)  # by itself, or by a person
        return UnknownTool(text, tool=quoted, retryable=is_near)

    def _rejection(self, name: str) -> Rejected | None:
        """Return the rejected tool that has this name, or would have it."""
        for known in self._known.values():
            if name in known.doubles:
                return known.doubles[name]
        for server, known in self._known.items():
            for one in known.rejected:
                if one.name and self._names.would_be(server, one.name, name):
                    return one
        return None


def why_unavailable(server: HostedServer, *, short: bool = False) -> str | None:
    """Return the reason why a server's tools are missing, with the error behind it.

    It is a sentence, or a few words if ``short``. None if they are there, or are not wanted.
    """
    if server.offers_tools or server.state == "disabled":
        return None
    error = server.error or server.listing.error
    reason = error.reason if isinstance(error, StartDenied) else error.message if error else ""
    most = _MAX_SHORT_CHARS if short else _MAX_CHARS
    why = f": {safe_text(one_line(reason), most)}" if error else ""
    name = repr(safe_text(server.name, 60))
    waits = f"waits to be allowed to start; host.session({name}) waits for the decision"
    whole, words = f"it is not connected{why}", f"not connected{why}"
    match server.state:
        case "connected" if server.was_closed:
            whole = words = "its session was closed"
        case "connected" if error is not None:
            whole = words = f"its tools could not be listed{why}"
        case "connected":
            whole, words = "its tools are not listed", "its tools are not listed yet"
        case "connecting":
            whole, words = "it is still being connected", "still being connected"
        case "needs_login":
            whole, words = f"it needs a login{why}", f"needs a login, then reconnect({name})"
        case "idle" if isinstance(error, StartDenied):
            whole = f"it was not started{why}"
            words = f"was not allowed to start; session({name}) asks again"
        case "idle" if error is not None:
            whole, words = f"it was not started{why}", f"not started{why}"
        case "idle" if server.is_asking:
            whole, words = f"it was not started: it {waits}", waits
        case "idle":
            whole = "it is not started yet: it is lazy, and starts at its first use"
            advice = server.status().how_to_list
            whole += f"; {advice}" if advice else ""
            words = f"not started yet; session({name}) starts it"
    return words if short else whole


def _how_listed(server: HostedServer) -> Finding | None:
    """Return a finding about a server whose tools are listed although it is not connected."""
    name = safe_text(server.name, 60)
    if server.listing.pinned_at is not None and server.state in ("idle", "connecting"):
        since = server.listing.pinned_at
        when = f", written on {since}" if since else ""
        text = f"server '{name}' is not started: its tools are listed from the lock file{when}"
        return Finding("not_started", text, server.name, note=True)
    if server.state in ("connected", "connecting"):
        return None
    why = f": {safe_text(one_line(server.error.message), _MAX_CHARS)}" if server.error else ""
    keep = seconds_text(server.downtime.keep)
    text = f"server '{name}' is down, and its tools stay listed for {keep}{why}"
    return Finding("stale_list", text, server.name)


def near_names(name: str, entries: Mapping[str, Entry]) -> list[str]:
    """Return the names that a model may have meant.

    They are those in another case, the tool's own name, and those with a typing error.
    """
    entries = dict(islice(entries.items(), _MAX_COMPARED))
    wanted = name[:_MAX_NAME_CHARS].casefold()
    exact = [
        known
        for known, entry in entries.items()
        if known.casefold() == wanted or entry.tool_name.casefold() == wanted
    ]
    if exact:
        return exact[:_MAX_NEAR]
    parts = [known for known in entries if wanted in known.casefold()] if len(wanted) > 2 else []
    pairs = _pairs(wanted)
    scored = (
        (len(pairs & _pairs(known.casefold())) / (len(pairs) + len(known)), known)
        for known in entries
    )
    best = sorted(scored, reverse=True)[:_MAX_CANDIDATES]
    close = difflib.get_close_matches(wanted, [known for _, known in best], _MAX_NEAR, 0.6)
    return list(dict.fromkeys([*close, *sorted(parts, key=len)]))[:_MAX_NEAR]


def _pairs(text: str) -> set[str]:
    return {text[at : at + 2] for at in range(len(text) - 1)}
