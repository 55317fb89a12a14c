"""Which files of a Linux system every sandboxed program can read: what the system's programs and
libraries are made of, and nothing that is told to some users only."""

from __future__ import annotations

import os

__all__ = ["DEVICES", "system_paths"]

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
"""What can be read and written."""

_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store")
_SETTINGS = """
    alternatives crypto-policies fonts gai.conf gitconfig group host.conf ld.so.cache locale.alias
    locale.conf localtime mime.types nsswitch.conf os-release passwd pki/tls/certs pki/tls/cert.pem
    pki/tls/openssl.cnf pki/ca-trust/extracted protocols services ssl/cert.pem ssl/certs
    ssl/openssl.cnf terminfo timezone
""".split()  # noqa: SIM905 - a list of words is read as words
"""In ``/etc``, each of which costs a mount, and where other files hold passwords and keys."""


def system_paths(network: str) -> tuple[str, ...]:
    """The files and folders that exist; some are symbolic links. Where names of the network can be
    looked up, what says how is among them."""
    names = {"none": (), "loopback": ("hosts",), "all": ("hosts", "resolv.conf")}[network]
    named = (*_PROGRAMS, *(f"/etc/{name}" for name in (*_SETTINGS, *names)))
    return tuple(path for path in named if os.path.exists(path))
