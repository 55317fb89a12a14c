"""The logins on another device that people see with the pending requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import ConfigError

if TYPE_CHECKING:
    from ..auth.steps import DeviceLogin

__all__ = ["ShownLogins"]

_MAX_LOGINS = 50


class ShownLogins:
    """A set of shown logins, for any number of threads.

    ``changed`` is called when a login is added or removed before it expires.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self._shown: dict[object, DeviceLogin] = {}

    @property
    def now(self) -> tuple[DeviceLogin, ...]:
        """Return the logins that are still possible, the oldest first."""
        with self._lock:
            now = time.time()
            self._shown = {key: one for key, one in self._shown.items() if one.expires_at > now}
            return tuple(self._shown.values())

    def show(self, login: DeviceLogin) -> Callable[[], None]:
        """Show a login, and return a function that ends it. Raises ``ConfigError``."""
        from ..auth.steps import DeviceLogin  # only where there is one

        if not isinstance(login, DeviceLogin):
            raise ConfigError("ApprovalQueue.show_login: give it as OAuth(on_device=...)")
        if len(self.now) >= _MAX_LOGINS:
            raise ConfigError(f"{_MAX_LOGINS} logins are shown already: end one of them first")
        key = object()
        with self._lock:
            self._shown[key] = login
        self._changed()

        def end() -> None:
            with self._lock:
                self._shown.pop(key, None)
            self._changed()

        return end
