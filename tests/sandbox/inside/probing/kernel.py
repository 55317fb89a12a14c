"""Probes of what the kernel offers besides files, sockets and processes."""

from __future__ import annotations

import ctypes
import fcntl
import os
import subprocess
import tempfile

from .catalogue import (
    ALL,
    REACH,
    READ,
    World,
    probe,
    system_call,
)


@probe(REACH, who="root")
def capabilities(world: World) -> str:
    """Through the kernel, as there may be no /proc."""
    data = ctypes.create_string_buffer(24)
    header = ctypes.create_string_buffer((0x20080522).to_bytes(4, "little") + b"\0" * 4, 8)
    if ctypes.CDLL(None).capget(header, data) or not any(data.raw):
        raise PermissionError(1, "none")
    return data.raw.hex()


@probe(REACH)
def new_rights_by_exec(world: World) -> str:
    if ctypes.CDLL(None).prctl(39, 0, 0, 0, 0):
        raise PermissionError(1, "no_new_privs is set")
    return "a setuid program would get its owner's rights"


@probe(REACH, who="user")
def setuid_program(world: World) -> str:
    if world.setuid is None:
        raise NotImplementedError
    found = subprocess.run([world.setuid, "-u"], check=True, capture_output=True, text=True).stdout
    if found.strip() != "0":
        raise PermissionError(1, f"it ran as {found}")
    return "root"


@probe(REACH, who="root")
def mount(world: World) -> int:
    system_call("unshare", 0x20000)
    return system_call("mount", b"none", tempfile.mkdtemp().encode(), b"tmpfs", 0, 0)


@probe(REACH, who="root")
def remount_root(world: World) -> int:
    system_call("unshare", 0x20000)
    return system_call("mount", 0, b"/", 0, 0x1000 | 0x20, 0)  # writable again


@probe(REACH)
def mount_in_new_user_namespace(world: World) -> int:
    system_call("unshare", 0x10000000 | 0x20000)
    return system_call("mount", b"none", tempfile.mkdtemp().encode(), b"tmpfs", 0, 0)


@probe(REACH, who="root")
def change_root(world: World) -> int:
    return system_call("chroot", tempfile.mkdtemp().encode())


@probe(REACH, who="root")
def host_name(world: World) -> int:
    name = os.uname().nodename.encode()
    return system_call("sethostname", name, len(name))


@probe(REACH, who="root")
def make_device(world: World) -> int:
    if world.disk_path is None:
        raise NotImplementedError
    path = os.path.join(tempfile.mkdtemp(), "disk")
    os.mknod(path, 0o60600, os.makedev(*world.disk))
    return os.open(path, os.O_RDONLY)


@probe(REACH, who="root")
def read_disk(world: World) -> int:
    if world.disk_path is None:
        raise NotImplementedError
    return os.open(world.disk_path, os.O_RDONLY)


@probe(REACH, who="root")
def kernel_log(world: World) -> int:
    return os.open("/dev/kmsg", os.O_RDONLY)


@probe(REACH, who="root")
def kernel_log_by_call(world: World) -> int:
    return system_call("syslog", 3, ctypes.create_string_buffer(64), 64)


@probe(REACH)
def terminal(world: World) -> int:
    """What a program writes to a terminal may be typed by it."""
    return os.open(world.terminal, os.O_RDWR | os.O_NOCTTY)


@probe(REACH, who="root")
def type_on_terminal(world: World) -> int:
    fd = os.open(world.terminal, os.O_RDWR | os.O_NOCTTY)
    return len(fcntl.ioctl(fd, 0x5412, b"x"))


@probe(REACH, who="nobody")
def controlling_terminal(world: World) -> int:
    return os.open("/dev/tty", os.O_RDWR)


@probe(READ)
def key_of_user(world: World) -> str:
    name = f"probe-{world.mark}".encode()
    key = system_call("keyctl", 10, -4, b"user", name, 0)  # search
    text = ctypes.create_string_buffer(200)
    length = system_call("keyctl", 11, key, text, 200)
    return text.raw[:length].decode()


@probe(REACH)
def add_key(world: World) -> int:
    return system_call("add_key", b"user", f"probe-{world.mark}-new".encode(), b"x", 1, -4)


@probe(READ)
def shared_memory(world: World) -> str:
    segment = system_call("shmget", world.shared_memory, 0, 0)
    return ctypes.string_at(system_call("shmat", segment, 0, 0o10000), 64).decode()


@probe(READ)
def message_queue(world: World) -> str:
    queue = system_call("mq_open", world.queue.encode(), os.O_RDWR | os.O_NONBLOCK, 0, 0)
    text = ctypes.create_string_buffer(8192)
    length = system_call("mq_timedreceive", queue, text, 8192, 0, 0)
    return text.raw[:length].decode()


@probe(REACH, who="root")
def bpf(world: World) -> int:
    array = b"".join(each.to_bytes(4, "little") for each in (2, 4, 8, 1))
    attributes = ctypes.create_string_buffer(array, 72)
    return system_call("bpf", 0, attributes, 72)


@probe(REACH, either=ALL)
def userfaultfd(world: World) -> int:
    return system_call("userfaultfd", 1)
