"""An era: the behaviour that a group of revisions has in common, as an object agreed once.

Nothing outside ``protocol/`` compares revisions. The era says how the parameters of a request are
encoded, which HTTP headers go with it, which request a notification belongs to, what a result
means, and whether the server may send requests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from .capabilities import ServerFacts, makes_tasks
from .headers import PROTOCOL_VERSION, HeaderParam
from .jsonrpc import Id, Notification
from .versions import CORE_TASKS, FULL_FORMS, VERSION_HEADER

__all__ = [
    "TOOLS_CALL",
    "Complete",
    "Era",
    "ExtensionResult",
    "InputRequired",
    "Malformed",
    "Reading",
]

TOOLS_CALL = "tools/call"
"""For those who treat a call in a way of its own. It is sent by ``session/call.py`` only."""


class Malformed(ValueError):
    """A result that the specification does not allow; the text says how."""


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
    """Its ``resultType``."""
    result: dict[str, Any]


Reading: TypeAlias = Complete | InputRequired | ExtensionResult


class Era(ABC):
    """The behaviour of one agreed revision. It does not change once it is agreed."""

    closing_cancels: ClassVar[bool]
    """Whether closing a request's own stream tells the server to stop."""
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
        """Whether requests of the server may have titled choices, multiple choice, tools in
        sampling, and several content blocks in a message."""
        self.has_tasks: Final = revision in CORE_TASKS
        """Whether a call may ask to be made a task."""
        self.takes_tasks: Final = self.has_tasks and makes_tasks(server.capabilities)
        """Whether the server declares that it makes tasks of calls that ask for it."""
        self.lasting_tokens: Final[set[Id]] = set()
        """The progress tokens of requests that are answered and whose task goes on."""
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
    def read(self, result: object, method: str = "") -> Reading:
        """What a result of ``method`` means. Raises ``Malformed``."""

    def owner(self, notice: Notification) -> Id | None:
        """The request a notification belongs to; None where it belongs to none, or to a task.

        Progress carries the token we gave, and the token we give is the request's id.
        """
        if notice.method == "notifications/progress":
            token = _id(notice.params.get("progressToken"))
            return None if token in self.lasting_tokens else token
        return None


def _id(value: object) -> Id | None:
    return value if type(value) is int or type(value) is str else None
