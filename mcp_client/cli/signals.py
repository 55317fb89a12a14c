"""How the command ends when it is told to from outside: Ctrl-C, SIGTERM and SIGHUP."""

from __future__ import annotations

import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import anyio
from anyio.abc import TaskStatus

from .exits import Interrupted

__all__ = ["end_on_signals", "until_ctrl_c"]

_ended = False
"""Whether a signal other than Ctrl-C's has come."""


@contextmanager
def end_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP (on Windows: CTRL_BREAK) end the command as Ctrl-C does: calls are
    cancelled, servers told, and no process stays. Not where Ctrl-C is ignored, as in a job behind a
    script."""
    if not _heeds_ctrl_c():
        yield
        return
    names = [name for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]
    before = {}
    for name in names:
        number = getattr(signal, name)
        if signal.getsignal(number) is signal.SIG_DFL:  # not under nohup
            before[number] = signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _heeds_ctrl_c() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _interrupt(number: int, frame: object) -> None:
    global _ended
    _ended = True
    signal.raise_signal(signal.SIGINT)


async def until_ctrl_c(run: Callable[[], Awaitable[int]]) -> int | None:
    """What ``run`` returns or raises; None where Ctrl-C cancelled it.

    Raises ``Interrupted`` for a second Ctrl-C while it is being cancelled, and for other signals.
    """
    if sys.platform == "win32":  # its event loop hears no signals: Ctrl-C ends the command
        return await run()
    before = signal.getsignal(signal.SIGINT)
    code, failed, leave = None, None, False
    scope = anyio.CancelScope()

    async def watch(*, task_status: TaskStatus[None]) -> None:
        nonlocal leave
        with anyio.open_signal_receiver(signal.SIGINT) as signals:
            task_status.started()
            async for _ in signals:
                leave = leave or _ended or scope.cancel_called
                scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            await group.start(watch)
            with scope:
                try:
                    code = await run()
                except Exception as error:  # noqa: BLE001 - raised below, not in a group
                    failed = error
            group.cancel_scope.cancel()
    finally:
        signal.signal(signal.SIGINT, before)
    if leave:
        raise Interrupted("interrupted")
    if failed is not None:
        raise failed
    return code
