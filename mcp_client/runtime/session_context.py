"""What every part of one session has to know, in one value."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from .frozen import frozen_dataclass
from .limits import Limits, Timeouts

if TYPE_CHECKING:
    from .masking import Masker

__all__ = ["KnownSecrets", "SessionContext", "StartPolicy", "Stats"]

_log = logging.getLogger("mcp_client")
_MAX_SECRETS = 512
_MAX_DEVIATIONS = 50


@dataclass(slots=True)
class Stats:
    """Counts of what happened on a connection, mostly of faults that did not end it."""

    requests: int = 0
    """Requests sent, of any method except those that open a stream (``streams``)."""
    streams: int = 0
    """Streams of notifications that were opened."""
    junk_lines: int = 0
    """Frames that were not a JSON-RPC message."""
    late_answers: int = 0
    """Responses to requests that had been cancelled or timed out."""
    stray_answers: int = 0
    """Responses with an id that no request of ours has."""
    dropped_notices: int = 0
    """Notifications dropped because too many were queued."""
    refused_questions: int = 0
    """Requests of the server that were answered with an error."""
    unsent: int = 0
    """Responses and notifications of ours that were dropped because the server does not read."""
    restarts: int = 0
    """Times the server was started again."""
    last_junk: str = ""
    """The beginning of the last frame that was not a message, made safe to show."""
    deviations: dict[str, int] = field(default_factory=dict)
    """How often the server deviated from the specification in a way that was accepted, by a
    sentence about the deviation. ``mcp-client doctor`` prints them."""

    def accept(self, server: str, deviation: str) -> None:
        """Count a deviation of ``server`` that is accepted; the first one of a kind is logged.

        ``deviation`` is a sentence without values of the server, so that each kind is listed once.
        """
        count = self.deviations.get(deviation, 0)
        if not count and len(self.deviations) >= _MAX_DEVIATIONS:
            return
        self.deviations[deviation] = count + 1
        if not count:
            _log.info("%s: accepted a deviation from the specification: %s", server, deviation)


class KnownSecrets:
    """What a session gave its server to keep secret, hidden wherever something is shown or kept.

    On all connections of the session: the first 512, each shown as ``mark``.
    ``masking`` says in which spellings they are found."""

    def __init__(self, mark: str = "***") -> None:
        self._mark = mark
        self._values: set[str] = set()
        self._source: Callable[[], Iterable[str]] | None = None
        self._masker: Masker | None = None

    def follow(self, source: Callable[[], Iterable[str]]) -> None:
        """``source`` tells from now on what is secret on the connection in use; what the sources
        before it told stays known."""
        self._update()
        self._source = source

    def add(self, values: Iterable[str]) -> None:
        """Hide these, too, from now on."""
        new = {value for value in values if value not in self._values}
        if new and len(self._values) < _MAX_SECRETS:
            from .masking import Masker  # only now: most sessions have no secrets

            new = set(sorted(new)[: _MAX_SECRETS - len(self._values)])
            self._values |= new
            self._masker = self._masker or Masker(mark=self._mark)
            self._masker.add(new)

    def values(self) -> Iterable[str]:
        """All that are known."""
        self._update()
        return self._values

    def text(self, text: str) -> str:
        """``text`` without them."""
        masker = self._update()
        return text if masker is None else masker.text(text)

    def json(self, value: Any) -> Any:
        """A JSON value without them."""
        masker = self._update()
        return value if masker is None else masker.json(value)

    def hide(self, error: BaseException) -> None:
        """Hide them in the texts and JSON of ``error``. A ``ToolResult`` in it stays as it came."""
        masker = self._update()
        if masker is not None:
            error.args = tuple(masker.json(each) for each in error.args)
            for name, value in list(vars(error).items()):
                if isinstance(value, str | dict | list):
                    setattr(error, name, masker.json(value))

    def _update(self) -> Masker | None:
        if self._source is not None:
            self.add(self._source())
        return self._masker


class StartPolicy(Protocol):
    """What a machine's administrator allows to be started and connected to. Both methods raise
    ``StartDenied``."""

    @property
    def allow(self) -> object:
        """The list of what may be started; None if there is no list. With one, a command without a
        directory is looked up on the PATH of the host, never on that of the server's ``env``."""

    def check_command(
        self, words: Sequence[str], look_up: Callable[[str], str | None], *, confined: bool
    ) -> None:
        """Whether a command may be started. ``look_up`` tells which file a command is."""

    def check_url(self, url: str) -> None:
        """Whether requests may be sent to a URL."""


@frozen_dataclass
class SessionContext:
    """Made once by ``connect`` and handed to whatever belongs to the session."""

    server: str
    """What the host calls the server."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    """The session's defaults; a call may have its own."""
    limits: Limits = field(default_factory=Limits)
    stats: Stats = field(default_factory=Stats)
    """Counts what happens on all connections of the session."""
    secrets: KnownSecrets = field(default_factory=KnownSecrets)
    """What the server was given to keep secret."""
    policy: StartPolicy | None = None
    """What may be started and connected to, where an administrator says so."""
