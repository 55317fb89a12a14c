"""``python -m tests.soak --seed N --calls M --seconds S``: ends with 1 where a promise was broken.

Calls and faults are drawn by the seed. What the machine does in between is not, so the same seed
gives the same load and not the same run. What is not right is reported at the end; the records
(the audit log, what callers saw, what servers ran) are stored in ``--directory``.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path

import anyio

from .run import soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    parser.add_argument("--directory", type=Path, help="an empty directory, which is left")
    options = parser.parse_args()
    logging.getLogger("mcp_client").addHandler(logging.NullHandler())
    logging.getLogger("mcp_client").propagate = False
    directory = options.directory or Path(tempfile.mkdtemp(prefix="soak-"))
    directory.mkdir(exist_ok=True)

    async def run() -> int:
        report = await soak(options.seed, options.calls, options.seconds, directory)
        print("\n".join(report.lines))
        print("\n".join(["NOT RIGHT:", *report.wrong]) if report.wrong else "All promises held.")
        return 1 if report.wrong else 0

    return anyio.run(run, backend=options.backend)


if __name__ == "__main__":
    sys.exit(main())
