"""The time limits of a call, the size limits on what a server may send, and what both prevent.

Every wait and every size is limited by one field of ``Timeouts`` or ``Limits``, finite by default.
These limits have no field, because no host should need another value::

    a compressed body                   unpacked up to message_bytes
    headers without end                 100 KiB
    redirects                           within the origin, a few
    requests to agree                   4
    memory of a schema check            1 GiB, in its own process
    answers a server never reads        1 MiB
    an entry of a tool search           40,000 characters
    text on a terminal                  spelled out behind marks
    what a batch file is given          no word cmd.exe would obey
    polls of a task                     50 ms apart, or more
    the id of a task                    in no log, error or record
    all of it at once                   a soak of faults by a seed

**What is not defended.** A stdio server without ``sandbox=`` runs with the rights of its user. It
may read files, use the network, and leave its process group on purpose (``setsid``). On Windows it
cannot leave its job. The text of a tool's result may mislead a model: texts are bounded and
marked, not judged. The annotations of a trusted server are believed. A program that can write the
files of this user can change remembered decisions, pins and records, unless the audit log has a key
that is stored elsewhere. The limits are those of one session: a host of a thousand servers may hold
a thousand times as much. Secrets are recognized by the names of arguments, by ``writeOnly`` and by
their form, which finds many and not all. CPU that a server costs is bounded for one message, one
schema and one list, not over time. Windows was tried under Wine only: see ``windows_job``.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import fields, replace

from ..errors import ConfigError
from .frozen import frozen_dataclass
from .option_names import with_option_names

__all__ = ["Limits", "RateLimit", "Timeouts", "seconds_text"]

_MINUTE_SECONDS = 60.0


class _NotSet(float):
    """A default that differs from the same number of seconds that the host has set.

    In JSON it is the next greater number.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other == round(self)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(round(self))

    def __repr__(self) -> str:
        return f"{round(self)}.0"


_LEAST_SECONDS = 1e-6
_IDLE = _NotSet(math.nextafter(60.0, math.inf))


@with_option_names(timeout="did you mean total?")
@frozen_dataclass
class Timeouts:
    """Time limits in seconds. The time a person takes to answer counts only for ``approval``.

    - ``connect``: From starting the server until a revision is agreed.
    - ``idle``: The longest a request may be silent; a progress notification for it restarts this
      timeout. If it is not set, ``timeout=`` of a call is this, too.
    - ``total``: The longest a request may take, progress or not.
    - ``approval``: The longest the approval hook may take, after which the answer is no; and a
      handler of ``Handlers`` for one question. The other timeouts of a call are paused meanwhile,
      for at most this long in all.
    - ``close``: Each step of ending a server process: closing its input, SIGTERM, SIGKILL.
    - ``validation``: Validating one value in a worker process, which is killed after that.
    - ``ping``: How often a session asks its server for a sign of life; None for never. One that
      does not come within that time, or within ``idle`` if that is shorter, is logged, requests
      under way raise ``ConnectionLost``, and the session connects again. So that a proxy does not
      close an idle connection, give less than it allows; give more than the server may be too busy
      to answer. Over HTTP in 2026-07-28 it has no effect: no connection stays open.
    - ``script``: The longest a script of a model may take, its calls included, without the time
      that people are asked about these. Between two calls it may compute for at most 20 seconds.
    - ``gather``: How long a ``Host(timeouts=...)`` waits for its slow servers after the others are
      done, when it is entered and when it lists.
    """

    connect: float = 30.0
    idle: float = _IDLE
    total: float = 600.0
    approval: float = 3600.0
    close: float = 2.0
    validation: float = 1.0
    ping: float | None = None
    script: float = 300.0
    gather: float = 10.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name == "ping" and self.ping is None:
                continue
            _seconds(f"Timeouts({field.name}=...)", getattr(self, field.name))
        if float.__eq__(_IDLE, self.idle):  # from JSON
            object.__setattr__(self, "idle", _IDLE)

    def after(self, seconds: float) -> Timeouts:
        """Return the rest after ``seconds``; if nothing is left, so little that it runs out."""
        return _Part(self, max(self.total - seconds, _LEAST_SECONDS))

    def for_connecting(self) -> Timeouts:
        """Return the time limits of a request that is a part of connecting."""
        return _Part(replace(self, idle=math.inf), self.connect, "connect")

    def for_call(self, timeout: float | Timeouts | None) -> Timeouts:
        """Return the time limits of one call.

        A number is its ``total``, and ``idle`` if the host has set none. It lifts no clock that the
        host has set.
        """
        if timeout is None:
            return self
        if isinstance(timeout, Timeouts):
            return timeout
        _seconds("timeout", timeout)
        idle = timeout if isinstance(self.idle, _NotSet) else min(self.idle, timeout)
        return replace(self, idle=idle, total=timeout)

    def expired(self, clock: str) -> tuple[str, float]:
        """Return the field to raise if the "idle" or "total" ``clock`` ran out, and its value."""
        return clock, self.total if clock == "total" else self.idle


class _Part(Timeouts):
    """The time limits of one request, which has a part of the time that was allowed."""

    __slots__ = ("_clock", "_whole")

    def __init__(self, whole: Timeouts, seconds: float, clock: str | None = None) -> None:
        """``clock`` names the field of ``whole`` that ``seconds`` is, where it is all of that."""
        values = {each.name: getattr(whole, each.name) for each in fields(whole)}
        values |= {"idle": min(whole.idle, seconds), "total": seconds}
        super().__init__(**values)
        self._whole, self._clock = whole, clock

    def expired(self, clock: str) -> tuple[str, float]:
        if self._clock is not None:
            return self._clock, self.total
        return self._whole.expired(clock)


@with_option_names()
@frozen_dataclass
class Limits:
    """Limits on what a server may send.

    What exceeds one is refused with the limit's name and never truncated.

    - ``message_bytes``: One message on the wire.
    - ``depth``: Nested arrays and objects in one message.
    - ``pages``: Pages of one list.
    - ``tools``: Tools of one server.
    - ``entries``: Resources of one server; and likewise its resource templates, its prompts, and
      its skills.
    - ``skill_files``: Files of one skill; a skill that has more is not loaded.
    - ``skill_bytes``: All files of one skill together; likewise.
    - ``watched``: Resources subscribed to at once, and updates of one subscription that wait to be
      taken.
    - ``list_bytes``: All pages of one list together.
    - ``notices``: Notifications that may wait unread for one request; the oldest are dropped and
      counted.
    - ``rounds``: Times a server may answer one call with a question.
    - ``logins``: Times one call may wait for a person to log in before it is sent; after that it is
      not sent.
    - ``questions``: Questions of a server that may be open at once; more are refused. Likewise
      requests of one view.
    - ``questions_per_minute``: Questions of a server that are put to handlers within a minute; more
      are refused.
    - ``questions_per_call``: Questions of a server that are put to handlers during one call; more
      are refused.
    - ``view_bytes``: The document of one view, in UTF-8.
    - ``view_requests_per_minute``: Requests of one view within a minute; more are refused.
    - ``in_flight``: Calls of one server that are under way at once. More wait for their turn in
      order, within their total timeout; a call whose turn does not come raises ``NotSent``.
    - ``model_calls``: Calls of one response of a model that ``Toolset.run`` makes; the model
      reads that the others were not made.
    - ``pending``: Calls that wait in one ``ApprovalQueue(limits=...)``; more are refused.
    - ``log_lines``: Log notices within a second; more are dropped and counted.
    - ``stderr_bytes``: How much of a server's standard error is stored, of its end above all.
    - ``restarts``: Times a server that died is started again within a minute. In a ``Host``, its
      backoff decides.
    - ``script_calls``: Calls of one script of a model.
    - ``script_memory``: Bytes that one script takes in its process.
    - ``script_output``: Characters that one script prints, and of its last expression.
    - ``schema_bytes``: Characters of one JSON Schema. A tool whose schema exceeds this or one of
      the following caps raises ``InvalidSchema`` when it is called; the list and the other tools
      are untouched.
    - ``schema_depth``: Nested arrays and objects in one schema.
    - ``subschemas``: JSON objects in one schema, which is at least the number of its subschemas.
    - ``references``: ``$ref``, ``$dynamicRef`` and ``$recursiveRef`` in one schema.
    - ``pattern_chars``: One regular expression in a schema.
    - ``enum_values``: Values of one ``enum``, names in one ``required``: items of any one array in
      a schema.
    """

    message_bytes: int = 32 * 1024 * 1024
    depth: int = 128
    pages: int = 1_000
    tools: int = 20_000
    entries: int = 20_000
    skill_files: int = 512
    skill_bytes: int = 16 * 1024 * 1024
    watched: int = 256
    list_bytes: int = 64 * 1024 * 1024
    notices: int = 256
    rounds: int = 8
    logins: int = 3
    questions: int = 16
    questions_per_minute: int = 60
    questions_per_call: int = 32
    view_bytes: int = 16 * 1024 * 1024
    view_requests_per_minute: int = 600
    in_flight: int = 1_000
    model_calls: int = 128
    pending: int = 1_000
    log_lines: int = 1_000
    stderr_bytes: int = 64 * 1024
    restarts: int = 3
    schema_bytes: int = 1024 * 1024
    schema_depth: int = 64
    subschemas: int = 5_000
    references: int = 1_000
    pattern_chars: int = 2_000
    enum_values: int = 10_000
    script_calls: int = 100
    script_memory: int = 64 * 1024 * 1024
    script_output: int = 100_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or value < 1:
                raise ConfigError(f"Limits({field.name}={value!r}): give a whole number above 0")


class RateLimit:
    """A limit of ``most`` events within a minute."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._times: list[float] = []  # an empty deque takes ten times the memory

    def allows(self, now: float, number: int = 1) -> bool:
        """Whether ``number`` more may happen ``now``, in seconds of any clock that goes forward."""
        times = self._times
        del times[: bisect_right(times, now - _MINUTE_SECONDS)]
        return len(times) + number <= self.most

    def count(self, now: float, number: int = 1) -> None:
        """Count events."""
        self._times.extend([now] * number)


def seconds_text(seconds: float) -> str:
    """``seconds`` for people, such as "0.5 s": rounded to hundredths, or to two digits."""
    if seconds == math.inf or seconds < 0.1:
        return f"{seconds:.2g} s"
    return f"{seconds:.2f}".rstrip("0").rstrip(".") + " s"


def _seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigError(f"{name} is {value!r}: give seconds above 0 (math.inf for no limit)")
