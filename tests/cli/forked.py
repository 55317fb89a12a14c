"""A process that has loaded the command, and forks for each run of it.

Loading takes three times as long as most commands. What is run is the same: a process and a session
of its own, with its own environment, directory, and pipes. Commands at a terminal are started as a
shell does, and so are those that test how the command starts.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

__all__ = ["Forked"]

_MODULES = (
    "anyio._backends._asyncio",
    "anyio._core._signals",
    "h11",
    "mcp_client.approval.sampling_request",
    "mcp_client.audit",
    "mcp_client.auth",
    "mcp_client.catalog.pins",
    "mcp_client.cli.completion",
    "mcp_client.cli.decide",
    "mcp_client.cli.doctor",
    "mcp_client.cli.file_commands",
    "mcp_client.cli.login",
    "mcp_client.cli.main",
    "mcp_client.cli.output",
    "mcp_client.cli.parser",
    "mcp_client.cli.session",
    "mcp_client.cli.session_commands",
    "mcp_client.cli.shell",
    "mcp_client.handlers.handlers",
    "mcp_client.host.host",
    "mcp_client.processes.loop_process",
    "mcp_client.processes.orphan_guard",
    "mcp_client.session.connect",
    "mcp_client.session.session",
    "mcp_client.transports.http",
    "mcp_client.transports.stdio",
    "mcp_client.validation.engine",
)


class Forked:
    """Runs commands, one after the other."""

    def __init__(self, directory: Path, env: Mapping[str, str]) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cli.forked", str(other.fileno())],
                cwd=directory,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
            )

    def close(self) -> None:
        self._socket.close()
        self._process.wait(10)

    def run(
        self, words: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: bytes, seconds: float
    ) -> tuple[int, bytes, bytes]:
        """The exit code, and what came on standard output and on standard error."""
        pipes = [os.pipe() for _ in range(3)]
        (passed, giving), (out, out_to), (err, err_to) = pipes
        request = json.dumps({"words": words, "cwd": str(cwd), "env": dict(env)})
        socket.send_fds(self._socket, [request.encode()], [passed, out_to, err_to])
        for each in (passed, out_to, err_to):
            os.close(each)
        reported: dict[int, bytes] = {}
        threads = [
            threading.Thread(target=_give, args=(giving, stdin)),
            threading.Thread(target=_take, args=(out, reported)),
            threading.Thread(target=_take, args=(err, reported)),
        ]
        for thread in threads:
            thread.start()
        self._socket.settimeout(seconds)
        try:
            code = int(self._socket.recv(64))
        except TimeoutError:
            self._process.kill()
            raise
        for thread in threads:
            thread.join(seconds)
        return code, reported[out], reported[err]


def _give(pipe: int, data: bytes) -> None:
    with open(pipe, "wb", buffering=0) as stream:
        try:
            while data:
                data = data[stream.write(data) :]
        except BrokenPipeError:
            pass


def _take(pipe: int, reported: dict[int, bytes]) -> None:
    with open(pipe, "rb") as stream:
        reported[pipe] = stream.read()


# ---------------------------------------------------------------------- the other process


def _serve(requests: socket.socket) -> None:
    for module in _MODULES:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    while True:
        data, pipes, _, _ = socket.recv_fds(requests, 1024 * 1024, 3)
        if not data:
            return
        child = os.fork()
        if not child:
            requests.close()
            _become(json.loads(data), pipes)
        for pipe in pipes:
            os.close(pipe)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        requests.send(str(status).encode())


def _become(request: dict[str, object], pipes: Sequence[int]) -> NoReturn:
    from mcp_client import __main__ as program

    os.setsid()
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)
    os.chdir(str(request["cwd"]))
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[call-overload]
    sys.argv[:] = [str(program.__file__), *request["words"]]  # type: ignore[misc]
    try:
        code: Any = program.main()
    except SystemExit as end:  # after --help
        code = end.code
    _end(code or 0)


def _end(code: int) -> NoReturn:
    """As Python does, but for taking down what was loaded, which is copied for that alone."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # what was left open is reported
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _serve(socket.socket(fileno=int(sys.argv[1])))
