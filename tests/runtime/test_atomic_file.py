"""A file of our own is replaced as a whole, kept for its owner, and written in turns."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcp_client import ConfigError
from mcp_client.runtime.atomic_file import OwnFile


def own(path: Path, *, private: bool = True) -> OwnFile:
    return OwnFile(path, "file of answers", "delete it", private=private)


def test_what_was_written_is_read_and_known_by_its_stamp(tmp_path: Path) -> None:
    file = own(tmp_path / "f")
    assert file.read() is None
    assert file.stamp() is None
    stamp = file.replace("one")
    assert file.read() == (stamp, b"one")
    assert file.stamp() == stamp != file.replace("another")


def test_a_private_file_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        own(tmp_path / "f").replace("text")
    finally:
        os.umask(before)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o602, 0o777])
def test_a_private_file_that_others_may_use_cannot_be_used(tmp_path: Path, mode: int) -> None:
    file = own(tmp_path / "f")
    file.replace("text")
    file.path.chmod(mode)
    for read in (file.read, file.stamp):
        with pytest.raises(ConfigError, match="others may read or write it") as caught:
            read()
        assert "delete it" in str(caught.value)


def test_what_is_no_regular_file_is_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ConfigError, match="no regular file"):
            own(path).stamp()


def test_any_other_file_keeps_the_mode_it_has(tmp_path: Path) -> None:
    file = own(tmp_path / "f", private=False)
    file.replace("text")
    assert file.path.stat().st_mode & 0o777 == 0o644
    file.path.chmod(0o640)
    file.replace("more")
    assert file.path.stat().st_mode & 0o777 == 0o640


def test_a_file_that_cannot_take_the_old_ones_place_leaves_it_and_no_other(tmp_path: Path) -> None:
    file = own(tmp_path / "f")
    file.replace("old")
    with pytest.raises(UnicodeEncodeError):
        file.replace("not ASCII: ü")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    assert file.path.read_bytes() == b"old"


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = own(tmp_path / "none" / "f")
    with pytest.raises(ConfigError, match="cannot be written"):
        file.replace("text")
    with pytest.raises(ConfigError, match="cannot be written"), file.locked():
        raise AssertionError("there is nothing to lock")
