"""Handlers for a server's requests: elicitation, sampling, roots; and for its log lines.

``Handlers`` has one function for each. It takes one typed request, with the host's name for the
server, and returns a typed response or a dict in the wire format. It may be async; a sync one runs
in a thread. The handlers that are set are declared to servers; other requests are refused. Tools
that a handler calls pass the approval hook like any call.

``request.call`` is the ``ToolCall`` that the request belongs to, and ``request.call.context`` the
``context`` of that ``call_tool``. It is always known in the stateless era. In the handshake era a
request does not name its call, so ``call`` is None unless exactly one call is under way.

The same handlers serve both eras: requests from the server (2025-11-25 and before, ``client/``
elicitation, sampling, roots), and requests for input in place of a result (2026-07-28
``basic/patterns/mrtr``). Sampling, roots and log notifications are deprecated as of 2026-07-28:
hosts of new servers call a model themselves, pass directories as arguments and read standard error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from ..approval.decision import ApprovalHook, Policy, check_hook
from ..approval.sampling_request import SamplingMessage, SamplingRequest
from ..errors import ConfigError
from ..protocol.elicitation import Form, FormField
from ..protocol.era import LOG_LEVELS
from ..protocol.uris import address_of
from ..runtime.option_names import with_option_names

if TYPE_CHECKING:
    from ..approval.tool_call import ToolCall

__all__ = [
    "Accept",
    "Cancel",
    "Decline",
    "ElicitRequest",
    "Handlers",
    "LogMessage",
    "Root",
    "RootsRequest",
    "SamplingMessage",
    "SamplingRequest",
    "SamplingResult",
    "ServerNotification",
]


# ------------------------------------------------------------------------------ elicitation


@dataclass(frozen=True, slots=True)
class ElicitRequest:
    """A server's request for input from a person (``client/elicitation``, since 2025-06-18).

    ``mode`` "form": let the person fill in ``fields`` and return ``Accept({name: value})``.
    ``mode`` "url": show the complete ``url``, with ``host`` highlighted and every one of
    ``warnings``. Open it only after consent, in the person's own browser, and return ``Accept()``.
    In both modes, return ``Decline()`` for a refusal and ``Cancel()`` for a dialog that was closed.
    Show which ``server`` asks. All texts are the server's: show them with ``safe_text``, without
    links.
    """

    handler: ClassVar[str] = "elicitation"
    """The name of the handler for it in ``Handlers``."""

    server: str
    """The host's name for the server."""
    message: str
    """The server's text for the person."""
    mode: Literal["form", "url"] = "form"
    requested_schema: Mapping[str, Any] | None = None
    """The form's schema, unchanged."""
    fields: tuple[FormField, ...] = ()
    url: str | None = None
    elicitation_id: str | None = None
    """The server's id for this request, if the revision has one: 2025-11-25, mode "url"."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The request's parameters, unchanged."""
    call: ToolCall | None = field(default=None, repr=False, compare=False)
    """The tool call that led to it, if known."""

    @property
    def defaults(self) -> dict[str, Any]:
        """The initial values. A field that a response omits gets its default."""
        return Form(self.fields).defaults

    @property
    def host(self) -> str | None:
        """The host of ``url``, in ASCII as a browser shows it."""
        return None if self.url is None else address_of(self.url).host

    @property
    def warnings(self) -> tuple[str, ...]:
        """The suspicious features of ``url``, such as punycode, mixed scripts or an IP address."""
        return () if self.url is None else address_of(self.url).warnings


@dataclass(frozen=True, slots=True)
class Accept:
    """An acceptance: the completed form, or consent to open the URL (then without ``content``).

    ``content`` is validated against the form before it is sent. Fields that it omits get their
    defaults, unless ``fill=False``.
    """

    content: Mapping[str, Any] | None = None
    fill: bool = True
    """Whether fields that ``content`` omits get their defaults."""


@dataclass(frozen=True, slots=True)
class Decline:
    """A refusal by the person."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """A dialog that the person closed without a decision."""


# --------------------------------------------------------------------------------- sampling


@dataclass(frozen=True, slots=True)
class SamplingResult:
    """The model's response."""

    content: str | Mapping[str, Any] | Sequence[Mapping[str, Any]]
    """A str, one content block of the wire format, or a list of blocks."""
    model: str
    """The name of the model that responded."""
    role: str = "assistant"
    """"assistant", or "user"."""
    stop_reason: str | None = "endTurn"
    """The reason for the end: "endTurn", "stopSequence", "maxTokens", "toolUse"."""


# ------------------------------------------------------------------------------- roots, logs


@dataclass(frozen=True, slots=True)
class RootsRequest:
    """A server's request for the roots (``client/roots``; deprecated as of 2026-07-28)."""

    handler: ClassVar[str] = "roots"
    """The name of the handler for it in ``Handlers``."""

    server: str
    """The host's name for the server."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The request's parameters, unchanged."""
    call: ToolCall | None = field(default=None, repr=False, compare=False)
    """The tool call that led to it, if known."""


@dataclass(frozen=True, slots=True)
class Root:
    """A directory or file that a server may use: a ``file://`` URI, as from ``Root.of(path)``."""

    uri: str
    """The ``file://`` URI."""
    name: str | None = None
    """The name for a person."""

    @classmethod
    def of(cls, path: str | Path, name: str | None = None) -> Root:
        """Return the root for a path, made absolute."""
        return cls(Path(path).absolute().as_uri(), name)


@dataclass(frozen=True, slots=True)
class LogMessage:
    """A line that a server logs (``server/utilities/logging``; deprecated as of 2026-07-28)."""

    server: str
    """The host's name for the server."""
    level: str
    """"debug", "info", "notice", "warning", "error", "critical", "alert" or "emergency"."""
    logger: str | None
    """The name of the server's logger, in its own words."""
    data: Any
    """Any JSON value, unchanged."""
    text: str = ""
    """``data`` on one line, made safe to show and cut to a bounded length."""


@dataclass(frozen=True, slots=True)
class ServerNotification:
    """A notification that a server sent on its own, of any method."""

    server: str
    """The host's name for the server."""
    method: str
    """The method, such as "notifications/tools/list_changed": the server's own word."""
    params: Mapping[str, Any]
    """The parameters, as the server sent them, without the session's secrets; empty without any."""


ElicitationHandler: TypeAlias = Callable[[ElicitRequest], Any | Awaitable[Any]]
SamplingHandler: TypeAlias = Callable[[SamplingRequest], Any | Awaitable[Any]]
RootsHandler: TypeAlias = Callable[[RootsRequest], Any | Awaitable[Any]]
LogHandler: TypeAlias = Callable[[LogMessage], Awaitable[None] | None]
NotificationHandler: TypeAlias = Callable[[ServerNotification], Awaitable[None] | None]


@with_option_names()
@dataclass(frozen=True, slots=True)
class Handlers:
    """The handlers for a server's requests: ``connect(handlers=Handlers(roots=[...]))``.

    If a handler raises, takes longer than ``Timeouts.approval`` or returns a value that cannot be
    sent, the server gets an error. In the stateless era the call that led to the request raises
    ``Unanswered``. ``Limits.questions``, ``questions_per_minute`` and ``questions_per_call`` limit
    the server's requests.

    - ``elicitation``: From ``ElicitRequest`` to ``Accept``, ``Decline`` or ``Cancel``, or a dict
      with "action".
    - ``sampling``: From ``SamplingRequest`` to ``SamplingResult``, ``Deny`` (a person rejects it)
      or a dict.
    - ``roots``: From ``RootsRequest`` to a list of ``Root``, URIs or dicts; or the list, if it is
      fixed.
    - ``log``: Called with each ``LogMessage``, in order, one at a time.
    - ``notification``: Called with each ``ServerNotification``, in order, one at a time, after this
      client has acted on it. Notifications for another handler are omitted: log lines with ``log``,
      and progress, which goes to ``on_progress`` of its call.
    - ``sampling_approval``: An approval hook as for ``connect(approval=...)``, called with a
      ``SamplingRequest`` before ``sampling``. Without it, ``sampling`` itself has to ask a person.
    - ``elicitation_modes``: The modes that ``elicitation`` can handle.
    - ``sampling_tools``: Whether ``sampling`` supports ``tools`` and ``tool_choice``.
    - ``log_level``: The lowest level to be sent. None with a ``log``: "info" in the stateless era,
      where each request has the level; in the handshake era, the server's choice.
    """

    elicitation: ElicitationHandler | None = None
    sampling: SamplingHandler | None = None
    roots: RootsHandler | Sequence[Root] | None = None
    log: LogHandler | None = None
    sampling_approval: ApprovalHook | Policy | None = None
    elicitation_modes: tuple[str, ...] = ("form", "url")
    sampling_tools: bool = False
    log_level: str | None = None
    notification: NotificationHandler | None = None

    def __post_init__(self) -> None:
        check_hook("Handlers(sampling_approval)", self.sampling_approval)
        for name in ("elicitation", "sampling", "log", "notification"):
            handler = getattr(self, name)
            if handler is not None and not callable(handler):
                raise ConfigError(f"Handlers({name}={handler!r}): give a function")
        modes = self.elicitation_modes
        is_list = isinstance(modes, Collection) and not isinstance(modes, str)
        if not is_list or not modes or any(mode not in ("form", "url") for mode in modes):
            raise ConfigError(f"Handlers(elicitation_modes={modes!r}): give form, url or both")
        if type(self.sampling_tools) is not bool:
            raise ConfigError(f"Handlers(sampling_tools={self.sampling_tools!r}): True or False")
        if self.log_level is not None and self.log_level not in LOG_LEVELS:
            levels = ", ".join(LOG_LEVELS)
            raise ConfigError(f"Handlers(log_level={self.log_level!r}): give one of {levels}")
        if self.sampling_approval is not None and self.sampling is None:
            raise ConfigError("Handlers(sampling_approval=...) needs sampling=...")

    @property
    def capabilities(self) -> dict[str, Any]:
        """Return the client capabilities to declare, in the newest revision's form."""
        found: dict[str, Any] = {}
        if self.elicitation is not None:
            found["elicitation"] = {
                mode: {} for mode in ("form", "url") if mode in self.elicitation_modes
            }
        if self.sampling is not None:
            found["sampling"] = {"tools": {}} if self.sampling_tools else {}
        if self.roots is not None:
            found["roots"] = {"listChanged": True} if callable(self.roots) else {}
        return found
