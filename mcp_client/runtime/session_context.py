"""The values that every part of one session needs, in one object."""

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
    """The number of responses with an id that no request has."""
    dropped_notices: int = 0
    """Notifications dropped because too many were queued."""
    refused_questions: int = 0
    """Requests of the server that were answered with an error."""
    unsent: int = 0
    """The number of responses and notifications that were dropped because the server does not
    read."""
    restarts: int = 0
    """Times the server was started again."""
    last_junk: str = ""
    """The beginning of the last frame that was not a message, made safe to show."""
    deviations: dict[str, int] = field(default_factory=dict)
    """The number of accepted deviations from the specification, by a sentence about each.
    ``mcp-client doctor`` prints them."""

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
    """The secrets that a session gave its server, hidden wherever text is shown or stored.

    They are those of all connections of the session: the first 512, each shown as ``mark``.
    ``masking`` has the forms in which they are found.
    """

    def __init__(self, mark: str = "***") -> None:
        self._mark = mark
        self._values: set[str] = set()
        self._source: Callable[[], Iterable[str]] | None = None
        self._masker: Masker | None = None

    def follow(self, source: Callable[[], Iterable[str]]) -> None:
        """Ask ``source`` from now on for the secrets of the connection in use.

        The secrets of earlier sources stay known.
        """
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

    @property
    def count(self) -> int:
        """The number of secrets that are known now."""
        self._update()
        return len(self._values)

    def values(self) -> Iterable[str]:
        """Return all known secrets."""
        self._update()
        return self._values

    def text(self, text: str) -> str:
        """``text`` without them."""
        masker = self._update()
        return text if masker is None else masker.text(text)

    def json(self, value: Any) -> Any:
        """Return a JSON value without them."""
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
    """The administrator's rules for what may be started and connected to.

    Both methods raise ``StartDenied``.
    """

    @property
    def allow(self) -> object:
        """The list of commands that may be started; None without a list.

        With one, a command without a directory is looked up on the PATH of the host, never on that
        of the server's ``env``.
        """

    def check_command(
        self, words: Sequence[str], look_up: Callable[[str], str | None], *, confined: bool
    ) -> None:
        """Check whether a command may be started.

        ``look_up`` returns the file of a command.
        """

    def check_url(self, url: str) -> None:
        """Whether requests may be sent to a URL."""


@frozen_dataclass
class SessionContext:
    """Made once by ``connect`` and handed to whatever belongs to the session."""

    server: str
    """The host's name for the server."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    """The session's defaults; a call may have its own."""
    limits: Limits = field(default_factory=Limits)
    stats: Stats = field(default_factory=Stats)
    """Counts what happens on all connections of the session."""
    secrets: KnownSecrets = field(default_factory=KnownSecrets)
    """The secrets that the server was given."""
    policy: StartPolicy | None = None
    """The administrator's rules for what may be started and connected to, if any."""
