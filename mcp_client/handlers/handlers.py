"""What a server may ask of its client: elicitation, sampling, roots; and the log lines it sends.

``Handlers`` holds one function for each. It takes one typed request, which names the server as the
host calls it, and returns a typed answer or the wire's plain dict. It may be async; a sync one is
run in a thread. What is given here is declared to servers; requests for anything else are refused.
Tools that a handler calls pass the approval hook like any call.

``request.call`` is the ``ToolCall`` that the server asks about, and ``request.call.context`` what
the host gave to ``call_tool(context=...)``. It is always known for questions about a call in the
stateless era. In the handshake era a request does not say what it is about, so ``call`` is None
unless exactly one call is under way.

The same handlers serve both eras: requests from the server (2025-11-25 and before, ``client/``
elicitation, sampling, roots), and questions in place of a result (2026-07-28
``basic/patterns/mrtr``). Sampling, roots and log notifications are deprecated as of 2026-07-28:
hosts of new servers call a model themselves, pass directories as arguments and read standard error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from ..approval.decision import ApprovalHook, Policy, check_hook
from ..approval.sampling_request import SamplingMessage, SamplingRequest
from ..errors import ConfigError
from ..protocol.consent_url import address_of
from ..protocol.elicitation import Form, FormField
from ..protocol.notifications import LOG_LEVELS
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
    """A server asks a person for something. ``client/elicitation``, since 2025-06-18.

    ``mode`` "form": let the person fill in ``fields`` and return ``Accept({name: value})``.
    ``mode`` "url": show the whole ``url``, with ``host`` highlighted and every one of ``warnings``.
    Open it only after consent, in the person's own browser, and return ``Accept()``. Either way,
    return ``Decline()`` for a no and ``Cancel()`` for a dialog that was closed. Say which
    ``server`` asks. All texts are the server's: show them with ``safe_text``, without links.
    """

    handler: ClassVar[str] = "elicitation"
    """Which of ``Handlers`` answers it."""

    server: str
    """What the host calls the server."""
    message: str
    """What the server says to the person."""
    mode: Literal["form", "url"] = "form"
    requested_schema: Mapping[str, Any] | None = None
    """The form's schema, unchanged."""
    fields: tuple[FormField, ...] = ()
    url: str | None = None
    elicitation_id: str | None = None
    """The server's id for this request, where the revision has one: 2025-11-25, mode "url"."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The request's parameters, unchanged."""
    call: ToolCall | None = field(default=None, repr=False, compare=False)
    """The tool call that led to it, if known."""

    @property
    def defaults(self) -> dict[str, Any]:
        """The values to start with. An answer that leaves a field out gets its default."""
        return Form(self.fields).defaults

    @property
    def host(self) -> str | None:
        """The host of ``url``, in ASCII as a browser shows it."""
        return None if self.url is None else address_of(self.url).host

    @property
    def warnings(self) -> tuple[str, ...]:
        """What looks suspicious in ``url``: punycode, mixed scripts, an IP address, a misleading
        host."""
        return () if self.url is None else address_of(self.url).warnings


@dataclass(frozen=True, slots=True)
class Accept:
    """Yes: the form as filled in, or consent to open the URL (then without ``content``).

    ``content`` is checked against the form before it is sent. Fields that it leaves out get their
    defaults, unless ``fill=False``.
    """

    content: Mapping[str, Any] | None = None
    fill: bool = True
    """Whether fields that ``content`` leaves out get their defaults."""


@dataclass(frozen=True, slots=True)
class Decline:
    """The person said no."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """The person closed the dialog without a yes or a no."""


# --------------------------------------------------------------------------------- sampling


@dataclass(frozen=True, slots=True)
class SamplingResult:
    """What the model answered."""

    content: str | Mapping[str, Any] | Sequence[Mapping[str, Any]]
    """A text, one content block as on the wire, or a list of blocks."""
    model: str
    """The name of the model that answered."""
    role: str = "assistant"
    """"assistant", or "user"."""
    stop_reason: str | None = "endTurn"
    """Why the answer ended: "endTurn", "stopSequence", "maxTokens", "toolUse"."""


# ------------------------------------------------------------------------------- roots, logs


@dataclass(frozen=True, slots=True)
class RootsRequest:
    """A server asks where it may work. ``client/roots``; deprecated as of 2026-07-28."""

    handler: ClassVar[str] = "roots"
    """Which of ``Handlers`` answers it."""

    server: str
    """What the host calls the server."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The request's parameters, unchanged."""
    call: ToolCall | None = field(default=None, repr=False, compare=False)
    """The tool call that led to it, if known."""


@dataclass(frozen=True, slots=True)
class Root:
    """A directory or file that a server may use: a ``file://`` URI, as ``Root.of(path)`` gives."""

    uri: str
    """The ``file://`` URI."""
    name: str | None = None
    """What a person calls it."""

    @classmethod
    def of(cls, path: str | Path, name: str | None = None) -> Root:
        """The root for a path, made absolute."""
        return cls(Path(path).absolute().as_uri(), name)


@dataclass(frozen=True, slots=True)
class LogMessage:
    """A line that a server logs. ``server/utilities/logging``; deprecated as of 2026-07-28."""

    server: str
    """What the host calls the server."""
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
    """A notification that a server sent by itself, of any method."""

    server: str
    """What the host calls the server."""
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
    """The functions that answer a server's requests: ``connect(handlers=Handlers(roots=[...]))``.

    If a handler raises, takes longer than ``Timeouts.approval`` or returns something that cannot be
    sent, the server gets an error; in the stateless era the call that led to the request raises
    ``Unanswered``. ``Limits.questions``, ``questions_per_minute`` and ``questions_per_call`` bound
    how much a server may ask.

    - ``elicitation``: From ``ElicitRequest`` to ``Accept``, ``Decline`` or ``Cancel``, or a dict
      with "action".
    - ``sampling``: From ``SamplingRequest`` to ``SamplingResult``, ``Deny`` (a person rejects it)
      or a dict.
    - ``roots``: From ``RootsRequest`` to a list of ``Root``, URIs or dicts; or the list, if it is
      fixed.
    - ``log``: Called with each ``LogMessage``, in order, one at a time.
    - ``notification``: Called with each ``ServerNotification``, in order, one at a time, after this
      client has acted on it. Notifications that another handler takes are left out: log lines with
      ``log``, and progress, which goes to ``on_progress`` of its call.
    - ``sampling_approval``: What ``connect(approval=...)`` takes, asked with a ``SamplingRequest``
      before ``sampling`` is called. Without one, ``sampling`` itself has to ask a person.
    - ``elicitation_modes``: The modes that ``elicitation`` can handle.
    - ``sampling_tools``: Whether ``sampling`` supports ``tools`` and ``tool_choice``.
    - ``log_level``: The lowest level to be sent. None: with a ``log``, "info" in the stateless era,
      where each request says the level; in the handshake era, whatever the server chooses to send.
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
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise ConfigError(f"Handlers({name}={given!r}): give a function")
        if not set(self.elicitation_modes) <= {"form", "url"} or not self.elicitation_modes:
            raise ConfigError(
                f"Handlers(elicitation_modes={self.elicitation_modes!r}): give form, url or both"
            )
        if self.log_level is not None and self.log_level not in LOG_LEVELS:
            raise ConfigError(f"Handlers(log_level={self.log_level!r}): {', '.join(LOG_LEVELS)}")
        if self.sampling_approval is not None and self.sampling is None:
            raise ConfigError("Handlers(sampling_approval=...) needs sampling=...")

    @property
    def capabilities(self) -> dict[str, Any]:
        """The client capabilities to declare, in the newest revision's form."""
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
