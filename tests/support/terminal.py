"""A person at a terminal, for tests: a pseudo-terminal, the content of its screen, and hands."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import sys
import termios
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pexpect  # type: ignore[import-untyped]
import pyte
import pytest

from mcp_client import ApprovalRequest, Finding, Tool, ToolCall, ask_on_terminal
from mcp_client.approval.decision import Answer
from mcp_client.protocol.canonical_json import canonical

PATIENCE = 30.0
_PROMPT = rb"(\n|\A)(\w[\w ]*\? \[[\w/]+\]|\d+/\d+>) \Z"
_MARK = b"\x1d"
CTRL_C, CTRL_D = "\x03", "\x04"


def screen_of(raw: bytes, columns: int) -> list[str]:
    """The lines a person sees, on a screen so high that nothing scrolls away."""
    screen = pyte.Screen(columns, raw.count(b"\n") + len(raw) // columns + 2)
    pyte.ByteStream(screen).feed(raw)
    lines = [line.rstrip() for line in screen.display]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def call_of(
    arguments: Any = None,
    *,
    name: str = "rm",
    server: str = "files",
    trusted: bool = False,
    meta: Any = None,
    findings: tuple[str, ...] = (),
    **definition: Any,
) -> ToolCall:
    passed = {"name": name, "inputSchema": {"type": "object"}, **definition}
    tool = Tool(name, server, trusted, passed)
    return ToolCall(
        id="1",
        server=server,
        tool=tool,
        arguments_json=canonical({"path": "/"} if arguments is None else arguments),
        meta_json=None if meta is None else canonical(meta),
        hints=tool.hints,
        findings=tuple(Finding("odd_name", text) for text in findings),
        generation=1,
    )


class Desk:
    """A terminal in this process: ``sit`` makes it standard input and standard error."""

    def __init__(self, patch: pytest.MonkeyPatch, columns: int = 80, rows: int = 60) -> None:
        self.columns = columns
        self._master, self.slave = os.openpty()
        self.resize(rows)
        self.raw = bytearray()
        self._looked = 0
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._files = [os.fdopen(self.slave, mode, closefd=False) for mode in ("r", "w")]
        self._patch = patch
        patch.setenv("TERM", "xterm")
        self.settings = termios.tcgetattr(self.slave)

    def resize(self, rows: int) -> None:
        size = struct.pack("HHHH", rows, self.columns, 0, 0)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, size)

    async def screen(self) -> list[str]:
        """The content of the screen once all that was written has come."""
        os.write(self.slave, _MARK)
        await self.until(_MARK.decode())
        self._looked -= 1
        del self.raw[self._looked]
        return screen_of(bytes(self.raw), self.columns)

    def sit(self) -> None:
        """Be the terminal of this process; in the test itself, for pytest has its own before."""
        self._patch.setattr(sys, "stdin", self._files[0])
        self._patch.setattr(sys, "stderr", self._files[1])

    async def ask(self, request: ApprovalRequest) -> Answer:
        self.sit()
        return await ask_on_terminal(request)

    async def asked(
        self,
        request: Any,
        *lines: str,
        ask: Callable[[Any], Awaitable[Any]] = ask_on_terminal,
    ) -> Any:
        """Return the response of a person who types ``lines``, one at each prompt."""
        answers: list[Any] = []

        async def asking() -> None:
            self.sit()
            answers.append(await ask(request))

        async with anyio.create_task_group() as group:
            group.start_soon(asking)
            await self.answer(*lines)
        assert termios.tcgetattr(self.slave) == self.settings
        return answers[0]

    async def until(self, text: str) -> None:
        """Until ``text`` is written, after what was waited for before."""
        with anyio.fail_after(PATIENCE + 5):
            found = await anyio.to_thread.run_sync(self._wait, re.escape(text.encode()))
        assert found, f"{text!r} never came in {bytes(self.raw)!r}"

    async def answer(self, *lines: str) -> None:
        """Wait for each prompt and type; a control character is typed alone."""
        for line in lines:
            await self.prompted()
            self.type(line if line in (CTRL_C, CTRL_D) else line + "\n")

    async def prompted(self) -> None:
        """Until a line that is not ended waits for an answer."""
        with anyio.fail_after(PATIENCE + 5):
            found = await anyio.to_thread.run_sync(self._wait, _PROMPT)
        assert found, f"no prompt came in {bytes(self.raw)!r}"

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def close(self) -> None:
        for file in self._files:
            file.close()
        os.close(self.slave)
        self._reader.join(PATIENCE)
        os.close(self._master)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65_536)
            except OSError:  # the other end is closed
                return
            with self._news:
                self.raw += data
                self._news.notify_all()

    def _wait(self, pattern: bytes) -> bool:
        def found() -> re.Match[bytes] | None:
            return re.compile(pattern).search(self.raw, self._looked)

        with self._news:
            there = self._news.wait_for(found, PATIENCE)
            if there:
                self._looked = there.end()
            return there is not None


class Program:
    """``tests/support/at_terminal.py``, started as a shell does: the terminal controls it."""

    def __init__(self, passed: str, columns: int = 80, env: dict[str, str] | None = None) -> None:
        script = Path(__file__).with_name("at_terminal.py")
        self.raw = bytearray()
        self.columns = columns
        self.child = pexpect.spawn(
            sys.executable,
            [str(script), passed],
            timeout=PATIENCE,
            dimensions=(60, columns),
            env={**os.environ, "VISUAL": "", "EDITOR": "", **(env or {})},
            maxread=65_536,
        )
        self.child.delaybeforesend = None
        self.child.logfile_read = self

    def write(self, data: bytes) -> None:
        self.raw += data

    def flush(self) -> None: ...

    @property
    def screen(self) -> list[str]:
        return screen_of(bytes(self.raw), self.columns)

    def until(self, text: str) -> None:
        self.child.expect_exact(text)

    def answer(self, *lines: str, prompt: str = "] ") -> None:
        for line in lines:
            self.until(prompt)
            self.type(line if line in (CTRL_C, CTRL_D) else line + "\n")

    def type(self, text: str) -> None:
        self.child.send(text)

    def rest(self) -> list[str]:
        """Until the program ends; what it printed without the questions."""
        self.child.expect(pexpect.EOF)
        self.child.close()
        return [found[0] for line in self.screen if (found := re.search("= [A-Z].*", line))]
