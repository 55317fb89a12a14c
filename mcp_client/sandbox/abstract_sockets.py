"""Keeps abstract Unix sockets out of reach of a server that may use this machine's network.

They have no path, so no mount hides them, and the network they belong to is the machine's: the bus
of the desktop is among them. One call of Landlock does (Linux 6.12): bwrap is started in a domain
whose only rule is that abstract sockets of other domains cannot be connected to. The domain is
entered by a process of its own, which becomes bwrap: what it does cannot be undone.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Sequence

__all__ = ["lacking", "without_abstract_sockets"]

_ABI, _KERNEL = 6, "6.12"
_CREATE_RULESET, _VERSION = 444, 1
_LAUNCHER = """
import ctypes, os, sys
call = ctypes.CDLL(None, use_errno=True).syscall
rules = call(444, (ctypes.c_uint64 * 3)(0, 0, 1), ctypes.c_size_t(24), 0)
if ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) or rules < 0 or call(446, rules, 0):
    sys.exit("cannot keep abstract sockets out of reach")
os.closerange(rules, rules + 1)
os.execv(sys.argv[1], sys.argv[1:])
"""


@functools.cache
def lacking() -> str | None:
    """Return why abstract sockets cannot be kept out of reach here; None if they can."""
    if not sys.executable or getattr(sys, "frozen", False):
        return "that needs a Python interpreter to start, and this program has none"
    abi = ctypes.CDLL(None).syscall(_CREATE_RULESET, None, None, _VERSION)
    if abi < _ABI:
        return f"that needs Landlock as Linux {_KERNEL} and newer have it"
    return None


def without_abstract_sockets(words: Sequence[str]) -> list[str]:
    """Return the command that enters the domain and becomes ``words``."""
    return [sys.executable, "-I", "-S", "-c", _LAUNCHER, *words]
