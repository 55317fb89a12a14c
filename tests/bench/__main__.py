"""Every row, over stdio and HTTP, side by side.

    pip install -e ".[test]"
    python -m tests.bench [--table] [--official PYTHON] [--rounds 5] [--rows echo json-echo]

``--table`` prints the published table, as Markdown: the rows of a current revision beside the
official client, FastMCP and the floor, what some of our own features cost beside a call without
them, how far each may go ("reach") and whether it does; and its short form, for the README. It
takes some minutes with ``--rounds 3``, on a machine that does nothing else.

See ``stdio.py``, ``http.py``, ``own.py`` and, for how it is measured, ``rounds.py``. What grows
with what is measured by ``growth.py``, what the protections cost by ``costs.py``.

The official client and FastMCP are installed once, into ``.interop/``. Left out where the machine
lacks what they need: the rows of Postgres without its programs, "sandbox" without an engine.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench import http, own, rounds, stdio
from tests.bench.rounds import Row


def main() -> None:
    chosen = rounds.options("python -m tests.bench", [*stdio.ROWS, *http.ROWS, *own.ROWS])
    chosen.rows = [row for row in chosen.rows if not row.alone or own.possible(row)]
    core = rounds.pin()
    with http.serving() as origin:

        def command(row: Row, who: str) -> Sequence[str]:
            if row.alone:
                return own.command(row)
            return http.command(origin, row, who) if row in http.ROWS else stdio.command(row, who)

        rounds.run(chosen, stdio.ROWS[0], command, core)


if __name__ == "__main__":
    main()
