"""``python -m tests.fuzz NAME --seconds N``: looks for bytes that break a promise of the package.

NAME is one of ``targets.TARGETS``, or ``all``. With atheris installed (``pip install atheris``) it
searches, else ``engine`` does, which is some hundred times slower. Ends with 1 where something was
found; the bytes are printed, to be stored as a case in ``cases``.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from .engine import search

atheris: Any = None
with suppress(ImportError):
    atheris = importlib.import_module("atheris")

with nullcontext() if atheris is None else atheris.instrument_imports(include=["mcp_client"]):
    TARGETS: dict[str, Any] = importlib.import_module("tests.fuzz.targets").TARGETS


_BEST = "own" if atheris is None else "atheris"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("name", choices=[*TARGETS, "all"])
    parser.add_argument("--seconds", type=float, default=3_600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=["atheris", "own"], default=_BEST)
    options = parser.parse_args()
    logging.disable()
    if options.name == "all":
        rest = ["--seconds", str(options.seconds / len(TARGETS)), "--engine", options.engine]
        codes = [
            subprocess.run(
                [sys.executable, "-m", "tests.fuzz", name, *rest], check=False
            ).returncode
            for name in TARGETS
        ]
        return max(codes)
    if options.engine == "atheris":
        return _with_atheris(options.name, options.seconds, options.seed)
    found = search(TARGETS[options.name], seed=options.seed, seconds=options.seconds)
    print(
        f"{options.name}: {found.executions} executions in {found.seconds:.0f} s, "
        f"{found.branches} branches, {found.stored} inputs stored"
    )
    if found.error is None:
        return 0
    traceback.print_exception(found.error)
    print(f"FOUND {options.name}: {found.failing!r}")
    return 1


def _with_atheris(name: str, seconds: float, seed: int) -> int:
    run, count, began = TARGETS[name].run, 0, time.monotonic()

    def one(data: bytes) -> None:
        nonlocal count
        count += 1
        try:
            run(data)
        except Exception:
            traceback.print_exc()
            print(f"FOUND {name}: {data!r}", flush=True)
            os._exit(1)
        if time.monotonic() - began > seconds:
            print(f"{name}: {count} executions in {seconds:.0f} s with atheris", flush=True)
            os._exit(0)

    corpus = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-"))
    for number, data in enumerate(TARGETS[name].seeds):
        (corpus / str(number)).write_bytes(data)
    options = [f"-seed={seed}", "-max_len=2000", "-verbosity=0", str(corpus)]
    atheris.Setup([sys.argv[0], *options], one)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
