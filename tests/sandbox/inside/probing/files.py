"""Probes of files: what must not be read, and what must not be written."""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import sys
import tempfile
from typing import Any

from .catalogue import (
    REACH,
    READ,
    WORKS,
    WRITE,
    World,
    probe,
    system_call,
)

# ---------------------------------------------------------------------------- reading


def _text(*parts: str) -> str:
    with open(os.path.join(*parts), encoding="utf-8", errors="replace") as file:
        return file.read(65536)


@probe(READ)
def read_home(world: World) -> str:
    return _text(world.home, "notes.txt")


@probe(READ)
def list_home(world: World) -> str:
    return " ".join(os.listdir(world.home))


@probe(READ)
def read_private_key(world: World) -> str:
    return _text(world.home, ".ssh", "id_ed25519")


@probe(READ)
def read_elsewhere(world: World) -> str:
    return _text(world.outside, "secret.txt")


@probe(READ)
def read_beside_program_directory(world: World) -> str:
    return _text(os.path.dirname(world.program), "beside.txt")


@probe(READ)
def read_settings_beside_program(world: World) -> str:
    return _text(world.program, ".env")


@probe(READ)
def read_tmp(world: World) -> str:
    return _text(world.tmp, "secret.txt")


@probe(READ)
def read_dev_shm(world: World) -> str:
    return _text(world.dev_shm)


@probe(REACH, who="root")
def read_shadow(world: World) -> str:
    return _text("/etc/shadow")[:0] + "read"


@probe(REACH, who="root")
def list_root_home(world: World) -> str:
    """An interpreter in it may be there, and nothing else."""
    found = os.listdir("/root")
    if len(found) < world.in_root_home:
        raise FileNotFoundError(2, "not all of it")
    return " ".join(found)


@probe(REACH)
def list_run(world: World) -> str:
    found = os.listdir("/run")
    if not found:
        raise FileNotFoundError(2, "nothing there")
    return " ".join(found)[:200]


@probe(READ)
def read_by_dots(world: World) -> str:
    return _text(world.program, "..", "home", "notes.txt")


@probe(READ)
def read_by_own_link(world: World) -> str:
    link = os.path.join(tempfile.mkdtemp(), "link")
    os.symlink(os.path.join(world.home, "notes.txt"), link)
    return _text(link)


@probe(READ)
def read_by_proc_self_root(world: World) -> str:
    return _text("/proc/self/root" + world.home, "notes.txt")


@probe(READ)
def read_by_proc_root(world: World) -> str:
    return _text(f"/proc/{world.victim}/root{world.home}", "notes.txt")


@probe(READ)
def read_by_proc_cwd(world: World) -> str:
    return _text(f"/proc/{world.victim}/cwd", "notes.txt")


@probe(READ, who="root")
def read_by_handle(world: World) -> str:
    """A file is opened by its number, whatever the path to it."""
    handle = ctypes.create_string_buffer(8 + 128)
    ctypes.memmove(handle, (128).to_bytes(4, sys.byteorder), 4)
    mount = ctypes.c_int()
    path = os.path.join(world.program, "..", "home", "notes.txt").encode()
    system_call("name_to_handle_at", -100, path, handle, ctypes.byref(mount), 0)
    below = os.open(world.program, os.O_RDONLY)
    return os.read(system_call("open_by_handle_at", below, handle, os.O_RDONLY), 4096).decode()


@probe(READ, settings=("read",))
def read_granted(world: World) -> str:
    return _text(world.readable, "secret.txt")


@probe(READ, settings=("write",))
def read_granted_for_writing(world: World) -> str:
    return _text(world.writable, "secret.txt")


@probe(READ)
def read_by_link_in_granted(world: World) -> str:
    return _text(world.readable, "to-home", "notes.txt")


@probe(READ)
def read_by_directory_that_became_a_link(world: World) -> str:
    return _text(world.replaced, "notes.txt")


@probe(READ)
def stat_of_home(world: World) -> str:
    seconds = os.stat(os.path.join(world.home, "notes.txt")).st_mtime
    return world.secret if int(seconds) == world.mtime else str(seconds)


@probe(READ)
def link_in_home(world: World) -> str:
    return os.readlink(os.path.join(world.home, "link"))


@probe(READ)
def attribute_in_home(world: World) -> str:
    return os.getxattr(os.path.join(world.home, "notes.txt"), "user.secret").decode()


@probe(REACH)
def watch_home(world: World) -> int:
    """A process that watches a directory learns the name of each file that is used in it."""
    return system_call(
        "inotify_add_watch", system_call("inotify_init1", 0), world.home.encode(), 0xFFF
    )


@probe(REACH)
def work_in_home(world: World) -> str:
    os.chdir(world.home)
    return os.getcwd()


@probe(REACH)
def run_program_of_home(world: World) -> int:
    return subprocess.run([os.path.join(world.home, "program")], check=True).returncode


@probe(REACH, who="root")
def copy_mount_of_home(world: World) -> int:
    return system_call("open_tree", -100, world.home.encode(), 1)


# ---------------------------------------------------------------------------- writing


def _write(*parts: str, flags: int = os.O_CREAT) -> None:
    fd = os.open(os.path.join(*parts), os.O_WRONLY | flags, 0o600)
    os.write(fd, b"x")
    os.close(fd)


@probe(WRITE)
def create_in_home(world: World) -> None:
    _write(world.home, "new")


@probe(WRITE)
def append_to_profile(world: World) -> None:
    _write(world.home, ".profile", flags=os.O_APPEND)


@probe(WRITE)
def create_elsewhere(world: World) -> None:
    _write(world.outside, "new")


@probe(WRITE)
def create_beside_program_directory(world: World) -> None:
    _write(os.path.dirname(world.program), "new")


@probe(WRITE)
def create_beside_program(world: World) -> None:
    _write(world.program, "json.py")


@probe(WRITE)
def change_program(world: World) -> None:
    _write(world.program, "server.py", flags=os.O_APPEND)


@probe(WRITE)
def change_compiled_program(world: World) -> None:
    os.makedirs(os.path.join(world.program, "probing", "__pycache__"), exist_ok=True)
    _write(world.program, "probing", "__pycache__", "kernel.cpython-311.pyc")


@probe(WRITE)
def create_in_tmp(world: World) -> None:
    _write(world.tmp, "new")


@probe(WRITE, who="root")
def create_in_etc(world: World) -> None:
    _write(world.in_etc)


@probe(WRITE, who="root")
def create_in_usr(world: World) -> None:
    _write(world.in_usr)


@probe(WRITE, who="root")
def create_in_root(world: World) -> None:
    _write(world.in_root)


@probe(WRITE, settings=("write",))
def create_in_granted(world: World) -> None:
    _write(world.writable, "new")


@probe(WRITE)
def create_in_granted_for_reading(world: World) -> None:
    _write(world.readable, "new")


@probe(WRITE)
def create_by_link_in_granted(world: World) -> None:
    _write(world.writable, "to-outside", "new")


@probe(WRITE)
def create_by_directory_that_became_a_link(world: World) -> None:
    _write(world.replaced, "by-link")


@probe(WRITE)
def truncate_file(world: World) -> None:
    os.truncate(os.path.join(world.outside, "truncated"), 1)


@probe(WRITE)
def truncate_by_opening(world: World) -> None:
    os.close(os.open(os.path.join(world.outside, "opened"), os.O_WRONLY | os.O_TRUNC))


@probe(WRITE)
def change_mode(world: World) -> None:
    os.chmod(os.path.join(world.home, ".ssh"), 0o755)


@probe(WRITE)
def change_mode_by_descriptor(world: World) -> None:
    path = os.open(os.path.join(world.home, ".ssh"), os.O_PATH)
    try:
        system_call("fchmodat2", path, b"", 0o755, 0x1000)
    except OSError as error:
        if error.errno != 38:
            raise
        os.chmod(f"/proc/self/fd/{path}", 0o755)


@probe(WRITE)
def change_times(world: World) -> None:
    os.utime(os.path.join(world.outside, "dated"), (1, 1))


@probe(WRITE)
def change_owner(world: World) -> None:
    os.chown(os.path.join(world.outside, "owned"), os.getuid(), os.getgid())


@probe(WRITE)
def change_attribute(world: World) -> None:
    os.setxattr(os.path.join(world.outside, "marked"), "user.probe", b"1")


@probe(WRITE)
def remove_attribute(world: World) -> None:
    os.removexattr(os.path.join(world.home, "notes.txt"), "user.secret")


@probe(WRITE)
def remove_file(world: World) -> None:
    os.unlink(os.path.join(world.outside, "removed"))


@probe(WRITE)
def rename_elsewhere(world: World) -> None:
    os.rename(os.path.join(world.outside, "renamed"), os.path.join(world.outside, "new-name"))


@probe(WRITE)
def rename_out_of_granted(world: World) -> None:
    os.rename(os.path.join(world.writable, "secret.txt"), os.path.join(world.outside, "moved"))


@probe(WRITE)
def rename_into_granted(world: World) -> None:
    os.rename(os.path.join(world.outside, "taken"), os.path.join(world.writable, "moved"))


@probe(WRITE)
def link_into_granted(world: World) -> None:
    link = os.path.join(world.writable, "linked")
    os.link(os.path.join(world.outside, "linked"), link)
    _write(link, flags=0)


@probe(WRITE)
def link_program_into_granted(world: World) -> None:
    link = os.path.join(world.writable, "program")
    os.link(os.path.join(world.program, "server.py"), link)
    _write(link, flags=os.O_APPEND)


@probe(WRITE)
def make_directory(world: World) -> None:
    os.mkdir(os.path.join(world.outside, "folder"))


@probe(WRITE)
def make_link(world: World) -> None:
    os.symlink("/", os.path.join(world.outside, "new-link"))


@probe(WRITE)
def make_pipe(world: World) -> None:
    os.mkfifo(os.path.join(world.outside, "pipe"))


@probe(WRITE)
def move_granted_directory(world: World) -> None:
    os.rename(world.writable, world.writable + "-moved")


@probe(REACH, who="root")
def write_core_pattern(world: World) -> None:
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))  # nothing is written


@probe(REACH, who="root")
def write_sys(world: World) -> None:
    os.close(os.open("/sys/kernel/mm/transparent_hugepage/enabled", os.O_WRONLY))


# ---------------------------------------------------------------- what has to be possible


@probe(WORKS)
def temporary_files(world: World) -> str:
    for directory in (tempfile.gettempdir(), os.environ["TMPDIR"], os.environ["HOME"]):
        with tempfile.NamedTemporaryFile(dir=directory) as file:
            file.write(b"x")
    return tempfile.gettempdir()


@probe(WORKS)
def devices(world: World) -> None:
    for path in ("/dev/null", "/dev/zero", "/dev/urandom"):
        assert stat.S_ISCHR(os.stat(path).st_mode)
        with open(path, "r+b" if path == "/dev/null" else "rb", buffering=0) as file:
            file.read(1)


@probe(WORKS)
def system_programs(world: World) -> bytes:
    return subprocess.run(["/bin/sh", "-c", "ls / | sort"], check=True, capture_output=True).stdout


@probe(WORKS)
def libraries(world: World) -> Any:
    import sqlite3
    import ssl
    import zoneinfo

    assert sqlite3.connect(":memory:").execute("select 1").fetchone() == (1,)
    return ssl.create_default_context().cert_store_stats(), zoneinfo.available_timezones()


@probe(WORKS)
def own_program(world: World) -> int:
    return len(_text(world.program, "server.py"))
