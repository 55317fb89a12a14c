"""Receive the changes that other processes make, by PostgreSQL's LISTEN and NOTIFY."""

from __future__ import annotations

import logging
import os
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import psycopg

from ..errors import McpError
from ..runtime.daemon_thread import NoThread, start_thread
from .connections import Connection, Connections

__all__ = ["Listener"]

_log = logging.getLogger("mcp_client")
_FIRST_PAUSE_SECONDS = 0.5
_LAST_PAUSE_SECONDS = 10.0
_CHECK_SECONDS = 60.0
"""The seconds without a notice after which the connection is checked, because it may be dead."""


class Listener:
    """A thread with a connection, from the first watch until ``close``.

    The notifications of a channel are the kinds that were changed.

    When a connection was lost, every watcher is called once another one listens, because changes
    may have been missed. Through a pooler that does not let a connection listen, nothing is
    received.
    """

    def __init__(self, connections: Connections, channel: str) -> None:
        self._connections = connections
        self._channel = channel
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._watchers: dict[object, tuple[str, Callable[[], None]]] = {}
        self._waker: socket.socket | None = None
        """Closed to end the thread that waits for the other end of it."""

    def watch(self, kind: str, notify: Callable[[], None]) -> Callable[[], None]:
        """Call ``notify``, from any thread, after objects of this kind were changed."""
        if self._pid != os.getpid():
            self._begin()  # the thread is in the parent
        watch = object()
        with self._lock:
            self._watchers[watch] = kind, notify
            if self._waker is None:
                waker, other = socket.socketpair()
                try:
                    start_thread(self._run, "mcp_client state", other)
                except NoThread:
                    waker.close()
                    other.close()
                    del self._watchers[watch]
                    raise
                self._waker = waker
        return lambda: self._forget(watch)

    def _forget(self, watch: object) -> None:
        with self._lock:
            self._watchers.pop(watch, None)

    def close(self) -> None:
        """End the thread. Watches stay, and the next ``watch`` starts another."""
        if self._pid == os.getpid():
            with self._lock:
                waker, self._waker = self._waker, None
            if waker is not None:
                waker.close()

    # --------------------------------------------------------------------- its thread

    def _run(self, stopped: socket.socket) -> None:
        pause = _FIRST_PAUSE_SECONDS
        with stopped:
            while True:
                connection = self._connected()
                if connection is not None:
                    pause = _FIRST_PAUSE_SECONDS
                    self._notify(None)
                    self._listen(connection, stopped)
                    connection.close()
                if _waited(stopped, None, pause) is stopped:
                    return
                pause = min(2 * pause, _LAST_PAUSE_SECONDS)

    def _connected(self) -> Connection | None:
        try:
            connection = self._connections.connect()
        except McpError as error:
            _log.debug("cannot listen for changes now: %s", error)
            return None
        try:
            connection.execute(f'listen "{self._channel}"'.encode())
            return connection
        except psycopg.Error as error:
            _log.debug("cannot listen for changes now: %s", type(error).__name__)
            connection.close()
            return None

    def _listen(self, connection: Connection, stopped: socket.socket) -> None:
        with suppress(psycopg.Error, OSError):
            while True:
                kinds = {notice.payload for notice in connection.notifies(timeout=0)}
                if kinds:
                    self._notify(kinds)
                    continue
                readable = _waited(stopped, connection, _CHECK_SECONDS)
                if readable is stopped:
                    return
                if readable is None:
                    connection.execute(b"select 1")

    def _notify(self, kinds: set[str] | None) -> None:
        """Notify those who watch these kinds, or all."""
        with self._lock:
            watchers = [*self._watchers.values()]
        for kind, notify in watchers:
            if kinds is None or kind in kinds:
                try:
                    notify()
                except Exception:  # noqa: BLE001 - one watcher must not end the others' notices
                    _log.exception("a callback for changes of a state failed")


def _waited(
    stopped: socket.socket, connection: Connection | None, seconds: float
) -> socket.socket | Connection | None:
    """Return what can be read first: the connection, or the socket if its other end was closed."""
    with selectors.DefaultSelector() as selector:
        selector.register(stopped, selectors.EVENT_READ, stopped)
        if connection is not None:
            selector.register(connection, selectors.EVENT_READ, connection)
        ready = [key.data for key, _ in selector.select(seconds)]
    return stopped if stopped in ready else ready[0] if ready else None
