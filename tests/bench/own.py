"""The rows that compare ours with ours: what something costs, beside the same without it."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_client import Sandbox
from mcp_client.sandbox.bubblewrap import why_not
from tests.bench import stdio
from tests.bench.rounds import Row
from tests.interop.install import postgres

__all__ = ["ROWS", "command", "possible"]


def _row(name: str, label: str, unit: str, target: float | None = None, **more: float) -> Row:
    return Row(name, label, unit, target, against="base", most=more.get("most"))


ROWS = (
    _row("import-sync", "import of `mcp_client.sync`, of the async names", "ms", 1.25),
    _row("hook", "a call with an async approval hook, of one with `allow_all`", "us", 1.25),
    _row("function", "the same with a plain function, which runs in a thread", "us", 1.6),
    _row("quick", "the same with a plain function that is `quick`", "us", 1.1),
    _row("rules", "the same with two `Rules`", "us", 1.1),
    _row("audit", "a call with the audit in a file (no fsync), of one without", "us", 1.8),
    _row("many", "a call, 1,000 in flight, of one with 32, stdio", "us", 1.4),
    _row("toolset", "a tool of `toolset()`, 20,000 tools, of one of 1,000", "us", 1.25),
    _row("search", "`search_tools`, 20,000 tools, first: in all", "ms", most=500),
    _row("search-block", "`search_tools`, 20,000 tools, first: at a time", "ms", most=10),
    _row("idle", "an idle session, watched: wakings", "a second", most=0),
    _row("folder", "a call with a state: folder, of memory", "us"),
    _row("folder-key", "with an idempotency key: folder, of memory", "us"),
    _row("postgres", "a call with a state: Postgres, of memory", "us"),
    _row("postgres-key", "with an idempotency key: Postgres, of memory", "us"),
    _row("code", "a call of a script (code mode), of a plain one", "us"),
    _row("sandbox", "opening a sandboxed server, of one without (time)", "ms", 1.5),
)


def command(row: Row) -> Sequence[str]:
    return ["own.py", *stdio.command(row, "ours")[1:]]


def possible(row: Row) -> bool:
    """Whether this machine has what the row needs."""
    if row.name.startswith("postgres"):
        return postgres() is not None
    if row.name == "sandbox":
        return why_not(Sandbox()) is None
    return True
