"""Which servers of config files a person has confirmed: the file behind ``confirmations=``.

```python
Host.from_config(".mcp.json", confirm=ask_on_terminal, confirmations="confirmed.json")
```

A yes is for one server of one file, by the digest of everything that was shown and of what the
file says of it (``StartRequest.fingerprint``). If any of that changes, the server is asked about
again, and the new yes replaces the old one. A no is not kept.

The file is JSON, readable and writable by its owner only (0600). It is replaced atomically, and
processes that write it take turns. It contains the paths of config files and the names of servers;
digests are keyed with the file's own key, so that nothing about a value can be found out from them.

For many machines, implement ``ConfirmationStore`` over what they share.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import anyio

from ..approval.start_request import StartRequest
from ..errors import ConfigError
from ..runtime.atomic_file import OwnFile
from ..runtime.keyed_digest import keyed
from ..runtime.strict_json import read_json_object

__all__ = ["ConfirmationStore", "Confirmations", "Confirmed"]

_VERSION = 1
_REMEDY = "put back an older one, or delete it to be asked again"
_KEY = re.compile(r"[0-9a-f]{64}")
_MEMBERS: dict[str, tuple[type, ...]] = {
    "path": (str,),
    "server": (str,),
    "digest": (str,),
    "when": (int, float),
}


class ConfirmationStore(Protocol):
    """Where a yes to a ``StartRequest`` is kept. Neither method waits for a person."""

    async def is_confirmed(self, request: StartRequest) -> bool:
        """Whether there was a yes to this: the same ``path``, ``server`` and ``fingerprint``."""

    async def confirm(self, request: StartRequest) -> None:
        """Keep the yes, in place of an older one for this server of this file."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """One yes that is kept."""

    path: str
    """The config file."""
    server: str
    digest: str
    """Of what was confirmed, keyed with the store's own key."""
    when: float
    """Seconds since the beginning of 1970, UTC."""


class Confirmations:
    """A ``ConfirmationStore``: a file, or without a path, this object while it lives.

    Methods raise ``ConfigError`` where the file cannot be used: it has another format, or others
    than its owner may read or write it.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._file = None if path is None else OwnFile(path, "confirmations", _REMEDY, private=True)
        self._held = secrets.token_bytes(32), tuple[Confirmed, ...]()
        self._lock = threading.Lock()

    @classmethod
    def of(cls, store: Any) -> ConfirmationStore:
        if store is None or isinstance(store, str | os.PathLike):
            return cls(store)
        if callable(getattr(store, "is_confirmed", None)) and callable(
            getattr(store, "confirm", None)
        ):
            found: ConfirmationStore = store
            return found
        raise ConfigError(
            f"confirmations={store!r}: give the path of a file, or Confirmations(...)"
        )

    def __repr__(self) -> str:
        return f"<Confirmations, {self.path or 'in memory'}>"

    @property
    def path(self) -> Path | None:
        """The file, or None."""
        return None if self._file is None else self._file.path

    async def is_confirmed(self, request: StartRequest) -> bool:
        if self._file is None:
            return self._covers(request)
        return await anyio.to_thread.run_sync(self._covers, request)

    async def confirm(self, request: StartRequest) -> None:
        if self._file is None:
            self._add(request)
        else:
            await anyio.to_thread.run_sync(self._add, request)

    def list(self) -> tuple[Confirmed, ...]:
        """What is confirmed now, the newest last."""
        return self._read()[1]

    def revoke(
        self, *, path: str | os.PathLike[str] | None = None, server: str | None = None
    ) -> int:
        """Forget what was confirmed for a config file, a server, or a server of a file; without
        either, everything. Returns how many were forgotten. A server that runs goes on."""
        wanted = None if path is None else os.path.abspath(path)
        return self._change(
            lambda one: (
                (wanted is None or one.path == wanted) and (server is None or one.server == server)
            )
        )

    def _covers(self, request: StartRequest) -> bool:
        key, confirmed = self._read()
        digest = keyed(request.fingerprint, key)
        return any(
            (one.path, one.server, one.digest) == (str(request.path), request.server, digest)
            for one in confirmed
        )

    def _add(self, request: StartRequest) -> None:
        path, server = str(request.path), request.server
        self._change(lambda one: (one.path, one.server) == (path, server), request)

    def _change(
        self, is_unwanted: Callable[[Confirmed], bool], request: StartRequest | None = None
    ) -> int:
        with self._lock:
            if self._file is None:
                return self._replace(is_unwanted, request)
            with self._file.locked():
                return self._replace(is_unwanted, request)

    def _replace(
        self, is_unwanted: Callable[[Confirmed], bool], request: StartRequest | None
    ) -> int:
        key, before = self._read()
        after = tuple(one for one in before if not is_unwanted(one))
        dropped = len(before) - len(after)
        if request is not None:
            digest = keyed(request.fingerprint, key)
            now = float(int(time.time()))
            after += (Confirmed(str(request.path), request.server, digest, now),)
        if self._file is None:
            self._held = key, after
        elif after != before:
            whole = {
                "version": _VERSION,
                "key": key.hex(),
                "confirmed": [asdict(one) for one in after],
            }
            self._file.replace(json.dumps(whole, indent=2, ensure_ascii=True) + "\n")
        return dropped

    def _read(self) -> tuple[bytes, tuple[Confirmed, ...]]:
        if self._file is None:
            return self._held
        found = self._file.read()
        if found is None:
            return secrets.token_bytes(32), ()
        try:
            whole = read_json_object(found[1])
        except ValueError as error:
            raise self._file.unusable(str(error)) from None
        if whole.get("version") != _VERSION:
            raise self._file.unusable(f"it is not a file of confirmations of version {_VERSION}")
        key, confirmed = whole.get("key"), whole.get("confirmed")
        if type(key) is not str or not _KEY.fullmatch(key) or type(confirmed) is not list:
            raise self._file.unusable("it has no key, or no list of what was confirmed")
        return bytes.fromhex(key), tuple(map(self._checked, confirmed))

    def _checked(self, entry: Any) -> Confirmed:
        assert self._file is not None
        if type(entry) is not dict or set(entry) != set(_MEMBERS):
            raise self._file.unusable("an entry does not have exactly the members of one")
        for name, kinds in _MEMBERS.items():
            if type(entry[name]) not in kinds:
                raise self._file.unusable(f"an entry has a {name} of the wrong type")
        return Confirmed(**entry)
