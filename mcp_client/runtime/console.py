r"""The terminal, for one dialogue at a time: everything that reads it in this package is here.

The question goes to standard error and the answer comes from standard input; both must be a
terminal. ``ask_at`` names another one, for a program whose standard input is a pipe. Lines are
edited by the terminal itself, as always. Three things differ while a dialogue is open, and are put
back on every way out:

- The interrupt key (Ctrl-C) sends no SIGINT, which would end the program: asyncio cancels the main
  task, and trio raises in the running task. The key arrives as a character instead, ends the line,
  and means no. Ctrl-Z and Ctrl-\ do what they always do.
- What was typed before the question was shown is discarded: it cannot be an answer to it. What is
  typed while a slow terminal still shows it is an answer.
- While a page is printed, the terminal does not wrap lines. So a character that is wider than
  ``console_layout`` expects cannot push untrusted text to the left margin of the next line.

Whichever program reads a terminal first gets the line. A host that reads standard input all the
time may get the line that was meant for us; then the question stays open, and nothing blocks. Other
output may be printed meanwhile; it moves the question up, and changes nothing else.

Without ``termios`` (Windows) a thread reads the line: Ctrl-C interrupts the program as
ever, what was typed ahead counts, and the thread stays until a line comes.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, NamedTuple, TextIO

import anyio

from .background import CrossLoopLock
from .console_layout import MIN_COLUMNS, Page
from .daemon_thread import in_daemon_thread

if sys.platform != "win32":
    import termios
else:
    termios: Any = None

__all__ = [
    "TRIES",
    "Console",
    "ask_at",
    "between_dialogues",
    "in_dialogue",
    "open_console",
    "terminal",
    "why_no_terminal",
    "write_notice",
]

TRIES = 3
"""The number of times that a person is asked for one of several words."""
_INTERRUPT = b"\x03"
_SHORT = {"yes": "y", "no": "n"}
_MAX_LINE_BYTES = 4_000
"""Bytes of a line; a terminal cuts off what is above 4095."""
_WRAP_OFF, _WRAP_ON = "\x1b[?7l", "\x1b[?7h"
_MAX_DEFERRED = 200
_lock = CrossLoopLock()
_deferred_lock = threading.RLock()
_deferred: list[Callable[[], None]] | None = None
"""The texts to show once the open dialogue has ended; None if none is open."""


class _Place(NamedTuple):
    """A place for questions and answers."""

    input: Any
    output: Any


_elsewhere: _Place | None = None


def ask_at(input: TextIO, output: TextIO) -> None:
    """Ask at this terminal from now on, instead of at standard input and standard error."""
    global _elsewhere
    _elsewhere = _Place(input, output)


def terminal() -> _Place:
    """Return the streams of the terminal at which questions are asked."""
    return _elsewhere or _Place(sys.stdin, sys.stderr)


def why_no_terminal() -> str | None:
    """Return the reason why a question cannot be asked at the terminal, or None."""
    if not all(map(_is_terminal, terminal())):
        return "no terminal to ask at"
    if sys.platform != "win32" and _in_background(terminal().input.fileno()):
        return "the program is in the background of its terminal, and cannot ask"
    if 0 < _size()[0] < MIN_COLUMNS:
        return f"the terminal is narrower than {MIN_COLUMNS} columns"
    return None


@asynccontextmanager
async def open_console() -> AsyncIterator[Console]:
    """Open the terminal for one dialogue: one at a time, in the order asked for.

    After an exception, a cancellation included, the question is withdrawn and the screen states it.
    """
    async with _lock.turn() as waited:
        with _undisturbed(), _reader() as fd:
            console = Console(fd, waited)
            with console.listening():
                yield console


@contextmanager
def _undisturbed() -> Iterator[None]:
    global _deferred
    with _deferred_lock:
        _deferred = []
    try:
        yield
    finally:
        with _deferred_lock:
            deferred, _deferred = _deferred, None
            for show in deferred or ():
                show()


def in_dialogue() -> bool:
    """Whether a dialogue is open."""
    return _deferred is not None


def between_dialogues(show: Callable[[], None]) -> None:
    """Call ``show`` now, or when the open dialogue has ended.

    From any thread. Of more than 200 in one dialogue the first are shown.
    """
    with _deferred_lock:
        if _deferred is None:
            show()
        elif len(_deferred) < _MAX_DEFERRED:
            _deferred.append(show)


async def write_notice(text: str) -> None:
    """Show a text between dialogues. Nothing is asked, and the interrupt key does what it did."""
    async with _lock.turn():
        Console(None)._write(text + "\n")


class Console:
    """A dialogue at the terminal."""

    def __init__(self, fd: int | None, waited: bool = False) -> None:
        self._fd = fd
        self.waited = waited
        """Whether another dialogue had to end first."""
        self._interrupt = _INTERRUPT
        self._is_written = False
        """Whether a part of the next question is on the screen."""
        self._before: list[Any] = []
        self._while_asking: list[Any] = []

    @property
    def height(self) -> int:
        """The lines of the terminal."""
        return _size()[1] or 24

    def page(self) -> Page:
        """Return an empty page of the terminal's width."""
        return Page(_size()[0] or 80, terminal().output.encoding or "ascii")

    def show(self, page: Page) -> None:
        """Show a page."""
        text = "\n".join(page.lines)
        obeys_sequences = sys.platform != "win32" and os.environ.get("TERM", "dumb") != "dumb"
        if page.quotes and obeys_sequences:
            text = f"{_WRAP_OFF}{text}{_WRAP_ON}"
        self._forget()
        self._write(text + "\n")

    def say(self, text: str) -> None:
        """Show a line of this package's own words."""
        page = self.page()
        page.say(text)
        self.show(page)

    async def ask(self, prompt: str) -> str | None:
        """Return the typed line; None if the person left with Ctrl-C, or at the end of input."""
        self._forget()
        self._is_written = False
        self._write(prompt)
        if self._fd is None:
            line = await in_daemon_thread(terminal().input.readline)
            return line.rstrip("\n") if line else None
        data = b""
        while not data.endswith(b"\n"):
            more = await _available(self._fd)
            data = (data + more)[: 2 * _MAX_LINE_BYTES]
            if not more or data.endswith(self._interrupt):
                self._write("\n")
                return None
        if len(data) > _MAX_LINE_BYTES:
            self.say("The terminal cuts off longer lines: give less.")
            return await self.ask(prompt)
        return data.decode(errors="replace").rstrip("\n")

    async def word(self, prompt: str) -> str | None:
        """Return the answer to a question of few words, in lower case.

        "yes" is returned as "y" and "no" as "n"; None if the person left.
        """
        line = await self.ask(prompt)
        word = "" if line is None else line.strip().lower()
        return None if line is None else _SHORT.get(word, word)

    async def agrees(self, prompt: str) -> bool | None:
        """Whether the person agrees; None if they left.

        An answer that is neither yes nor no is asked for again, and in the end is no.
        """
        for left in reversed(range(TRIES)):
            word = await self.word(prompt)
            if word in (None, "", "y", "n"):
                return None if word is None else word == "y"
            self.say("Type y or n." if left else "That counts as no.")
        return False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """The terminal's settings while a question is open; as they were, afterwards."""
        with self._withdrawn():
            if sys.platform == "win32" or self._fd is None:
                yield
                return
            self._before = termios.tcgetattr(self._fd)
            self._while_asking = self._settings(termios.tcgetattr(self._fd))
            self._set(self._while_asking)
            try:
                yield
            finally:
                with suppress(termios.error):  # a terminal that hung up
                    self._set(self._before)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """The terminal as another program expects it; but Ctrl-C does not end ours meanwhile."""
        if sys.platform == "win32" or self._fd is None:
            yield
            return
        settings = [*self._before[:6], [*self._before[6]]]
        settings[6][termios.VINTR] = self._while_asking[6][termios.VINTR]
        self._set(settings)
        try:
            yield
        finally:
            self._set(self._while_asking)

    def _settings(self, now: list[Any]) -> list[Any]:
        if sys.platform == "win32":
            return now
        now[0] |= termios.ICRNL
        now[1] |= termios.OPOST | termios.ONLCR
        now[3] |= termios.ICANON | termios.ECHO | termios.ECHOE | termios.ECHOK
        keys, off = now[6], bytes([os.fpathconf(self._fd or 0, "PC_VDISABLE")])
        if keys[termios.VINTR] != off:
            self._interrupt = keys[termios.VINTR]
        keys[termios.VINTR], keys[termios.VEOL] = off, self._interrupt
        return now

    def _set(self, settings: list[Any]) -> None:
        # In the background (Ctrl-Z, bg) it would stop the program, and the settings are not ours.
        if sys.platform == "win32" or self._fd is None:
            return
        if not _in_background(self._fd):
            termios.tcsetattr(self._fd, termios.TCSANOW, settings)

    @contextmanager
    def _withdrawn(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            with suppress(OSError, ValueError):
                self._write("\n(The question is withdrawn.)\n")
            raise

    def _forget(self) -> None:
        """Discard what was typed, unless it may be an answer to what is shown already."""
        if self._is_written:
            return
        self._is_written = True
        if sys.platform == "win32":
            import msvcrt

            while msvcrt.kbhit():
                msvcrt.getwch()
            return
        if self._fd is None or _in_background(self._fd):
            return
        with suppress(termios.error):
            termios.tcflush(self._fd, termios.TCIFLUSH)

    def _write(self, text: str) -> None:
        print(text, end="", file=terminal().output, flush=True)


async def _available(fd: int) -> bytes:
    while True:
        await anyio.wait_readable(fd)
        with suppress(BlockingIOError):  # another reader of the terminal was first
            return os.read(fd, 4_096)


@contextmanager
def _reader() -> Iterator[int | None]:
    """Open a non-blocking descriptor of the terminal that only this package uses.

    Standard input itself may have a reader of the host, and shares its flags with other processes.
    A thread that reads it could not be cancelled, and would block the end of the program.
    """
    if sys.platform == "win32":
        yield None
        return
    stdin = terminal().input.fileno()
    for name in (os.ttyname, "/dev/fd/{}".format):  # a container may know no name for it
        with suppress(OSError):
            fd = os.open(name(stdin), os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            break
    else:  # after su it belongs to another user: it can be used but not opened
        fd = os.dup(stdin)
    try:
        yield fd
    finally:
        os.close(fd)


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def _in_background(fd: int) -> bool:
    if sys.platform == "win32":
        return False
    try:
        return os.tcgetpgrp(fd) != os.getpgrp()
    except OSError:  # not the terminal that controls this process, so no shell stops it
        return False


def _size() -> tuple[int, int]:
    try:
        return os.get_terminal_size(terminal().output.fileno())
    except OSError:
        return 80, 24
