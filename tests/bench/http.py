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
from functools import partial

from tests.bench import rounds, stdio
from tests.bench.rounds import Row

ROWS = (
    Row("json-echo", "echo after echo, HTTP JSON", "us", 0.3, short="CPU a call, HTTP"),
    Row("json-together", "echo, 32 in flight, HTTP JSON", "us", 0.23),
    Row("sse-echo", "echo after echo, HTTP SSE", "us", 0.2),
    Row("sse-together", "echo, 32 in flight, HTTP SSE", "us", 0.15),
    Row("old-json-echo", "echo after echo, JSON, handshake", "us", 0.3, in_table=False),
    Row("old-json-together", "echo, 32 in flight, JSON, handshake", "us", 0.23, in_table=False),
    Row("old-sse-echo", "echo after echo, SSE, handshake", "us", 0.2, in_table=False),
    Row("old-sse-together", "echo, 32 in flight, SSE, handshake", "us", 0.15, in_table=False),
    Row("json-sessions", "200 HTTP sessions opened, each", "ms", 0.06),
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
