"""The file of kinds of which there are many objects: held to the contract, and to its owner."""

from __future__ import annotations

import functools
import os
import sqlite3
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from mcp_client import ConfigError
from mcp_client.errors import StateError
from mcp_client.runtime import sqlite_file
from mcp_client.runtime.sqlite_file import SqliteFile
from tests.state.contract import KIND, SharedStateContract


def open_file(path: str) -> SqliteFile:
    kinds = KIND, "others", "keys"
    return SqliteFile(Path(path), "things", kinds, "delete it to begin another")


class TestSqliteFile(SharedStateContract):
    opener = "tests.state.test_sqlite_file:open_file"

    @pytest.fixture
    def address(self, tmp_path: Path) -> str:
        return str(tmp_path / "folder" / "things.db")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "things.db"


@pytest.fixture
def file(path: Path) -> SqliteFile:
    return open_file(str(path))


def put(file: SqliteFile, key: str = "a") -> None:
    file.change(KIND, key, lambda found: {"n": 1, "due": 5})


def test_it_and_its_directory_are_for_their_owner_alone(path: Path, file: SqliteFile) -> None:
    put(file)
    modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
    assert set(modes) == {"things.db", "things.db-wal", "things.db-shm"}
    assert set(modes.values()) == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("mode", "where", "text"),
    [
        (0o644, "file", "others may read or write it"),
        (0o770, "folder", "may be written by others"),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_one_that_others_may_use_is_refused(
    path: Path, file: SqliteFile, mode: int, where: str, text: str
) -> None:
    put(file)
    (path if where == "file" else path.parent).chmod(mode)
    with pytest.raises(ConfigError, match=text):
        open_file(str(path)).get(KIND, "a")


def test_links_are_not_followed(path: Path, file: SqliteFile) -> None:
    put(file)
    path.rename(path.with_name("other"))
    path.symlink_to("other")
    for each in (file, open_file(str(path))):
        with pytest.raises(ConfigError, match="links are not followed"):
            put(each)


@pytest.mark.parametrize("content", [b"junk" * 100, b"SQLite format 3\0" + b"\0" * 2_000])
def test_a_file_that_is_none_of_ours_is_left_as_it_is(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o700)
    path.write_bytes(content)
    path.chmod(0o600)
    file = open_file(str(path))
    with pytest.raises(ConfigError, match="delete it to begin another"):
        put(file)
    assert path.read_bytes() == content


def test_another_version_is_refused(path: Path, file: SqliteFile) -> None:
    put(file)
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 2")
    db.close()
    with pytest.raises(ConfigError, match="its version is not 1"):
        open_file(str(path)).get(KIND, "a")


def test_a_database_of_another_program_is_left_as_it_is(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE mine (n)")
    db.close()
    path.chmod(0o600)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="it is not a database of this package"):
        put(open_file(str(path)))
    assert path.read_bytes() == before


def test_a_file_that_was_removed_is_made_again(path: Path, file: SqliteFile) -> None:
    put(file)
    path.unlink()
    assert file.get(KIND, "a") is None
    put(file)
    assert open_file(str(path)).get(KIND, "a") == {"n": 1, "due": 5}


def test_busy_is_distinguished_from_down(
    path: Path, file: SqliteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "_BUSY_SECONDS", 0.05)
    put(file)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    late = open_file(str(path))
    with pytest.raises(StateError, match="another process has been writing it") as caught:
        put(late)
    other.close()
    assert caught.value.busy
    assert caught.value.retryable
    put(late)


def test_a_file_that_another_process_opens_at_the_same_time_is_waited_for(
    file: SqliteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    class Contended(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if sql.endswith("= WAL") and len(waits) < 3:
                raise sqlite3.OperationalError("database is locked")
            return super().execute(sql, *values)

    connect = functools.partial(sqlite3.connect, factory=Contended)
    monkeypatch.setattr(sqlite3, "connect", connect)
    monkeypatch.setattr(time, "sleep", waits.append)
    put(file)
    assert len(waits) == 3
    assert file.get(KIND, "a") == {"n": 1, "due": 5}


def test_what_is_due_is_found_in_order_and_swept(file: SqliteFile) -> None:
    for key, due in {"c": 3, "a": 1, "b": 2.5, "open": 0, "never": None, "text": "1"}.items():
        file.change(KIND, key, lambda found, due=due: {"due": due})  # type: ignore[misc]
    file.change(KIND, "none", lambda found: {"n": 1})
    assert list(file.due(KIND, 1, 3)) == ["a", "b"]
    assert list(file.due(KIND, 0, 9, 2)) == ["open", "a"]
    assert file.due("others", 0, 9) == {}
    assert file.sweep(KIND, 9, 2) == 2
    assert file.sweep(KIND, 9) == 1
    assert set(file.list(KIND)) == {"open", "never", "text", "none"}
    file.change(KIND, "open", lambda found: {"due": 7})
    assert list(file.due(KIND, 1, 9)) == ["open"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_uses_a_connection_that_is_its_own(file: SqliteFile) -> None:
    put(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
        child = os.fork()
    if not child:
        put(file, "child")
        os._exit(0 if file.get(KIND, "a") else 1)
    assert os.waitpid(child, 0)[1] == 0
    put(file, "parent")
    assert set(file.list(KIND)) == {"a", "child", "parent"}
