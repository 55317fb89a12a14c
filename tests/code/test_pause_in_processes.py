"""A process that is killed while a script of it waits for a person: another one goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_client import Allow, ApprovalQueue, CallPending, FileState, Rule, Rules, sync
from tests.support.provider_shapes import CHAT
from tests.support.starting import scripted

CODE = "print(await talk.length(text='four'))\nprint(await talk.echo(text='granted'))"
RESPONSE = CHAT.response([("1", "run_code", {"code": CODE})])
AGENT = f"""
import json, sys
from mcp_client import ApprovalQueue, CallPending, FileState, Rule, Rules, sync
from mcp_client.adapters import openai_chat
from tests.support.starting import scripted
directory, wait = sys.argv[1:]
state = FileState(f"{{directory}}/state")
queue = ApprovalQueue(decisions=state.decisions, wait=None if wait == "forever" else 0)
rules = Rules([Rule("allow", tool="length", origin="code")], ask=queue)
server = scripted("--calls", f"{{directory}}/calls")
with sync.connect(server, name="talk", approval=rules, state=state) as session:
    kit = openai_chat.toolset(session.list_tools(), code=True)
    try:
        kit.run(session, {RESPONSE!r}, idempotency_prefix="talk-1")
    except CallPending as pending:
        print(pending.paused, flush=True)
    sys.stdin.readline()
"""
_SECONDS = 60.0


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + _SECONDS
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


@contextmanager
def agent(directory: Path, wait: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", AGENT, str(directory), wait],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=_SECONDS)


@contextmanager
def opened(directory: Path) -> Iterator[tuple[sync.Session, ApprovalQueue]]:
    state = FileState(directory / "state")
    queue = ApprovalQueue(decisions=state.decisions, wait=0)
    rules = Rules([Rule("allow", tool="length", origin="code")], ask=queue)
    server = scripted("--calls", str(directory / "calls"))
    with sync.connect(server, name="talk", approval=rules, state=state) as session:
        yield session, queue


def calls(directory: Path) -> list[Any]:
    return [json.loads(line) for line in (directory / "calls").read_text().splitlines()]


BOTH = [["length", {"text": "four"}], ["echo", {"text": "granted"}]]


def check(directory: Path, messages: Any) -> None:
    ((_, reported),) = CHAT.replies(messages)
    lines = reported.splitlines()[1:]
    assert lines[0] == "4"
    assert "granted" in lines[1]
    assert calls(directory) == BOTH


def interpreters(process: int) -> list[Path]:
    """The processes of Monty among the children of ``process``."""
    found = []
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in (task / "children").read_text().split():
            if b"monty" in (Path("/proc") / child / "cmdline").read_bytes():
                found.append(Path("/proc") / child)
    return found


def is_gone(process: Path) -> bool:
    try:
        return "State:\tZ" in (process / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.slow
def test_a_run_that_was_paused_goes_on_where_its_process_was_killed(tmp_path: Path) -> None:
    with agent(tmp_path, "no") as process:
        assert process.stdout is not None
        paused = process.stdout.readline().strip()
        process.kill()
    assert calls(tmp_path) == BOTH[:1]
    with opened(tmp_path) as (session, queue):
        queue.decide([one.id for one in queue.pending], Allow(), by="ana")
        kit = CHAT.toolset(session.list_tools(), code=True)
        check(tmp_path, kit.resume(session, paused))
        check(tmp_path, kit.resume(session, paused))


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_run_whose_process_was_killed_while_it_waits_is_run_again_and_repeats_no_call(
    tmp_path: Path,
) -> None:
    watching = ApprovalQueue(decisions=FileState(tmp_path / "state").decisions, wait=0)
    with agent(tmp_path, "forever") as process:
        until(lambda: watching.pending)
        (interpreter,) = interpreters(process.pid)
        process.kill()
    assert until(lambda: is_gone(interpreter))
    assert calls(tmp_path) == BOTH[:1]
    with opened(tmp_path) as (session, queue):
        kit = CHAT.toolset(session.list_tools(), code=True)
        with pytest.raises(CallPending) as caught:  # no one waits for the first question any more
            kit.run(session, RESPONSE, idempotency_prefix="talk-1")
        assert calls(tmp_path) == BOTH[:1]
        queue.decide(caught.value.tickets, Allow(), by="ana")
        for _ in range(2):
            check(tmp_path, kit.run(session, RESPONSE, idempotency_prefix="talk-1"))
