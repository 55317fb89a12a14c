"""An era: the behaviour that a group of revisions has in common, as an object agreed once.

Nothing outside ``protocol/`` compares revisions. The era encodes the parameters of a request,
returns its HTTP headers, finds the request that a notification belongs to, parses a result, and
states whether the server may send requests.

*The handshake era*: ``initialize``, then requests in both directions. Revisions 2024-11-05,
2025-03-26, 2025-06-18 and 2025-11-25, each at ``basic/lifecycle``.

*The stateless era*: every request carries the client's name, revision and capabilities. Revision
2026-07-28: ``basic/index`` (``_meta``, result types), ``server/discover``,
``basic/patterns/subscriptions``.

The names of a server's notifications, and how to subscribe to them: 2026-07-28
``basic/patterns/subscriptions``; 2025-11-25 ``server/tools``, ``server/prompts`` and
``server/resources`` (list changed, subscriptions), ``client/elicitation`` (completion),
``server/utilities/logging``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from .capabilities import (
    CORE_TASKS,
    FULL_FORMS,
    VERSION_HEADER,
    ClientDeclaration,
    ServerFacts,
    makes_tasks,
)
from .headers import NAMED_BY, PROTOCOL_VERSION, HeaderParam, mirrored, name_header, request_headers
from .jsonrpc import Id, Json, Notification, Request, dump, encode_fields, encode_members, own_id

__all__ = [
    "ACKNOWLEDGED",
    "CANCELLED",
    "COMPLETED",
    "LISTEN",
    "LOGGED",
    "LOG_LEVELS",
    "PROGRESS",
    "PROMPTS",
    "RESOURCES",
    "RESOURCE_UPDATED",
    "TOOLS",
    "Complete",
    "Era",
    "ExtensionResult",
    "HandshakeEra",
    "InputRequired",
    "Malformed",
    "ParsedResult",
    "StatelessEra",
    "Topic",
    "discover_params",
    "initialize_params",
    "is_news",
    "updates_of",
]

LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_TOOLS_CHANGED = "notifications/tools/list_changed"
RESOURCE_UPDATED = "notifications/resources/updated"
PROGRESS = "notifications/progress"
CANCELLED = "notifications/cancelled"
COMPLETED = "notifications/elicitation/complete"
"""2025-11-25 only: a person has finished what the URL was opened for."""
LOGGED = "notifications/message"
LOG_LEVELS = (*("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"),)
"""The log levels from the least to the most severe, as in RFC 5424."""


class Topic(NamedTuple):
    """A kind of change that a server can be asked to announce."""

    notice: str
    feature: str
    """The capability with which a server declares it, together with ``detail``."""
    detail: str
    wanted: Mapping[str, Any]
    """The whole filter of a ``subscriptions/listen`` for it."""

    @property
    def filter(self) -> dict[str, Any]:
        """The parameters of a ``subscriptions/listen``."""
        return {"notifications": self.wanted}

    def honoured_by(self, acknowledged: Notification) -> bool:
        """Whether the server agreed to all that was asked for."""
        agreed = acknowledged.params.get("notifications")
        return isinstance(agreed, dict) and all(
            _covers(agreed.get(member), wanted) for member, wanted in self.wanted.items()
        )


TOOLS = Topic(_TOOLS_CHANGED, "tools", "listChanged", {"toolsListChanged": True})
PROMPTS = Topic(
    "notifications/prompts/list_changed", "prompts", "listChanged", {"promptsListChanged": True}
)
RESOURCES = Topic(
    "notifications/resources/list_changed",
    "resources",
    "listChanged",
    {"resourcesListChanged": True},
)


_CHANGES = (TOOLS.notice, PROMPTS.notice, RESOURCES.notice, RESOURCE_UPDATED, COMPLETED)
_OF_TASKS = "notifications/tasks/"


def is_news(message: object) -> bool:
    """Whether a message that belongs to no request of ours is a request, or reports a change.

    A ping, a log line and what no one waits for are signs of life only.
    """
    if type(message) is Request:
        return message.method != "ping"
    return type(message) is Notification and message.method.startswith((*_CHANGES, _OF_TASKS))


def updates_of(uri: str) -> Topic:
    """The changes of one resource."""
    return Topic(RESOURCE_UPDATED, "resources", "subscribe", {"resourceSubscriptions": [uri]})


def _covers(agreed: Any, wanted: Any) -> bool:
    if wanted is True:
        return agreed is True
    return isinstance(agreed, list) and all(item in agreed for item in wanted)


class Malformed(ValueError):
    """The specification does not allow the result; the text is the reason."""


class Complete(NamedTuple):
    """The request is done; ``result`` is what came."""

    result: dict[str, Any]


class InputRequired(NamedTuple):
    """The server asks for input first. 2026-07-28 ``basic/patterns/mrtr``."""

    questions: Mapping[str, Any]
    state: str | None
    result: dict[str, Any]


class ExtensionResult(NamedTuple):
    """A result of a type that an extension adds; read by the code of that extension."""

    kind: str
    """The ``resultType``."""
    result: dict[str, Any]


ParsedResult: TypeAlias = Complete | InputRequired | ExtensionResult


class Era(ABC):
    """The behaviour of one agreed revision. It does not change once it is agreed."""

    closing_cancels: ClassVar[bool]
    """Whether closing a request's own stream cancels it on the server."""
    server_may_ask: ClassVar[bool]
    """Whether the server may send requests of its own."""
    listens: ClassVar[bool]
    """Whether the server announces changes only on a stream that the client opened for it."""
    mirrors: ClassVar[bool]
    """Whether HTTP headers repeat parts of a message, arguments of calls included."""

    def __init__(self, revision: str, server: ServerFacts) -> None:
        self.revision: Final = revision
        self.server: Final = server
        self.full_forms: Final = revision in FULL_FORMS
        """Whether requests of the server may have the features of newer revisions.

        These are titled choices, multiple choice, tools in sampling, and several content blocks in
        a message.
        """
        self.has_tasks: Final = revision in CORE_TASKS
        """Whether a call may ask to be made a task."""
        self.takes_tasks: Final = self.has_tasks and makes_tasks(server.capabilities)
        """Whether the server declares that it makes tasks of calls that ask for it."""
        self.task_tokens: Final[set[Id]] = set()
        """The progress tokens of requests that have a response and whose task continues."""
        self.session_headers: Final[Mapping[str, str]] = (
            {PROTOCOL_VERSION: revision} if revision in VERSION_HEADER else {}
        )
        """The HTTP headers of every message once the revision is agreed on."""

    @abstractmethod
    def params(
        self,
        fields: Mapping[str, Any],
        meta: Mapping[str, Any] | None,
        token: Id | None,
        log_level: str | None = None,
    ) -> str:
        """A request's ``params`` as JSON text, ``_meta`` included.

        ``meta`` is the caller's own; ``token`` is the progress token, where progress is wanted;
        ``log_level`` is the lowest level of log messages wanted, where requests carry it.
        """

    def headers(
        self, method: str, fields: Mapping[str, Any], mirrors: Sequence[HeaderParam] = ()
    ) -> Mapping[str, str]:
        """The HTTP headers that go with one message, besides ``session_headers``.

        ``mirrors`` are the arguments that headers repeat, by the tool's ``x-mcp-header``.
        Raises ``InvalidArguments``.
        """
        return {}

    @abstractmethod
    def read(self, result: object, method: str = "") -> ParsedResult:
        """Parse a result of ``method``. Raises ``Malformed``."""

    def owner(self, notice: Notification) -> Id | None:
        """The request a notification belongs to; None where it belongs to none, or to a task.

        Progress carries the token we gave, and the token we give is the request's id.
        """
        if notice.method == "notifications/progress":
            token = own_id(notice.params.get("progressToken"))
            return None if token in self.task_tokens else token
        return None


_PROGRESS = "progressToken"
"""The progress token, set by this client alone: it must be unique among the current requests.

2025-11-25 ``basic/utilities/progress``.
"""


class HandshakeEra(Era):
    """The behaviour of revisions 2024-11-05 to 2025-11-25."""

    closing_cancels = False
    server_may_ask = True
    listens = False
    mirrors = False

    @classmethod
    def from_initialize(cls, revision: str, result: Mapping[str, Any]) -> HandshakeEra:
        """Parse the result of ``initialize``."""
        return cls(revision, ServerFacts.from_wire(result, result.get("serverInfo")))

    def params(
        self,
        fields: Mapping[str, Any],
        meta: Mapping[str, Any] | None,
        token: Id | None,
        log_level: str | None = None,
    ) -> str:
        """Encode the parameters of a request."""
        body = encode_members(fields)
        own = {} if meta is None else {k: v for k, v in meta.items() if k != _PROGRESS}
        if token is not None:
            own[_PROGRESS] = token
        if not own:
            return f"{{{body}}}"
        text = f'"_meta":{encode_fields(own)}'
        return f"{{{body},{text}}}" if body else f"{{{text}}}"

    def read(self, result: object, method: str = "") -> ParsedResult:
        """Parse a result of ``method``. Raises ``Malformed``."""
        if type(result) is not dict:
            raise Malformed("the result is not a JSON object")
        return Complete(result)


def initialize_params(revision: str, client: ClientDeclaration) -> str:
    """Encode the parameters of ``initialize``."""
    return encode_fields(
        {
            "protocolVersion": revision,
            "capabilities": client.declared_in(revision),
            "clientInfo": client.info.to_wire(),
        }
    )


_PREFIX = "io.modelcontextprotocol/"
_LOG_LEVEL = _PREFIX + "logLevel"


class StatelessEra(Era):
    """The behaviour of revision 2026-07-28."""

    closing_cancels = True
    server_may_ask = False
    listens = True
    mirrors = True

    def __init__(self, revision: str, server: ServerFacts, client: ClientDeclaration) -> None:
        super().__init__(revision, server)
        self._stamp = _stamp(revision, client)
        self._reserved = tuple(_own_meta(revision, client))
        self._additions = client.additions

    @classmethod
    def from_discover(
        cls, revision: str, result: Mapping[str, Any], client: ClientDeclaration
    ) -> StatelessEra:
        """Parse the result of ``server/discover``."""
        meta = result.get("_meta")
        info = meta.get(_PREFIX + "serverInfo") if isinstance(meta, dict) else None
        facts = ServerFacts.from_wire(result, info or result.get("serverInfo"))
        return cls(revision, facts, client)

    def params(
        self,
        fields: Mapping[str, Any],
        meta: Mapping[str, Any] | None,
        token: Id | None,
        log_level: str | None = None,
    ) -> str:
        # Our part of ``_meta`` is always the same, so its text is made once.
        """Encode the parameters of a request."""
        body = encode_members(fields)
        own = self._stamp
        if log_level is not None and not (meta and _LOG_LEVEL in meta):
            own = f'{own},"{_LOG_LEVEL}":"{log_level}"'
        if token is not None:
            text = token if type(token) is int else dump(token)
            own = f'{own},"progressToken":{text}'
        if meta:
            reserved = (*self._reserved, "progressToken")
            rest = encode_members({k: v for k, v in meta.items() if k not in reserved})
            own = f"{own},{rest}" if rest else own
        return f'{{{body},"_meta":{{{own}}}}}' if body else f'{{"_meta":{{{own}}}}}'

    def headers(
        self, method: str, fields: Mapping[str, Any], mirrors: Sequence[HeaderParam] = ()
    ) -> Mapping[str, str]:
        """Return the HTTP headers of a request."""
        name = fields.get(NAMED_BY.get(method, ""))
        headers = dict(request_headers(method, name if type(name) is str else None))
        if method in self._additions.named_by:
            headers.update(name_header(fields.get(self._additions.named_by[method])))
        if mirrors:
            headers.update(mirrored(mirrors, fields["arguments"]))
        return headers

    def read(self, result: object, method: str = "") -> ParsedResult:
        """Parse a result of ``method``. Raises ``Malformed``."""
        if type(result) is not dict:
            raise Malformed("the result is not a JSON object")
        kind = result.get("resultType", "complete")
        if kind == "complete" or kind is None:
            return Complete(result)
        if kind != "input_required":
            kind, added = str(kind), self._additions.results
            if method in added.get(kind, ()):
                return ExtensionResult(kind, result)
            what = (
                f"no result of {method} may have"
                if kind in added
                else "this revision does not have"
            )
            raise Malformed(f"resultType is {kind[:40]!r}, which {what}")
        questions, state = result.get("inputRequests"), result.get("requestState")
        if questions is None and state is None:
            raise Malformed("resultType is input_required without inputRequests or requestState")
        if not isinstance(questions, dict | None) or not isinstance(state, str | None):
            raise Malformed("inputRequests is not an object, or requestState is not a string")
        return InputRequired(questions or {}, state, result)

    def owner(self, notice: Notification) -> Id | None:
        """Return the id of the request that a notification belongs to."""
        meta = notice.params.get("_meta")
        if isinstance(meta, dict) and _PREFIX + "subscriptionId" in meta:
            return own_id(meta[_PREFIX + "subscriptionId"])
        if notice.method == CANCELLED:  # the server asks nothing itself: it can only be of ours
            return own_id(notice.params.get("requestId"))
        return super().owner(notice)


def discover_params(revision: str, client: ClientDeclaration) -> str:
    """Encode the parameters of ``server/discover``."""
    return encode_fields({"_meta": Json("{" + _stamp(revision, client) + "}")})


def _own_meta(revision: str, client: ClientDeclaration) -> dict[str, Any]:
    return {
        _PREFIX + "protocolVersion": revision,
        _PREFIX + "clientInfo": client.info.to_wire(),
        _PREFIX + "clientCapabilities": client.declared_in(revision),
    }


def _stamp(revision: str, client: ClientDeclaration) -> str:
    return encode_members(_own_meta(revision, client))
