"""The views of a queue for people: its pending requests, and logins on another device."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import ConfigError

if TYPE_CHECKING:
    from ..auth.steps import DeviceLogin
from typing import Any

from anyio.lowlevel import checkpoint

from ..runtime.callbacks import in_thread
from ..runtime.watch import Notifier, Watch

__all__ = ["PendingChanges", "ShownLogins"]


class PendingChanges(Watch[Any]):
    """An iterator over the states of a queue: see ``ApprovalQueue.changes()``."""

    def __init__(self, look: Callable[[], Any], notifier: Notifier, seconds: float | None) -> None:
        """Set ``look``, which returns the pending requests, and ``notifier`` for changes."""
        super().__init__(notifier)
        self._look = look
        self._look_again_after = seconds
        self._last: Any = ()

    async def _begin(self) -> None:
        await checkpoint()

    async def _take(self) -> Any:
        waits = self._look_again_after is not None
        return self._new(await in_thread(self._look) if waits else self._look())

    def _take_in_thread(self) -> Any:
        return self._new(self._look())

    def _new(self, now: Any) -> Any:
        if self._closed or now == self._last:
            return None
        self._last = now
        return now


_MAX_LOGINS = 50


class ShownLogins:
    """A set of shown logins, for any number of threads.

    ``changed`` is called when a login is added or removed before it expires.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self._logins: dict[object, DeviceLogin] = {}

    @property
    def now(self) -> tuple[DeviceLogin, ...]:
        """Return the logins that are still possible, the oldest first."""
        with self._lock:
            now = time.time()
            self._logins = {key: one for key, one in self._logins.items() if one.expires_at > now}
            return tuple(self._logins.values())

    def show(self, login: DeviceLogin) -> Callable[[], None]:
        """Show a login, and return a function that ends it. Raises ``ConfigError``."""
        from ..auth.steps import DeviceLogin  # only where there is one

        if not isinstance(login, DeviceLogin):
            raise ConfigError("ApprovalQueue.show_login: give it as OAuth(on_device=...)")
        if len(self.now) >= _MAX_LOGINS:
            raise ConfigError(f"{_MAX_LOGINS} logins are shown already: end one of them first")
        key = object()
        with self._lock:
            self._logins[key] = login
        self._changed()

        def end() -> None:
            with self._lock:
                self._logins.pop(key, None)
            self._changed()

        return end
