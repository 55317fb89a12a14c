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

_VALIDATED = "validated against its schema; floor: by `jsonschema`"
ROWS = (
    Row("echo", "echo after echo, stdio", "us", 0.25, 1.1, short="CPU a call, stdio"),
    Row("together", "echo, 32 in flight, stdio", "us", 0.15, 2.0, short="32 in flight"),
    Row("cold", "fresh process to first result", "ms", 0.17, 1.7, short="first result"),
    Row("big", "8 MiB text, stdio", "ms", 0.08, short="8 MiB of text"),
    Row("import", "import of the package", "ms", 0.1, short="import"),
    Row("list", "list 10,000 tools, pages of 100", "ms", 0.27, tools=10_000),
    Row("sleep", "1,000 sleeping calls at once", "ms", 0.15),
    Row("record", "20 fields, stdio", "us", 0.15, setting=_VALIDATED, short="20 fields"),
)
SCRIPTS = {"fastmcp": "of_fastmcp.py"}


def main() -> None:
    chosen = rounds.options("python -m tests.bench.stdio", ROWS)
    rounds.run(chosen, ROWS[0], command, rounds.pin())


def command(row: Row, who: str) -> Sequence[str]:
    server = [sys.executable, "-I", str(rounds.HERE / "server.py"), "--tools", str(row.tools)]
    return [SCRIPTS.get(who, f"{who}.py"), row.name, *server]


if __name__ == "__main__":
    main()
