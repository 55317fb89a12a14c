"""A state in a folder that is its owner's alone, a file a kind."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterable
from pathlib import Path

from ..errors import ConfigError
from ..runtime.atomic_file import own_folder
from ..runtime.given_path import given_path
from .base import Change, Object, State
from .json_file import JsonFile

__all__ = ["FileState"]

_KIND = re.compile(r"[a-z][a-z_]{0,60}")
_REMEDY = "put back an older one, or delete it if it may be forgotten"


class FileState(State):
    """Keeps objects in files of a folder, which is made for its owner alone where it is missing.

    Processes of one machine may share it. It is refused where others may write it, or may read or
    write a file in it; no link to it or in it is followed.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = Path(given_path(folder, f"FileState({folder!r})")).expanduser().absolute()
        self._files: dict[str, JsonFile] = {}

    def __repr__(self) -> str:
        return f"FileState({str(self.path)!r})"

    def get(self, kind: str, key: str) -> Object | None:
        return self._file(kind).get(kind, key)

    def change(self, kind: str, key: str, function: Change) -> Object | None:
        return self._file(kind).change(kind, key, function)

    def remove(self, kind: str, keys: Iterable[str]) -> None:
        self._file(kind).remove(kind, keys)

    def list(self, kind: str) -> dict[str, Object]:
        return self._file(kind).list(kind)

    def stamp(self, kind: str) -> Hashable:
        return self._file(kind).stamp(kind)

    def unusable(self, kind: str, why: str) -> ConfigError:
        return self._file(kind).unusable(kind, why)

    def _audit_file(self) -> Path:
        """In the folder, which is made: a log does not make it."""
        own_folder(self.path)
        return self.path / "audit.jsonl"

    def _file(self, kind: str) -> JsonFile:
        file = self._files.get(kind)
        if file is None:
            if not _KIND.fullmatch(kind):
                raise ValueError(f"{kind!r} is no kind: give a word of a to z and _")
            path, what = self.path / f"{kind}.json", f"state: {kind}"
            file = JsonFile(path, what, [kind], _REMEDY, own_folder=True)
            self._files[kind] = file
        return file
