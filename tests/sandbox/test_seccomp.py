"""The filter's verdict on a call, by an interpreter of it: for both architectures on either."""

from __future__ import annotations

import re
import struct
from errno import EACCES, ENOSYS, EPERM
from pathlib import Path

import pytest

from mcp_client.sandbox import seccomp
from tests.programs import missing

pytestmark = pytest.mark.one_backend

ALLOWED, KILLED = "allowed", "killed"
BOTH = ("x86_64", "aarch64")
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


def verdict(program: bytes, architecture: int, number: int, *arguments: int) -> str | int:
    data = struct.pack("<IIQ6Q", number, architecture, 0, *(*arguments, *[0] * 6)[:6])
    steps = list(struct.iter_unpack("=HBBI", program))
    loaded, at = 0, 0
    while True:
        code, then, otherwise, value = steps[at]
        at += 1
        if code == 0x20:
            (loaded,) = struct.unpack_from("<I", data, value)
        elif code == 0x54:
            loaded &= value
        elif code == 0x06:
            names = {0x7FFF0000: ALLOWED, 0x80000000: KILLED}
            return names[value] if value in names else value & 0xFFFF
        else:
            holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
            at += then if holds else otherwise


def number(name: str, architecture: str) -> int:
    tables = seccomp._OF_THE_KERNEL.split()
    return int(tables[tables.index(name) + 1 + BOTH.index(architecture)])


def judged(architecture: str, network: str, call: int, *arguments: int) -> str | int:
    program = seccomp.namespace_program(architecture, sockets=network != "none")
    return verdict(program, seccomp._AUDIT[BOTH.index(architecture)], call, *arguments)


@pytest.mark.parametrize("architecture", BOTH)
def test_calls_are_allowed_unless_they_are_listed_or_newer_than_the_list(architecture: str) -> None:
    column = BOTH.index(architecture)
    ordinary = {"read": (0, 63), "openat": (257, 56), "execve": (59, 221), "futex": (202, 98)}
    for numbers in ordinary.values():
        assert judged(architecture, "none", numbers[column]) == ALLOWED
    for name in ("keyctl", "setns", "io_uring_setup", "mount"):
        assert judged(architecture, "all", number(name, architecture)) == EPERM
    assert judged(architecture, "none", 470) == judged(architecture, "all", 435) == ENOSYS


def test_another_architecture_is_killed() -> None:
    i386, x86_64 = 0x40000003, seccomp._AUDIT[0]
    assert verdict(seccomp.namespace_program("x86_64", sockets=True), i386, 4) == KILLED
    assert verdict(seccomp.namespace_program("aarch64", sockets=True), x86_64, 0) == KILLED
    assert judged("x86_64", "all", 0x40000000) == KILLED


@pytest.mark.parametrize("architecture", BOTH)
@pytest.mark.parametrize(
    ("network", "arguments", "expected"),
    [
        ("none", (2, 1, 0), EACCES),
        ("none", (1, 1, 0), EACCES),
        ("all", (2, 1, 0), ALLOWED),
        ("all", (10, 2 | 0o2004000, 17), ALLOWED),
        ("all", (2, 3, 1), EACCES),  # raw
        ("all", (2, 10, 0x300), EACCES),  # SOCK_PACKET, which is a packet socket by another name
        ("all", (1, 1, 0), ALLOWED),  # Unix
        ("loopback", (16, 3, 0), ALLOWED),  # netlink: addresses of this machine
        ("loopback", (16, 3, 9), EACCES),  # netlink: audit
        ("loopback", (17, 2, 0), EACCES),
        ("all", (40, 1, 0), EACCES),
        ("all", (38, 5, 0), EACCES),
    ],
)
def test_sockets_are_those_of_the_network(
    architecture: str, network: str, arguments: tuple[int, ...], expected: str | int
) -> None:
    socket = seccomp._SOCKET[BOTH.index(architecture)]
    assert judged(architecture, network, socket, *arguments) == expected


@pytest.mark.parametrize("architecture", BOTH)
@pytest.mark.parametrize(
    ("call", "arguments", "expected"),
    [
        ("_SOCKETPAIR", (1, 1 | 0o2000000), ALLOWED),
        ("_SOCKETPAIR", (1, 5), ALLOWED),
        ("_SOCKETPAIR", (1, 2), EACCES),
        ("_SOCKETPAIR", (30, 1), EACCES),
        ("_CLONE", (0x11,), ALLOWED),
        ("_CLONE", (0x3D0F00,), ALLOWED),  # a thread
        ("_CLONE", (0x10000011,), EPERM),
        ("_IOCTL", (0, 0x5401), ALLOWED),
        ("_IOCTL", (0, 0x5412), EPERM),
        ("_IOCTL", (0, 0xFFFFFFFF00005412), EPERM),  # of which the kernel takes the lower half
    ],
)
def test_a_call_is_judged_by_its_arguments(
    architecture: str, call: str, arguments: tuple[int, ...], expected: str | int
) -> None:
    numbers = getattr(seccomp, call)
    assert judged(architecture, "none", numbers[BOTH.index(architecture)], *arguments) == expected


@pytest.mark.parametrize("architecture", BOTH)
def test_the_numbers_are_those_of_the_kernels_headers(architecture: str) -> None:
    if not HEADERS[architecture].exists():
        missing("the kernel's headers", str(HEADERS[architecture]))
    pattern = r"^#define __NR(?:3264)?_(\w+) (\d+)"
    there: dict[str, int] = {}
    for name, value in re.findall(pattern, HEADERS[architecture].read_text(), re.MULTILINE):
        there.setdefault(name, int(value))
    words = seccomp._OF_THE_KERNEL.split()
    for name, *numbers in zip(words[::3], words[1::3], words[2::3], strict=True):
        listed = numbers[BOTH.index(architecture)]
        if name in there:
            assert listed == str(there[name]), name
    for name in ("socket", "socketpair", "clone", "ioctl"):
        assert getattr(seccomp, f"_{name.upper()}")[BOTH.index(architecture)] == there[name]
