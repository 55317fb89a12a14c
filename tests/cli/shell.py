"""Running ``mcp-client`` as a shell does: in a process of its own, with or without a terminal."""

from __future__ import annotations

import atexit
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pexpect  # type: ignore[import-untyped]

from tests.cli.forked import Forked

__all__ = [
    "ROOT",
    "Done",
    "at_terminal",
    "begin",
    "example",
    "heed_signals",
    "in_sh",
    "loaded_once",
    "offering",
    "python",
    "refusing",
    "run",
    "sending",
    "server",
    "until",
    "without_extra",
]

ROOT = Path(__file__).parents[2]
BOUND = 180
OF_A_SCRIPT = 'Traceback (most recent call last):\n  File "script"'
_forked: Forked | None = None
_scratch = tempfile.mkdtemp(prefix="mcp-client-tests-")
atexit.register(shutil.rmtree, _scratch, ignore_errors=True)


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def example(name: str) -> str:
    """A server of ``examples/servers`` as TARGET."""
    return python(ROOT / "examples" / "servers" / f"{name}.py")


def python(program: Path) -> str:
    """Return the TARGET that runs ``program``, wherever it and this Python are."""
    return shlex.join([sys.executable, str(program)])


def server(name: str, *options: str) -> str:
    """A server of ``tests/support`` as TARGET."""
    path = ROOT / "tests" / "support" / f"{name}.py"
    return shlex.join([sys.executable, "-IS", str(path), *options])


def sending(*content: dict[str, Any], **more: Any) -> list[str]:
    """The words of a call whose result has this content, and ``more``."""
    message = {"jsonrpc": "2.0", "id": "@", "result": {"content": content, **more}}
    line = json.dumps(message).replace("ID", "I\\u0044").replace('"@"', "ID")
    words = ["call", server("scripted"), "raw", f"lines:={json.dumps([line])}"]
    return [*words, "--allow", "raw"]


def offering(directory: Path, result: dict[str, Any], during: str = "", **schemas: Any) -> str:
    """A server with one tool of these schemas, which always answers so; ``during`` a call it runs
    this, where ``notify(method, **params)`` sends a notification."""
    tool = {"name": "count", "inputSchema": {"type": "object"}, **schemas}
    program = directory / "counting.py"
    program.write_text(f"""
import json, os, sys, time
def notify(method, **params):
    notice = {{"jsonrpc": "2.0", "method": "notifications/" + method, "params": params}}
    print(json.dumps(notice), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    match asked["method"]:
        case "server/discover":
            found = {{"supportedVersions": ["2026-07-28"], "capabilities": {{"tools": {{}}}},
                      "serverInfo": {{"name": "counting", "version": "1"}},
                      "ttlMs": 0, "cacheScope": "private"}}
        case "tools/list":
            found = {{"tools": [{tool!r}], "ttlMs": 0, "cacheScope": "private"}}
        case _:
            token = asked["params"].get("_meta", {{}}).get("progressToken")
            exec({during!r})
            found = {result!r}
    found["resultType"] = "complete"
    print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": found}}), flush=True)
""")
    return shlex.join([sys.executable, "-IS", str(program)])


def environment(home: Path | None, **more: str) -> dict[str, str]:
    out = ("XDG_STATE_HOME", "XDG_CACHE_HOME", "COLUMNS", "LINES", "NO_COLOR")
    remaining = {name: value for name, value in os.environ.items() if name not in out}
    found = {**remaining, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", "PYTHONUTF8": "1"}
    if home is not None:
        own = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")}
    else:  # nothing is written into the home of the person who runs the tests
        own = {"XDG_STATE_HOME": f"{_scratch}/state", "XDG_CACHE_HOME": f"{_scratch}/cache"}
    return {**found, **own, **more}


def run(
    *words: str,
    stdin: str | bytes = b"",
    cwd: Path = ROOT,
    home: Path | None = None,
    **env: str,
) -> Done:
    """Run it without a terminal, as in a script of cron's."""
    data, found = stdin.encode() if isinstance(stdin, str) else stdin, environment(home, **env)
    if _forked is not None and not any(name.startswith("PYTHON") for name in env):
        code, out, output = _forked.run(words, cwd, found, data, BOUND)
        return _done(code, out, output)
    done = subprocess.run(
        [sys.executable, "-m", "mcp_client", *words],
        cwd=cwd,
        env=found,
        input=data,
        capture_output=True,
        timeout=BOUND,
        start_new_session=True,
    )
    return _done(done.returncode, done.stdout, done.stderr)


def begin(
    *words: str, home: Path | None = None, stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[str]:
    """Start the command, which an interrupt ends, and do not wait for it."""
    return subprocess.Popen(
        [sys.executable, "-m", "mcp_client", *words],
        cwd=ROOT,
        env=environment(home),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed_signals,
    )


def in_sh(line: str, home: Path | None = None) -> Done:
    """Run a line of sh, in which ``mcp`` is the command."""
    command = shlex.join([sys.executable, "-m", "mcp_client"])
    done = subprocess.run(
        ["/bin/sh", "-c", f'mcp() {{ {command} "$@"; }}; {line}'],
        cwd=ROOT,
        env=environment(home),
        capture_output=True,
        timeout=BOUND,
        start_new_session=True,
    )
    return _done(done.returncode, done.stdout, done.stderr)


def _done(code: int, out: bytes, reported: bytes) -> Done:
    err = reported.decode()
    assert "Traceback" not in err.replace(OF_A_SCRIPT, ""), err
    return Done(code, out.decode(), err)


@contextmanager
def loaded_once() -> Iterator[None]:
    """Meanwhile, ``run`` forks a process that has loaded the command. See ``forked``."""
    global _forked
    _forked = Forked(ROOT, environment(None))
    try:
        yield
    finally:
        _forked.close()
        _forked = None


def at_terminal(
    *words: str, line: str = "", columns: int = 100, home: Path | None = None, **env: str
) -> Any:
    """Start it at a terminal of its own; ``line`` is a line for ``sh`` instead, where it is called
    ``mcp``."""
    program = [sys.executable, "-m", "mcp_client", *words]
    if line:
        command = shlex.join([sys.executable, "-m", "mcp_client"])
        program = ["/bin/sh", "-c", f'mcp() {{ {command} "$@"; }}; {line}']
    return pexpect.spawn(
        program[0],
        program[1:],
        cwd=str(ROOT),
        env=environment(home, **{"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", **env}),
        dimensions=(40, columns),
        encoding="utf-8",
        timeout=BOUND,
        preexec_fn=heed_signals,
    )


def heed_signals() -> None:
    """A job in the background of a shell, as the run of these tests may be, ignores SIGINT, and one
    that ``nohup`` started SIGHUP."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def until(condition: Callable[[], bool]) -> None:
    """Wait for it, at most a minute."""
    end = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def without_extra(directory: Path) -> dict[str, str]:
    """The environment of an installation without the extra ``cli``; ``directory`` is made."""
    directory.mkdir()
    for name in ("rich", "prompt_toolkit", "textual_image", "PIL"):
        (directory / f"{name}.py").write_text("raise ImportError('not installed')\n")
    return {"PYTHONPATH": os.pathsep.join([str(directory), str(ROOT)])}


@contextmanager
def refusing(status: int) -> Iterator[str]:
    """An HTTP server that answers everything with ``status``; its URL."""

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        do_GET = do_DELETE = do_POST  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as served:
        thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{served.server_port}/mcp"
        finally:
            served.shutdown()
            thread.join()
