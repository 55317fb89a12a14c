"""A file of our own is replaced as a whole, refused where others may write it, locked to write."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from stat import S_IFREG

import pytest

from mcp_client import ConfigError
from mcp_client.runtime.atomic_file import OwnFile, access_problem, lock, own_directory, unlock

pytestmark = pytest.mark.usefixtures("directory_way")


def own(path: Path, *, private: bool = True) -> OwnFile:
    return OwnFile(path, "file of answers", "delete it", private=private)


def test_what_was_written_is_read_and_known_by_its_stamp(tmp_path: Path) -> None:
    file = own(tmp_path / "f")
    assert file.read() is None
    assert file.stamp() is None
    stamp = file.replace("one")
    assert file.read() == (stamp, b"one")
    assert file.stamp() == stamp != file.replace("another")


def test_using_a_file_keeps_no_descriptor_open(tmp_path: Path) -> None:
    file = own(tmp_path / "f")
    file.replace("first")
    before = len(os.listdir("/dev/fd"))
    for number in range(8):
        with file.locked():
            file.replace(str(number))
        assert file.read() is not None
        assert file.stamp() is not None
    assert len(os.listdir("/dev/fd")) == before


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


def test_a_pipe_or_a_directory_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "pipe", tmp_path):
        for use in (own(path).stamp, own(path).read):
            with pytest.raises(ConfigError, match="not a regular file"):
                use()


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666, 0o620, 0o777])
def test_a_shared_file_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    file = own(tmp_path / "f", private=False)
    file.replace("text")
    assert file.read() is not None
    file.path.chmod(mode)
    for use in (file.read, file.stamp):
        with pytest.raises(ConfigError, match=r"others may write it .*chmod") as caught:
            use()
        assert "delete it" in str(caught.value)


def test_a_directory_of_ours_is_made_for_its_owner_alone_with_its_parents(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"
    before = os.umask(0)
    try:
        own_directory(directory)
    finally:
        os.umask(before)
    assert [each.stat().st_mode & 0o777 for each in (directory, directory.parent)] == [0o700, 0o700]
    own_directory(directory)


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_directory_of_ours_that_others_may_write_cannot_be_used(
    tmp_path: Path, mode: int
) -> None:
    directory = tmp_path / "a"
    directory.mkdir()
    directory.chmod(0o755)
    own_directory(directory)
    directory.chmod(mode)
    with pytest.raises(ConfigError, match="chmod go-w"):
        own_directory(directory)


def test_a_directory_of_ours_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(
        ConfigError, match=r"the directory .*/a/b cannot be used: it cannot be made"
    ):
        own_directory(tmp_path / "a" / "b")


def stat_of(user: int, mode: int) -> os.stat_result:
    return os.stat_result((S_IFREG | mode, 1, 1, 1, user, 0, 0, 0, 0, 0))


def test_a_file_of_another_user_is_refused_and_roots_only_where_it_is_private() -> None:
    me, other = os.geteuid(), os.geteuid() + 1
    assert access_problem(stat_of(me, 0o600), private=True) is None
    assert access_problem(stat_of(me, 0o644), private=False) is None
    assert access_problem(stat_of(0, 0o644), private=False) is None
    for private in (True, False):
        problem = access_problem(stat_of(other, 0o600), private=private)
        assert problem == "it belongs to another user"


def test_what_a_killed_writer_left_is_removed_by_the_next_and_nothing_else(tmp_path: Path) -> None:
    file = own(tmp_path / "f")
    file.replace("text")
    left = [tmp_path / ".f.0123456789abcdef", tmp_path / ".f.fedcba9876543210"]
    stored = [
        tmp_path / ".f.bak",
        tmp_path / ".g.0123456789abcdef",
        tmp_path / "f.0123456789abcdef",
    ]
    for path in (*left, *stored):
        path.write_text("secret")
    with file.locked():
        file.replace("more")
    assert sorted(tmp_path.iterdir()) == sorted([file.path, *stored])


def test_a_link_to_a_file_is_written_in_turn_with_those_who_know_its_place(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a" / "f")
    own(tmp_path / "a" / "f").replace("text")
    with own(tmp_path / "link").locked():
        held = os.open(tmp_path / "a" / ".f.lock", os.O_RDONLY)
        assert not lock(held, 0)
    assert lock(held, 0)
    os.close(held)


def test_a_lock_that_is_held_does_not_stop_a_reader(tmp_path: Path) -> None:
    file = own(tmp_path / "f")
    file.replace("text")
    held = [os.open(path, os.O_RDONLY) for path in (tmp_path, file.path)]
    assert all(lock(each, 0) for each in held)
    assert file.read() == (file.stamp(), b"text")
    for each in held:
        unlock(each)
        os.close(each)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows removes no open file")
def test_a_lock_that_took_the_place_of_ours_is_left_to_those_who_hold_it(tmp_path: Path) -> None:
    file = own(tmp_path / "f")
    beside = tmp_path / ".f.lock"
    with file.locked():
        beside.unlink()
        beside.write_text("another's")
    assert beside.read_text() == "another's"


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
