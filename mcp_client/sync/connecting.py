"""A session that is not open yet. Importing this loads as little as ``connect`` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, ParamSpec

from ..errors import CallCancelled, CallWithdrawn, ConfigError
from ..runtime.portal import Blocking, Portal, described_by, portal
from ..session.connect import Connecting as AsyncConnecting
from ..session.connect import NotOpen
from ..session.connect import connect as connect_async

if TYPE_CHECKING:
    from .session import Session

__all__ = ["NOT_ASYNC", "Connecting", "connect"]

P = ParamSpec("P")
NOT_ASYNC = "{0} of mcp_client.sync is not awaited: use 'with', or {1}"


class Connecting(Blocking[AsyncConnecting]):
    """A session that is not open yet: enter it with ``with``, or call ``open()``, once."""

    def __init__(self, portal: Portal, connecting: AsyncConnecting) -> None:
        self._portal = portal
        self._async = connecting
        self._session: Session | None = None

    def open(self) -> Session:
        """Connect and return the session.

        Close it with ``session.close()``; otherwise it is closed when the program ends.
        """
        try:
            session = self._run(self._async.__aenter__)
            lease = portal().lease(session, session.aclose, f"Session {session.name!r}")
        except (KeyboardInterrupt, CallCancelled, CallWithdrawn):
            self._finish(self._async.__aexit__, None, None, None)
            raise
        from .session import Session

        self._session = found = Session(lease, session)
        return found

    def __enter__(self) -> Session:
        return self.open()

    def __exit__(self, *raised: object) -> None:
        if self._session is not None:
            self._session.close()

    if not TYPE_CHECKING:  # a type checker reports these by itself

        def __getattr__(self, name: str) -> Any:
            from .session import Session

            if not name.startswith("_") and hasattr(Session, name):
                raise NotOpen(
                    f"the session is not open yet, so {name} is not available: "
                    "use 'with connect(...) as session', or 'session = connect(...).open()'"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        async def __aenter__(self) -> Any:
            raise ConfigError(NOT_ASYNC.format("connect(...)", "mcp_client.connect"))

        async def __aexit__(self, *_: object) -> None: ...

        def __await__(self) -> Any:
            raise ConfigError(NOT_ASYNC.format("connect(...)", "mcp_client.connect"))


def _connects(source: Callable[P, AsyncConnecting]) -> Callable[P, Connecting]:
    def connects(*args: P.args, **kwargs: P.kwargs) -> Connecting:
        return Connecting(portal(), source(*args, **kwargs))

    described: Callable[P, Connecting] = described_by(source, connects)
    return described


connect: Final = _connects(connect_async)
