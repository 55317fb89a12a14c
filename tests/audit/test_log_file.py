"""The audit log against crashes, full disks, other processes, and a person who rewrites it."""

from __future__ import annotations

import errno
import fcntl
import gc
import hashlib
import hmac
import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import AuditLog, CallDenied, ConfigError, MemoryServer, allow_all, connect
from mcp_client.audit import Verified, verify_audit
from mcp_client.audit.hash_chain import opened_files
from mcp_client.errors import AuditError
from tests.support.properties import examples

pytestmark = pytest.mark.one_backend

KEY = b"sixteen bytes or more"
SMALL: dict[str, Any] = {"max_bytes": 4_096}
BOUND = 120.0


def entry(number: int, event: str = "opened", **more: Any) -> dict[str, Any]:
    about = {"time": "now", "process": 7, "call": f"c-{number}", "server": "s", "tool": "t"}
    return {"event": event, **about, **more}


def written(path: Path, count: int = 5, **options: Any) -> AuditLog:
    log = AuditLog(path, **options)
    for number in range(count):
        log.append(entry(number), entry(number, "closed", note="ä\n\x00"))
    return log


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


# -------------------------------------------------------------------- what is written


def test_a_log_can_be_checked_without_this_package(path: Path) -> None:
    written(path)
    previous = "0" * 64
    for number, line in enumerate(lines_of(path), 1):
        head, _, seal = line.rpartition(b',"hash":"')
        record = json.loads(line)
        assert (record["line"], record["previous"]) == (number, previous)
        previous = hashlib.sha256(head).hexdigest()
        assert seal == previous.encode() + b'"}\n'
    assert verify_audit(path).last_hash == previous


def test_lines_of_a_keyed_log_cannot_be_forged_without_the_key(path: Path) -> None:
    written(path, key=KEY)
    head, _, seal = lines_of(path)[0].rpartition(b',"hash":"')
    assert seal[:64].decode() == hmac.new(KEY, head, "sha256").hexdigest()
    assert verify_audit(path, key=KEY).keyed
    for other in (None, b"another key of sixteen"):
        with pytest.raises(AuditError, match="key"):
            verify_audit(path, key=other)
        with pytest.raises(AuditError, match="key"):
            AuditLog(path, key=other).append(entry(9))


def test_a_whole_log_states_how_much_there_is_and_what_is_open(path: Path) -> None:
    log = written(path)
    log.append(entry(8))
    verified = verify_audit(path)
    assert (verified.lines, verified.calls, verified.earlier, verified.repaired) == (12, 6, 0, 0)
    (left,) = verified.open_calls
    assert (left.call, left.server, left.tool, left.process, left.line) == ("c-8", "s", "t", 7, 12)
    assert not verified.keyed


def test_records_that_a_caller_appends_do_no_harm(path: Path) -> None:
    for odd in ({}, {"event": "opened"}, {"event": "opened", "process": "x", "call": [1]}):
        AuditLog(path).append(odd)
    assert [left.process for left in verify_audit(path).open_calls] == [0, 0]


def test_the_file_is_its_owners_alone_whatever_the_umask(path: Path) -> None:
    before = os.umask(0o277)
    try:
        log = AuditLog(path)
        log.append(entry(1))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    log.append(entry(2))


def test_two_records_of_one_append_are_together_or_not_at_all(path: Path) -> None:
    log = written(path, 1)
    with pytest.raises(AuditError, match="more than"):
        log.append(entry(2), entry(3, text="x" * 1_000_000))
    assert verify_audit(path).lines == 3


def test_a_record_cannot_take_the_place_of_what_the_chain_states(path: Path) -> None:
    AuditLog(path).append({"line": 7, "file": 7, "previous": "x", "hash": "y", "event": "note"})
    assert verify_audit(path).lines == 2


# ------------------------------------------------------------------------ many writers

WRITER = """
import sys
from mcp_client import AuditLog
log = AuditLog(sys.argv[1], max_bytes=int(sys.argv[4]))
for number in range(int(sys.argv[3])):
    log.append({"event": "note", "writer": sys.argv[2], "number": number})
"""


def write_at_once(path: Path, writers: int, count: int, max_bytes: int) -> None:
    run = [sys.executable, "-c", WRITER, str(path)]
    started = [
        subprocess.Popen([*run, str(number), str(count), str(max_bytes)])
        for number in range(writers)
    ]
    assert [process.wait(120) for process in started] == [0] * writers


def notes_of(verified: Verified) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for file in verified.files:
        for line in lines_of(Path(file)):
            record = json.loads(line)
            if record["event"] == "note":
                found.setdefault(record["writer"], []).append(record["number"])
    return found


@pytest.mark.slow
def test_of_two_processes_that_append_10_000_lines_each_none_is_lost(path: Path) -> None:
    write_at_once(path, 2, 10_000, 2**30)
    verified = verify_audit(path)
    assert verified.lines == 20_001
    assert notes_of(verified) == {"0": list(range(10_000)), "1": list(range(10_000))}


@pytest.mark.slow
def test_processes_that_append_while_files_are_rotated_lose_none(path: Path) -> None:
    write_at_once(path, 3, 300, 4_096)
    verified = verify_audit(path)
    assert len(verified.files) > 30
    assert notes_of(verified) == {str(n): list(range(300)) for n in range(3)}
    assert all(Path(file).stat().st_size <= 4_096 for file in verified.files)


def test_threads_that_share_a_log_lose_no_line(path: Path) -> None:
    log = AuditLog(path)

    def work(name: str) -> None:
        for number in range(200):
            log.append({"event": "note", "writer": name, "number": number})

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert notes_of(verify_audit(path)) == {name: list(range(200)) for name in "abcd"}


def open_files() -> list[str]:
    files = Path("/proc/self/fd")
    return [os.readlink(each) for each in files.iterdir() if each.is_symlink()]


async def test_a_log_is_open_until_its_session_is_closed(path: Path) -> None:
    async with connect(MemoryServer(echo), approval=allow_all, audit=path) as session:
        for _ in range(3):
            await session.call_tool("echo")
        assert open_files().count(str(path)) == 1
    assert str(path) not in open_files()


def test_a_log_that_is_no_longer_used_is_closed(path: Path) -> None:
    log = written(path, 2)
    assert open_files().count(str(path)) == 1
    del log
    gc.collect()
    assert str(path) not in open_files()


def test_a_process_that_was_forked_waits_for_its_parent_s_lock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, write = written(path, 2), AuditLog._write
    (go, goes), (reply, answers) = os.pipe(), os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
        child = os.fork()
    if child == 0:
        os.close(goes)
        os.read(go, 1)
        os.write(answers, b"written" if log.append_now(entry(8)) else b"busy")
        os._exit(0)
    os.close(answers)
    reported = []

    def pausing(self: AuditLog, *args: Any) -> None:
        os.close(goes)
        reported.append(os.read(reply, 10))
        write(self, *args)

    monkeypatch.setattr(AuditLog, "_write", pausing)
    assert log.append_now(entry(9))
    os.waitpid(child, 0)
    for each in (go, reply):
        os.close(each)
    assert reported == [b"busy"]


def test_a_link_in_the_place_of_a_log_that_is_open_is_not_followed(path: Path) -> None:
    log = written(path, 2)
    moved = path.rename(path.with_name("moved.jsonl"))
    path.symlink_to(moved)
    with pytest.raises(AuditError, match=r"symbolic link|levels of"):
        log.append(entry(3))


@pytest.mark.both_backends
async def test_a_call_waits_in_a_thread_while_another_process_holds_the_log(path: Path) -> None:
    log = written(path, 1)
    held = os.open(path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert not log.append_now(entry(5))
    seen: list[str] = []

    async def call() -> None:
        async with connect(MemoryServer(echo), approval=allow_all, audit=log) as session:
            seen.append((await session.call_tool("echo")).text)

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        assert not seen, "the loop goes on, and the call waits"
        os.close(held)
    assert seen == ["ran"]
    assert verify_audit(path).calls == 2


# ------------------------------------------------------------------------- tampering


def broken(path: Path, **options: Any) -> AuditError:
    with pytest.raises(AuditError) as caught:
        verify_audit(path, **options)
    assert caught.value.reason in str(caught.value)
    return caught.value


@examples(100)
@given(st.data())
def test_one_byte_changed_anywhere_is_found_on_its_line(
    tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "calls.jsonl"
    if not path.exists():
        written(path, 3)
        (tmp_path / "whole").write_bytes(path.read_bytes())
    whole = (tmp_path / "whole").read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
    path.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
    assert broken(path).line == whole[:place].count(b"\n") + 1


TAMPERING: dict[str, tuple[Callable[[list[bytes]], list[bytes]], int, str]] = {
    "the first removed": (lambda ls: ls[1:], 1, "at the beginning of the file"),
    "one removed": (lambda ls: ls[:3] + ls[4:], 4, "1 lines before it are missing"),
    "several removed": (lambda ls: ls[:3] + ls[6:], 4, "3 lines before it are missing"),
    "two swapped": (lambda ls: [*ls[:3], ls[4], ls[3], *ls[5:]], 4, "missing"),
    "one twice": (lambda ls: ls[:4] + ls[3:], 5, "inserted or moved"),
    "one inserted": (lambda ls: [*ls[:4], b'{"event":"opened"}\n', *ls[4:]], 5, "changed"),
    "an empty line": (lambda ls: [*ls[:4], b"\n", *ls[4:]], 5, "changed"),
    "the end cut in a line": (lambda ls: [*ls[:-1], ls[-1][:40]], 11, "cut off"),
    "its newline": (lambda ls: [*ls[:-1], ls[-1][:-1]], 11, "cut off"),
    "something after it": (lambda ls: [*ls, b"x"], 12, "changed"),
    "zeros after it": (lambda ls: [*ls, b"\0" * 9_999], 12, "changed"),
    "a long line": (lambda ls: [*ls, b"x" * 3_000_000 + b"\n"], 12, "changed"),
    "the whole twice": (lambda ls: ls + ls, 12, "inserted or moved"),
}


@pytest.mark.parametrize("how", TAMPERING)
def test_what_was_done_to_the_lines_is_found_and_where(how: str, path: Path) -> None:
    written(path)
    change, line, reason = TAMPERING[how]
    path.write_bytes(b"".join(change(lines_of(path))))
    error = broken(path)
    assert error.line == line
    assert reason in error.reason
    assert error.path == str(path)


def test_a_rewritten_line_is_found_where_later_lines_are_unchanged(path: Path) -> None:
    written(path)
    lines = lines_of(path)
    head = lines[4].rpartition(b',"hash":"')[0].replace(b"c-1", b"c-9")
    assert head not in lines[4]
    lines[4] = head + b',"hash":"' + hashlib.sha256(head).hexdigest().encode() + b'"}\n'
    path.write_bytes(b"".join(lines))
    error = broken(path)
    assert error.line == 6, "the line itself is sound, and the next does not follow it"


def test_a_line_taken_out_and_all_others_chained_again_without_a_new_count_is_found(
    path: Path,
) -> None:
    written(path)
    previous, made = "0" * 64, []
    for line in [*lines_of(path)[:3], *lines_of(path)[4:]]:
        record = json.loads(line)
        del record["hash"]
        head = json.dumps({**record, "previous": previous}, separators=(",", ":"))[:-1].encode()
        previous = hashlib.sha256(head).hexdigest()
        made.append(head + b',"hash":"' + previous.encode() + b'"}\n')
    path.write_bytes(b"".join(made))
    assert broken(path).line == 4


def test_lines_cut_off_at_the_end_show_where_their_hash_was_noted(path: Path) -> None:
    log = written(path)
    noted = verify_audit(path).last_hash
    log.append(entry(8))
    assert verify_audit(path, noted=noted).lines == 12
    path.write_bytes(b"".join(lines_of(path)[:-2]))
    assert verify_audit(path).lines == 10, "without it, nothing shows, as documented"
    assert broken(path, noted=noted).reason.startswith("the noted line is missing")


def test_a_changed_last_line_is_not_built_upon(path: Path) -> None:
    written(path)
    path.write_bytes(path.read_bytes().replace(b"c-4", b"c-9"))
    with pytest.raises(AuditError, match="does not end with a line of this log"):
        AuditLog(path).append(entry(9))


@pytest.mark.parametrize(
    "content", [b"{}", b'{"servers": {}}\n', b"text", b"\n", b"\xff" * 2_000_000]
)
def test_a_file_that_is_something_else_is_left_as_it_is(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(AuditError):
        AuditLog(path).append(entry(1))
    assert path.read_bytes() == content
    assert broken(path).line == 1


def test_a_missing_log_or_a_directory_is_a_config_error(path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        verify_audit(path)
    path.mkdir()
    with pytest.raises(ConfigError):
        verify_audit(path)


# --------------------------------------------------------------------------- crashes


@pytest.mark.parametrize(
    "rest", [b'{"line":', b'{"line":7,"file":1', b"{", b"\0" * 500, b"\xff\n\xff"]
)
@pytest.mark.parametrize("key", [None, KEY])
def test_a_line_cut_off_by_a_crash_is_left_and_the_next_reports_it(
    rest: bytes, key: bytes | None, path: Path
) -> None:
    written(path, 2, key=key)
    before = path.read_bytes()
    path.write_bytes(before + rest)
    broken(path, key=key)
    AuditLog(path, key=key).append(entry(7))
    assert path.read_bytes().startswith(before + rest + b"\n")
    verified = verify_audit(path, key=key)
    assert (verified.repaired, verified.lines, verified.calls) == (1, 7, 3)
    reported = json.loads(lines_of(path)[-2])
    assert (reported["event"], reported["bytes"]) == ("repaired", len(rest))


def test_a_line_that_lacks_nothing_but_its_newline_is_given_it(path: Path) -> None:
    written(path, 2)
    path.write_bytes(path.read_bytes()[:-1])
    AuditLog(path).append(entry(7))
    assert (verify_audit(path).lines, verify_audit(path).repaired) == (6, 0)


@pytest.mark.parametrize("size", [1, 9, 100])
def test_a_file_whose_first_line_was_cut_off_goes_on(size: int, path: Path) -> None:
    written(path, 1)
    path.write_bytes(path.read_bytes()[:size])
    AuditLog(path).append(entry(1))
    AuditLog(path).append(entry(2))
    verified = verify_audit(path)
    assert (verified.lines, verified.repaired, verified.calls) == (3, 1, 2)
    assert {json.loads(line)["file"] for line in path.read_bytes().splitlines()[-3:]} == {1}


def test_a_crash_during_the_repair_of_a_crash_is_recorded_too(path: Path) -> None:
    written(path, 1)
    path.write_bytes(path.read_bytes() + b'{"line":4,"fi\n{"line":4,"file":1,"prev')
    AuditLog(path).append(entry(7))
    assert verify_audit(path).repaired == 1


def test_the_record_of_a_crash_cannot_be_changed_or_forged(path: Path) -> None:
    log = written(path, 2)
    path.write_bytes(path.read_bytes() + b'{"line":6,"x')
    log.append(entry(7))
    lines = lines_of(path)
    for change in (
        [*lines[:5], b'{"line":6,"y\n', *lines[6:]],  # what was cut off is another thing
        [*lines[:5], *lines[6:]],  # it is gone
        [*lines[:4], b"x\n", *lines[5:]],  # it is reported for a line that is not the one before
        [*lines, b"x\n"],
    ):
        path.write_bytes(b"".join(change))
        broken(path)


KILLED = """
import sys, anyio
from mcp_client import MemoryServer, connect

def echo(message):
    if message["method"] == "tools/list":
        return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    return NotImplemented

async def approve(call):
    print("asking", flush=True)
    await anyio.sleep_forever()

async def main():
    server = MemoryServer(echo)
    async with connect(server, approval=approve, audit=sys.argv[1], name="s") as session:
        await session.call_tool("echo", {"a": 1})

anyio.run(main)
"""


def test_a_process_killed_while_it_asks_leaves_a_call_that_is_open(path: Path) -> None:
    run = [sys.executable, "-c", KILLED, str(path)]
    with subprocess.Popen(run, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"asking\n"
        process.send_signal(signal.SIGKILL)
    (left,) = verify_audit(path).open_calls
    assert (left.server, left.tool, left.process) == ("s", "echo", process.pid)
    AuditLog(path).append(entry(1))
    assert left in verify_audit(path).open_calls, "until a person has looked into it"


# ------------------------------------------------------- disks and files that fail


def echo(message: dict[str, Any]) -> Any:
    match message["method"]:
        case "tools/list":
            return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            sent.append(message)
            return {"content": [{"type": "text", "text": "ran"}]}
    return NotImplemented


sent: list[dict[str, Any]] = []


async def refused(audit: Any) -> str:
    """The reason for which a call that cannot be recorded was refused."""
    sent.clear()
    async with connect(MemoryServer(echo), approval=allow_all, audit=audit) as session:
        with pytest.raises(CallDenied) as caught:
            await session.call_tool("echo")
    assert sent == []
    return caught.value.reason


async def test_a_file_that_cannot_be_written_refuses_the_call(path: Path) -> None:
    assert "not a regular file" in await refused("/dev/full")
    path.mkdir()
    assert "Is a directory" in await refused(path)
    assert "No such file" in await refused(path.parent / "none" / "calls.jsonl")
    assert "Not a directory" in await refused("/dev/null/calls.jsonl")


async def test_a_pipe_in_place_of_a_log_is_refused_without_waiting(path: Path) -> None:
    os.mkfifo(path)
    assert "not a regular file" in await refused(path)


async def test_a_symbolic_link_is_not_followed(path: Path) -> None:
    target = path.with_name("target")
    path.symlink_to(target)
    assert "symbolic links" in await refused(path)
    assert not target.exists()


@pytest.mark.skipif(not hasattr(os, "O_NOATIME"), reason="the system has no such flag")
def test_a_log_of_another_owner_is_opened_without_the_flag_that_only_owners_may_use(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    really_open = os.open

    def as_another_user(name: Any, flags: int, *rest: Any, **more: Any) -> int:
        asked.append(bool(flags & os.O_NOATIME))
        if asked[-1]:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return really_open(name, flags, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", as_another_user)
        written(path)
    assert asked[:2] == [True, False]
    assert verify_audit(path).lines == 11


async def test_a_file_that_others_may_write_to_is_refused(path: Path) -> None:
    written(path, 1)
    path.chmod(0o620)
    assert "others may write" in await refused(path)
    path.chmod(0o640)
    AuditLog(path).append(entry(1))


async def test_a_full_disk_refuses_the_call_and_leaves_no_half_line(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(path, 1)
    before, write = path.read_bytes(), os.write

    def full(file: int, data: bytes) -> int:
        if os.fstat(file).st_size > len(before):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data[:50])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        assert "No space left on device" in await refused(path)
        assert path.read_bytes() == before
    AuditLog(path).append(entry(2))
    assert verify_audit(path).repaired == 0


LIMITED = """
import resource, sys
from mcp_client import AuditLog
from mcp_client.errors import AuditError
log = AuditLog(sys.argv[1])
log.append({"event": "note", "number": 0})
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
try:
    for number in range(100):
        log.append({"event": "note", "number": number})
except AuditError as error:
    print(error.reason)
"""


def test_a_write_that_the_system_cuts_short_is_taken_back(path: Path) -> None:
    run = [sys.executable, "-c", LIMITED, str(path)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert "File too large" in done.stdout
    assert 0 < path.stat().st_size < 3_000, "the last line did not fit, and is not there in part"
    assert verify_audit(path).repaired == 0


async def test_a_disk_that_fails_to_sync_refuses_the_call(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(file: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fails)
    assert "Input/output error" in await refused(AuditLog(path, fsync=True))


def test_a_log_stays_where_it_was_though_the_program_goes_elsewhere(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    log = AuditLog(path.name)
    log.append(entry(1))
    monkeypatch.chdir("/")
    log.append(entry(2))
    assert verify_audit(path).calls == 2


# ----------------------------------------------------------- a log that lost its lines


def gone(path: Path) -> None:
    path.unlink()


def moved(path: Path) -> None:
    path.rename(path.with_name("calls.jsonl.1"))


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("lose", [gone, moved, emptied])
def test_a_log_that_is_gone_while_the_host_runs_is_begun_where_it_ended_and_reports_it(
    lose: Callable[[Path], None],
    key: bytes | None,
    path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = written(path, 1, key=key)
    last = verify_audit(path, key=key)
    lose(path)
    log.append(entry(1))
    begun = json.loads(lines_of(path)[0])
    assert (begun["event"], begun["line"], begun["previous"]) == ("begun", 4, last.last_hash)
    assert begun["lost"]["last_line"] == last.lines
    assert begun["lost"]["last_hash"] == last.last_hash
    verified = verify_audit(path, key=key)
    assert (verified.lines, verified.earlier, verified.lost) == (2, 3, 1)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert last.last_hash in caplog.text
    assert log.take_losses() != []
    assert log.take_losses() == []
    log.append(entry(2))
    assert verify_audit(path, key=key).lost == 1, "and once is enough"


def cut(path: Path) -> None:
    path.write_bytes(b"".join(lines_of(path)[:-2]))


def cut_to_another_length(path: Path) -> None:
    path.write_bytes(b"".join(lines_of(path)[:2]))


def replaced(path: Path) -> None:
    path.unlink()
    written(path, 1)


def replaced_by_a_longer_one(path: Path) -> None:
    path.unlink()
    written(path, 20)


def rewritten(path: Path) -> None:
    """Every line after one of them, to the same length, with hashes that are right."""
    lines, previous = lines_of(path)[:3], json.loads(lines_of(path)[2])["hash"]
    for line in lines_of(path)[3:]:
        record = json.loads(line.replace(b'"t"', b'"u"'))
        del record["hash"]
        head = json.dumps({**record, "previous": previous}, separators=(",", ":"))[:-1].encode()
        previous = hashlib.sha256(head).hexdigest()
        lines.append(head + b',"hash":"' + previous.encode() + b'"}\n')
    size = path.stat().st_size
    path.write_bytes(b"".join(lines))
    assert path.stat().st_size == size


@pytest.mark.parametrize(
    "lose", [cut, cut_to_another_length, replaced, replaced_by_a_longer_one, rewritten]
)
def test_a_log_that_lost_lines_while_the_host_runs_cannot_be_verified_from_there(
    lose: Callable[[Path], None], path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = written(path, 3)
    last = verify_audit(path)
    lose(path)
    before = len(lines_of(path))
    log.append(entry(8))
    lost = json.loads(lines_of(path)[before])
    assert (lost["event"], lost["last_line"], lost["last_hash"]) == ("lost", 7, last.last_hash)
    assert broken(path).line == before + 1
    assert last.last_hash in caplog.text
    caplog.clear()
    log.append(entry(9))
    assert len(lines_of(path)) == before + 3
    assert not caplog.records


def test_a_log_that_others_write_to_and_rotate_has_lost_nothing(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for keep in (None, 2):
        mine, other = (AuditLog(path, keep=keep, **SMALL) for _ in range(2))
        for number in range(30):
            mine.append(entry(number))
            for more in range(number % 4 * 5):
                other.append(entry(more))
        assert verify_audit(path).lost == 0
    assert not caplog.records


async def test_the_caller_is_informed_of_lines_that_are_gone(path: Path) -> None:
    async with connect(MemoryServer(echo), approval=allow_all, audit=path) as session:
        assert (await session.call_tool("echo")).findings == ()
        path.unlink()
        (finding,) = (await session.call_tool("echo")).findings
        assert "was deleted, moved away or emptied while it was written: its line 3" in str(finding)
        assert (await session.call_tool("echo")).findings == ()
    assert verify_audit(path).lost == 1


def test_a_lock_that_is_held_does_not_stop_a_verification(path: Path, without_pauses: None) -> None:
    written(path, 1)
    held = os.open(path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert verify_audit(path).lines == 3
    os.close(held)


def test_a_log_that_is_being_verified_can_be_written_to(path: Path) -> None:
    written(path, 1)
    files = opened_files(path)
    next(files)
    writer = os.open(path, os.O_RDONLY)
    fcntl.flock(writer, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError where it is locked
    os.close(writer)
    files.close()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_file_that_others_may_read_is_closed_to_them_again(mode: int, path: Path) -> None:
    log = written(path, 1)
    path.chmod(mode)
    log.append(entry(1))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# --------------------------------------------------------------------------- rotation


def test_files_are_rotated_by_size_and_checked_as_one_chain(path: Path) -> None:
    written(path, 30, **SMALL)
    verified = verify_audit(path)
    assert [Path(file).name for file in verified.files] == [
        *(f"calls.jsonl.{n:06d}" for n in range(1, len(verified.files))),
        "calls.jsonl",
    ]
    assert len(verified.files) > 3
    assert (verified.calls, verified.open_calls, verified.earlier) == (30, (), 0)
    for number, file in enumerate(verified.files, 1):
        first = json.loads(lines_of(Path(file))[0])
        assert (first["event"], first["file"]) == ("begun", number)
        assert Path(file).stat().st_size <= 4_096
        assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600


def test_the_oldest_files_go_and_the_rest_states_how_much_is_missing(path: Path) -> None:
    written(path, 40, keep=2, **SMALL)
    verified = verify_audit(path)
    assert len(verified.files) == 3
    assert verified.earlier == json.loads(lines_of(path)[-1])["line"] - verified.lines > 0


def test_a_file_taken_out_of_the_middle_is_missed(path: Path) -> None:
    written(path, 30, **SMALL)
    path.with_name("calls.jsonl.000002").unlink()
    error = broken(path)
    assert error.path.endswith(".000003")
    assert "lines before it are missing" in error.reason


def test_files_in_the_wrong_order_are_found(path: Path) -> None:
    written(path, 30, **SMALL)
    one, two = (path.with_name(f"calls.jsonl.00000{n}") for n in (1, 2))
    one.rename(path.with_name("x"))
    two.rename(one)
    path.with_name("x").rename(two)
    assert broken(path).path.endswith(".000002")


def test_a_crash_between_two_files_loses_nothing(path: Path) -> None:
    written(path, 2)
    path.rename(path.with_name("calls.jsonl.000001"))
    assert verify_audit(path).lines == 5
    AuditLog(path).append(entry(7))
    verified = verify_audit(path)
    assert (verified.lines, len(verified.files)) == (7, 2)


def test_a_file_is_never_renamed_over_another(path: Path) -> None:
    log = written(path, 2, **SMALL)
    path.with_name("calls.jsonl.000001").write_text("another program's")
    records = [entry(number) for number in range(8)]
    log.append(*records)
    with pytest.raises(AuditError, match="exists already"):
        log.append(*records)
    assert path.with_name("calls.jsonl.000001").read_text() == "another program's"


@pytest.mark.parametrize("keep", [None, 1])
def test_a_log_may_be_checked_while_it_is_rotated(keep: int | None, path: Path) -> None:
    def work() -> None:
        log = AuditLog(path, keep=keep, max_bytes=4_096)
        for number in range(150):
            log.append(entry(number), entry(number, "closed"))

    written(path, 1)
    writer = threading.Thread(target=work)
    writer.start()
    lines = [0]
    try:
        while writer.is_alive():
            verified = verify_audit(path)
            lines.append(verified.earlier + verified.lines)
    finally:
        writer.join()
    assert lines == sorted(lines)
    assert verify_audit(path).open_calls == ()


def test_a_file_that_is_rotated_while_it_is_opened_is_opened_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, flock = written(path, 2, **SMALL), fcntl.flock
    rotated: list[Any] = []

    def late(file: Any, operation: int) -> None:
        if operation & fcntl.LOCK_SH and not rotated:
            rotated.append(file)
            for number in range(40):
                log.append(entry(number), entry(number, "closed"))
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    verified = verify_audit(path)
    assert rotated
    assert len(verified.files) > 4
    assert verified.calls == 42


def test_a_file_that_is_just_being_begun_is_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = written(path, 2)
    path.rename(path.with_name("calls.jsonl.000001"))
    monkeypatch.setattr(time, "sleep", lambda seconds: log.append(entry(7)))
    verified = verify_audit(path)
    assert (len(verified.files), verified.calls) == (2, 3)


def test_a_log_that_is_renamed_before_each_line_gives_up(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, flock = written(path, 1), fcntl.flock

    def late(file: Any, operation: int) -> None:
        if operation & fcntl.LOCK_EX:
            path.unlink()
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(AuditError, match="renamed or deleted again and again"):
        log.append(entry(7))


def test_a_line_goes_to_the_file_that_was_begun_while_the_log_was_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, flock = written(path, 1), fcntl.flock
    first = path.with_name("calls.jsonl.000001")

    def late(file: Any, operation: int) -> None:
        if operation & fcntl.LOCK_EX and not first.exists():
            path.rename(first)
            AuditLog(path).append(entry(6))
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    log.append(entry(7))
    assert len(lines_of(first)) == 3
    assert [json.loads(line)["event"] for line in lines_of(path)] == ["begun", "opened", "opened"]
    assert verify_audit(path).lost == 0


def test_a_log_that_others_keep_locked_is_an_error_that_names_the_cause(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_client.audit.log_file._LOCK_SECONDS", 0.0)
    log = written(path, 1)
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(AuditError, match="other processes have been writing to it"):
            log.append(entry(7))
        assert log.append_now(entry(7)) is False
    log.append(entry(8))
    assert verify_audit(path).lines == 4


def test_a_file_is_not_begun_after_one_that_ends_within_a_line(path: Path) -> None:
    written(path, 2)
    first = path.with_name("calls.jsonl.000001")
    first.write_bytes(path.read_bytes()[:-9])
    path.unlink()
    with pytest.raises(AuditError, match=r"000001 does not end with a whole line"):
        AuditLog(path).append(entry(7))


def test_a_log_replaced_beside_an_older_file_that_cannot_be_read_is_a_loss(path: Path) -> None:
    log = written(path, 2)
    other = path.with_name("other.jsonl")
    written(other, 1)
    other.rename(path)
    path.with_name("calls.jsonl.000001").write_text("x")
    log.append(entry(7))
    (loss,) = log.take_losses()
    assert "cut, changed or replaced" in loss
    assert log.take_losses() == []


def test_a_log_names_where_it_is(path: Path) -> None:
    assert repr(AuditLog(path, key=KEY)) == f"AuditLog({str(path)!r})"


WRONG: list[dict[str, Any]] = [
    {"path": 7},
    {"path": "x", "max_bytes": 10},
    {"path": "x", "max_bytes": "1 MiB"},
    {"path": "x", "keep": 0},
    {"path": "x", "keep": True},
    {"path": "x", "max_bytes": 4_095},
    {"path": "x", "max_bytes": True},
    {"path": "x", "code": 1},
    {"path": "x", "key": b"short"},
    {"path": "x", "key": "sixteen characters"},
]


@pytest.mark.parametrize("options", WRONG, ids=str)
def test_an_option_of_a_log_that_is_none_is_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        AuditLog(**options)


# -------------------------------------------------------------- threads, copies, forks


def test_a_thread_waits_for_another_for_a_bounded_time_and_its_record_is_not_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_client.audit.log_file._LOCK_SECONDS", 0.05)
    log, write = AuditLog(tmp_path / "calls.jsonl"), AuditLog._write
    inside, go_on = threading.Event(), threading.Event()

    def pausing(self: AuditLog, *args: Any) -> None:
        inside.set()
        assert go_on.wait(BOUND)
        write(self, *args)

    monkeypatch.setattr(AuditLog, "_write", pausing)
    thread = threading.Thread(target=log.append, args=[entry(1)])
    thread.start()
    assert inside.wait(BOUND)
    with pytest.raises(AuditError, match="other processes have been writing"):
        log.append(entry(2))
    go_on.set()
    thread.join(BOUND)
    log.append(entry(3))
    assert [json.loads(line).get("call") for line in lines_of(log.path)] == [None, "c-1", "c-3"]


def test_threads_that_append_at_once_write_every_record_once(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "calls.jsonl", fsync=True, max_bytes=4_096)
    with ThreadPoolExecutor(20) as threads:
        list(threads.map(log.append, [entry(number) for number in range(200)]))
    assert verify_audit(log.path).calls == 200


def test_a_copy_of_a_log_goes_on_with_the_same_file(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "calls.jsonl", max_bytes=8_192, keep=2, fsync=True, key=b"k" * 16)
    log.append({"event": "note", "n": 1})
    copy = pickle.loads(pickle.dumps(log))
    for n in range(100):
        (copy, log)[n % 2].append({"event": "note", "n": n, "text": "x" * 200})
    assert (copy.path, copy.fsync, copy.key) == (log.path, True, b"k" * 16)
    assert verify_audit(log.path, key=b"k" * 16).lines > 20
    assert len(list(tmp_path.iterdir())) == 3, "the newest file, and two that are left"
    assert log.take_losses() == copy.take_losses() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_while_a_thread_writes_keeps_neither_process_from_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, write = AuditLog(tmp_path / "calls.jsonl"), AuditLog._write
    inside, written = threading.Event(), threading.Event()

    def pausing(self: AuditLog, *args: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            assert written.wait(BOUND)
        write(self, *args)

    monkeypatch.setattr(AuditLog, "_write", pausing)
    thread = threading.Thread(target=log.append, args=[{"n": 1}])
    thread.start()
    assert inside.wait(BOUND)
    gate, opens = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
        child = os.fork()
    if child == 0:
        os.close(opens)
        os.read(gate, 1)  # it lives until the parent has written, and then writes as well
        try:
            log.append({"n": 3})
        finally:
            os._exit(0 if len(log.path.read_text().splitlines()) == 4 else 1)
    written.set()
    thread.join(BOUND)
    assert log.append_now({"n": 2})  # at once: the child does not hold the lock
    os.close(opens)
    os.close(gate)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert verify_audit(log.path).lines == 4
