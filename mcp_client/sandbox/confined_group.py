"""The processes of a server in a sandbox: how they start, are asked to end, and are gone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import anyio

from ..errors import ConnectError
from ..processes.process import PosixGroup
from ..runtime.daemon_thread import NoThread, run_in_thread
from .bubblewrap import Launch, confine, remove
from .sandbox import Confinement, Grants

if TYPE_CHECKING:
    from .sandbox import Sandbox

__all__ = ["ConfinedGroup", "confined"]

_MAX_ASKED = 1_000
"""Processes of one server that are asked to end; the rest ends with bwrap."""


async def confined(
    sandbox: Sandbox,
    before: Grants | None,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None,
    seconds: float,
) -> tuple[Grants, Confinement, ConfinedGroup]:
    """Return what ``sandbox`` grants ``argv``, what that means, and the processes to be started.

    Raises ``GrantsChanged`` if it is not what was granted ``before``, ``ConnectError`` after
    ``seconds``, and as ``confine`` does. It can be cancelled: what its thread has made by then is
    closed there.
    """
    lock, abandoned, made = threading.Lock(), threading.Event(), list[ConfinedGroup]()

    def give_up() -> None:
        with lock:
            abandoned.set()
            for tree in made:
                tree.discard()

    def prepare() -> tuple[Grants, Confinement, ConfinedGroup]:
        grants = Grants.of(sandbox, argv, env, cwd)
        grants.check_same(before)
        launch, confinement = confine(sandbox, grants, argv, env, cwd)
        tree = ConfinedGroup(launch)
        with lock:
            if abandoned.is_set():
                tree.discard()
            else:
                made.append(tree)
        return grants, confinement, tree

    try:
        with anyio.move_on_after(seconds):
            return await run_in_thread(prepare, abandon_on_cancel=True)
        give_up()
        raise ConnectError(
            f"cannot start the server within {seconds:g} s, Timeouts(connect=...): finding "
            "the paths of its sandbox took too long",
            retryable=True,
        )
    except (NoThread, RuntimeError, OSError) as error:  # too many threads, or descriptors
        raise ConnectError(f"cannot make a sandbox: {error}", retryable=True) from None
    except BaseException:
        give_up()
        raise


class ConfinedGroup(PosixGroup):
    """The processes of a ``Launch``."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str | None, memory: int | None
    ) -> subprocess.Popen[bytes]:
        """Start ``argv`` in the sandbox."""
        launch = self._launch
        try:
            return self._popen(launch.argv, launch.env, launch.cwd, launch.pass_fds)
        except BaseException:
            self.close()
            raise
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close what would be inherited."""
        fds, self._launch = self._launch.pass_fds, self._launch._replace(pass_fds=())
        for fd in fds:
            os.close(fd)

    def discard(self) -> None:
        """Close and remove all that was made for a process that is not started."""
        self.abandon()
        remove(self._launch.directory)

    def close(self) -> None:
        """Remove the directory of the sandbox."""
        super().close()
        remove(self._launch.directory)

    def is_empty(self) -> bool:
        """Whether all its processes have ended."""
        # Where nothing reaps orphans, as in many containers, a dead one stays in the group.
        return super().is_empty() or not any(_living(self._pid))

    def ask_to_end(self) -> None:
        """Ask what runs inside: a signal to bwrap itself would end all of it at once."""
        for pid in islice(_living(self._pid), _MAX_ASKED):
            if pid != self._pid:
                _ask_to_end(pid, self._pid)


def _living(group: int) -> Iterator[int]:
    """Yield the processes of a group that have not ended.

    The event loop waits for it, and a machine may have thousands of other processes.
    """
    if sys.platform != "linux":
        yield group
        return
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if os.getpgid(int(name)) != group:
                continue
            with open(f"/proc/{name}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
        except OSError:
            continue
        if state not in (b"Z", b"X"):
            yield int(name)


def _ask_to_end(pid: int, group: int) -> None:
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):
        process = os.pidfd_open(pid)  # its number may belong to another process from now on
        try:
            if os.getpgid(pid) == group:
                signal.pidfd_send_signal(process, signal.SIGTERM)
        finally:
            os.close(process)
