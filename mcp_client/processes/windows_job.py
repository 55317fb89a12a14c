"""A process on Windows and all that it started, as one job that ends with its last handle.

It was never run on Windows. It is typed for it (``mypy --platform win32``), and tested with a fake
of the system. It was tried by hand under Wine 8.0 with CPython 3.14.2 for Windows, on asyncio. A
server and what it had started ended with the session, with a host that exited, and with one that
was killed, also behind a ``.cmd`` launcher. No console was there, so CTRL_BREAK is untried.

The process is started suspended, put into the job and only then let run, so that nothing it starts
is outside. Breaking away is not allowed. ``KILL_ON_JOB_CLOSE`` ends the job with the host, however
the host ends. A host with a console shares it: its servers form process groups of their own, which
Ctrl-C does not reach, and are asked to end by CTRL_BREAK. A host without one gives them none (a
window would open), and closing their input is how they are asked.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .commands import command_line_on_windows

__all__ = ["WindowsJob"]

KILL_ON_JOB_CLOSE = 0x2000
JOB_MEMORY = 0x0200
EXTENDED_LIMITS = 9
BASIC_ACCOUNTING = 1
CREATE_SUSPENDED = 0x4
CREATE_NEW_PROCESS_GROUP = 0x200
CREATE_NO_WINDOW = 0x0800_0000
CTRL_BREAK = 1


class _BasicLimits(ctypes.Structure):
    _fields_ = (
        ("process_time", ctypes.c_int64),
        ("job_time", ctypes.c_int64),
        ("flags", ctypes.c_uint32),
        ("least_working_set", ctypes.c_size_t),
        ("most_working_set", ctypes.c_size_t),
        ("active_processes", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("priority", ctypes.c_uint32),
        ("scheduling", ctypes.c_uint32),
    )


class _ExtendedLimits(ctypes.Structure):
    _fields_ = (
        ("basic", _BasicLimits),
        ("io", ctypes.c_uint64 * 6),
        ("process_memory", ctypes.c_size_t),
        ("job_memory", ctypes.c_size_t),
        ("peak_process_memory", ctypes.c_size_t),
        ("peak_job_memory", ctypes.c_size_t),
    )


class _Accounting(ctypes.Structure):
    _fields_ = (
        ("times", ctypes.c_int64 * 4),
        ("page_faults", ctypes.c_uint32),
        ("processes", ctypes.c_uint32),
        ("active_processes", ctypes.c_uint32),
        ("terminated", ctypes.c_uint32),
    )


class WindowsJob:
    """A process on Windows and all that it started, as one job."""

    def __init__(self, system: Any = None, popen: Callable[..., Any] = subprocess.Popen) -> None:
        """``system``: the functions of kernel32, and ``NtResumeProcess``."""
        self._system: Any = system if system is not None else _system()
        self._start = popen
        self._job: Any = None
        self._group: int | None = None

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str | None, memory: int | None
    ) -> subprocess.Popen[bytes]:
        """Start the process suspended, put it into the job, and let it run."""
        has_console = bool(self._system.GetConsoleCP())
        own = CREATE_NEW_PROCESS_GROUP if has_console else CREATE_NO_WINDOW
        self._job = self._new_job(memory)
        popen: Any = None
        try:
            popen = self._start(
                command_line_on_windows(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(env),
                cwd=cwd,
                bufsize=0,
                creationflags=CREATE_SUSPENDED | own,
            )
            process = ctypes.c_void_p(int(popen._handle))
            self._check(self._system.AssignProcessToJobObject(self._job, process))
            if self._system.NtResumeProcess(process):
                raise OSError(0, "cannot resume the process")
        except BaseException:
            if popen is not None:  # suspended, and perhaps outside the job
                popen.kill()
                popen.communicate()
            self.close()
            raise
        self._group = popen.pid if has_console else None
        started: subprocess.Popen[bytes] = popen
        return started

    def _new_job(self, memory: int | None) -> Any:
        job = self._system.CreateJobObjectW(None, None)
        self._check(job)
        limits = _ExtendedLimits()
        limits.basic.flags = KILL_ON_JOB_CLOSE | (0 if memory is None else JOB_MEMORY)
        limits.job_memory = memory or 0
        if not self._system.SetInformationJobObject(
            job, EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)
        ):
            self._system.CloseHandle(job)
            self._check(0)
        return job

    def _check(self, succeeded: Any) -> None:
        if not succeeded:
            raise OSError(0, f"cannot create a job (error {self._system.last_error()})")

    def wait(self, popen: subprocess.Popen[bytes]) -> int | None:
        """Block until the process has exited, and return its exit code."""
        return popen.wait()

    def ask_to_end(self) -> None:
        """Send CTRL_BREAK to the process group."""
        if self._group is not None:
            with contextlib.suppress(OSError):  # it has exited
                os.kill(self._group, CTRL_BREAK)

    def kill(self) -> None:
        """End the job."""
        if self._job is not None:
            self._system.TerminateJobObject(self._job, 1)

    def is_empty(self) -> bool:
        """Whether all processes of the job have ended."""
        accounting = _Accounting()
        known = self._job is not None and self._system.QueryInformationJobObject(
            self._job, BASIC_ACCOUNTING, ctypes.byref(accounting), ctypes.sizeof(accounting), None
        )
        return not known or accounting.active_processes == 0

    def close(self) -> None:
        """Release the job."""
        job, self._job = self._job, None
        if job is not None:
            self._system.CloseHandle(job)


def _system() -> Any:
    if sys.platform != "win32":
        raise OSError("jobs exist on Windows only")
    kernel: Any = ctypes.WinDLL("kernel32", use_last_error=True)
    ntdll = ctypes.WinDLL("ntdll")
    handle, number, place = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p
    kernel.CreateJobObjectW.argtypes = [place, ctypes.c_wchar_p]
    kernel.CreateJobObjectW.restype = handle
    kernel.SetInformationJobObject.argtypes = [handle, number, place, number]
    kernel.QueryInformationJobObject.argtypes = [handle, number, place, number, place]
    kernel.AssignProcessToJobObject.argtypes = [handle, handle]
    kernel.TerminateJobObject.argtypes = [handle, number]
    kernel.CloseHandle.argtypes = [handle]
    kernel.NtResumeProcess = ntdll.NtResumeProcess
    kernel.NtResumeProcess.argtypes = [handle]
    kernel.last_error = ctypes.get_last_error
    return kernel
