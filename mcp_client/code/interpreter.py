"""The process in which one script runs: Monty, an interpreter of a part of Python.

It can read no file, reach no network, read no variable of the environment and no time. A request to
the system raises an error, its clock does not move, and a sleep ends at once. Its random numbers
begin with the id of the run. So a script that receives the same results in the same order does the
same again. That is how a script continues that waited for a person.

A script runs in turns. A turn begins with a result of a call and ends when the script waits for
one, or is over. The methods that run one block their thread. ``kill`` may be called from any thread
and ends the turn at once: a script cannot catch it, nor any other end of that kind.

Each script has a process to itself, so that none waits until a person has decided about another. If
this process is killed, a script that waits ends with it, and one that computes within the limit
between two calls.

The values that pass between a script and the host are plain JSON, within bounds. A value of a
script can share its parts, so that a few bytes become more than a host can write. They are counted
as they are written.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from ..catalog.tool import Tool
from ..errors import ConfigError, InvalidArguments
from ..protocol.canonical_json import canonical, object_of, sha256
from ..runtime.limits import Limits, seconds_text
from .bindings import EXCEPTIONS, Bindings, arguments_of

if TYPE_CHECKING:
    import pydantic_monty as monty

__all__ = [
    "CLOSED",
    "AskedCall",
    "Failure",
    "Interpreter",
    "Returned",
    "Settled",
    "Stop",
    "Turn",
    "as_plain",
    "as_text",
    "interpreter_version",
    "parsed_arguments",
    "sendable",
]

_starting = threading.Lock()
_TURN_SECONDS = 20.0
"""Seconds that a script computes between two calls, at most."""
_MAX_SUSPENSIONS = 1_000_000
_MAX_TRACEBACK_CHARS = 6_000
_MAX_ARGUMENT_CHARS = 4_000_000
_MAX_VALUES = 200_000
_MAX_LEVELS = 128
_LISTS = (list, tuple, set, frozenset)
_NEEDED = 'code mode needs the package pydantic-monty: pip install "mcp-client-host[code]"'
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
if sys.platform == "win32":
    _AT_ONCE = signal.SIGTERM
else:
    _AT_ONCE = signal.SIGKILL
_SCRIPT_FILE = "<python-input-1>"
_BUILTINS = (
    *("abs", "all", "any", "bin", "bool", "bytes", "chr", "complex", "dict", "divmod", "enumerate"),
    *("filter", "float", "format", "frozenset", "hash", "hex", "id", "int", "iter", "len", "list"),
    *("map", "max", "min", "next", "object", "oct", "open", "ord", "pow", "print", "property"),
    *("range", "repr", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple"),
    *("type", "zip"),
)
"""Bound again as global names: otherwise Monty takes the variable of a comprehension that has such
a name, as in ``[id for id in ids]``, for the builtin."""
_PRELUDE = "\n".join(
    f"{name} = {value}"
    for name, value in (*EXCEPTIONS.items(), *zip(_BUILTINS, _BUILTINS, strict=True))
)


@dataclass(frozen=True, slots=True)
class Returned:
    """A result of a call for the script."""

    value: Any
    """Plain JSON."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception in the script."""

    kind: str
    """The name of the exception, one of ``EXCEPTIONS``."""
    message: str


Settled: TypeAlias = Returned | Failure
"""The outcome of a call, as the script receives it."""


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A call that a script makes."""

    number: int
    """The first call of a run is 1."""
    tool: Tool
    arguments: dict[str, Any]
    """The arguments with the tool's names."""
    line: int | None
    """The line of the script, from 1; None if code calls that it made up itself."""
    digest: str
    """A digest that is equal for the same call of the same tool, of the same line of the script."""
    problem: InvalidArguments | None
    """The reason why it cannot be made: the arguments are not JSON, or too long."""


@dataclass(frozen=True, slots=True)
class Stop:
    """An end of a script that it could not catch."""

    kind: str
    """The field of ``Limits`` or ``Timeouts``; or "closed", "crashed"."""
    text: str
    """The same in a sentence, without its first words, "the script was ended"."""


@dataclass(slots=True)
class Turn:
    """A turn, and how it ended."""

    calls: list[AskedCall] = field(default_factory=list)
    """The calls in it."""
    waits_for: frozenset[int] = frozenset()
    """The numbers of the calls of which one has to be settled; empty if the script is over."""
    value: Any = None
    """The script's last expression, as plain JSON; None if it is too long."""
    text: str = ""
    """The same, for a model."""
    error: str | None = None
    """The traceback of what it raised."""
    stop: Stop | None = None
    """The end that the script could not catch, such as a limit."""


CLOSED = Stop("closed", "it was closed")


def interpreter_version() -> str:
    """Return the version of Monty. Raises ``ConfigError`` if it is not installed."""
    return str(_monty().__version__)


def _monty() -> Any:
    try:
        import pydantic_monty
    except ImportError:
        raise ConfigError(_NEEDED) from None
    return pydantic_monty


class Server:
    """A server in a script: calls of its methods come here."""

    __slots__ = ()


class Interpreter:
    """Runs one script. ``start`` first, then ``resume`` until it is over; ``close`` in any case."""

    def __init__(
        self, code: str, bindings: Bindings, *, limits: Limits, seconds: float, seed: str
    ) -> None:
        """``seconds`` are those that it may compute in all.

        Raises ``ConfigError`` if Monty is not installed.
        """
        self._monty = _monty()
        self._code, self._bindings, self._limits = code, bindings, limits
        self._seconds, self._seed = seconds, seed
        self._printed: list[str] = []
        self._chars = 0
        self._calls: dict[int, int] = {}
        """The numbers of calls by the interpreter's own ids, and the other way round."""
        self._ids: dict[int, int] = {}
        self._snapshot: Any = None
        self._open = contextlib.ExitStack()
        self._turns = threading.Lock()
        """Held while the process is used by a thread."""
        self._killing = threading.Lock()
        self._process: int | None = None
        self._killed: Stop | None = None
        instance = self._monty.ClassInstance
        self._servers = {server: instance(Server()) for server in bindings.servers}
        self._by_id = {one.id: server for server, one in self._servers.items()}
        self._methods = bindings.by_name

    @property
    def output(self) -> str:
        """The output so far."""
        return "".join(self._printed)

    # --------------------------------------------------------------------- turns

    def start(self) -> Turn:
        """Run the script until it waits or is over."""
        with self._turns:
            try:
                session = self._opened()
            except FileNotFoundError:
                raise ConfigError(_NEEDED) from None
            return self._turn(lambda: self._fed(session))

    def resume(self, number: int, settled: Settled) -> Turn:
        """Go on with what the call ``number`` led to."""
        response: dict[str, Any] = {"return_value": getattr(settled, "value", None)}
        if isinstance(settled, Failure):
            response = {"exc_type": EXCEPTIONS[settled.kind], "message": settled.message}
        snapshot = self._snapshot
        with self._turns:
            return self._turn(lambda: snapshot.resume({self._ids[number]: response}))

    def kill(self, stop: Stop) -> None:
        """End the process, and the turn that runs in it."""
        with self._killing:
            self._killed = self._killed or stop
            if self._process is not None:
                with contextlib.suppress(OSError):
                    os.kill(self._process, _AT_ONCE)
                self._process = None

    def close(self) -> None:
        """End the process. Waits for the turn that runs."""
        self.kill(CLOSED)
        with self._turns, contextlib.suppress(self._monty.MontyError):
            self._snapshot = None
            self._open.close()

    def _opened(self) -> monty.MontySession:
        with _starting:
            sysconfig.get_config_vars()  # Monty uses them, and two threads cannot make them at once
        pool = self._open.enter_context(self._monty.Monty(max_processes=1))
        session = self._open.enter_context(
            pool.checkout(
                limits={
                    "max_feed_duration_secs": self._seconds,
                    "max_turn_duration_secs": min(self._seconds, _TURN_SECONDS),
                    "max_memory": self._limits.script_memory,
                    "max_suspensions": _MAX_SUSPENSIONS,
                },
                os_policy={
                    "datetime": _EPOCH,
                    "timezone": "utc",
                    "sleep": "zero",
                    "process_time": "zero",
                    "random_start": {"seed": self._seed},
                },
                print_flush_interval=0,  # else a line before a long builtin is lost with it
            )
        )
        with self._killing:
            self._process = session.worker_pid
        if self._killed is not None:
            self.kill(self._killed)
        return session  # type: ignore[no-any-return]

    def _fed(self, session: monty.MontySession) -> Any:
        session.feed_run(_PRELUDE)
        return session.feed_start(self._code, inputs=self._servers, print_callback=self._print)

    def _print(self, stream: str, text: str) -> None:
        room = self._limits.script_output - self._chars
        self._chars += len(text)
        if room > 0:
            self._printed.append(text[:room])
        if len(text) > room:
            most = self._limits.script_output
            self.kill(_limit("script_output", f"it printed more than {most:,} characters"))

    def _turn(self, step: Callable[[], Any]) -> Turn:
        monty, turn = self._monty, Turn()
        try:
            while self._killed is None:
                snapshot = step()
                match snapshot:
                    case monty.FunctionSnapshot():
                        step = self._called(snapshot, turn)
                    case monty.NameLookupSnapshot():
                        step = self._looked_up(snapshot)
                    case monty.FutureSnapshot():
                        self._snapshot = snapshot
                        ids = snapshot.pending_call_ids
                        turn.waits_for = frozenset(self._calls[id] for id in ids)
                        return turn
                    case _:
                        self._complete(snapshot.output, turn)
                        return turn
        except monty.MontyError as error:
            self._ended(error, turn)
            return turn
        turn.stop = self._killed
        return turn

    def _called(self, snapshot: Any, turn: Turn) -> Callable[[], Any]:
        """Return how to handle a call: of a tool, of the system, or of an unknown name."""
        if snapshot.is_os_function:
            return snapshot.resume_not_handled  # type: ignore[no-any-return]
        name = snapshot.function_name
        if snapshot.object_id is not None:
            name = f"{self._by_id.get(snapshot.object_id)}.{name}"
        tool = self._methods.get(name)
        if tool is None:
            if snapshot.object_id is None:
                return _raising(snapshot, "NameError", f"name '{name}' is not defined")
            return _raising(snapshot, "AttributeError", f"there is no tool {name}")
        if snapshot.args:
            return _raising(snapshot, "TypeError", f"{name}() takes keyword arguments only")
        number = len(self._ids) + 1
        if number > self._limits.script_calls:
            most = self._limits.script_calls
            self.kill(_limit("script_calls", f"it made more than {most:,} calls"))
            return lambda: None
        self._calls[snapshot.call_id], self._ids[number] = number, snapshot.call_id
        line = self._line(snapshot.position)
        turn.calls.append(_asked(number, tool, snapshot.kwargs, line))
        return lambda: snapshot.resume({"future": ...})

    def _looked_up(self, snapshot: Any) -> Callable[[], Any]:
        """Return a tool as a value, such as ``find = weather.find``, which is called later."""
        name = f"{self._by_id.get(snapshot.object_id)}.{snapshot.variable_name}"
        if snapshot.object_id is None or name not in self._methods:
            return snapshot.resume  # type: ignore[no-any-return]

        def tool() -> None: ...

        tool.__name__ = tool.__qualname__ = name
        return lambda: snapshot.resume(value=tool)

    def _line(self, position: Any) -> int | None:
        before = self._code.encode("utf-8", "replace")[: position.start]
        return before.count(b"\n") + 1 if position.filename == _SCRIPT_FILE else None

    # ------------------------------------------------------------------ its end

    def _complete(self, value: Any, turn: Turn) -> None:
        if value is None:
            return
        most = self._limits.script_output
        turn.text, is_too_long = as_text(value, most - self._chars)
        if is_too_long:
            text = f"its last expression and what it printed have more than {most:,} characters"
            turn.stop = _limit("script_output", text)
        else:  # the value itself may have more than can be written
            turn.value = as_plain(value, most)

    def _ended(self, error: Any, turn: Turn) -> None:
        """Note the end of the process or the script, by ``error``."""
        if self._killed is not None:
            turn.stop = self._killed
            return
        if isinstance(error, self._monty.MontyCrashedError):
            with self._killing:
                self._process = None
            turn.stop = Stop("crashed", "the process that ran it ended by itself")
            return
        text, inner = str(error), error.exception()
        if isinstance(inner, MemoryError) and "memory limit exceeded" in text:
            most = self._limits.script_memory
            turn.stop = _limit("script_memory", f"it used more than {most:,} bytes of memory")
        elif isinstance(inner, TimeoutError) and "time limit exceeded" in text:
            seconds = seconds_text(min(self._seconds, _TURN_SECONDS))
            turn.stop = Stop("script", f"it computed for more than {seconds} (Timeouts.script)")
        text = error.display() if hasattr(error, "display") else text
        turn.error = _cut(text.replace(f'"{_SCRIPT_FILE}"', '"script"'))


def _limit(field: str, text: str) -> Stop:
    return Stop(field, f"{text} (Limits.{field})")


def _asked(number: int, tool: Tool, kwargs: Mapping[str, Any], line: int | None) -> AskedCall:
    problem = None
    try:
        arguments, text = object_of("arguments", parsed_arguments(arguments_of(tool, kwargs)))
    except InvalidArguments as error:
        arguments, text, problem = {}, error.message, error
    digest = sha256(canonical([tool.qualified_name, tool.fingerprint, text, line]))
    return AskedCall(number, tool, arguments, line, digest, problem)


def _raising(snapshot: Any, kind: str, message: str) -> Callable[[], Any]:
    return lambda: snapshot.resume({"exc_type": kind, "message": message})


def _cut(text: str) -> str:
    if len(text) <= _MAX_TRACEBACK_CHARS:
        return text
    half = _MAX_TRACEBACK_CHARS // 2
    return f"{text[:half]}\n[...]\n{text[-half:]}"


class _TooLong(Exception):
    """An error: the value has more characters than are left."""


class _Budget:
    """Copies values into plain JSON, until that takes more than ``chars``."""

    def __init__(self, chars: int, *, exactly: bool) -> None:
        """Unless ``exactly``, a text replaces each value that JSON does not have."""
        self._left, self._values = chars, _MAX_VALUES
        self._exactly = exactly

    def plain(self, value: Any, level: int = 0) -> Any:
        self._left -= 2 + (len(value) if type(value) is str else 0)
        self._values -= 1
        if self._left < 0 or self._values < 0 or level > _MAX_LEVELS:
            raise _TooLong
        kind = type(value)
        if isinstance(value, Mapping):
            return dict(self._members(value, level))
        if kind is list or kind is tuple or (kind in _LISTS and not self._exactly):
            return [self.plain(item, level + 1) for item in value]
        if self._exactly or kind in (str, bool, type(None)):
            return value
        if kind is int:
            return value if value.bit_length() <= 1_024 else "<int>"
        if kind is float:
            return value if math.isfinite(value) else str(value)
        return f"<{getattr(value, 'name', None) or kind.__name__}>"

    def _members(self, value: Mapping[Any, Any], level: int) -> Iterator[tuple[Any, Any]]:
        for key, item in value.items():
            name = key if type(key) is str or self._exactly else str(self.plain(key, level + 1))
            self._left -= len(name) if type(name) is str else 0
            yield name, self.plain(item, level + 1)


def parsed_arguments(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call, with lists for tuples.

    Raises ``InvalidArguments`` for those that are too long; what else is not JSON is for the call
    to refuse.
    """
    try:
        plain: dict[str, Any] = _Budget(_MAX_ARGUMENT_CHARS, exactly=True).plain(value)
        return plain
    except _TooLong:
        raise InvalidArguments(
            f"the arguments take more than {_MAX_ARGUMENT_CHARS:,} characters, or have more than "
            f"{_MAX_VALUES:,} values or {_MAX_LEVELS} levels"
        ) from None


def as_plain(value: Any, chars: int) -> Any:
    """Return a script's last expression as plain JSON, with texts for what JSON does not have.

    Raises ``ValueError`` if that takes more than ``chars`` characters.
    """
    try:
        return _Budget(chars, exactly=False).plain(value)
    except _TooLong:
        raise ValueError(f"it takes more than {chars:,} characters") from None


def as_text(value: Any, chars: int) -> tuple[str, bool]:
    """Return a script's last expression for a model, and whether it is too long.

    A text is unchanged; anything else is JSON. It is empty if it has more than ``chars``
    characters.
    """
    try:
        plain = as_plain(value, chars)
    except ValueError:
        return "", True
    text = plain if type(plain) is str else json.dumps(plain, ensure_ascii=False)
    return (text, False) if len(text) <= chars else ("", True)


def sendable(value: Any) -> Any:
    """Return ``value``, plain JSON of a server, without lone surrogates."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(text.encode("utf-8", "replace"))
    return value
