"""End the command when the system asks for it: Ctrl-C, SIGTERM and SIGHUP.

In each case calls are cancelled, servers are notified, and no process stays. The event loop
receives Ctrl-C; a background job of a script ignores it, but ends at the other signals. An obstacle
to ending, such as a pipe without a reader, is given some seconds.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from anyio.abc import TaskStatus

from .exits import INTERRUPTED, Interrupted

__all__ = ["until_ctrl_c", "until_ended"]

T = TypeVar("T")
_SECONDS_TO_END = 15.0


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
