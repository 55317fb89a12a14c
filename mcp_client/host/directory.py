"""The tools of all servers under their qualified names: looked up, listed, and not found.

A tool stays known while its server is down, so that a call of it says what is wrong with the
server. Tools that the lock file of pins has are known by name before their server was listed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from anyio.lowlevel import checkpoint

from ..catalog.finding import Finding
from ..catalog.listed import Rejected
from ..catalog.tool import Tool, ToolList
from ..errors import UnknownTool
from ..runtime.safe_text import safe_text
from .naming import Names
from .status import may_become_available, why_unavailable

if TYPE_CHECKING:
    from .server import HostedServer

__all__ = ["Directory", "Entry"]

_SLICE_TOOLS = 500
_MAX_NEAR = 3
_MAX_CANDIDATES = 200
_MAX_COMPARED = 20_000
"""Names that are looked at for what is close: it takes a few microseconds for each."""
_MAX_SHOWN_CHARS = 128


@dataclass(slots=True, eq=False)
class Entry:
    """A tool that can be called by a qualified name."""

    server: HostedServer
    tool_name: str
    """What its server calls it."""
    tool: Tool | None = None
    """With its qualified name; None where only its name is known."""
    source: Tool | None = None
    """As the session has it."""


class Directory:
    def __init__(self, names: Names) -> None:
        self.entries: dict[str, Entry] = {}
        """By qualified name."""
        self._names = names
        self._of: dict[str, dict[str, Entry]] = {}
        self._tools: dict[str, tuple[Tool, ...]] = {}
        self._sources: dict[str, ToolList] = {}
        self._rejected: dict[str, tuple[Rejected, ...]] = {}
        self._doubles: dict[str, dict[str, Rejected]] = {}
        """By server, and by the name that two of its tools would have."""
        self._qualified: dict[str, list[str]] = {}
        self._listing: tuple[Any, ToolList] | None = None

    # ------------------------------------------------------------------- filling

    def know(self, server: HostedServer, tools: Iterable[str]) -> None:
        """Tools that ``server`` had in an earlier run: known until it is listed."""
        for tool in tools:
            if server.leaves_out(tool) is not None:
                continue
            try:
                name = self._names.of(server.name, tool)
            except ValueError:
                continue
            self.entries.setdefault(name, Entry(server, tool))
            self._qualified.setdefault(server.name, []).append(name)

    async def take(self, server: HostedServer) -> bool:
        """Take over the list of ``server``, if it is another. Returns whether a tool is."""
        tools = server.listing.tools
        if tools is None or self._sources.get(server.name) is tools:
            return False
        old = self._of.get(server.name, {})
        of: dict[str, Entry] = {}
        rejected: list[Rejected] = []
        changed = False
        for number, tool in enumerate(tools):
            if number % _SLICE_TOOLS == _SLICE_TOOLS - 1:
                await checkpoint()  # so that a long list does not stop the event loop
            entry = old.get(tool.name)
            if entry is None or entry.source != tool:
                changed = True
                try:
                    entry = self._entry(server, tool)
                except ValueError as error:
                    rejected.append(
                        Rejected(safe_text(tool.name, _MAX_SHOWN_CHARS), str(error), "unnamed")
                    )
                    continue
            of[tool.name] = entry
        doubles = self._without_doubles(server, of)
        rejected += (one for same in doubles.values() for one in same)
        if server.listing.tools is not tools or server.closed:
            return False
        changed = changed or len(of) != len(old)
        self._put(server, of, tools)
        self._doubles[server.name] = {
            name: replace(same[0], server=server.name) for name, same in doubles.items()
        }
        self._rejected[server.name] = tuple(
            replace(one, server=server.name) for one in (*tools.rejected, *rejected)
        )
        return changed

    def _entry(self, server: HostedServer, tool: Tool) -> Entry:
        name = self._names.of(server.name, tool.name)
        return Entry(server, tool.name, replace(tool, _qualified_name=name), tool)

    def _without_doubles(
        self, server: HostedServer, of: dict[str, Entry]
    ) -> dict[str, list[Rejected]]:
        """Take out tools that would have one name: only by design of their server, for it takes
        two names with one hash."""
        by_name: dict[str, list[str]] = {}
        for tool, entry in of.items():
            assert entry.tool is not None
            by_name.setdefault(entry.tool.qualified_name, []).append(tool)
        rejected: dict[str, list[Rejected]] = {}
        for name, tools in by_name.items():
            other = self.entries.get(name)
            if len(tools) == 1 and (other is None or other.server is server):
                continue
            for tool in tools:
                del of[tool]
                reason = f"its name here, {name}, cannot be told from that of another tool"
                one = Rejected(safe_text(tool, _MAX_SHOWN_CHARS), reason, "same_name")
                rejected.setdefault(name, []).append(one)
        return rejected

    def _put(self, server: HostedServer, of: dict[str, Entry], tools: ToolList) -> None:
        self._drop_names(server)
        found = []
        for entry in of.values():
            assert entry.tool is not None
            self.entries[entry.tool.qualified_name] = entry
            found.append(entry.tool)
        self._of[server.name] = of
        self._qualified[server.name] = [tool.qualified_name for tool in found]
        self._tools[server.name] = tuple(found)
        self._sources[server.name] = tools

    def forget(self, server: HostedServer) -> None:
        self._drop_names(server)
        for known in (self._of, self._tools, self._sources, self._rejected, self._doubles):
            known.pop(server.name, None)

    def _drop_names(self, server: HostedServer) -> None:
        for name in self._qualified.pop(server.name, ()):
            if name in self.entries and self.entries[name].server is server:
                del self.entries[name]

    # ------------------------------------------------------------------- listing

    def listing(self, servers: Iterable[HostedServer], version: int) -> ToolList:
        """All tools of servers that are there, in the order of the servers. The same object while
        nothing changed; ``version`` is that of the servers' states."""
        key = version, tuple(self._tools.values())
        if self._listing is not None and _same(self._listing[0], key):
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
            if server.offers_tools and server.name in self._tools:
                tools += self._tools[server.name]
                rejected += self._rejected[server.name]
                source = self._sources[server.name]
                findings += [one.at(f"server '{shown}'") for one in source.own_findings]
        listing = ToolList(tools, rejected, findings)
        self._listing = key, listing
        return listing

    # --------------------------------------------------------------- not finding

    def unknown(self, name: str, servers: Sequence[HostedServer]) -> UnknownTool:
        """Says why the tool is unknown, as far as that is known, and what is close to it."""
        shown = safe_text(name, _MAX_SHOWN_CHARS)
        rejected = self._rejection(name)
        if rejected is not None:
            text = (
                f"the tool {shown!r} of server '{safe_text(rejected.server, 60)}' cannot be used: "
                f"{rejected.reason}"
            )
            return UnknownTool(text, server=rejected.server, tool=shown)
        text = f"no server has a tool {shown!r}"
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
            text += f". Servers whose tools are missing: {', '.join(reasons[:5])}{more}"
        return UnknownTool(text, tool=shown, retryable=any(map(may_become_available, servers)))

    def _rejection(self, name: str) -> Rejected | None:
        """What was left out that has this name, or would have it."""
        for doubles in self._doubles.values():
            if name in doubles:
                return doubles[name]
        for server, all_rejected in self._rejected.items():
            for one in all_rejected:
                if one.name and self._names.would_be(server, one.name, name):
                    return one
        return None


def near_names(name: str, entries: Mapping[str, Entry]) -> list[str]:
    """The names that a model may have meant: another case, the tool's own name, a typing error."""
    entries = dict(islice(entries.items(), _MAX_COMPARED))
    wanted = name[:_MAX_SHOWN_CHARS].casefold()
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


def _same(one: tuple[int, tuple[object, ...]], other: tuple[int, tuple[object, ...]]) -> bool:
    if one[0] != other[0] or len(one[1]) != len(other[1]):
        return False
    return all(mine is theirs for mine, theirs in zip(one[1], other[1], strict=True))
