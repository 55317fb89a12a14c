"""A response that one process paused, resumed by others: what was sent is not sent again."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_client import Allow, ApprovalQueue, CallPending, Rule, Rules, StdioServer, sync
from tests.support.provider_shapes import CHAT
from tests.support.starting import scripted

AGENT = """
import json, sys
from mcp_client import ApprovalQueue, sync
from mcp_client.adapters import openai_chat
from tests.support.starting import scripted
directory, paused = sys.argv[1:]
queue = ApprovalQueue(decisions=f"{directory}/decisions.json", wait=0)
server = scripted("--calls", f"{directory}/calls")
with sync.connect(server, name="desk", approval=queue) as session:
    print("open", flush=True)
    sys.stdin.readline()
    kit = openai_chat.toolset(session.list_tools())
    print(json.dumps(kit.resume(session, paused, context="ana")), flush=True)
"""
_SECONDS = 60.0


class Desk:
    """A directory with the decisions, and the server that writes its calls there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.queue = ApprovalQueue(decisions=directory / "decisions.json", wait=0)
        self.server: StdioServer = scripted("--calls", str(directory / "calls"))

    @contextmanager
    def opened(self, approval: Any = None) -> Iterator[sync.Session]:
        with sync.connect(self.server, name="desk", approval=approval or self.queue) as session:
            yield session

    def paused(self, wanted: list[Any]) -> str:
        """A response with these calls, all of whose tickets are granted by now."""
        rules = Rules([Rule("allow", tool="length")], ask=self.queue)
        with self.opened(rules) as session:
            kit = CHAT.toolset(session.list_tools())
            with pytest.raises(CallPending) as caught:
                kit.run(session, CHAT.response(wanted), context="ana")
        self.queue.decide(caught.value.tickets, Allow(), by="bo")
        assert caught.value.paused
        return caught.value.paused

    @property
    def calls(self) -> list[Any]:
        lines = (self.directory / "calls").read_text().splitlines()
        return sorted(map(json.loads, lines), key=str)

    def states(self) -> list[str]:
        """Of the calls that are resumed, as the journal has them."""
        assert self.queue.paused is not None
        return sorted(call["state"] for call in self.queue.paused.list("calls").values())

    @contextmanager
    def agent(self, paused: str) -> Iterator[subprocess.Popen[str]]:
        words = [sys.executable, "-c", AGENT, str(self.directory), paused]
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()
            process.communicate(timeout=_SECONDS)


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


WANTED: list[Any] = [
    ("1", "length", {"text": "four"}),
    ("2", "echo", {"text": "granted"}),
    ("3", "never", {"n": 3}),
]
CALLS = [["echo", {"text": "granted"}], ["length", {"text": "four"}], ["never", {"n": 3}]]


@pytest.mark.slow
def test_what_a_killed_process_has_sent_is_not_sent_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    paused = desk.paused(WANTED)
    assert desk.calls == CALLS[1:2]
    with desk.agent(paused) as process:
        go(process)
        until = time.monotonic() + _SECONDS
        while desk.states() != ["claimed", "sent", "settled", "settled"] or desk.calls != CALLS:
            assert time.monotonic() < until, (desk.states(), desk.calls)
            time.sleep(0.01)
        process.kill()
    with desk.opened() as session:
        kit = CHAT.toolset(session.list_tools())
        messages = kit.resume(session, paused, context="ana")
        assert kit.resume(session, paused, context="ana") == messages
    texts = [text for _, text in CHAT.replies(messages)]
    assert texts[0].endswith("\n4")
    assert "granted" in texts[1]
    assert texts[2].startswith("It is not known how the call to the server 'desk' ended.")
    assert desk.calls == CALLS
    assert desk.queue.pending == ()


@pytest.mark.slow
def test_of_many_processes_and_threads_that_resume_at_once_one_sends(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    wanted = [WANTED[0], *((str(n), "echo", {"n": n}) for n in range(2, 6))]
    paused = desk.paused(wanted)
    found: list[Any] = []

    def resume(session: sync.Session) -> None:
        kit = CHAT.toolset(session.list_tools())
        found.append(kit.resume(session, paused, context="ana"))

    with desk.agent(paused) as one, desk.agent(paused) as other, desk.opened() as session:
        threads = [threading.Thread(target=resume, args=(session,)) for _ in range(3)]
        for process in (one, other):
            go(process)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_SECONDS)
        for process in (one, other):
            assert process.stdout is not None
            found.append(json.loads(process.stdout.readline()))
    assert len(found) == 5
    assert all(messages == found[0] for messages in found)
    assert [name for name, _ in desk.calls] == ["echo"] * 4 + ["length"]
