"""Probes of sockets of every kind."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import socket
from typing import Any

from .catalogue import (
    REACH,
    READ,
    World,
    probe,
    system_call,
)

_SECONDS = 0.2


def _reply(family: int, kind: int, address: Any) -> str:
    if isinstance(address, tuple) and None in address:
        raise NotImplementedError
    with socket.socket(family, kind) as client:
        client.settimeout(_SECONDS)
        client.connect(address)
        if kind == socket.SOCK_DGRAM:
            client.send(b"?")
        return client.recv(200).decode()


@probe(READ, settings=("all",), either=("loopback",))
def tcp(world: World) -> str:
    return _reply(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", world.tcp))


@probe(READ, settings=("all",))
def tcp_to_other_address(world: World) -> str:
    return _reply(socket.AF_INET, socket.SOCK_STREAM, (world.address, world.tcp))


@probe(READ, settings=("all",), either=("loopback",))
def tcp_over_ipv6(world: World) -> str:
    return _reply(socket.AF_INET6, socket.SOCK_STREAM, ("::1", world.tcp6))


@probe(READ, settings=("all",))
def tcp_fast_open(world: World) -> str:
    """Connects without ``connect``."""
    if world.address is None:
        raise NotImplementedError
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        client.sendto(b"?", socket.MSG_FASTOPEN, (world.address, world.tcp))
        return client.recv(200).decode()


@probe(READ, settings=("all",), either=("loopback",))
def udp(world: World) -> str:
    return _reply(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", world.udp))


@probe(READ, settings=("all",))
def udp_to_other_address(world: World) -> str:
    return _reply(socket.AF_INET, socket.SOCK_DGRAM, (world.address, world.udp))


@probe(REACH, settings=("all",), either=("loopback",))
def be_reached_by_tcp(world: World) -> str:
    with socket.create_server(("127.0.0.1", world.free)) as server:
        server.settimeout(_SECONDS)
        return server.accept()[0].recv(100).decode()


@probe(REACH, settings=("loopback", "all"), either=("default", "read", "write"))
def tcp_to_itself(world: World) -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(_SECONDS)
        with socket.create_connection(server.getsockname()[:2], _SECONDS) as client:
            client.sendall(b"x")
            return server.accept()[0].recv(100).decode()


@probe(REACH, settings=("all",))
def resolver(world: World) -> int:
    with open("/etc/resolv.conf") as file:
        return len(file.read())


@probe(REACH, either=("all",))
def names_of_interfaces(world: World) -> str:
    found = [name for _, name in socket.if_nameindex() if name != "lo"]
    if not found:
        raise FileNotFoundError(2, "lo alone")
    return " ".join(found)


@probe(REACH, who="root")
def raw_ip(world: World) -> None:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()


@probe(REACH, who="root")
def raw_frames(world: World) -> None:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300).close()


@probe(REACH)
def vsock(world: World) -> None:
    """To the hypervisor. No namespace holds it."""
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()


@probe(READ)
def agent_socket(world: World) -> str:
    return _reply(socket.AF_UNIX, socket.SOCK_STREAM, world.agent)


@probe(READ, either=("read",))
def socket_in_granted(world: World) -> str:
    return _reply(socket.AF_UNIX, socket.SOCK_STREAM, os.path.join(world.readable, "socket"))


@probe(REACH)
def unix_datagram(world: World) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        return client.sendto(b"x", world.datagrams)


@probe(REACH)
def unix_datagram_from_pair(world: World) -> int:
    """Without ``socket`` and without ``connect``."""
    mine, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return mine.sendto(b"x", world.datagrams)


@probe(READ)
def abstract_socket(world: World) -> str:
    return _reply(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + world.abstract)


@probe(REACH)
def abstract_datagram_from_pair(world: World) -> int:
    mine, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return mine.sendto(b"x", "\0" + world.abstract + "-datagrams")


@probe(REACH)
def io_uring(world: World) -> int:
    return system_call("io_uring_setup", 4, ctypes.create_string_buffer(120))


def _run(code: bytes) -> int:
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    result: int = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


@probe(REACH, either=("all",))
def socket_by_32_bit_call(world: World) -> int:
    """socket(AF_INET, SOCK_DGRAM) as a program of 32 bits does it."""
    if platform.machine() != "x86_64":
        raise NotImplementedError
    code = b"\x53\xb8\x67\x01\x00\x00\xbb\x02\x00\x00\x00\xb9\x02\x00\x00\x00\x31\xd2\xcd\x80"
    return _run(code + b"\x5b\xc3")


@probe(REACH)
def unix_socket_by_32_bit_call(world: World) -> int:
    if platform.machine() != "x86_64":
        raise NotImplementedError
    code = b"\x53\xb8\x67\x01\x00\x00\xbb\x01\x00\x00\x00\xb9\x02\x00\x00\x00\x31\xd2\xcd\x80"
    return _run(code + b"\x5b\xc3")
