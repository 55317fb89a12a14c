"""Refuse two different servers under one name in one store.

Decisions and pins are stored by server name. A default name is made from the command or the URL
alone, so two servers may have the same name. If two sessions with one name are open, and both store
decisions or pins in one place, the second raises a ``ConfigError`` that asks for ``name=``, except:

- if the servers are the same (``Transport.stable_identity``): their sessions share the name,
- if both names were set by the host, which may start one program for each of its users under one
  name. Decisions are then stored apart, by the command or the address, and pins report drift.

No session changes its name because of another one.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ..errors import ConfigError
from ..runtime.safe_text import safe_text

if TYPE_CHECKING:
    from .session import Session
    from .session_options import Setup

__all__ = ["take_name"]

_open: WeakKeyDictionary[Session, frozenset[Hashable]] = WeakKeyDictionary()
"""The sessions that store something, and where."""
_lock = threading.Lock()


def take_name(session: Session, setup: Setup) -> None:
    """Raise ``ConfigError`` if a session of another server stores under the same name."""
    places = _places(setup)
    if not places:
        return
    with _lock:
        for other, its_places in _open.items():
            if (
                other.name == session.name
                and not other.closed
                and (setup.has_default_name or other._setup.has_default_name)
                and its_places & places
                and _are_different(session, other)
            ):
                raise ConfigError(
                    f"two servers are named {safe_text(session.name, 60)!r} and store decisions "
                    f"or pins in one place: {_shown(session)} and {_shown(other)}, whose session "
                    "is open. Give each a name of its own: connect(..., name=...)"
                )
        _open[session] = places


def _places(setup: Setup) -> frozenset[Hashable]:
    decisions, pins = setup.memory.store, setup.pins
    found: list[Hashable] = []
    if decisions is not None:
        found.append(("decisions", decisions._state.place))
    if pins is not None:
        found.append(("pins", pins._state.place))
    return frozenset(found)


def _are_different(one: Session, other: Session) -> bool:
    identities = one._transport.stable_identity, other._transport.stable_identity
    return None not in identities and identities[0] != identities[1]


def _shown(session: Session) -> str:
    return safe_text(session._transport.address or "a server", 200)
