"""A sandbox by ``sandbox-exec`` of macOS. Untried: written by what is known of its profiles, and
tested as text alone.

The profile denies everything that it does not allow; of two rules that fit, the later one holds.
Its paths are real paths. What it does not do: a process that has left the server's process group
stays confined, and is not ended with the session.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..errors import ConnectError
from .engine import Launch

if TYPE_CHECKING:
    from .engine import Confined
    from .sandbox import Sandbox

__all__ = ["ENGINE", "PROGRAM", "profile"]

PROGRAM = "/usr/bin/sandbox-exec"
_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/System", "/Library/Apple", "/Library/Developer/CommandLineTools"),
    *("/opt/homebrew", "/private/var/db/timezone", "/private/etc/ssl", "/private/etc/localtime"),
    *("/private/etc/passwd", "/private/etc/group", "/private/etc/protocols"),
    *("/private/etc/services", "/private/var/select"),
)
_DEVICES = ("null", "zero", "random", "urandom")
_OF_THE_NETWORK = ("/private/etc/hosts", "/private/etc/resolv.conf", "/private/var/run/resolv.conf")
_ALWAYS = """(version 1)
(deny default)
(import "system.sb")
(allow process-exec process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow ipc-posix-sem)"""
_NETWORK = {
    "none": (),
    "loopback": (
        '(allow network-bind network-inbound (local ip "localhost:*"))',
        '(allow network-outbound (remote ip "localhost:*"))',
    ),
    "all": (
        '(allow network-bind network-inbound (local ip "*:*"))',
        '(allow network-outbound (remote ip "*:*"))',
        '(allow network-outbound (literal "/private/var/run/mDNSResponder"))',
        '(allow mach-lookup (global-name "com.apple.trustd.agent")',
        '  (global-name "com.apple.SystemConfiguration.DNSConfiguration"))',
    ),
}


class _SandboxExec:
    name = "sandbox-exec"

    def lacking(self, sandbox: Sandbox) -> str | None:
        if os.access(PROGRAM, os.X_OK):
            return None
        return f"there is no {PROGRAM}, which is a part of macOS"

    def confine(self, confined: Confined) -> Launch:
        try:
            folder = os.path.realpath(tempfile.mkdtemp(prefix="mcp-client-"))
        except OSError as error:
            raise ConnectError(f"cannot make a temporary folder for the server: {error}") from None
        words = [PROGRAM, "-p", profile(confined, folder), *confined.argv]
        env = {**confined.env, "HOME": folder, "TMPDIR": folder}
        return Launch(words, env, confined.cwd, folder=folder)


ENGINE = _SandboxExec()


def profile(confined: Confined, folder: str) -> str:
    """The rules for ``confined``, whose temporary folder is ``folder``."""
    return "\n".join([_ALWAYS, *_rules(confined, folder)])


def _rules(confined: Confined, folder: str) -> Iterator[str]:
    sandbox = confined.sandbox
    real = dict(sandbox.places)
    found = (*_SYSTEM, *map(os.path.realpath, confined.made_of))
    network = _OF_THE_NETWORK if sandbox.network != "none" else ()
    readable = {*found, *network, *(real[str(path)] for path in sandbox.read)}
    writable = {folder, *(real[str(path)] for path in sandbox.write)}
    names = sorted({each for path in (*readable, *writable, confined.cwd) for each in _above(path)})
    yield f"(allow file-read-metadata {_joined('literal', names)})"
    if confined.listed:
        yield f"(allow file-read-data {_joined('literal', sorted(confined.listed))})"
    yield f"(allow file-read* {_joined('subpath', sorted(readable | writable))})"
    yield f"(allow file-write-data {_joined('literal', [f'/dev/{name}' for name in _DEVICES])})"
    # What is granted to be read in a folder that can be written, and the other way round.
    for path in sorted({*writable, *(real[str(path)] for path in sandbox.read)}):
        how = "allow" if path in writable else "deny"
        yield f"({how} file-write* {_joined('subpath', [path])})"
    yield from _NETWORK[sandbox.network]


def _above(path: str) -> Iterator[str]:
    """The folders that ``path`` is in, and itself."""
    yield path
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        yield path


def _joined(kind: str, paths: Iterable[str]) -> str:
    return " ".join(f"({kind} {_quoted(path)})" for path in paths)


def _quoted(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
