"""What the process does on signals, and where its log goes."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from .output import note

__all__ = ["end_on_signals", "log_to_stderr"]


@contextmanager
def end_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP (on Windows: CTRL_BREAK) end the command as Ctrl-C does: calls are
    cancelled, servers told, and no process stays. Not where Ctrl-C is ignored, as in a job behind a
    script."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
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


def _interrupt(number: int, frame: object) -> None:
    signal.raise_signal(signal.SIGINT)


class _Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(f"{record.levelname.lower()}: {record.getMessage()}")


def log_to_stderr() -> None:
    """Warnings of this package on standard error, a line each, safe to look at."""
    log = logging.getLogger("mcp_client")
    if not log.handlers:
        log.addHandler(_Notes(logging.WARNING))
        log.propagate = False
