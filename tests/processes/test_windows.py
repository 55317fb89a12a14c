"""What can be tested of Windows on another system: names, lines, and a stand-in for its jobs."""

from __future__ import annotations

import ctypes
import ntpath
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_client.processes import windows_job
from mcp_client.processes.commands import (
    command_line_on_windows,
    environment_on_windows,
    find_on_windows,
    words_on_windows,
)
from mcp_client.processes.windows_job import WindowsJob
from mcp_client.runtime.windows_lock import LOCKED_BYTE, lock_byte, unlock_byte
from mcp_client.validation import worker_pool

pytestmark = pytest.mark.one_backend

NODE = r"C:\Program Files\nodejs"
FILES = {
    rf"{NODE}\npx",
    rf"{NODE}\npx.cmd",
    rf"{NODE}\node.exe",
    r"C:\tools\run.exe",
    r"C:\here\server.bat",
    r"C:\here\evil.exe",
}
ENV = {"PATH": rf'"{NODE}";.;;C:\tools', "PATHEXT": ".COM;.EXE;.BAT;.CMD;.VBS;.JS"}


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("npx", rf"{NODE}\npx.cmd"),
        ("node", rf"{NODE}\node.exe"),
        ("node.exe", rf"{NODE}\node.exe"),
        ("run", r"C:\tools\run.exe"),
        ("evil", None),
        ("missing", None),
        (r".\evil", r"C:\here\evil.exe"),
        (r"server.bat", None),
        (r".\server.bat", r"C:\here\server.bat"),
        (r"C:/tools/run", r"C:\tools\run.exe"),
    ],
)
def test_a_command_is_a_file_that_windows_can_start_and_is_not_looked_for_in_the_working_directory(
    command: str, found: str | None
) -> None:
    assert find_on_windows(command, r"C:\here", ENV, FILES.__contains__) == found


def test_a_file_of_a_relative_directory_is_found_by_its_absolute_path() -> None:
    found = find_on_windows(r".\server", "srv", {}, lambda path: path.endswith(".cmd"))
    assert found == ntpath.normpath(ntpath.join(os.getcwd(), "srv", "server.cmd"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (r"C:\tools\python.exe C:\srv\x.py", [r"C:\tools\python.exe", r"C:\srv\x.py"]),
        (f'"{NODE}\\npx.cmd" -y \'a b\' ""', [rf"{NODE}\npx.cmd", "-y", "a b", ""]),
        (r'call tool path="C:\new dir\\"', ["call", "tool", "path=C:\\new dir\\\\"]),
        ("a#b # c;d  e", ["a#b", "#", "c;d", "e"]),
        ("", []),
    ],
)
def test_a_line_that_was_typed_keeps_the_backslashes_of_its_paths(
    text: str, words: list[str]
) -> None:
    assert words_on_windows(text) == words


def test_a_line_with_an_open_quotation_mark_has_no_words() -> None:
    with pytest.raises(ValueError, match="No closing quotation"):
        words_on_windows('"C:\\Program Files')


def test_a_program_gets_its_words_as_the_c_runtime_reads_them() -> None:
    line = command_line_on_windows(
        [r"C:\a b\x.exe", "plain", "two words", 'say "hi" & del *', "%PATH%"]
    )
    assert line == r'"C:\a b\x.exe" plain "two words" "say \"hi\" & del *" %PATH%'


def test_a_batch_file_gets_each_word_in_quotation_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYSTEMROOT", r"C:\Windows")
    line = command_line_on_windows([rf"{NODE}\npx.CMD", "-y", "a & b", "^!x", "", "C:\\end\\"])
    assert line == (
        r'"C:\Windows\System32\cmd.exe" /d /e:on /v:off /s /c '
        r'""C:\Program Files\nodejs\npx.CMD" "-y" "a & b" "^!x" "" "C:\end\\""'
    )


@pytest.mark.parametrize("word", ['"&calc.exe', "%PATH:~0,1%", "a\r\nb", "a\nb", "\x00", "\x1a"])
@pytest.mark.parametrize("file", [r"C:\x.bat", r"C:\x.CMD", r"C:\x.cmd. ."])
def test_a_word_that_cmd_might_take_for_a_command_is_refused(file: str, word: str) -> None:
    with pytest.raises(ValueError, match=r"argument 2 contains .* Give the program"):
        command_line_on_windows([file, "fine", word])


@pytest.mark.parametrize("space", ["\u3000", "\u00a0", "\u200d"])
def test_a_batch_file_may_take_any_space_and_is_found_in_a_directory_named_so(
    space: str,
) -> None:
    line = command_line_on_windows([rf"C:\a{space}b\x.cmd", f"c{space}d"])
    assert line.endswith(rf'""C:\a{space}b\x.cmd" "c{space}d""')


def test_names_of_variables_differ_by_more_than_their_case() -> None:
    host = {"Path": "p", "SystemRoot": "r", "API_KEY": "secret"}
    assert environment_on_windows(host, {"path": "q", "Token": "t"}) == {
        "PATH": "q",
        "SYSTEMROOT": "r",
        "TOKEN": "t",
    }


# ----------------------------------------------------------------------------- the job


class System:
    """What kernel32 was asked for."""

    def __init__(self, console: int = 65001, assigned: int = 1) -> None:
        self.received: list[Any] = []
        self.active = 2
        self._console = console
        self._assigned = assigned

    def GetConsoleCP(self) -> int:  # noqa: N802
        return self._console

    def CreateJobObjectW(self, attributes: None, name: None) -> int:  # noqa: N802
        self.received.append("create")
        return 70

    def SetInformationJobObject(self, job: int, kind: int, place: Any, size: int) -> int:  # noqa: N802
        limits = place._obj
        self.received.append(("limits", kind, size, limits.basic.flags, limits.job_memory))
        return 1

    def QueryInformationJobObject(  # noqa: N802
        self, job: int, kind: int, place: Any, size: int, length: None
    ) -> int:
        place._obj.active_processes = self.active
        return 1

    def AssignProcessToJobObject(self, job: int, process: ctypes.c_void_p) -> int:  # noqa: N802
        self.received.append(("assign", job, process.value))
        return self._assigned

    def NtResumeProcess(self, process: ctypes.c_void_p) -> int:  # noqa: N802
        self.received.append(("resume", process.value))
        return 0

    def TerminateJobObject(self, job: int, code: int) -> int:  # noqa: N802
        self.received.append(("terminate", job))
        return 1

    def CloseHandle(self, handle: int) -> int:  # noqa: N802
        self.received.append(("close", handle))
        return 1

    def last_error(self) -> int:
        return 5


class Popen:
    def __init__(self, system: System, line: str, options: dict[str, Any]) -> None:
        system.received.append(("start", line, options["creationflags"]))
        self._system = system
        self._handle = 71
        self.pid = 4_194_000_000

    def kill(self) -> None:
        self._system.received.append("killed")

    def communicate(self) -> None:
        self._system.received.append("reaped")


def _started(system: System, memory: int | None = None) -> WindowsJob:
    job = WindowsJob(system, lambda line, **options: Popen(system, line, options))
    job.start([r"C:\x.exe", "a b"], {}, None, memory)
    return job


def test_a_process_is_in_its_job_before_it_runs() -> None:
    system = System()
    job = _started(system, memory=1024)
    flags = windows_job.CREATE_SUSPENDED | windows_job.CREATE_NEW_PROCESS_GROUP
    assert system.received == [
        "create",
        ("limits", 9, 144, 0x2200, 1024),
        ("start", r'C:\x.exe "a b"', flags),
        ("assign", 70, 71),
        ("resume", 71),
    ]
    assert not job.is_empty()
    system.active = 0
    assert job.is_empty()
    job.kill()
    job.close()
    job.close()
    job.kill()
    assert system.received[5:] == [("terminate", 70), ("close", 70)]


def test_a_host_without_a_console_opens_none_and_sends_no_event() -> None:
    system = System(console=0)
    _started(system).ask_to_end()
    flags = windows_job.CREATE_SUSPENDED | windows_job.CREATE_NO_WINDOW
    assert ("start", r'C:\x.exe "a b"', flags) in system.received


def test_a_process_that_cannot_be_put_into_a_job_never_runs() -> None:
    system = System(assigned=0)
    with pytest.raises(OSError, match="error 5"):
        _started(system)
    assert system.received[-3:] == ["killed", "reaped", ("close", 70)]
    assert ("resume", 71) not in system.received


def test_a_batch_file_that_cannot_take_an_argument_leaves_no_job() -> None:
    system = System()
    job = WindowsJob(system, lambda line, **options: Popen(system, line, options))
    with pytest.raises(ValueError, match="percent sign"):
        job.start([r"C:\x.cmd", "%A%"], {}, None, None)
    assert system.received[-1] == ("close", 70)


# ----------------------------------------------------------------------- the locked byte


class Locks:
    """What kernel32 was asked for, and with which error it refuses."""

    def __init__(self, error: int = 0) -> None:
        self.received: list[tuple[int, ...]] = []
        self._error = error

    def LockFileEx(  # noqa: N802
        self, handle: int, how: int, zero: int, low: int, high: int, place: Any
    ) -> int:
        self.received.append((handle, how, zero, low, high, *_place(place)))
        return not self._error

    def UnlockFileEx(self, handle: int, zero: int, low: int, high: int, place: Any) -> int:  # noqa: N802
        self.received.append((handle, zero, low, high, *_place(place)))
        return not self._error

    def last_error(self) -> int:
        return self._error


def _place(reference: Any) -> tuple[int, int]:
    overlapped = reference._obj
    assert ctypes.sizeof(overlapped) == 2 * ctypes.sizeof(ctypes.c_size_t) + 8 + ctypes.sizeof(
        ctypes.c_void_p
    )
    return overlapped.offset, overlapped.offset_high


def test_a_lock_is_one_byte_that_no_content_reaches() -> None:
    system = Locks()
    assert lock_byte(70, False, system)
    assert lock_byte(70, True, system)
    unlock_byte(70, system)
    at = (0, 256)
    assert at == (LOCKED_BYTE & 0xFFFF_FFFF, LOCKED_BYTE >> 32)
    assert system.received == [(70, 3, 0, 1, 0, *at), (70, 1, 0, 1, 0, *at), (70, 0, 1, 0, *at)]


def test_a_byte_that_others_have_locked_is_distinguished_from_a_lock_that_fails() -> None:
    assert not lock_byte(70, False, Locks(error=33))
    with pytest.raises(OSError, match=r"cannot be locked \(error 6\)"):
        lock_byte(70, False, Locks(error=6))
    with pytest.raises(OSError, match=r"cannot be unlocked \(error 158\)"):
        unlock_byte(70, Locks(error=158))


# ------------------------------------------------------------- this system without POSIX

_AS_ON_WINDOWS = """
import importlib, pkgutil, sys, types
import asyncio, anyio, trio, httpx, h11, jsonschema, keyring, jwt, starlette, psycopg
import anyio._backends._asyncio, anyio._backends._trio, subprocess, socket, select, ctypes
import starlette.applications, cryptography.hazmat.primitives, tempfile, shutil, getpass, pathlib
import os, signal
for name in ("fcntl", "termios", "pwd", "resource", "grp", "tty", "pty"):
    sys.modules[name] = None
msvcrt = sys.modules["msvcrt"] = types.ModuleType("msvcrt")
for name in (
    "waitid", "pidfd_open", "killpg", "geteuid", "getuid", "getpgrp", "tcgetpgrp", "ttyname",
    "fpathconf", "fchmod", "pread", "register_at_fork", "fork", "O_NOFOLLOW", "O_DIRECTORY",
    "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY",
):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGWINCH", "SIGTSTP", "SIGALRM", "setitimer", "ITIMER_REAL"):
    if hasattr(signal, name):
        delattr(signal, name)
del select.poll
os.supports_dir_fd = set()
sys.platform = "win32"
import mcp_client
count = 0
for module in pkgutil.walk_packages(mcp_client.__path__, "mcp_client."):
    if module.name != "mcp_client.__main__" and "-" not in module.name:
        loaded = importlib.import_module(module.name)
        for name in getattr(loaded, "__all__", ()):
            getattr(loaded, name)
        count += 1
print(count)
"""


@pytest.mark.slow
def test_every_module_imports_without_what_only_posix_has() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _AS_ON_WINDOWS],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    files = list(Path(worker_pool.__file__).parents[1].rglob("*.py"))
    assert int(done.stdout) == len(files) - 3, "all but the package itself, its __main__ and a hook"


_QUESTIONS = (
    {"id": 1, "has_value": True, "forget": False, "seconds": 5, "schema": {"type": "integer"}},
    {"id": 1, "has_value": True, "forget": False, "seconds": 5},
)


def test_a_worker_answers_and_ends_where_select_knows_sockets_only() -> None:
    code = worker_pool._code(idle=0.5)
    start = code.rindex("main(")
    code = (
        code[:start]
        + "import json, marshal, os, jsonschema, threading, contextlib, sys\n"
        + "from mcp_client_worker import engine; engine.build_validator({})\n"
        + "sys.modules['select'] = sys.modules['resource'] = None; sys.platform = 'win32'\n"
        + code[start:]
    )
    frames = [worker_pool._frames(question, 7) for question in _QUESTIONS]
    with subprocess.Popen(
        [sys.executable, "-I", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
        for question in frames:
            worker.stdin.write(b"".join(question))
            worker.stdin.flush()
            assert worker.stdout.readline() == b"{}\n"
        assert worker.wait(timeout=60) == 0, "it ends without a question"
