"""Show other processes that this one still runs, while it has calls under way.

A process writes one row, its lease, and renews it every fifteen seconds from one thread; not one
for each call. On the same machine a process that has ended is known by its number at once. A
process on another machine counts as ended when its lease was not renewed for 45 seconds. The clock
of the storage measures them. If that clock was set, the time for which a process has watched the
lease counts.

A process that was only suspended may continue after that. A wrong assumption is safe: every write
under a claim compares the claim's mark, and another process that took the claim over has put its
own there.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ..errors import McpError, StateError
from ..processes.process_id import is_alive, process_id
from ..runtime.backoff import doubled
from ..runtime.daemon_thread import NoThread, start_thread

if TYPE_CHECKING:
    from ..runtime.storage import Storage

__all__ = ["Lease"]

_log = logging.getLogger("mcp_client")
_ROWS = "callers"
_RENEW_SECONDS = 15.0
_FIRST_RETRY_SECONDS = 0.5
_CLOSE_SECONDS = 10.0
_EXPIRY_SECONDS = 45.0
_KEEP_SECONDS = 86_400.0
_MAX_WATCHED = 1_000
_MAX_LEFT = 10_000
"""Changes that wait for the state to be usable again."""


class Lease:
    """The lease of this process in one storage.

    Each method may be called from any thread; those that use the storage state so.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self.id: str = os.urandom(16).hex()
        self.process: str = process_id()
        self._changed = threading.Condition()
        self._under_way: set[str] = set()
        self._left: list[Callable[[], object]] = []
        self._renewed: float | None = None
        self._thread: threading.Thread | None = None
        self._closing = False
        self._watched: dict[str, tuple[float, float]] = {}

    def enter(self, mark: str) -> None:
        """Add the claim ``mark`` to those of this process. Uses the storage."""
        if self._pid != os.getpid():
            self._begin()  # a forked child has none of its parent's claims, and no thread
        if self._storage.waits:
            renewed = self._renewed
            if renewed is None or time.monotonic() - renewed >= _RENEW_SECONDS:
                self._renew()
        with self._changed:
            self._start()
            self._under_way.add(mark)

    def leave(self, mark: str) -> None:
        """Remove a claim that has ended."""
        with self._changed:
            self._under_way.discard(mark)
            self._changed.notify()

    def later(self, change: Callable[[], object]) -> None:
        """Make a change of the storage when that is possible, as long as this process lives."""
        with self._changed:
            if len(self._left) >= _MAX_LEFT:
                _log.error("cannot write the journal: too many calls wait for it")
                return
            self._left.append(change)
            with suppress(NoThread):  # the next claim starts it
                self._start()
            self._changed.notify()

    def close(self) -> None:
        """End the thread.

        It tries again to make the changes that are left, for at most ``_CLOSE_SECONDS``. A change
        that fails is tried again when the storage is next used. Uses the storage.
        """
        if self._pid != os.getpid():
            return
        with self._changed:
            thread, self._closing = self._thread, True
            self._changed.notify()
        if thread is not None:
            thread.join(_CLOSE_SECONDS)

    def has_expired(self, mark: str, lease: str, process: str) -> bool:
        """Whether the claim ``mark`` is not held any more. Uses the storage.

        Args:
            mark: The random name of the claim.
            lease: The lease of the process that made the claim; empty if no one has it.
            process: The name of that process.
        """
        if not lease:
            return True
        if self._pid == os.getpid() and lease == self.id:
            return mark not in self._under_way
        if not self._storage.waits or not is_alive(process):
            return True
        found = self._storage.get(_ROWS, lease)
        if found is None:
            return True
        at, now = found["at"], time.monotonic()
        if self._watched.get(lease, (None, 0.0))[0] != at:
            while len(self._watched) >= _MAX_WATCHED:
                self._watched.pop(next(iter(self._watched)), None)
            self._watched[lease] = at, now
        since = self._watched[lease][1]
        return self._storage.now() - at > _EXPIRY_SECONDS or now - since > _EXPIRY_SECONDS

    def _renew(self) -> None:
        began, now = time.monotonic(), self._storage.now()
        row = {"process": self.process, "at": now, "due": now + _KEEP_SECONDS}
        self._storage.change(_ROWS, self.id, lambda found: row)
        if self._renewed is None:
            self._storage.sweep(_ROWS, now)
        self._renewed = began

    # ----------------------------------------------------------------- its thread

    def _start(self) -> None:
        if self._thread is None and (self._storage.waits or self._left):
            self._closing = False
            self._thread = start_thread(self._run, "mcp_client journal")

    def _run(self) -> None:
        failures, tried = 0, time.monotonic()
        while True:
            with self._changed:
                closing = self._closing
                if not self._left and (closing or not self._under_way):
                    self._thread = None
                    return
                due = _RENEW_SECONDS
                if self._left:
                    due = doubled(_FIRST_RETRY_SECONDS, failures, due)
                left = tried + due - time.monotonic()
                if left > 0 and not closing:
                    self._changed.wait(left)
                    continue
            tried = time.monotonic()
            failures = 0 if self._work() else failures + 1
            if closing:
                with self._changed:
                    self._thread = None
                    if self._left:
                        _log.error(
                            "the state was closed, and the journal lacks the end of %d call(s)",
                            len(self._left),
                        )
                return

    def _work(self) -> bool:
        try:
            self._renew()
            while self._left:
                change = self._left[0]
                try:
                    change()
                except StateError:
                    raise
                except McpError as error:
                    _log.error("cannot record the end of a call in the journal: %s", error)
                del self._left[0]
        except McpError as error:
            _log.warning("cannot write the journal now: %s", error)
            return False
        except Exception as error:  # noqa: BLE001 - a storage of the host's own may do anything
            _log.error("cannot write the journal", exc_info=error)
            return False
        return True
