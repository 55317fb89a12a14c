"""The optional programs that tests need: how each is found, and the command that installs it.

A test declares what it needs with ``@pytest.mark.needs("git", "bubblewrap")``; a fixture or a
helper calls ``need("git")``. If the program is missing, the test is skipped. At the end,
``closing_lines`` prints one line for each missing program. In CI on Linux a missing program fails
the test instead, because ``tests/interop/install.py`` installs all of them there.

``NEEDS`` is also the list of permitted reasons. The part ``bare`` of ``.ci/run`` fails if a test is
skipped for another reason. ``python -m tests.programs`` prints what this machine has.
"""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest

from mcp_client import Sandbox
from mcp_client.sandbox import bubblewrap
from tests.interop import fetch_suite, install

__all__ = ["IN_CI", "NEEDS", "Need", "closing_lines", "missing", "need", "unlisted"]

IN_CI = bool(os.environ.get("CI"))
_LINES = 10


class Need(NamedTuple):
    """A program, or a property of the machine, that some tests cannot do without."""

    remedy: str
    """The command that installs it, or what the machine has to be."""
    is_there: Callable[[], object]
    is_program: bool = True
    """Whether it can be installed. CI on Linux has all programs, and need not have the others."""
    unusable: Callable[[], str | None] = lambda: None
    """Return what to do if it is installed and does not work."""


def _on_path(*names: str) -> Callable[[], object]:
    return lambda: all(map(shutil.which, names))


@functools.cache
def _lack_of_bubblewrap() -> str | None:
    if sys.platform != "linux":
        return "sandboxes are for Linux"
    return bubblewrap.why_not(Sandbox())


def _unusable_bubblewrap() -> str | None:
    return _lack_of_bubblewrap() if any(map(os.path.exists, bubblewrap.PLACES)) else None


def _keeps_abstract_sockets_out() -> bool:
    return sys.platform == "linux" and bubblewrap.lacking() is None


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as listener:
            listener.bind(("::1", 0))
    except OSError:
        return False
    return True


def _is_root() -> bool:
    return sys.platform != "win32" and os.geteuid() == 0


@functools.cache
def _may_mount() -> bool:
    if not _is_root() or not all(map(shutil.which, ("unshare", "mount", "setpriv"))):
        return False
    words = ["unshare", "-m", "mount", "--bind", "/etc", "/etc"]
    return not subprocess.run(words, capture_output=True).returncode


_INSTALL = "sudo apt-get install"
NEEDS = {
    "the real servers and suites": Need(install.COMMAND, install.PEERS.is_dir),
    "the JSON-Schema-Test-Suite": Need(
        "python tests/interop/fetch_suite.py", fetch_suite.SUITE.is_dir
    ),
    "bubblewrap": Need(
        f"{_INSTALL} bubblewrap",
        lambda: _lack_of_bubblewrap() is None,
        unusable=_unusable_bubblewrap,
    ),
    "PostgreSQL": Need(f"{_INSTALL} postgresql", install.postgres),
    "git": Need(f"{_INSTALL} git", _on_path("git")),
    "jq": Need(f"{_INSTALL} jq", _on_path("jq")),
    "Node": Need(f"{_INSTALL} npm", _on_path("node", "npx")),
    "Chromium": Need(f"{_INSTALL} chromium chromium-driver", install.browser),
    "GNOME Keyring": Need(f"{_INSTALL} gnome-keyring dbus-daemon", install.keyring),
    "zsh and fish": Need(f"{_INSTALL} zsh fish", install.shells),
    "Landlock": Need("Linux 6.12 or newer", _keeps_abstract_sockets_out, is_program=False),
    "IPv6": Need("a machine with the address ::1", _has_ipv6, is_program=False),
    "root": Need("run the tests as root", _is_root, is_program=False),
    "mounts of its own": Need(
        "run the tests as root that may mount, with util-linux and mount",
        _may_mount,
        is_program=False,
    ),
    "the kernel's headers": Need(
        f"{_INSTALL} linux-libc-dev",
        Path("/usr/include/asm-generic/unistd.h").exists,
        is_program=False,
    ),
    "a Python that every user can run": Need(
        f"{_INSTALL} python3", Path("/usr/bin/python3").exists, is_program=False
    ),
}
"""By name. The part ``bare`` permits no other reason to skip a test."""


def need(name: str) -> None:
    """Skip the test that runs if this machine lacks ``name``, a key of ``NEEDS``."""
    if not NEEDS[name].is_there():
        missing(name)


def missing(name: str, part: str = "") -> NoReturn:
    """Skip the test that runs for lack of ``name``, or of a ``part`` of it. In CI on Linux, fail
    the test if ``name`` is a program."""
    needed = NEEDS[name]
    sentence = f"needs {name}: {needed.unusable() or needed.remedy}"
    if part:
        sentence += f" ({part})"
    if IN_CI and sys.platform == "linux" and needed.is_program:
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


def closing_lines(skipped: Iterable[Any]) -> list[str]:
    """Return what is printed about pytest's reports of skipped tests: at most ten lines, one for
    each program that is missing."""
    counts = Counter(_sentence(report).partition(" (")[0] for report in skipped)
    if not counts:
        return []
    displayed = counts.most_common(_LINES - 2)
    lines = [f"{counts.total()} skipped (-rs lists them). What the tests need:"]
    lines += [f"{count:6}  {sentence.removeprefix('needs ')}" for sentence, count in displayed]
    if others := counts.total() - sum(count for _, count in displayed):
        lines.append(f"{others:6}  {len(counts) - len(displayed)} other things")
    return lines


def unlisted(skipped: Iterable[Any]) -> list[str]:
    """Return the skipped tests whose reason is not a key of ``NEEDS``, each with its reason."""
    permitted = tuple(f"needs {name}: " for name in NEEDS)
    found = [(report.nodeid, _sentence(report)) for report in skipped]
    return [f"{test}: {reason}" for test, reason in found if not reason.startswith(permitted)]


def _sentence(report: Any) -> str:
    """Return why the test was skipped: pytest reports the file, the line and the reason."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def main() -> int:
    """Print what this machine has. Exit with 1 if a program of ``NEEDS`` is among it."""
    there = {name: needed for name, needed in NEEDS.items() if needed.is_there()}
    for name, needed in NEEDS.items():
        print(f"{name}: {'there' if name in there else needed.unusable() or needed.remedy}")
    return 1 if any(needed.is_program for needed in there.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
