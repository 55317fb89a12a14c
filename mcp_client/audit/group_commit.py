"""Threads that wait to write are written for together.

One of them writes for all that came while the write before was under way: one write, and one wait
for the disk. The order is the one they came in, and each goes on once its own records are written,
or raises what prevented that.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakSet

from ..errors import StateError

__all__ = ["GroupCommit"]

T = TypeVar("T")
_Records = Sequence[Mapping[str, Any]]


@dataclass(eq=False, slots=True)
class _Waiting:
    records: _Records
    size: int
    is_settled: bool = False
    """Whether a thread has written them, or has tried."""
    is_written: bool = False
    error: Exception | None = None


_all: WeakSet[GroupCommit] = WeakSet()


def _begin_again() -> None:
    """In a process that was forked: the threads that wait or write are not in it."""
    for each in _all:
        each._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)


class GroupCommit:
    def __init__(
        self,
        write: Callable[[_Records], bool],
        busy: Callable[[], Exception],
        *,
        patience: float,
        most: int,
    ) -> None:
        """``write`` writes all of some records or none; False where others held the file for too
        long, which ``busy`` is the error for. ``patience``: seconds to wait for the turn of a
        thread; ``most``: characters of the records of one write, about."""
        self._write = write
        self._busy = busy
        self._patience = patience
        self._most = most
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._is_writing = False
        self._turns = threading.Condition()

    def append(self, records: _Records) -> None:
        """Blocks. Raises what ``write`` raises for these records, or ``busy()``."""
        mine = _Waiting(records, sum(len(str(record)) for record in records))
        until = time.monotonic() + self._patience
        with self._turns:
            self._waiting.append(mine)
        while self._take_turn(mine, until):
            self._write_some()
        if mine.error is not None:
            raise mine.error
        if not mine.is_written:
            raise self._busy()

    def alone(self, write: Callable[[], T]) -> T:
        """``write()`` while no other thread writes. Raises what it does, or ``busy()``."""
        until = time.monotonic() + self._patience
        with self._turns:
            while self._is_writing:
                if not self._turns.wait(max(0.0, until - time.monotonic())):
                    raise self._busy()
            self._is_writing = True
        try:
            return write()
        finally:
            with self._turns:
                self._is_writing = False
                self._turns.notify_all()

    def _take_turn(self, mine: _Waiting, until: float) -> bool:
        """Wait until no thread writes: True to write now, False where ``mine`` is settled."""
        with self._turns:
            while self._is_writing and not mine.is_settled:
                left = until - time.monotonic()
                if left <= 0 and mine in self._waiting:
                    self._waiting.remove(mine)
                    raise self._busy()
                self._turns.wait(max(left, 0.1))
            if not mine.is_settled:
                self._is_writing = True
            return not mine.is_settled

    def _write_some(self) -> None:
        """For those that came first, as many as may share a write."""
        group: list[_Waiting] = []
        size = 0
        try:
            with self._turns:
                while self._waiting and (not group or size + self._waiting[0].size <= self._most):
                    size += self._waiting[0].size
                    group.append(self._waiting.popleft())
            self._write_for(group)
        finally:
            with self._turns:
                for one in group:
                    one.is_settled = True
                self._is_writing = False
                self._turns.notify_all()

    def _write_for(self, group: Sequence[_Waiting]) -> None:
        try:
            is_written = self._write([record for one in group for record in one.records])
        except Exception as error:  # noqa: BLE001 - a record of any of them may be to blame
            if len(group) == 1:
                group[0].error = error
            elif isinstance(error, StateError):  # no record is to blame
                for one in group:
                    one.error = copy(error)
            else:
                for one in group:
                    self._write_for([one])
        else:
            for one in group:
                one.is_written = is_written
