"""What a server may ask of us: elicitation, sampling, roots; and the log lines it sends.

``Handlers`` says who answers. Each handler takes one typed request, which names the server as the
host calls it, and returns a typed answer or the wire's own plain dict; async, or sync and then run
in a thread. What is given here is what is declared to servers, and what is not declared is refused.
A handler that calls tools passes the approval hook like everybody else.

The same handlers serve both eras: requests from the server (2025-11-25 and before, ``client/``
elicitation, sampling, roots), and questions in place of an answer (2026-07-28
``basic/patterns/mrtr``). Sampling, roots and log notices are deprecated as of 2026-07-28: hosts
of new servers call a model, pass directories as arguments and read standard error instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..approval.gate import Allow, Deny
from ..errors import ConfigError
from ..protocol.consent_url import address_of
from ..protocol.content import ContentBlock
from ..protocol.elicitation import Form, FormField
from ..protocol.notifications import LOG_LEVELS

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
]


# ------------------------------------------------------------------------------ elicitation


@dataclass(frozen=True, slots=True)
class ElicitRequest:
    """A server wants something from a person. ``client/elicitation``, since 2025-06-18.

    ``mode`` "form": fill in ``fields`` and answer ``Accept({name: value})``. ``mode`` "url": show
    the whole ``url``, with ``host`` standing out and every one of ``warnings``; open it only once
    the person agreed, in a browser of theirs, and answer ``Accept()``. Either way ``Decline()`` is
    a no and ``Cancel()`` a dialog that was closed. Say which ``server`` asks. All texts are the
    server's: show them with ``safe_text``, and no URL in them as a link.
    """

    server: str
    """What the host calls the server."""
    message: str
    mode: Literal["form", "url"] = "form"
    requested_schema: Mapping[str, Any] | None = None
    """The form's schema as it came."""
    fields: tuple[FormField, ...] = ()
    url: str | None = None
    elicitation_id: str | None = None
    """The server's name for this question, where the revision has one: 2025-11-25, mode "url"."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def defaults(self) -> dict[str, Any]:
        """What to show filled in. Fields that an answer leaves out get these values."""
        return Form(self.fields).defaults

    @property
    def host(self) -> str | None:
        """Where ``url`` leads, in ASCII as a browser shows it."""
        return None if self.url is None else address_of(self.url).host

    @property
    def warnings(self) -> tuple[str, ...]:
        """What looks wrong with ``url``: punycode, mixed scripts, a bare number, a feigned host."""
        return () if self.url is None else address_of(self.url).warnings


@dataclass(frozen=True, slots=True)
class Accept:
    """Yes: the form as filled in, or the consent to open the URL (then without ``content``).

    It is judged by the form before it is sent. ``fill=False`` leaves out the defaults of fields
    that ``content`` does not have.
    """

    content: Mapping[str, Any] | None = None
    fill: bool = True


@dataclass(frozen=True, slots=True)
class Decline:
    """The person said no."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """The person went away without a yes or a no."""


# --------------------------------------------------------------------------------- sampling


@dataclass(frozen=True, slots=True)
class SamplingMessage:
    """One message of the conversation a server wants continued."""

    role: str
    content: tuple[ContentBlock, ...]
    """Blocks; ``tool_use`` and ``tool_result`` come as ``UnknownContent`` with all of it in
    ``raw``."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class SamplingRequest:
    """A server wants a model's answer. ``client/sampling``; deprecated as of 2026-07-28.

    Prompts are the server's texts and may be meant to mislead the model. ``max_tokens`` has to be
    kept; the rest is advice.
    """

    server: str
    messages: tuple[SamplingMessage, ...]
    max_tokens: int
    system_prompt: str | None = None
    model_preferences: Mapping[str, Any] | None = None
    include_context: str | None = None
    temperature: float | None = None
    stop_sequences: tuple[str, ...] = ()
    metadata: Mapping[str, Any] | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    """Tools of the server's own making that the model may ask for: only the server runs them."""
    tool_choice: Mapping[str, Any] | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class SamplingResult:
    """What the model said: a text, one content block as on the wire, or a list of blocks."""

    content: str | Mapping[str, Any] | Sequence[Mapping[str, Any]]
    model: str
    role: str = "assistant"
    stop_reason: str | None = "endTurn"


# ------------------------------------------------------------------------------- roots, logs


@dataclass(frozen=True, slots=True)
class RootsRequest:
    """A server wants to know where it may work. ``client/roots``; deprecated as of 2026-07-28."""

    server: str
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Root:
    """A directory or file a server may work in: a ``file://`` URI, as ``Root.of(path)`` makes."""

    uri: str
    name: str | None = None

    @classmethod
    def of(cls, path: str | Path, name: str | None = None) -> Root:
        return cls(Path(path).absolute().as_uri(), name)


@dataclass(frozen=True, slots=True)
class LogMessage:
    """A line a server logs. ``server/utilities/logging``; deprecated as of 2026-07-28."""

    server: str
    level: str
    """"debug", "info", "notice", "warning", "error", "critical", "alert" or "emergency"."""
    logger: str | None
    data: Any
    """Any JSON value, as it came."""
    text: str = ""
    """``data`` on one line, made safe to show and cut to a bounded length."""


ElicitationHandler: TypeAlias = Callable[[ElicitRequest], Any | Awaitable[Any]]
SamplingHandler: TypeAlias = Callable[[SamplingRequest], Any | Awaitable[Any]]
SamplingApproval: TypeAlias = Callable[[SamplingRequest], Allow | Deny | Awaitable[Allow | Deny]]
RootsHandler: TypeAlias = Callable[[RootsRequest], Any | Awaitable[Any]]
LogHandler: TypeAlias = Callable[[LogMessage], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class Handlers:
    """Who answers when a server asks: ``connect(..., handlers=Handlers(elicitation=ask))``.

    A handler that raises, takes longer than ``Timeouts.approval`` or answers nonsense gives the
    server an error; in the stateless era the call that led to the question raises.
    """

    elicitation: ElicitationHandler | None = None
    """From ``ElicitRequest`` to ``Accept``, ``Decline`` or ``Cancel``, or a dict with "action"."""
    sampling: SamplingHandler | None = None
    """From ``SamplingRequest`` to ``SamplingResult``, ``Deny`` (a person rejects it) or a dict."""
    roots: RootsHandler | Sequence[Root] | None = None
    """From ``RootsRequest`` to a list of ``Root``, URIs or dicts; or the list, if it is fixed."""
    log: LogHandler | None = None
    """Is handed each ``LogMessage``, in order, one at a time."""
    sampling_approval: SamplingApproval | None = None
    """From ``SamplingRequest`` to ``Allow`` or ``Deny``, before ``sampling``; whatever else it
    does means no. Without one, ``sampling`` itself is where a person decides."""
    elicitation_modes: tuple[str, ...] = ("form", "url")
    """The modes that ``elicitation`` can handle."""
    sampling_tools: bool = False
    """Whether ``sampling`` heeds ``tools`` and ``tool_choice``."""
    log_level: str | None = None
    """The least level wanted. None: "info" from servers that ask for a level on every request, if
    there is a ``log``, and from older ones whatever they choose to send."""

    def __post_init__(self) -> None:
        for name in ("elicitation", "sampling", "log", "sampling_approval"):
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
            raise ConfigError("Handlers(sampling_approval=...) has no sampling to approve")

    @property
    def capabilities(self) -> dict[str, Any]:
        """What is declared, as the newest revision writes it."""
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
