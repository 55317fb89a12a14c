"""CPU time per call over HTTP: ours, the official SDK and the floor, side by side.

    python -m tests.bench.http [--official PYTHON] [--rounds 5] [--rows json-echo sse-echo]

``--official`` is the interpreter of an environment that has the official ``mcp``; without it, one
is made once in ``.interop/``. ``--rows``: those below by name. ``json`` and ``sse`` are the
stateless era, ``old-json`` and ``old-sse`` the handshake. Nothing is asserted but that the work was
done: the table is for reading. How it is measured: ``rounds.py``. The server is ``http_server.py``,
one for the whole run; the floor is a bare ``httpx.AsyncClient.post``.

A session is opened as its client opens one by default, first request included, and stays open
while the others are; one was opened before, so what is made once per process is not in it. For
the floor a session is an ``AsyncClient`` of its own. Memory is what resident memory grew by,
read where Linux shows it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from tests.bench import rounds, stdio
from tests.bench.rounds import Row


def _old(row: Row) -> Row:
    """The same with a server of the handshake era; in the table if ``row`` is in the short one."""
    short = row.short and f"{row.short}, handshake"
    name, label = f"old-{row.name}", f"{row.label}, handshake"
    era = "server of the handshake era"
    return replace(row, name=name, label=label, setting=era, in_table=bool(short), short=short)


_ECHOES = (
    Row("json-echo", "echo after echo, HTTP JSON", "us", 0.3, short="CPU a call, HTTP"),
    Row("json-together", "echo, 32 in flight, HTTP JSON", "us", 0.23),
    Row("sse-echo", "echo after echo, HTTP SSE", "us", 0.2, short="CPU a call, SSE"),
    Row("sse-together", "echo, 32 in flight, HTTP SSE", "us", 0.15),
)
ROWS = (
    *_ECHOES,
    *map(_old, _ECHOES),
    Row("json-sessions", "200 HTTP sessions opened, each", "ms", 0.06, short="open a session"),
    Row("json-memory", "200 HTTP sessions open, each", "KiB", most=40, short="memory a session"),
    Row("sse-big", "8 MiB text, HTTP SSE", "ms", to_floor=1.0, against="floor"),
)


def main() -> None:
    chosen = rounds.options("python -m tests.bench.http", ROWS)
    core = rounds.pin()
    with serving() as origin:
        rounds.run(chosen, ROWS[0], partial(command, origin), core)


def command(origin: str, row: Row, who: str) -> Sequence[str]:
    path, _, work = row.name.rpartition("-")
    script = "floor_http.py" if who == "floor" else stdio.SCRIPTS.get(who, f"{who}.py")
    return [script, work, f"{origin}/{path}"]


@contextmanager
def serving() -> Iterator[str]:
    """Where the server listens, for as long as it runs."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bench.http_server"],
        env=rounds.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


if __name__ == "__main__":
    main()
