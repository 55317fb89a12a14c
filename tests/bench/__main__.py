"""Every row, over stdio and HTTP, side by side.

    python -m tests.bench [--official PYTHON] [--rounds 5] [--rows echo json-echo]

See ``stdio.py``, ``http.py`` and, for how it is measured, ``rounds.py``. What grows with what is
measured by ``growth.py``, what the protections cost by ``costs.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench import http, rounds, stdio
from tests.bench.rounds import Row


def main() -> None:
    chosen = rounds.options("python -m tests.bench", [*stdio.ROWS, *http.ROWS])
    core = rounds.pin()
    with http.serving() as origin:

        def command(row: Row, who: str) -> Sequence[str]:
            return http.command(origin, row, who) if row in http.ROWS else stdio.command(row, who)

        rounds.run(chosen, stdio.ROWS[0], command, core)


if __name__ == "__main__":
    main()
