"""Runs tries of ``escapes`` in an ordinary Python, each in a process of its own, and reports which
of them got out. Reads JSON, ``{"tries": {name: code}, "secret": ..., "out": ..., "canary": ...}``,
and answers with ``{name: what got out}``.
"""

from __future__ import annotations

import ast
import asyncio  # noqa: TID251 - what the tries themselves use
import inspect
import json
import os
import re
import signal
import sys
import tempfile
import time
import traceback
from typing import Any

SECRET = ""
_SECONDS = 20


class CallDenied(Exception):
    def __init__(self, *args: object) -> None:
        super().__init__(*args)


class Files:
    async def read(self, path: Any) -> str:
        return str(path)

    async def delete(self, path: Any) -> None:
        try:
            raise LookupError(path)
        except LookupError:
            raise CallDenied("refused")


def _child(code: str) -> None:
    names: dict[str, Any] = {"files": Files(), "CallDenied": CallDenied, "SECRET": SECRET}
    made = compile(code, "<try>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if made.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(made, names))
    else:
        exec(made, names)


def _outcome(code: str, asked: dict[str, Any]) -> str:
    """What got out: a text, "a file", "the canary", "the clock"; or nothing."""
    with open(asked["canary"], "w") as canary:
        canary.write(SECRET)
    with tempfile.TemporaryFile() as printed:
        child = os.fork()
        if child == 0:
            signal.alarm(_SECONDS)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(printed.fileno(), 1)
            os.dup2(printed.fileno(), 2)
            try:
                _child(code)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(0)
        os.waitpid(child, 0)
        printed.seek(0)
        reported = printed.read().decode("utf-8", "replace")
    out = asked["out"]
    if os.path.lexists(out):
        os.rmdir(out) if os.path.isdir(out) and not os.path.islink(out) else os.unlink(out)
        return "a file"
    if not os.path.exists(asked["canary"]) or not os.path.getsize(asked["canary"]):
        return "the canary"
    if SECRET in reported:
        return "the secret"
    year = time.strftime("%Y")
    seconds = str(int(time.time()))[:6]
    return "the clock" if year in reported or re.search(rf"\b{seconds}", reported) else ""


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    SECRET = asked["secret"]
    json.dump({name: _outcome(code, asked) for name, code in asked["tries"].items()}, sys.stdout)
