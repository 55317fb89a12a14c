"""CPU time per call over stdio: ours, the official SDK and the floor, side by side.

    python -m tests.bench.stdio [--official PYTHON] [--rounds 5] [--rows echo cold]

``--official`` is the interpreter of an environment that has the official ``mcp``; without it, one
is made once in ``.interop/``. ``--rows``: echo, together, cold, big, import, list, sleep, record.
Nothing is asserted but that the work was done: the table is for reading. How it is measured:
``rounds.py``. The server is ``server.py``, started by every client.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.bench import rounds
from tests.bench.rounds import Row

ROWS = (
    Row("echo", "echo after echo", "us", 0.25),
    Row("together", "echo, 32 in flight", "us", 0.15),
    Row("cold", "fresh process to first result", "ms", 0.2),
    Row("big", "8 MiB text", "ms", 0.12),
    Row("import", "import of the package", "ms", 0.15),
    Row("list", "list 10,000 tools, pages of 100", "ms", 0.3, tools=10_000),
    Row("sleep", "1,000 sleeping calls at once", "ms", 0.2),
    Row("record", "20-field structured result, validated", "us", 0.55),
)


def main() -> None:
    chosen = rounds.options("python -m tests.bench.stdio", ROWS)
    rounds.run(chosen, ROWS[0], command, rounds.pin())


def command(row: Row, who: str) -> Sequence[str]:
    server = [sys.executable, "-I", str(rounds.HERE / "server.py"), "--tools", str(row.tools)]
    return [f"{who}.py", row.name, *server]


if __name__ == "__main__":
    main()
