"""An ordered policy: calls that rules decide are not put to a person.

```python
rules = Rules(
    [
        Rule("deny", tool="delete_*"),
        Rule("allow", server="files", tool="read_file", arguments={"/path": {"glob": "/srv/*"}}),
        Rule("allow", read_only=True),
    ]
)
connect(server, approval=rules)
```

The first rule that matches a call decides it; where none matches, the outcome is "ask". A rule
matches when everything it says holds:

- ``server`` and ``tool`` are globs over the whole name, the one the host gave the server and the
  one the tool has: ``*``, ``?``, ``[abc]``; upper and lower case differ. ``fingerprint`` is that of
  one definition. A glob also allows tools that the server adds later: if that is not intended,
  allow by ``fingerprint``, or connect with ``pins``: then a new tool is a finding.
- ``skill`` is a glob over the URI of a skill that is to be loaded. Its ``fingerprint`` is the
  digest of its files, ``SkillRequest.digest``. A rule with ``skill`` is not about tools; one with
  ``tool``, hints, ``trusted=True``, ``arguments`` or ``meta`` is not about skills. A rule that
  allows a skill names it by ``skill`` or ``fingerprint``. A glob also allows the skill once it has
  changed: if that is not intended, allow by ``fingerprint``, or connect with ``pins``.
- ``read_only``, ``destructive``, ``idempotent``, ``open_world`` are the call's hints, so the worst
  case unless the host trusts the server; ``trusted`` is that trust.
- ``arguments`` are constraints (see ``constraints``) on the arguments that will be sent, ``meta``
  on the caller's ``_meta``.
- ``context`` is equal to the call's, the host's word on whose call it is.
- ``origin`` is the call's: "host" for those that the host makes, "app" for those of a tool's view,
  which is code of the server's; "any" for both. A rule that allows and names none is for those of
  the host, as remembered answers are; any other rule that names none is for both.
- ``findings``, for a rule that asks or denies: True, calls with findings; False, those without;
  None, both. A rule that allows matches no call with findings, unless it says ``findings=True``.
- ``expires`` has not come: a time, or a day, which counts to its end, UTC.

``reason`` says why there is the rule; refusals and the audit have it.

A rule that allows matches only what certainly meets its constraints. A rule that asks or denies
matches everything that might: also where the argument is missing, where it has another type
(``{"force": "true"}`` for ``{"/force": {"equals": true}}``) and where only some elements of an
array meet them. So name the tools that such a rule is about.

Rules do not know what a tool does with its arguments, and nothing of file paths: ``/srv/*``
matches ``/srv/../etc/passwd``.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal, TypeAlias, get_args

from ..catalog.call_context import CallOrigin, context_from_json, same_context
from ..errors import ConfigError
from ..runtime.atomic_file import access_problem
from ..runtime.given_path import given_path
from ..runtime.safe_text import safe_text
from .constraints import Constraints, glob
from .decision import Allow, Answer, ApprovalHook, Deny
from .skill_request import SkillRequest
from .tool_call import ToolCall

__all__ = ["Explanation", "Outcome", "Rule", "Rules"]

Outcome: TypeAlias = Literal["allow", "ask", "deny"]
Origin: TypeAlias = CallOrigin | Literal["any"]

_OUTCOMES = get_args(Outcome)
_GLOBS = ("server", "tool", "skill")
_HINTS = ("read_only", "destructive", "idempotent", "open_world")
_FLAGS = (*_HINTS, "trusted", "findings")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What happens to calls that are like this: see ``rules``. Raises ``ConfigError``."""

    outcome: Outcome = field(kw_only=False)
    server: str | None = None
    tool: str | None = None
    skill: str | None = None
    fingerprint: str | None = None
    trusted: bool | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    arguments: Mapping[str, Mapping[str, Any]] | None = field(default=None, hash=False)
    meta: Mapping[str, Mapping[str, Any]] | None = field(default=None, hash=False)
    context: Hashable = None
    """None for calls of any context; lists in a file of rules are tuples."""
    origin: Origin | None = None
    """None: where the rule allows, calls of the host; otherwise those that a view makes, too."""
    findings: bool | None = None
    reason: str | None = None
    """Why there is this rule, for refusals and the audit."""
    expires: datetime | date | str | None = None
    """When the rule ends: a time with its offset, or a day, which counts to its end, UTC. A text
    is ISO 8601. Afterwards it matches no call."""
    _ends: datetime | None = field(default=None, init=False, repr=False, compare=False)
    _globs: Mapping[str, Callable[[str], object]] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False
    )
    _hints: tuple[tuple[str, bool], ...] = field(default=(), init=False, repr=False, compare=False)
    _constraints: Constraints = field(
        default_factory=lambda: Constraints(None), init=False, repr=False, compare=False
    )
    _meta: Constraints = field(
        default_factory=lambda: Constraints(None), init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if not isinstance(self.outcome, str) or self.outcome not in _OUTCOMES:
            raise ConfigError(f"outcome {self.outcome!r}: give 'allow', 'ask' or 'deny'")
        for name in (*_GLOBS, "fingerprint", "reason"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                glob_too = ", which may be a glob such as 'read_*'" if name in _GLOBS else ""
                raise ConfigError(f"{name} {value!r}: give a text{glob_too}, or leave {name} out")
        for name in _FLAGS:
            value = getattr(self, name)
            if value is not None and not isinstance(value, bool):
                raise ConfigError(f"{name} {value!r}: give true or false, or leave it out")
        constraints = _constraints("arguments", self.arguments)
        meta = _constraints("meta", self.meta)
        _check_context(self.context)
        if self.origin not in (None, "host", "app", "any"):
            raise ConfigError(f"origin {self.origin!r}: give 'host', 'app' or 'any'")
        if self.outcome == "allow" and not (
            any(said != ("origin", "any") for said in self._says()) or constraints or meta
        ):
            raise ConfigError(
                "an 'allow' without a condition allows everything: if that is meant, say tool='*'"
            )
        ends = _end_of(self.expires)
        globs = ((name, getattr(self, name)) for name in _GLOBS)
        hints = ((name, getattr(self, name)) for name in _HINTS)
        set = object.__setattr__
        set(self, "arguments", constraints.wanted or None)
        set(self, "_constraints", constraints)
        set(self, "_ends", ends)
        set(self, "meta", meta.wanted or None)
        set(self, "_meta", meta)
        set(self, "_globs", {name: glob(text) for name, text in globs if text is not None})
        set(self, "_hints", tuple((name, value) for name, value in hints if value is not None))

    def matches(self, call: ToolCall | SkillRequest, at: datetime | None = None) -> bool:
        """Whether the rule is about ``call``; ``at`` is another time than now."""
        if self._ends is not None and (at or datetime.now(UTC)) >= self._ends:
            return False
        if isinstance(call, SkillRequest):
            return self._matches_skill(call)
        for name, match in self._globs.items():
            if name == "skill" or not match(call.server if name == "server" else call.tool.name):
                return False
        for name, wanted in self._hints:
            if getattr(call.hints, name) is not wanted:
                return False
        if self.trusted is not None and call.trusted is not self.trusted:
            return False
        if self.outcome == "allow":
            if call.findings and self.findings is not True:
                return False
        elif self.findings is not None and bool(call.findings) is not self.findings:
            return False
        if self.fingerprint is not None and call.tool.fingerprint != self.fingerprint:
            return False
        if self.context is not None and not same_context(self.context, call.context):
            return False
        origin = self.origin or ("host" if self.outcome == "allow" else "any")
        if origin != "any" and call.origin != origin:
            return False
        return self._meets(self._constraints, call.arguments) and (
            not self._meta or self._meets(self._meta, _meta_of(call))
        )

    def _matches_skill(self, request: SkillRequest) -> bool:
        globs, fingerprint = self._globs, self.fingerprint
        if self.origin == "app":
            return False
        if self.trusted or self._hints or self._constraints or self._meta or "tool" in globs:
            return False
        for name, text in (("server", request.server), ("skill", request.uri)):
            if name in globs and not globs[name](text):
                return False
        found = any(one.kind != "skill" for one in request.findings)
        if self.outcome == "allow":
            if (fingerprint is None and "skill" not in globs) or (found and not self.findings):
                return False
        elif self.findings is not None and found is not self.findings:
            return False
        if fingerprint is not None and request.digest != fingerprint:
            return False
        return self.context is None or same_context(self.context, request.context)

    def _meets(self, constraints: Constraints, value: Any) -> bool:
        if not constraints:
            return True
        hold = constraints.hold(value)
        return hold is True if self.outcome == "allow" else hold is not False

    def __str__(self) -> str:
        """On one line, safe to show."""
        words = [
            f"{name}={value!r}" if name in _GLOBS else f"{name}={value}"
            for name, value in self._says()
        ]
        if self._constraints:
            words.append(f"where {self._constraints}")
        if self._meta:
            words.append(f"where _meta {self._meta}")
        if self.findings is not None:
            words.append(f"findings={self.findings}")
        if self._ends is not None:
            words.append(f"until {self._ends.isoformat()}")
        text = safe_text(" ".join([self.outcome, *(words or ["everything"])]), 500)
        return text if self.reason is None else f"{text}: {safe_text(self.reason, 300)}"

    def _says(self) -> list[tuple[str, Any]]:
        names = (*_GLOBS, "fingerprint", "trusted", *_HINTS, "context", "origin")
        return [(name, value) for name in names if (value := getattr(self, name)) is not None]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the rules decide about a call, and which of them decides it."""

    outcome: Outcome
    rule: Rule | None
    """The rule that decides; None where no rule matches."""
    number: int | None
    """Its position, counted from 1."""
    text: str
    """The same as a sentence, safe to show."""


class Rules:
    """The policy, immutable. Give it to ``connect(approval=...)``.

    A call that a rule allows or denies is not asked about, and a remembered answer never overrides
    a denial. Every other call goes to remembered answers and then to ``ask``, an approval hook;
    without one, to the person at the terminal. Arguments that ``ask`` edited are decided by the
    rules again, and refused where the rules deny them.
    """

    __slots__ = ("_decided", "_explained", "ask", "rules")

    rules: tuple[Rule, ...]
    ask: ApprovalHook | None
    _explained: tuple[Explanation, ...]
    _decided: tuple[Answer | None, ...]

    def __init__(self, rules: Iterable[Rule], ask: ApprovalHook | None = None) -> None:
        """Raises ``ConfigError`` for anything but rules and a hook."""
        if not isinstance(rules, Iterable):
            raise ConfigError(f"Rules({rules!r}): give a list of Rule(...)")
        rules = tuple(rules)
        for number, rule in enumerate(rules, 1):
            if type(rule) is not Rule:
                raise ConfigError(f"rule {number} is a {type(rule).__name__}: give a Rule(...)")
        if ask is not None and (not callable(ask) or isinstance(ask, Rules)):
            raise ConfigError(f"Rules(ask={ask!r}): give a function from ToolCall to Allow or Deny")
        set = object.__setattr__
        set(self, "rules", rules)
        set(self, "ask", ask)
        texts = [f"rule {number}: {rule}" for number, rule in enumerate(rules, 1)]
        set(
            self,
            "_explained",
            tuple(
                Explanation(rule.outcome, rule, number, texts[number - 1])
                for number, rule in enumerate(rules, 1)
            ),
        )
        set(self, "_decided", tuple(map(_answer, rules, texts)))

    @classmethod
    def read_only_without_asking(cls, ask: ApprovalHook | None = None) -> Rules:
        """Allow what a trusted server says is read-only; ask about the rest, and about findings.

        A tool that only reads may still send its arguments to other machines: where that matters,
        write ``Rule("allow", read_only=True, open_world=False)``.
        """
        return cls([Rule("allow", trusted=True, read_only=True, origin="any")], ask)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], ask: ApprovalHook | None = None) -> Rules:
        """The rules of a TOML or JSON file, by its extension: a list ``rules`` of tables.

        ```toml
        [[rules]]
        outcome = "allow"
        tool = "read_*"
        arguments = { "/path" = { glob = "/srv/*" } }
        ```

        The keys are those of ``Rule``. Raises ``ConfigError``, which names the file, the rule and
        the key, for anything unknown, and for a file that other users may write.
        """
        return cls(_read(given_path(path, f"Rules.from_file({path!r})")), ask)

    def explain(self, call: ToolCall | SkillRequest, *, at: datetime | None = None) -> Explanation:
        """Which rule decides ``call``, and what it decides; ``at`` another time than now.

        For a policy's own tests, with ``ToolCall.example``.
        """
        if at is not None and at.tzinfo is None:
            raise ConfigError(
                f"explain(at={at}): give the time with its offset, tzinfo=timezone.utc"
            )
        number = self._first(call, at)
        return _NONE if number is None else self._explained[number]

    def decide(self, call: ToolCall | SkillRequest) -> Answer | None:
        """The answer to ``call``; None where the rules leave it to be asked about."""
        number = self._first(call)
        return None if number is None else self._decided[number]

    def __call__(self, call: ToolCall | SkillRequest) -> Answer | Awaitable[Answer]:
        """The rules as an approval hook, for another hook to call."""
        answer = self.decide(call)
        if answer is not None:
            return answer
        if self.ask is None:
            return Deny("no rule decides this call, and Rules(ask=...) names no hook to ask")
        ask: Any = self.ask  # which takes both, or refuses a skill by raising
        answered: Answer | Awaitable[Answer] = ask(call)
        return answered

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __eq__(self, other: object) -> bool:
        return type(other) is Rules and (self.rules, self.ask) == (other.rules, other.ask)

    def __hash__(self) -> int:
        return hash(self.rules)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("rules are immutable: create new ones")

    def __str__(self) -> str:
        """One line a rule, and what happens where none matches."""
        lines = [f"{number:>3}. {rule}" for number, rule in enumerate(self.rules, 1)]
        return "\n".join([*lines, "     ask everything else"])

    def __repr__(self) -> str:
        return f"<Rules, {len(self.rules)} of them>"

    def _first(self, call: ToolCall | SkillRequest, at: datetime | None = None) -> int | None:
        for number, rule in enumerate(self.rules):
            if rule.matches(call, at):
                return number
        return None


_NONE = Explanation("ask", None, None, "no rule matches: the call is asked about")


def _constraints(name: str, wanted: Any) -> Constraints:
    try:
        return Constraints(wanted)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def _check_context(context: Any) -> None:
    try:
        hash(context)
    except TypeError:
        raise ConfigError(
            f"context is a {type(context).__name__}: give a hashable value such as a text or tuple"
        ) from None


def _end_of(expires: Any) -> datetime | None:
    if expires is None:
        return None
    if isinstance(expires, str):
        try:
            expires = (
                date.fromisoformat(expires)
                if len(expires) == 10
                else datetime.fromisoformat(expires)
            )
        except ValueError:
            expires = None
    if isinstance(expires, datetime) and expires.tzinfo is not None:
        return expires
    if isinstance(expires, date) and not isinstance(expires, datetime) and expires < date.max:
        return datetime.combine(expires + timedelta(days=1), time(), UTC)
    raise ConfigError(
        "expires: give a time with its offset, such as 2026-12-31T18:00:00Z, or a day, which "
        "counts to its end, UTC"
    )


def _meta_of(call: ToolCall) -> Any:
    return {} if call.meta_json is None else json.loads(call.meta_json)


def _answer(rule: Rule, text: str) -> Answer | None:
    if rule.outcome == "allow":
        expires = None if rule._ends is None else rule._ends.timestamp()
        return Allow(reason=text, source="rule", expires=expires)
    return Deny(text, source="rule") if rule.outcome == "deny" else None


# ---------------------------------------------------------------------- the file


def _read(path: str | os.PathLike[str]) -> Iterator[Rule]:
    where = os.fspath(path)
    whole = _parsed(path)
    if type(whole) is not dict or set(whole) != {"rules"} or type(whole["rules"]) is not list:
        keys = ", ".join(safe_text(key, 40) for key in whole) if type(whole) is dict else ""
        keys = keys or "nothing"
        raise ConfigError(f"{where}: give one list 'rules' and nothing else; it has {keys}")
    known = [name for name in Rule.__dataclass_fields__ if not name.startswith("_")]
    for number, entry in enumerate(whole["rules"], 1):
        place = f"{where}: rule {number}"
        if type(entry) is not dict:
            raise ConfigError(f"{place} is a {type(entry).__name__}: give a table of keys")
        unknown = [safe_text(key, 40) for key in entry if key not in known]
        if unknown:
            raise ConfigError(
                f"{place}: unknown key {unknown[0]!r}; the keys are {', '.join(known)}"
            )
        if "outcome" not in entry:
            raise ConfigError(f"{place}: outcome is missing: give 'allow', 'ask' or 'deny'")
        if any(value is None for value in entry.values()):
            raise ConfigError(f"{place}: a key is null: give it a value or leave it out")
        if "context" in entry:
            entry["context"] = _context(entry["context"], place)
        try:
            yield Rule(entry.pop("outcome"), **entry)
        except ConfigError as error:
            raise ConfigError(f"{place}: {error}") from None


def _context(value: Any, place: str) -> Hashable:
    try:
        return context_from_json(value)
    except ValueError as error:
        raise ConfigError(f"{place}: {error}") from None


def _parsed(path: str | os.PathLike[str]) -> Any:
    where = os.fspath(path)
    extension = os.path.splitext(where)[1].lower()
    if extension not in (".toml", ".json"):
        raise ConfigError(f"{where}: rules are read from a .toml or a .json file")
    try:
        with open(where, "rb") as file:
            problem = access_problem(os.fstat(file.fileno()), private=False)
            if problem is not None:
                raise ConfigError(f"{where}: the rules cannot be used: {problem}")
            text = file.read().decode()
    except OSError as error:
        raise ConfigError(f"{where}: the rules cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{where}: the rules are not UTF-8 text") from None
    try:
        return tomllib.loads(text) if extension == ".toml" else _json(text)
    except (ValueError, RecursionError) as error:
        kind = extension[1:].upper()
        raise ConfigError(f"{where}: the rules are not {kind}: {safe_text(error, 200)}") from None


def _json(text: str) -> Any:
    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise ValueError(f"the key {twice[0]!r} comes twice")
        return dict(pairs)

    return json.loads(text, object_pairs_hook=members)
