"""The time limits of a call, and the size limits on what a server may send.

Every wait and every size is limited, finite by default, by one field each.
"""

from __future__ import annotations

from dataclasses import fields, replace

from ..errors import ConfigError
from .frozen import frozen_dataclass

__all__ = ["Limits", "Timeouts"]


@frozen_dataclass
class Timeouts:
    """Time limits in seconds. The time a person takes to answer counts only for ``approval``.

    - ``connect``: From starting the server until a revision is agreed.
    - ``idle``: The longest a request may be silent; a progress notification for it restarts this
      timeout.
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
      to answer. Over HTTP in 2026-07-28 it has no effect: no connection is kept.
    """

    connect: float = 30.0
    idle: float = 60.0
    total: float = 600.0
    approval: float = 3600.0
    close: float = 2.0
    validation: float = 1.0
    ping: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name == "ping" and self.ping is None:
                continue
            _seconds(f"Timeouts({field.name}=...)", getattr(self, field.name))

    def after(self, seconds: float) -> Timeouts:
        """What is left after ``seconds``, which are less than ``total``."""
        left = self.total - seconds
        return replace(self, idle=min(self.idle, left), total=left)

    def for_call(self, timeout: float | Timeouts | None) -> Timeouts:
        """The time limits of one call: a number sets both ``idle`` and ``total``."""
        if timeout is None:
            return self
        if isinstance(timeout, Timeouts):
            return timeout
        _seconds("timeout", timeout)
        return replace(self, idle=timeout, total=timeout)


@frozen_dataclass
class Limits:
    """Limits on what a server may send. What exceeds one is refused with the limit's name and
    never truncated.

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
    - ``questions``: Questions of a server that may be open at once; more are refused. Likewise
      requests of one view.
    - ``questions_per_minute``: Questions of a server that are put to handlers within a minute; more
      are refused.
    - ``questions_per_call``: Questions of a server that are put to handlers during one call; more
      are refused.
    - ``view_bytes``: The document of one view, in UTF-8.
    - ``log_lines``: Log notices within a second; more are dropped and counted.
    - ``stderr_bytes``: How much of the end of a server's standard error is kept.
    - ``restarts``: Times a server that died is started again within a minute. In a ``Host``, its
      backoff decides.
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
    questions: int = 16
    questions_per_minute: int = 60
    questions_per_call: int = 32
    view_bytes: int = 16 * 1024 * 1024
    log_lines: int = 1_000
    stderr_bytes: int = 64 * 1024
    restarts: int = 3
    schema_bytes: int = 1024 * 1024
    schema_depth: int = 64
    subschemas: int = 5_000
    references: int = 1_000
    pattern_chars: int = 2_000
    enum_values: int = 10_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or value < 1:
                raise ConfigError(f"Limits({field.name}={value!r}): give a whole number above 0")


def _seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigError(f"{name} is {value!r}: give seconds above 0 (math.inf for no limit)")
