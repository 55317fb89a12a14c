"""A directory that files of our own are in, by its descriptor and by path."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from mcp_client.runtime.directory import open_directory

pytestmark = pytest.mark.usefixtures("directory_way")


def test_a_link_is_not_opened_as_a_file_or_where_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "file").write_text("x")
    (tmp_path / "link").symlink_to("directory")
    (tmp_path / "directory" / "link").symlink_to("file")
    with pytest.raises(OSError, match=r"(?i)directory|link"):
        open_directory(tmp_path / "link", follow=False)
    directory = open_directory(tmp_path / "link")
    with pytest.raises(OSError, match=r"link"):
        directory.open("link", os.O_RDONLY)
    os.close(directory.open("file", os.O_RDONLY))
    directory.close()


def test_what_is_not_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError):
        open_directory(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        open_directory(tmp_path / "nothing")


def test_a_file_is_renamed_over_another_and_removed(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    (tmp_path / "old").write_text("old")
    (tmp_path / "new").write_text("new")
    directory.rename("new", "old")
    directory.sync()
    assert (tmp_path / "old").read_text() == "new"
    assert directory.names() == ["old"]
    directory.remove("old")
    assert directory.names() == []
    directory.close()


@pytest.mark.parametrize("attempts", [3, 10_000])
@pytest.mark.usefixtures("without_pauses")
def test_a_file_that_is_in_use_is_renamed_as_soon_as_it_is_not_or_given_up(
    attempts: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "supports_dir_fd", set())  # as on Windows
    (tmp_path / "old").write_text("old")
    directory, replace, tries = open_directory(tmp_path), os.replace, iter(range(attempts))

    def busy(*paths: Any) -> None:
        for _ in tries:
            raise PermissionError(errno.EACCES, "another process reads it")
        replace(*paths)

    monkeypatch.setattr(os, "replace", busy)
    if attempts > 3:
        with pytest.raises(PermissionError):
            directory.rename("old", "new")
    else:
        directory.rename("old", "new")
    assert directory.names() == ["old" if attempts > 3 else "new"]
