"""What waits for a yes: a tool call, a skill, the start of a server, a use of the host's model.

All four are an ``ApprovalRequest``, and the same hooks, rules and people decide them. What differs
is an attribute or a method of the request, so that nothing that decides has to know the kind.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from ..catalog.call_context import (
    CallOrigin,
    context_from_json,
    context_text,
    context_to_json,
    is_storable,
)
from ..catalog.finding import Finding
from ..catalog.tool_traits import WORST, Hints, HintSource
from ..errors import CallDenied, ConfigError, McpError
from ..protocol.canonical_json import NotJson, sha256
from ..runtime.frozen import frozen_dataclass
from ..runtime.keyed_digest import digest_with
from ..runtime.safe_text import without_markup
from .remember import Choice

if TYPE_CHECKING:
    from .remember import Remember
    from .script import Script

__all__ = ["KINDS", "ApprovalRequest", "Choice", "Fact", "KeptAs", "RequestKind"]

RequestKind: TypeAlias = Literal["call", "skill", "start", "sampling"]
KINDS: tuple[RequestKind, ...] = get_args(RequestKind)


_CLASSES = {
    "call": ("tool_call", "ToolCall"),
    "skill": ("skill_request", "SkillRequest"),
    "start": ("start_request", "StartRequest"),
    "sampling": ("sampling_request", "SamplingRequest"),
}
T = TypeVar("T")
_OF_CALLS = frozenset({"tool", "arguments", "arguments_json", "meta_json"})


@frozen_dataclass
class Fact:
    """One thing that a person has to know before answering."""

    label: str
    """A few words of ours: "Server", "Arguments"."""
    text: str
    """Complete, and in part the server's own words: show it escaped, or
    ``safe()``."""
    kind: str
    """What it is, for programs: "server", "subject", "arguments", "finding"..."""
    is_json: bool = False
    """Whether the text is JSON."""
    value: str | None = None
    """Of a hint: "yes" or "no", which ``text`` begins with. None for any other fact."""
    source: HintSource | None = None
    """Of a hint: where the value comes from, as in ``Hints.source``. None for any other fact."""

    def safe(self, limit: int = 2_000) -> str:
        """Return ``text`` for a message in a chat: one line that mentions nobody and links nowhere.

        What a person would not see is spelled out, and signs that a chat may read as markup are
        replaced by others that look like them. At most ``limit`` characters of the text, and then
        how many were left out.
        """
        return without_markup(self.text, limit)


class NotStorable(ConfigError):
    """A request whose context no store can keep."""


class KeptAs(NamedTuple):
    """What a remembered yes is for."""

    subject: str
    """For people, without a secret: it is written down."""
    topic: str
    """A newer yes to the same topic takes the place of an older one."""
    fingerprint: str | None
    """It holds as long as this is the same; None where none is remembered."""
    is_guessable: bool = False
    """Whether the fingerprint covers what may be secret and short."""

    def bound(self, key: bytes) -> str:
        """The fingerprint as it is written down."""
        found = self.fingerprint or ""
        return digest_with(key, found) if self.is_guessable else found


class ApprovalRequest:
    """What waits for a yes: a ``ToolCall``, ``SkillRequest``, ``StartRequest`` or
    ``SamplingRequest``. An immutable value.

    - ``kind``: "call", "skill", "start" or "sampling".
    - ``id``: As in the audit.
    - ``server``: The name the host gave the server, never the server's own claim.
    - ``subject``: What it is about: the tool's name, the skill's URI, the command line or URL, the
      model that is asked for.
    - ``hints``: What it may do, as far as the host trusts the server's word: the worst case for
      everything that is not a call.
    - ``trusted``: Whether the host trusts what the server says of its tools; False for what is not
      a call.
    - ``findings``: What a person should know before answering. What is not a call has at least one,
      so that a hook that allows what has no findings does not allow it.
    - ``context``: The host's own word on whose request it is, ``call_tool(context=...)``.
    - ``origin``: "host", "app" for what a tool's view asks for, or "code" for a script's call.
    - ``script``: The script of a model that makes the call, a ``Script``; None for anything else.
    - ``edited``: Whether the approver changed the arguments.
    - ``fingerprint``: What a yes is bound to; None where nothing can be, so that none is kept.

    A hook that looks at these alone answers all four kinds. What only calls have, such as ``tool``
    and ``arguments``, raises ``AttributeError`` for the others, which means no.
    """

    __slots__ = ()

    kind: ClassVar[RequestKind]
    """Which of the four it is."""
    asks: ClassVar[str]
    """What a person is asked: "May this tool run?"."""
    prompt: ClassVar[str]
    """What a person is asked, in two or three words: "Run it?"."""
    can_edit: ClassVar[bool] = False
    """Whether it has arguments, which a yes may replace."""
    _covers_once: ClassVar[str]
    """What a yes that is not remembered covers, as a sentence."""
    _members: ClassVar[Mapping[str, Callable[[Any], Any]]]
    """What ``to_json`` has of this kind alone, by the names of fields, and what reads each."""
    _identity: Callable[[], str | None] | None
    """Gives what the server is; None where that cannot be told."""

    if TYPE_CHECKING:

        @property
        def id(self) -> str: ...
        @property
        def server(self) -> str: ...
        @property
        def findings(self) -> tuple[Finding, ...]: ...
        @property
        def subject(self) -> str: ...
        @property
        def fingerprint(self) -> str | None: ...
        @property
        def context(self) -> Hashable: ...
        @property
        def origin(self) -> CallOrigin: ...
        @property
        def script(self) -> Script | None: ...
        @property
        def arguments_json(self) -> str: ...
        @property
        def edited(self) -> bool: ...

    else:  # a type checker reports these by itself
        context = None
        edited = False
        origin = "host"
        script = None

        def __getattr__(self, name: str) -> Any:
            kind = type(self).__name__
            if name in _OF_CALLS:
                raise AttributeError(
                    f"a {kind} has no {name!r}, which only a tool call has: look at request.kind, "
                    "request.subject and request.hints"
                )
            raise AttributeError(f"a {kind} has no {name!r}")

    @property
    def hints(self) -> Hints:
        """What it may do: for what is not a call, the worst case."""
        return WORST

    @property
    def trusted(self) -> bool:
        """Whether the host trusts what the server says of its tools."""
        return False

    @property
    def key(self) -> str:
        """Digest of kind, server, what is asked for, context and origin: equal for the same request
        made again, also after a reconnect; never for one of a server that only has the same name,
        and is another command or at another URL.

        Also in another process where the context is text, a number, a boolean or a tuple of them;
        any other context only in this one.
        """
        whose = [context_text(self.context), self.origin, self._server_is()]
        return digest_of([self.kind, self.server, self._asked_for(), whose])

    def facts(self) -> tuple[Fact, ...]:
        """What a person has to know before answering, in the order to read it in. Nothing else is
        shown of a request, and its context is in none of these."""
        raise NotImplementedError

    def _question_facts(self) -> tuple[Fact, ...]:
        """Return the facts of the question at a terminal: without those that repeat ``asks``."""
        return self.facts()

    def _without_values(self) -> ApprovalRequest:
        """The request for a record, without values that may be secrets whatever they look like."""
        return self

    def choices(self) -> tuple[Choice, ...]:
        """How far a yes can go: names that ``Allow(remember=...)`` takes."""
        raise NotImplementedError

    def for_one_call(self) -> ApprovalRequest:
        """Return the request as of a session that ends with this call: "until the session ends" is
        not among its choices, and "for one hour" is stored where "always" is."""
        return self

    def why_not_kept(self, remember: Remember) -> str | None:
        """Why a yes that goes so far cannot be kept; None where it can be."""
        if remember.where:
            return f"a {self.kind} has no arguments"
        if remember.scope != "call" and remember.scope not in self.choices():
            return f"a yes to a {self.kind} is not for {remember.scope!r}"
        return None

    def refusal(self, message: str, **fields: Any) -> McpError:
        """What is raised where the answer was not yes; ``fields`` are those of ``CallDenied``."""
        return CallDenied(f"{self._not_done}{message}", **fields, server=self.server)

    def with_arguments(self, arguments: Any) -> Any:
        """A call with these arguments in place of its own. Raises ``TypeError`` for what is not a
        call, and for arguments that are not a mapping, and ``NotJson``."""
        raise TypeError(f"a {self.kind} has no arguments")

    @property
    def _weight(self) -> int:
        """About how many characters it takes to keep it."""
        return sum(len(fact.text) for fact in self.facts())

    @property
    def _exactly(self) -> str | None:
        """Digest of what is sent with it: a yes may be for exactly that. None but for calls."""
        return None

    def coverage(self, remember: Remember | None) -> str:
        """What a yes that goes so far would cover, as sentences. Names in it are not made safe."""
        if remember is None or remember.scope == "call":
            return self._covers_once
        return self._covers(remember, until(remember))

    def to_json(self) -> dict[str, Any]:
        """All of it as plain JSON, which ``from_json`` takes. Raises ``ConfigError`` for a context
        that cannot be stored: text, numbers, booleans and tuples of them can."""
        if not is_storable(self.context):
            raise NotStorable(
                "a request can be stored if its context is text, a number, a boolean or a tuple of "
                f"them, and this one's is a {type(self.context).__name__}"
            )
        return {
            "kind": self.kind,
            "id": self.id,
            "server": self.server,
            "subject": self.subject,
            "fingerprint": self.fingerprint,
            "key": self.key,
            "findings": [finding.to_json() for finding in self.findings],
            "context": context_to_json(self.context),
            "origin": self.origin,
            "identity": self._server_is(),
            **self._own_members(),
        }

    @staticmethod
    def from_json(value: Any) -> ApprovalRequest:
        """Raises ``ValueError`` for anything that ``to_json`` did not give."""
        try:
            module, name = _CLASSES[value["kind"]]
            kind: Any = getattr(import_module(f".{module}", __package__), name)
            request: ApprovalRequest = kind._made_of(kind._common_members(value), value)
        except (LookupError, TypeError, AttributeError, NotJson, ConfigError) as error:
            raise ValueError(f"it is not a request ({type(error).__name__})") from None
        if request.key != value.get("key"):
            raise ValueError("its key is not that of the request")
        return request

    def _server_is(self) -> Any:
        """What the server is, besides its name; None where that cannot be told."""
        return None if self._identity is None else self._identity()

    def _asked_for(self) -> Any:
        """What ``key`` covers besides kind, server, context and origin, as JSON."""
        raise NotImplementedError

    def _kept_as(self) -> KeptAs:
        """What a remembered yes to it is for. Here: the same subject, while the fingerprint is."""
        return KeptAs(self.subject, self.subject, self.fingerprint)

    def _covers(self, remember: Remember, until: str) -> str:
        """``coverage`` of a yes that is remembered."""
        raise NotImplementedError

    @property
    def _not_done(self) -> str:
        """The words before the reason in a refusal."""
        return ""

    @property
    def _recorded(self) -> dict[str, Any]:
        """What its record in the audit has of this kind alone."""
        return {}

    def _own_members(self) -> dict[str, Any]:
        """What ``to_json`` has of this kind alone."""
        return {name: as_json(getattr(self, name)) for name in self._members}

    @classmethod
    def _common_members(cls, value: Any) -> dict[str, Any]:
        """Those that ``to_json`` has of every kind, as far as they are fields of this one."""
        identity, context = value["identity"], context_from_json(value["context"])
        members = {
            "id": text(value["id"]),
            "server": text(value["server"]),
            "findings": tuple(map(Finding.from_json, value["findings"])),
            "context": context,
            "_identity": lambda: optional_text(identity),
        }
        names = cls.__dataclass_fields__  # type: ignore[attr-defined]  # each kind is a dataclass
        return {name: members[name] for name in members if name in names}

    @classmethod
    def _made_of(cls, members: dict[str, Any], value: Any) -> ApprovalRequest:
        """The request of these ``_common_members`` and of what else is in ``value``."""
        return cls(**members, **cls._read_members(value))

    @classmethod
    def _read_members(cls, value: Any) -> dict[str, Any]:
        return {name: read(value[name]) for name, read in cls._members.items()}


def digest_of(value: Any) -> str:
    return "sha256:" + sha256(json.dumps(value, sort_keys=True, separators=(",", ":")))


def new_id(kind: RequestKind) -> str:
    """For what no session numbers."""
    return f"{kind}-{os.urandom(8).hex()}"


# ------------------------------------------------------------------ members as JSON


def as_json(value: Any) -> Any:
    """A member as plain JSON."""
    if isinstance(value, Mapping):
        return {name: as_json(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return list(map(as_json, value))
    if is_dataclass(value):
        return [getattr(value, each.name) for each in fields(value)]
    return str(value) if isinstance(value, os.PathLike) else value


def text(value: Any) -> str:
    """Raises ``ValueError`` for anything but a text."""
    if type(value) is not str:
        raise ValueError("a member that is a text is missing")
    return value


def optional_text(value: Any) -> str | None:
    return None if value is None else text(value)


def texts(value: Any) -> tuple[str, ...]:
    if type(value) is not list:
        raise ValueError("a member that is a list is missing")
    return tuple(map(text, value))


def named(read: Callable[[Any], T]) -> Callable[[Any], Mapping[str, T]]:
    """Reads an object, and each of its members with ``read``."""
    return lambda value: MappingProxyType({text(name): read(one) for name, one in value.items()})


# ---------------------------------------------------------------- making facts


def facts_of(*rows: tuple[str, str | None, str]) -> list[Fact]:
    """Facts of label, text and kind, without those whose text is None."""
    return [Fact(label, text, kind) for label, text, kind in rows if text is not None]


def finding_facts(findings: Sequence[Finding]) -> list[Fact]:
    return [Fact("Note", str(finding), "finding") for finding in findings]


def until(remember: Remember) -> str:
    """How long an answer is remembered, as the end of a sentence."""
    until = "until the session ends"
    if remember.seconds is not None:
        limit = "" if remember.scope == "always" else f", at most {until}"
        return f"for {remember.seconds / 60:g} minutes{limit}"
    if remember.scope == "always":
        return f"until it is revoked, where the host keeps answers; else {until}"
    return until


def is_known(finding: Finding, asked: Iterable[Finding]) -> bool:
    """Whether a yes given with the findings ``asked`` covers ``finding``: it was among them, is a
    note, or says no more than that the connection is another one."""
    if finding.note or finding.kind == "reconnected":
        return True
    return finding.known_as in {one.known_as for one in asked}
