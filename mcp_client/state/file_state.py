"""A state in files of a directory, and the state that ``state=`` means."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..runtime.option_names import with_option_names
from ..runtime.storage import Change, Object, Storage
from .state import State, check_kind, checked_keep

if TYPE_CHECKING:
    from ..approval.decisions import Decisions
    from ..audit.log_file import AuditLog

__all__ = ["FileState", "state_of"]

_OF_JOURNAL = "calls", "callers", "paused"
"""The kinds with many objects, so that not all of them are written at each change."""
_REMEDY = "put back an older one, or delete it if it may be forgotten"


@with_option_names()
class FileState(State):
    """A state in files of a directory, which is made for its owner alone if it is missing.

    Processes of one machine may share it. It is refused if other users may write it, or may read or
    write a file in it. No link to it or in it is followed.

    Args:
        directory: The path of the directory.
        decisions: Another file for the decisions, or ``Decisions(...)``.
        keep: The seconds for which results of calls with an ``idempotency_key`` are stored.

    Raises:
        ConfigError: If an argument is wrong, or if other users can change the directory.

    Example:
        >>> connect(server, state=FileState("state/"))
    """

    # What files need is imported here, for the row "import of the package" in the benchmarks.

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        decisions: Decisions | str | os.PathLike[str] | None = None,
        keep: float = State.keep,
    ) -> None:
        from pathlib import Path

        from ..runtime.directory import checked_path

        self.path: Path = (
            Path(checked_path(directory, f"FileState({directory!r})")).expanduser().absolute()
        )
        """The directory, as an absolute path."""
        if self.path.is_file():
            raise ConfigError(
                f"FileState({directory!r}): the path is a file. Give a directory; to store "
                "decisions in a file, use Decisions(file), or FileState(directory, decisions=file)"
            )
        self.keep: float = checked_keep(keep)
        self._files: dict[str, Storage] = {}
        if decisions is not None:
            from ..approval.decisions import Decisions

            self.decisions: Decisions = Decisions.of(decisions)

    def __repr__(self) -> str:
        return f"FileState({str(self.path)!r})"

    def get(self, kind: str, key: str) -> Object | None:
        """Return the object, or None."""
        return self._file(kind).get(kind, key)

    def several(self, kind: str, keys: Iterable[str]) -> dict[str, Object]:
        """Return the objects with these keys, as far as they exist."""
        return self._file(kind).several(kind, keys)

    def change(self, kind: str, key: str, function: Change) -> Object | None:
        """Replace an object by the result of ``function``, and return it.

        Args:
            kind: The kind of the object.
            key: The key of the object.
            function: Gets the object, or None; returns the new one, or None to remove it. It may be
                called more than once, and must not use a storage. If it raises, nothing is changed.

        Returns:
            The new object, which is stored permanently.
        """
        return self._file(kind).change(kind, key, function)

    def remove(self, kind: str, keys: Iterable[str]) -> None:
        """Remove the objects with these keys."""
        self._file(kind).remove(kind, keys)

    def list(self, kind: str) -> dict[str, Object]:
        """Return all objects of a kind by their keys, in any order."""
        return self._file(kind).list(kind)

    def stamp(self, kind: str) -> Hashable:
        """Return a value that changes when an object of this kind changes."""
        return self._file(kind).stamp(kind)

    def unusable(self, kind: str, why: str) -> ConfigError:
        """Return the error for objects of ``kind`` that cannot be used."""
        return self._file(kind).unusable(kind, why)

    @cached_property
    def audit(self) -> AuditLog:
        """The record of every call, for ``connect(audit=...)``: the file ``audit.jsonl``."""
        from ..audit.log_file import AuditLog
        from ..runtime.atomic_file import own_directory

        own_directory(self.path)  # a log makes no directory
        return AuditLog(self.path / "audit.jsonl")

    def due(
        self, kind: str, low: float, high: float, limit: int | None = None
    ) -> dict[str, Object]:
        """Return the objects that are due from ``low`` to below ``high``, the first ones first.

        Args:
            kind: The kind of the objects.
            low: The lowest value of ``"due"``.
            high: The end of the range, itself excluded.
            limit: The maximum number of objects; None for all.

        Returns:
            The objects by their keys.
        """
        return self._file(kind).due(kind, low, high, limit)

    def sweep(self, kind: str, before: float, limit: int = 100) -> int:
        """Remove objects whose ``"due"`` is from 1 to below ``before``.

        Args:
            kind: The kind of the objects.
            before: The end of the range, itself excluded.
            limit: The maximum number of objects.

        Returns:
            The number of objects that were removed.
        """
        return self._file(kind).sweep(kind, before, limit)

    def _file(self, kind: str) -> Storage:
        file = self._files.get(kind)
        if file is None:
            check_kind(kind)
            if kind in _OF_JOURNAL:
                from ..runtime.sqlite_file import SqliteFile

                file = SqliteFile(self.path / "calls.db", "journal", _OF_JOURNAL, _REMEDY)
                self._files |= dict.fromkeys(_OF_JOURNAL, file)
            else:
                from ..runtime.json_file import JsonFile

                path, what = self.path / f"{kind}.json", f"state: {kind}"
                file = self._files[kind] = JsonFile(path, what, [kind], _REMEDY, own_directory=True)
        return file


_URLS = ("postgresql://", "postgres://")


def state_of(state: Any, option: str = "state") -> State | None:
    """Return the state of a value: a ``State``, a directory's path, a database's URL, or None."""
    if state is None or isinstance(state, State):
        return state
    if isinstance(state, str) and state.startswith(_URLS):
        from .postgres import PostgresState

        return PostgresState(state)
    if isinstance(state, str | os.PathLike):
        return FileState(state)
    what = f"<{type(state).__name__}>"  # not itself, which may be a URL with a password
    raise ConfigError(
        f"{option}={what}: give the path of a directory, a State, the URL of a database, or "
        "Decisions(...)"
    )
