"""What a heavy load takes of the client's process, beside the official client.

    python -m tests.bench.load [--official PYTHON] [--cases sessions in-flight big tools]

- ``sessions``: a thousand sessions to one server over HTTP, opened one after another, all open at
  once, a call through each.
- ``in-flight``: ten thousand calls of one session over stdio, none of which is answered before the
  last is sent (unless that takes longer than they sleep: ``at_once`` is how many slept).
- ``big``: one result with a text of 64 MiB, over stdio.
- ``tools``: a list of 20,000 tools, over stdio, in pages of a hundred.

Each case and client is a process of its own. Nothing is asserted but that the work was done.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.bench import http, rounds

CASES = ("sessions", "in-flight", "big", "tools")
_CLIENT = Path(__file__).parent / "clients" / "load.py"
_SERVER = Path(__file__).with_name("server.py")
_OFFICIAL = Path(__file__).parents[2] / ".interop" / "bench-mcp-2.3.0" / "bin" / "python"
_LONGEST = 600


def _run(who: str, python: str, case: str, origin: str) -> dict[str, Any]:
    target = [f"{origin}/json"]
    if case != "sessions":
        count = 20_000 if case == "tools" else 4
        target = [sys.executable, "-I", str(_SERVER), "--tools", str(count)]
    done = subprocess.run(
        [python, str(_CLIENT), who, case, *target],
        env=rounds.environment(),
        capture_output=True,
        text=True,
        timeout=_LONGEST,
        check=False,
    )
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    reported: dict[str, Any] = json.loads(done.stdout)
    return reported


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.load")
    parser.add_argument("--official", default=str(_OFFICIAL))
    parser.add_argument("--cases", nargs="*", choices=CASES, default=CASES)
    chosen = parser.parse_args()
    clients = {"ours": sys.executable}
    if Path(chosen.official).exists():
        clients["official"] = chosen.official
    print(f"Python {platform.python_version()}")
    with http.serving() as origin:
        for case in chosen.cases:
            for who, python in clients.items():
                reported = _run(who, python, case, origin)
                if "failed" in reported:
                    print(f"{case:10} {who:9} failed: {reported['failed']}", flush=True)
                    continue
                used = reported.pop("most_kib") - reported.pop("before_kib")
                print(
                    f"{case:10} {who:9} {reported.pop('cpu'):7.2f} s CPU "
                    f"{reported.pop('wall'):7.1f} s, "
                    f"{used / 1024:7.1f} MiB more at most, {reported}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
