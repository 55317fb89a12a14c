"""The base of all requests for approval: a tool call, a skill, the start of a server, sampling.

All four are an ``ApprovalRequest``, and the same hooks, rules and people decide them. Differences
are attributes or methods of the request, so that code that decides need not know the kind.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from ..catalog.call_values import (
    CallOrigin,
    context_from_json,
    context_text,
    context_to_json,
    is_storable,
)
from ..catalog.definition import WORST, Hints, HintSource
from ..catalog.finding import Finding
from ..errors import CallDenied, ConfigError, McpError
from ..protocol.canonical_json import FrozenArray, FrozenObject, NotJson, digest_with, sha256
from ..runtime.frozen import frozen_dataclass
from ..runtime.safe_text import without_markup
from .remember import Choice

if TYPE_CHECKING:
    from .remember import Remember
    from .script import Script

__all__ = ["KINDS", "ApprovalRequest", "Choice", "Fact", "RequestKind", "StoredAs"]

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
    """A fact for the person who decides."""

    label: str
    """A short label: "Server", "Arguments"."""
    text: str
    """The complete text, in part the server's own words: show it escaped, or ``safe()``."""
    kind: str
    """The kind, for programs: "server", "subject", "arguments", "finding"..."""
    is_json: bool = False
    """Whether the text is JSON."""
    value: str | None = None
    """The value of a hint: "yes" or "no", with which ``text`` begins. None for any other fact."""
    source: HintSource | None = None
    """The source of a hint, as in ``Hints.source``. None for any other fact."""

    def safe(self, limit: int = 2_000) -> str:
        """Return ``text`` for a chat message: one line without mentions and without links.

        Invisible characters are escaped, and characters that a chat may treat as markup are
        replaced by similar ones. At most ``limit`` characters of the text are shown, then the
        number omitted.
        """
        return without_markup(self.text, limit)


class NotStorable(ConfigError):
    """The request has a context that no store can contain."""


class StoredAs(NamedTuple):
    """The scope of a remembered approval."""

    subject: str
    """The subject for people, without a secret: it is stored."""
    topic: str
    """The topic; a newer approval with the same topic replaces an older one."""
    fingerprint: str | None
    """The fingerprint that has to stay the same; None if approvals cannot be remembered."""
    is_guessable: bool = False
    """Whether the fingerprint covers data that may be secret and short."""

    def bound(self, key: bytes) -> str:
        """The fingerprint in its stored form."""
        found = self.fingerprint or ""
        return digest_with(key, found) if self.is_guessable else found


class ApprovalRequest:
    """A request that waits for approval, an immutable value.

    It is a ``ToolCall``, ``SkillRequest``, ``StartRequest`` or ``SamplingRequest``.

    - ``kind``: "call", "skill", "start" or "sampling".
    - ``id``: The id, as in the audit.
    - ``server``: The host's name for the server, never the server's own claim.
    - ``subject``: The tool's name, the skill's URI, the command line or URL, or the requested
      model.
    - ``hints``: The possible effects, by the server's hints if it is trusted: the worst case for
      everything that is not a call.
    - ``trusted``: Whether the host trusts the server's annotations; False unless it is a call.
    - ``findings``: The findings for the person who decides. A request that is not a call has at
      least one, so that a hook that allows requests without findings does not allow it.
    - ``context``: The host's identifier of the caller, ``call_tool(context=...)``.
    - ``origin``: "host", "app" for a tool's view, or "code" for a script's call.
    - ``script``: The model's script that makes the call, a ``Script``; None for anything else.
    - ``edited``: Whether the approver changed the arguments.
    - ``fingerprint``: The fingerprint that an approval is bound to; None if it cannot be
      remembered.

    A hook that uses only these attributes handles all four kinds. Attributes that only calls have,
    such as ``tool`` and ``arguments``, raise ``AttributeError`` for the others, which is a denial.
    """

    __slots__ = ()

    kind: ClassVar[RequestKind]
    """The kind of request."""
    asks: ClassVar[str]
    """The question for a person: "May this tool run?"."""
    prompt: ClassVar[str]
    """The question for a person, in two or three words: "Run it?"."""
    can_edit: ClassVar[bool] = False
    """Whether the request has arguments, which an approval may replace."""
    _covers_once: ClassVar[str]
    """A sentence about the coverage of an approval that is not remembered."""
    _members: ClassVar[Mapping[str, Callable[[Any], Any]]]
    """The fields of this kind in ``to_json``, and the parser of each."""
    _identity: Callable[[], str | None] | None
    """A function that returns the server's identity; None if it is unknown."""

    if TYPE_CHECKING:

        @property
        def id(self) -> str:
            """The id, as in the audit."""

        @property
        def server(self) -> str:
            """The host's name for the server."""

        @property
        def findings(self) -> tuple[Finding, ...]:
            """The findings for the person who decides."""

        @property
        def subject(self) -> str:
            """The subject of the request."""

        @property
        def fingerprint(self) -> str | None:
            """The fingerprint that an approval is bound to."""

        @property
        def context(self) -> Hashable:
            """The host's identifier of the caller."""

        @property
        def origin(self) -> CallOrigin:
            """The origin of the request."""

        @property
        def script(self) -> Script | None:
            """The model's script that makes the call."""

        @property
        def arguments_json(self) -> str:
            """The arguments as JSON text."""

        @property
        def edited(self) -> bool:
            """Whether the approver changed the arguments."""

    else:  # a type checker reports these by itself
        context = None
        edited = False
        origin = "host"
        script = None

        def __getattr__(self, name: str) -> Any:
            kind = type(self).__name__
            if name in _OF_CALLS:
                raise AttributeError(
                    f"a {kind} has no {name!r}, which only a tool call has: use request.kind, "
                    "request.subject and request.hints"
                )
            raise AttributeError(f"a {kind} has no {name!r}")

    @property
    def hints(self) -> Hints:
        """The possible effects; the worst case unless it is a call."""
        return WORST

    @property
    def trusted(self) -> bool:
        """Whether the host trusts the server's annotations."""
        return False

    @property
    def key(self) -> str:
        """The digest of kind, server, subject, context and origin.

        It is equal for the same request made again, also after a reconnect. It differs for a server
        with the same name but another command or URL. Other processes compute the same key if the
        context is a str, a number, a boolean or a tuple of them.
        """
        whose = [context_text(self.context), self.origin, self._server_is()]
        return digest_of([self.kind, self.server, self._asked_for(), whose])

    def facts(self) -> tuple[Fact, ...]:
        """The facts for the person who decides, in reading order.

        Show no other attribute of a request. The context is not among the facts.
        """
        raise NotImplementedError

    def _question_facts(self) -> tuple[Fact, ...]:
        """Return the facts of the question at a terminal: without those that repeat ``asks``."""
        return self.facts()

    def _without_values(self) -> ApprovalRequest:
        """The request for a record, without values that may be secrets whatever they look like."""
        return self

    def choices(self) -> tuple[Choice, ...]:
        """The possible reaches of an approval: names for ``Allow(remember=...)``."""
        raise NotImplementedError

    def for_one_call(self) -> ApprovalRequest:
        """Return the request as of a session that ends with this call.

        "until the session ends" is not among its choices, and "for one hour" is stored as "always"
        is.
        """
        return self

    def why_not_remembered(self, remember: Remember) -> str | None:
        """Return why an approval with this reach cannot be remembered; None if it can."""
        if remember.where:
            return f"a {self.kind} has no arguments"
        if remember.scope != "call" and remember.scope not in self.choices():
            return f"an approval of a {self.kind} is not for {remember.scope!r}"
        return None

    def refusal(self, message: str, **fields: Any) -> McpError:
        """Return the error for a denial; ``fields`` are those of ``CallDenied``."""
        return CallDenied(f"{self._not_done}{message}", **fields, server=self.server)

    def with_arguments(self, arguments: Any) -> Any:
        """Return the call with these arguments in place of its own.

        Raises ``TypeError`` for a request that is not a call and for arguments that are not a
        mapping, and ``NotJson``.
        """
        raise TypeError(f"a {self.kind} has no arguments")

    @property
    def _weight(self) -> int:
        """The approximate number of characters needed to store it."""
        return sum(len(fact.text) for fact in self.facts())

    @property
    def _exactly(self) -> str | None:
        """The digest of everything sent with a call, for an approval of exactly that; else None."""
        return None

    def coverage(self, remember: Remember | None) -> str:
        """Return sentences about what an approval with this reach covers; names are unsafe."""
        if remember is None or remember.scope == "call":
            return self._covers_once
        return self._covers(remember, until(remember))

    def to_json(self) -> dict[str, Any]:
        """Return the request as plain JSON, for ``from_json``.

        Raises ``ConfigError`` for a context that cannot be stored: str, numbers, booleans and
        tuples of them can.
        """
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
        """Parse the result of ``to_json``. Raises ``ValueError`` for anything else."""
        try:
            module, name = _CLASSES[value["kind"]]
            kind: Any = getattr(import_module(f".{module}", __package__), name)
            request: ApprovalRequest = kind._made_of(kind._common_members(value), value)
        except (LookupError, TypeError, AttributeError, NotJson, ConfigError) as error:
            raise ValueError(f"the value is not a request ({type(error).__name__})") from None
        if request.key != value.get("key"):
            raise ValueError("the key does not match the request")
        return request

    def _server_is(self) -> Any:
        """The server's identity besides its name; None if unknown."""
        return None if self._identity is None else self._identity()

    def _asked_for(self) -> Any:
        """The part of ``key`` besides kind, server, context and origin, as JSON."""
        raise NotImplementedError

    def _stored_as(self) -> StoredAs:
        """The scope of a remembered approval: by default the same subject and fingerprint."""
        return StoredAs(self.subject, self.subject, self.fingerprint)

    def _covers(self, remember: Remember, until: str) -> str:
        """The ``coverage`` of an approval that is remembered."""
        raise NotImplementedError

    @property
    def _not_done(self) -> str:
        """The words before the reason in a refusal."""
        return ""

    @property
    def _recorded(self) -> dict[str, Any]:
        """The part of its audit record for this kind."""
        return {}

    def _own_members(self) -> dict[str, Any]:
        """The part of ``to_json`` for this kind."""
        return {name: as_json(getattr(self, name)) for name in self._members}

    @classmethod
    def _common_members(cls, value: Any) -> dict[str, Any]:
        """The part of ``to_json`` for all kinds, as far as this kind has the fields."""
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
    """Return the SHA-256 digest of the canonical JSON text of ``value``."""
    return "sha256:" + sha256(json.dumps(value, sort_keys=True, separators=(",", ":")))


def new_id(kind: RequestKind) -> str:
    """Return a random id, for a request without a session."""
    return f"{kind}-{os.urandom(8).hex()}"


# ------------------------------------------------------------------ members as JSON


def as_json(value: Any) -> Any:
    """Return a field as plain JSON."""
    if isinstance(value, Mapping):
        return {name: as_json(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return list(map(as_json, value))
    if is_dataclass(value):
        return [getattr(value, each.name) for each in fields(value)]
    return str(value) if isinstance(value, os.PathLike) else value


def text(value: Any) -> str:
    """Return ``value``. Raises ``ValueError`` if it is not a str."""
    if type(value) is not str:
        raise ValueError("a str member is missing")
    return value


def optional_text(value: Any) -> str | None:
    """Return ``value``. Raises ``ValueError`` if it is neither a str nor None."""
    return None if value is None else text(value)


def texts(value: Any) -> tuple[str, ...]:
    """Return a list of str as a tuple. Raises ``ValueError`` for anything else."""
    if type(value) is not list:
        raise ValueError("a list member is missing")
    return FrozenArray(map(text, value))


def named(read: Callable[[Any], T]) -> Callable[[Any], Mapping[str, T]]:
    """Return a parser for an object whose members are parsed with ``read``."""
    return lambda value: FrozenObject((text(name), read(one)) for name, one in value.items())


# ---------------------------------------------------------------- making facts


def facts_of(*rows: tuple[str, str | None, str]) -> list[Fact]:
    """Return facts of label, text and kind, without those whose text is None."""
    return [Fact(label, text, kind) for label, text, kind in rows if text is not None]


def finding_facts(findings: Sequence[Finding]) -> list[Fact]:
    """Return the facts of findings."""
    return [Fact("Note", str(finding), "finding") for finding in findings]


def until(remember: Remember) -> str:
    """Return the end of an approval as the end of a sentence."""
    until = "until the session ends"
    if remember.seconds is not None:
        limit = "" if remember.scope == "always" else f", at most {until}"
        return f"for {remember.seconds / 60:g} minutes{limit}"
    if remember.scope == "always":
        return f"until it is revoked, if the host stores approvals; else {until}"
    return until


def is_known(finding: Finding, asked: Iterable[Finding]) -> bool:
    """Return whether an approval given with the findings ``asked`` covers ``finding``.

    It does if it was among them, is a note, or reports only another connection.
    """
    if finding.note or finding.kind == "reconnected":
        return True
    return finding.known_as in {one.known_as for one in asked}
