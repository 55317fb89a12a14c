"""JSON objects in one file, as decisions, pins and tokens are stored if they have a file alone.

The file is one JSON object, sorted and in ASCII, an object of objects for each kind::

    {
      "format": "mcp-client decisions",
      "version": 1,
      "decisions": {"<key>": {...}},
      "keys": {"digest": {"key": "<64 hexadecimal digits>"}}
    }

It is replaced as a whole, see ``atomic_file``: a crash leaves the old file or the new one.
A file that this version did not write is never replaced, because a part of it could be lost. A file
of another format, of a newer version, or one that is cut off raises ``ConfigError``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .atomic_file import OwnFile
from .storage import Change, Object, Storage
from .strict_json import read_json_object

__all__ = ["JsonFile"]

_VERSION = 1


class JsonFile(Storage):
    """A storage for objects of the given ``kinds`` in a file.

    ``what`` is its name in errors and in the file itself, ``remedy`` their advice if it cannot be
    used; ``private`` and ``own_directory`` are those of ``OwnFile``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        what: str,
        kinds: Sequence[str],
        remedy: str,
        *,
        private: bool = True,
        own_directory: bool = False,
    ) -> None:
        self._file = OwnFile(path, what, remedy, private=private, own_directory=own_directory)
        self._format = f"mcp-client {what}"
        self._what = what
        self._kinds = frozenset(kinds)
        self._last: tuple[Hashable, dict[str, dict[str, Object]]] | None = None
        """The content of the file when it had this stamp."""

    def __repr__(self) -> str:
        return f"<the {self._what} {self.path}>"

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._file.path

    def get(self, kind: str, key: str) -> Object | None:
        """Return the object, or None."""
        return self.several(kind, [key]).get(key)

    def several(self, kind: str, keys: Iterable[str]) -> dict[str, Object]:
        """Return the objects with these keys, as far as they exist."""
        last, stamp = self._last, self._file.stamp()
        if last is None or stamp is None or last[0] != stamp:
            last = self._last = stamp, self._read()[1]
        objects = self._of(last[1], kind)
        # Copies, because what is returned is the caller's own.
        return {key: json.loads(json.dumps(objects[key])) for key in keys if key in objects}

    def change(self, kind: str, key: str, function: Change) -> Object | None:
        """Replace an object by the result of ``function``, and return it."""
        with self._changed(kind) as objects:
            changed = function(objects.get(key))
            if changed is None:
                objects.pop(key, None)
            else:
                objects[key] = changed
        return None if changed is None else json.loads(json.dumps(changed))

    def remove(self, kind: str, keys: Iterable[str]) -> None:
        """Remove the objects with these keys."""
        with self._changed(kind) as objects:
            for key in keys:
                objects.pop(key, None)

    def list(self, kind: str) -> dict[str, Object]:
        """Return all objects of a kind by their keys, in any order."""
        return self._of(self._read()[1], kind)

    def stamp(self, kind: str) -> Hashable:
        """Return a value that changes when an object of this kind changes."""
        return self._file.stamp()

    def unusable(self, kind: str, why: str) -> ConfigError:
        """Return the error for an object of this kind that cannot be used."""
        return self._file.unusable(why)

    @contextmanager
    def _changed(self, kind: str) -> Iterator[dict[str, Object]]:
        """The objects of a kind, to be changed in place: then the file is replaced."""
        with self._file.locked():
            before, whole = self._read()
            yield self._of(whole, kind)
            after = self._text(whole)
            if after.encode() != before and (before is not None or any(whole.values())):
                self._file.replace(after)

    def _of(self, whole: dict[str, dict[str, Object]], kind: str) -> dict[str, Object]:
        if kind not in self._kinds:
            raise ValueError(f"{self!r} stores no {kind}")
        return whole.setdefault(kind, {})

    def _text(self, whole: dict[str, dict[str, Object]]) -> str:
        stored: dict[str, Any] = {kind: objects for kind, objects in whole.items() if objects}
        stored |= {"format": self._format, "version": _VERSION}
        return json.dumps(stored, indent=2, sort_keys=True, allow_nan=False) + "\n"

    def _read(self) -> tuple[bytes | None, dict[str, dict[str, Object]]]:
        found = self._file.read()
        if found is None:
            return None, {}
        try:
            whole = read_json_object(found[1], max_depth=None)
        except ValueError as error:
            raise self._file.unusable(str(error)) from None
        found_format = whole.pop("format", None)
        if found_format == f"mcp-client state: {self._what}":
            raise ConfigError(
                f"the {self._what} {self.path} cannot be used: the file is part of a state. Give "
                f"the state instead, such as FileState({str(self.path.parent)!r}).{self._what}"
            )
        if found_format != self._format:
            raise self._file.unusable(f"it is not of the format {self._format!r}")
        version = whole.pop("version", None)
        if type(version) is not int or version != _VERSION:
            newer = type(version) is int and version > _VERSION
            why = f"its version is not {_VERSION}" + (
                ": a newer version of this package wrote it, so use that one" if newer else ""
            )
            raise self._file.unusable(why)
        for kind, objects in whole.items():
            if kind not in self._kinds:
                raise self._file.unusable(f"it has the unknown member {kind[:40]!r}")
            if type(objects) is not dict or not all(type(o) is dict for o in objects.values()):
                raise self._file.unusable(f"{kind!r} is not an object of objects")
        return found[1], whole
