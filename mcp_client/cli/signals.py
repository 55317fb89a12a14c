"""Read standard input, and end the command at Ctrl-C, SIGTERM or SIGHUP.

At each of these signals calls are cancelled, servers are notified, and no process stays. The event
loop receives Ctrl-C; a background job of a script ignores it, but ends at the other signals. An
obstacle to ending, such as a pipe without a reader, is given some seconds.

A signal ends the command also while it waits for standard input. ``find_terminal`` finds the
terminal to ask a person at.
"""

from __future__ import annotations

import argparse
import os
import signal
import stat
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskStatus

from ..runtime.daemon_thread import run_in_thread
from .exits import INTERRUPTED, Interrupted, UsageError

__all__ = [
    "find_terminal",
    "standard_input",
    "stdin_bytes",
    "stdin_lines",
    "until_ctrl_c",
    "until_ended",
]

T = TypeVar("T")
_SECONDS_TO_END = 15.0
_MAX_STDIN_BYTES = 64 * 1024 * 1024


async def until_ended(run: Callable[[], Awaitable[int]]) -> int:
    """Return the result of ``run``. Raises ``Interrupted`` for SIGTERM and SIGHUP."""
    if sys.platform == "win32":  # its event loop hears no signals
        if signal.getsignal(signal.SIGBREAK) is signal.SIG_DFL:
            signal.signal(signal.SIGBREAK, lambda *_: signal.raise_signal(signal.SIGINT))
        return await run()
    both = (signal.SIGTERM, signal.SIGHUP)
    numbers = [one for one in both if signal.getsignal(one) is signal.SIG_DFL]  # no nohup
    code = None
    with anyio.CancelScope() as scope:
        try:
            code = await _heeding(numbers, lambda: _end(scope), run)
        except Exception:
            if not scope.cancel_called:
                raise
    if code is None:
        raise Interrupted("interrupted")
    return code


def _end(scope: anyio.CancelScope) -> None:
    if not scope.cancel_called:
        last_resort = threading.Timer(_SECONDS_TO_END, os._exit, [INTERRUPTED])
        last_resort.daemon = True
        last_resort.start()
        scope.cancel()


async def until_ctrl_c(run: Callable[[], Awaitable[int]]) -> int | None:
    """Return the result of ``run``; None if Ctrl-C cancelled it.

    Raises ``Interrupted`` for a second Ctrl-C while it is being cancelled.
    """
    if sys.platform == "win32":  # Ctrl-C ends the command
        return await run()
    before = signal.getsignal(signal.SIGINT)
    code, leave = None, False

    def hear() -> None:
        nonlocal leave
        leave = scope.cancel_called
        scope.cancel()

    try:
        with anyio.CancelScope() as scope:
            code = await _heeding([signal.SIGINT], hear, run)
    finally:
        signal.signal(signal.SIGINT, before)
    if leave:
        raise Interrupted("interrupted")
    return code


async def _heeding(
    numbers: list[signal.Signals], hear: Callable[[], None], run: Callable[[], Awaitable[T]]
) -> T:
    """Return the result of ``run``; while it runs, each of these signals calls ``hear``."""
    failed: Exception | None = None
    listening = anyio.CancelScope(shield=True)  # until all has ended

    async def listen(*, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(*numbers) as received, listening:
            task_status.started()
            async for _ in received:
                hear()

    async with anyio.create_task_group() as group:
        await group.start(listen)
        try:
            value = await run()
        except Exception as error:  # noqa: BLE001 - raised below, not in a group
            failed = error
        finally:
            listening.cancel()
    if failed is not None:
        raise failed
    return value


async def standard_input() -> str:
    """Return the text of standard input. Raises ``UsageError``."""
    data = await stdin_bytes(_MAX_STDIN_BYTES + 1)
    if len(data) > _MAX_STDIN_BYTES:
        raise UsageError(f"standard input has more than {_MAX_STDIN_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError("standard input is not UTF-8") from None


async def stdin_lines() -> AsyncIterator[tuple[int, str]]:
    """Yield the lines of standard input, each with its number and without blank ones, as they come.

    Raises ``UsageError`` if one is too long.
    """
    rest, number = b"", 0
    while more := await stdin_bytes(1):
        *lines, rest = (rest + more).split(b"\n")
        for line in lines:
            number += 1
            if line.strip():
                yield number, line.decode("utf-8-sig", "replace")
        if len(rest) > _MAX_STDIN_BYTES:
            raise UsageError(f"line {number + 1} has more than {_MAX_STDIN_BYTES} bytes")
    if rest.strip():
        yield number + 1, rest.decode("utf-8-sig", "replace")


async def stdin_bytes(most: int = sys.maxsize) -> bytes:
    """Return at least ``most`` bytes of standard input, or all. The event loop is not blocked."""
    data = bytearray()
    try:
        fd = sys.stdin.fileno()
        mode = os.fstat(fd).st_mode
        if sys.platform == "win32":
            read = partial(sys.stdin.buffer.read, most)
            return await run_in_thread(read, abandon_on_cancel=True)
        while len(data) < most:
            if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd):
                await anyio.wait_readable(fd)
            more = os.read(fd, 65_536)
            if not more:
                break
            data += more
    except (OSError, AttributeError, ValueError) as error:
        raise UsageError(f"standard input cannot be read: {error}") from None
    return bytes(data)


def find_terminal(options: argparse.Namespace) -> None:
    """Set ``options.terminal``: whether a person can be asked.

    The terminal is ``/dev/tty`` if standard input or standard error is a pipe or a file. Input from
    a pipe is never a decision.
    """
    options.terminal = False
    if getattr(options, "no_input", False):
        return
    if _is_terminal(sys.stdin) and _is_terminal(sys.stderr):
        options.terminal = True
        return
    try:
        fd = os.open(_terminal_name(), os.O_RDWR | getattr(os, "O_NOCTTY", 0))
    except OSError:
        return
    from ..runtime.console import ask_at

    encoding = sys.stderr.encoding if sys.stderr is not None else "utf-8"
    input = open(fd, encoding=encoding, errors="replace", closefd=False)  # noqa: SIM115
    screen = open(fd, "w", encoding=encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
    ask_at(input, screen)
    options.terminal = True


def _terminal_name() -> str:
    if sys.platform == "win32":
        raise OSError("a console has another name for its input than for its output")
    os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))  # whether there is one that controls us
    for stream in (sys.stdin, sys.stderr, sys.stdout):
        if _is_terminal(stream):  # macOS cannot wait for /dev/tty by that name
            return os.ttyname(stream.fileno())
    return "/dev/tty"


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False
