"""The config file of a simulated host: its entries change, and the host loads it again.

No file is read: ``ConfigSource`` gets the parsed entries. A server is started once that is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import anyio

from mcp_client import Host
from mcp_client.errors import StartDenied
from mcp_client.host.from_config import ConfigSource

from .world import World, faults

__all__ = ["RELOADS", "SimConfig"]

RELOADS = "host reloads its config file"
faults(RELOADS, "start is denied")
_CHANGES = ("same", "changes", "goes or comes")
"""What may become of an entry."""


@dataclass(frozen=True)
class Entry:
    """The entry of a server, in place of ``config.starting.Start``."""

    name: str
    version: int = 0

    @property
    def first(self) -> Any:
        return SimpleNamespace(path=("servers", self.name))

    def differs(self, other: Entry) -> bool:
        return self.version != other.version


class SimConfig:
    """The file of one host."""

    def __init__(self, world: World, client: str, host: Host, wire: Callable[[str], Any]) -> None:
        """``wire`` makes a wire to the server of that name."""
        self._world, self._client, self._host = world, client, host
        self._entries = {name: Entry(name) for name in host.status()}
        host._source = ConfigSource(
            "a config file",
            self._read,
            lambda name, _: lambda: self._ask(name),
            lambda entry: wire(entry.name),  # type: ignore[attr-defined]
            dict(self._entries),  # type: ignore[arg-type]
            dict(host._servers),
        )

    async def reload(self) -> None:
        """Change the file, and load it again."""
        world, entries = self._world, self._entries
        for name in ("s", "t"):
            match world.draw(
                f"{self._client} entry of {name}", ("same", "changes", "goes or comes")
            ):
                case "changes" if name in entries:
                    entries[name] = Entry(name, entries[name].version + 1)
                case "goes or comes" if name in entries and len(entries) > 1:
                    del entries[name]
                case "goes or comes" if name not in entries:
                    entries[name] = Entry(name)
        world.note(self._client, f"has a config file with {entries}")
        done = await self._host.reload()
        world.note(self._client, f"reloads: {done}")
        world.happened["reload: ends"] += 1

    def _read(self) -> Any:
        return SimpleNamespace(_starts=dict(self._entries), problems=())

    async def _ask(self, name: str) -> None:
        """Decide whether a server may be started."""
        await anyio.sleep(self._world.latency(f"{self._client} start of {name}"))
        if self._world.fault("start is denied", f"{self._client} {name}"):
            raise StartDenied("the seed denies the start")
