"""A folder that files of our own are in, by its descriptor and by path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_client.runtime.folder import open_folder

pytestmark = pytest.mark.usefixtures("folder_way")

_HOLD = """
import os, sys
if sys.argv[2] == "by path":
    os.supports_dir_fd = set()
from mcp_client.runtime.folder import open_folder
print(open_folder(sys.argv[1]).lock(5), flush=True)
sys.stdin.read()
os._exit(0)
"""


def test_writers_of_two_processes_take_turns_and_a_lock_ends_with_its_process(
    tmp_path: Path, folder_way: str
) -> None:
    folder = open_folder(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path), folder_way],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"True\n"
        assert not folder.lock(0.05)
        other.kill()
    assert folder.lock(5)
    folder.unlock()
    folder.close()


def test_writers_of_one_process_take_turns(tmp_path: Path) -> None:
    first, second = open_folder(tmp_path), open_folder(tmp_path)
    assert first.lock(1)
    assert not second.lock(0.01)
    first.unlock()
    assert second.lock(1)
    second.close()
    first.close()


def test_a_link_is_not_opened_as_a_file_or_where_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("x")
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "folder" / "link").symlink_to("file")
    with pytest.raises(OSError, match=r"(?i)directory|link"):
        open_folder(tmp_path / "link", follow=False)
    folder = open_folder(tmp_path / "link")
    with pytest.raises(OSError, match=r"link"):
        folder.open("link", os.O_RDONLY)
    os.close(folder.open("file", os.O_RDONLY))
    folder.close()


def test_what_is_not_a_directory_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError):
        open_folder(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        open_folder(tmp_path / "nothing")


def test_a_file_is_renamed_over_another_and_removed(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    (tmp_path / "old").write_text("old")
    (tmp_path / "new").write_text("new")
    folder.rename("new", "old")
    folder.sync()
    assert (tmp_path / "old").read_text() == "new"
    assert folder.names() == ["old"]
    folder.remove("old")
    assert folder.names() == []
    folder.close()
