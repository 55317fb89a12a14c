"""What real servers take of a model's context, and which of their tools can be strict.

    python -m tests.bench.model_context [--server "COMMAND"]...

The servers are those that CI installs (``tests/interop/install.py``); ``--server`` adds one, such
as ``"npx @playwright/mcp"``. First, for each provider, how many of their tools are strict and how
often each kind of change was made to a schema. Then the characters of the definitions in a request,
``json.dumps(kit.tools)``, for one server, ten and a hundred: all of them, with ``search=True``, and
what a model is shown at first of ``search="native"`` (what is deferred is sent, but not shown). The
declarations are judged by the providers' packages in ``tests/interop/test_providers.py``.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import anyio

from mcp_client import StdioServer, connect
from mcp_client.catalog.tool import Tool
from tests.interop import peers
from tests.interop.test_providers import reference_servers
from tests.support.provider_shapes import PROVIDERS, Provider

_KINDS = re.compile(r"tool '.*?': (?:it is (?:not for models|shown as) .*|(.*))", re.DOTALL)
_QUOTED = re.compile(r"'\$ref' to '.*?'|the member '.*?' is shown as '.*?'")
_NATIVE = ("anthropic", "openai_responses")
_MANY = 12
"""Kinds of change that are printed."""


def _servers(directory: Path) -> dict[str, StdioServer]:
    return {
        **reference_servers(directory),
        "fastmcp": peers.fastmcp(),
        "official": peers.official("2.3.0"),
        "library": peers.library("2.3.0"),
        "apps": peers.apps(),
    }


async def _listed(servers: dict[str, StdioServer]) -> dict[str, list[dict[str, Any]]]:
    found = {}
    for name, server in servers.items():
        async with connect(server, name=name) as session:
            found[name] = [tool.raw for tool in await session.list_tools()]
    return found


def _tools(definitions: Iterable[tuple[str, list[dict[str, Any]]]]) -> list[Tool]:
    return [
        Tool(f"{server}__{one['name']}", server, False, {**one, "name": f"{server}__{one['name']}"})
        for server, listed in definitions
        for one in listed
    ]


def _kind(change: str) -> str:
    """A sentence without the tool, the places and the names in it."""
    text = _KINDS.sub(r"\1", change).partition(";")[0]
    text = re.sub(r" at (?:/|the root).*$", "", text)
    return (
        _QUOTED.sub(lambda found: found[0].split("'")[0] + "'...'", text) or "renamed or left out"
    )


def changes(provider: Provider, tools: list[Tool], strict: bool) -> None:
    kit = provider.toolset(tools, strict=strict)
    count = sum(bool(one.get("strict")) for one in provider.declarations(kit))
    kinds = Counter(map(_kind, kit.changes))
    print(f"\n{provider.name}{' strict' if strict else ''}: {len(tools)} tools, {count} strict")
    for kind, often in kinds.most_common(_MANY):
        print(f"  {often:5} {kind[:110]}")


def _visible(kit: Any) -> int:
    """Characters of what a model is shown at first."""
    displayed = []
    for one in kit.tools:
        if not one.get("defer_loading"):
            displayed.append(one)
        elif one.get("type") == "function":  # OpenAI's models see these two of a deferred one
            displayed.append({key: one[key] for key in ("name", "description") if key in one})
    return len(json.dumps(displayed))


def sizes(provider: Provider, servers: dict[str, list[dict[str, Any]]]) -> None:
    for count in (1, 10, 100):
        chosen = islice(cycle(servers.items()), count)
        tools = _tools((f"{name}{number}", one) for number, (name, one) in enumerate(chosen))
        every = _visible(provider.toolset(tools))
        searched = _visible(provider.toolset(tools, search=True))
        native = "-"
        if provider.name in _NATIVE:
            native = f"{_visible(provider.toolset(tools, search='native')):,}"
        print(
            f"{provider.name:17} {count:4} servers {len(tools):5} tools   all {every:9,}   "
            f"search {searched:6,}   native {native:>7}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--server", action="append", default=[], metavar="COMMAND")
    added = parser.parse_args().server
    with tempfile.TemporaryDirectory() as directory:
        servers = _servers(Path(directory))
        for number, command in enumerate(added):
            program, *words = shlex.split(command)
            servers[f"added{number}"] = StdioServer(program, words)
        listed = anyio.run(_listed, servers)
    print(", ".join(f"{name} {len(one)}" for name, one in listed.items()))
    tools = _tools(listed.items())
    for provider in PROVIDERS:
        for strict in (False, True):
            changes(provider, tools, strict)
    print()
    for provider in PROVIDERS:
        sizes(provider, listed)


if __name__ == "__main__":
    main()
