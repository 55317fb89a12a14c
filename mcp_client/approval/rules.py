"""An ordered policy: calls that rules decide are not shown to a person.

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

The first rule that matches a call decides it; if none matches, the outcome is "ask". A rule matches
if all of its conditions are met:

- ``kind`` is the kind of request: "call", "skill", "start" or "sampling"; "any" for all of them. A
  rule without it applies to tool calls.
- ``server`` and ``tool`` are globs over the host's name for the server and the tool's own name:
  ``*``, ``?``, ``[abc]``; upper and lower case differ. ``subject`` is a glob over the subject of
  other requests: the URI of a skill, the command line or URL of a server, the requested model.
  ``fingerprint`` is that of one definition of a tool, of the files of a skill,
  of a server to start. A glob also allows tools that the server adds later, and a skill once it has
  changed. To prevent that, allow by ``fingerprint``, or connect with ``pins``, which report new
  tools as findings.
- ``read_only``, ``destructive``, ``idempotent``, ``open_world`` are the request's hints, so the
  worst case unless the host trusts the server; ``trusted`` is that trust.
- ``arguments`` are constraints (see ``constraints``) on the arguments that will be sent, ``meta``
  on the caller's ``_meta``.
- ``context`` is equal to the request's, the host's identifier of the caller.
- ``origin`` is the request's: "host" for the host's own requests, "code" for those of a model's
  script, "any" for all. "app" is for those of a tool's view, which is code of the server. Without
  it, an allow rule applies to requests of the host, as remembered approvals do; any other rule
  applies to all.
- ``findings`` are kinds of ``Finding``, ``("not_pinned", "odd_name")``. An allow rule does not
  match a request that has a finding of any other kind. Notes (``finding.note``) do not count. A
  rule that asks or denies and lists kinds matches requests with a finding of one of them. The first
  finding of a skill, a start or sampling does not count here: use ``kind``.
- ``expires_at`` has not passed: a time, or a day, which counts to its end, UTC.

``reason`` explains the rule. A model sees only this text of a denial, by default "refused by
policy". The rule itself is in ``CallDenied.rule`` and the audit.

An allow rule matches only requests that certainly meet its constraints. A rule that asks or denies
matches every request that might. The argument may be missing, or have another type
(``{"force": "true"}`` for ``{"/force": {"equals": true}}``). Or only some elements of an array meet
the constraints. So list the tools of such a rule.

Rules do not know what a tool does with its arguments, and nothing of file paths: ``/srv/*``
matches ``/srv/../etc/passwd``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from ..catalog.call_values import CallOrigin, same_context
from ..catalog.finding import Finding
from ..connection.call_options import check_context
from ..errors import ConfigError
from ..runtime.directory import checked_path
from ..runtime.option_names import with_option_names
from ..runtime.safe_text import near, safe_text
from .constraints import Constraints, glob
from .decision import Allow, Answer, ApprovalHook, Deny
from .request import KINDS, ApprovalRequest, RequestKind

__all__ = ["RULE_KEYS", "Explanation", "Origin", "Outcome", "Rule", "Rules", "rule_of"]

Outcome: TypeAlias = Literal["allow", "ask", "deny"]
Origin: TypeAlias = CallOrigin | Literal["any"]
Kind: TypeAlias = RequestKind | Literal["any"]

_OUTCOMES = get_args(Outcome)
_KINDS = (*KINDS, "any")
_GLOBS = ("server", "tool", "subject")
_HINTS = ("read_only", "destructive", "idempotent", "open_world")
_OF_CALLS = ("tool", "arguments", "meta")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule: the outcome for matching requests. Raises ``ConfigError`` if it is invalid.

    - ``outcome``: "allow", "ask" or "deny".
    - ``kind``: The kind of request: "call", "skill", "start", "sampling", or "any" of them.
    - ``server``, ``tool``, ``subject``: Globs over the name of the server, that of the tool, and
      the subject of other kinds of request.
    - ``fingerprint``: That of one definition of a tool, of the files of a skill, of a start.
    - ``trusted``, ``read_only``, ``destructive``, ``idempotent``, ``open_world``: The host's trust
      and the hints of the request; without trust, the worst case.
    - ``arguments``, ``meta``: Constraints on the arguments and on the caller's ``_meta``:
      ``{"/path": {"glob": "/srv/*"}}``.

    A rule matches if all of its conditions are met; see ``mcp_client.approval.rules``.
    """

    outcome: Outcome = field(kw_only=False)
    kind: Kind = "call"
    server: str | None = None
    tool: str | None = None
    subject: str | None = None
    fingerprint: str | None = None
    trusted: bool | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    arguments: Mapping[str, Mapping[str, Any]] | None = field(default=None, hash=False)
    meta: Mapping[str, Mapping[str, Any]] | None = field(default=None, hash=False)
    context: Hashable = None
    """The context of the calls; None for any. Lists in a file of rules are tuples."""
    origin: Origin | None = None
    """The origin of the calls; None for the host's own in an allow rule, otherwise for all."""
    findings: Sequence[str] = ()
    """Kinds of ``Finding``: accepted by an allow rule, required by any other."""
    reason: str | None = None
    """The reason for this rule, for denials and the audit. A model may see it."""
    expires_at: datetime | date | str | None = None
    """The end of the rule: a time with its offset, or a day, which counts to its end, UTC.

    A str is ISO 8601. Afterwards the rule matches nothing.
    """
    _ends: datetime | None = field(default=None, init=False, repr=False, compare=False)
    _globs: tuple[tuple[str, Callable[[str], object]], ...] = field(
        default=(), init=False, repr=False, compare=False
    )
    _hints: tuple[tuple[str, bool], ...] = field(default=(), init=False, repr=False, compare=False)
    _constraints: Constraints = field(
        default_factory=lambda: Constraints(None), init=False, repr=False, compare=False
    )
    _meta: Constraints = field(
        default_factory=lambda: Constraints(None), init=False, repr=False, compare=False
    )

    if not TYPE_CHECKING:  # a type checker reports these by itself

        def __new__(cls, *args: Any, **options: Any) -> Rule:
            """Refuse unknown keys with a suggestion."""
            for name in options:
                if name not in RULE_KEYS:
                    raise ConfigError(f"Rule({name}=...): unknown key{near(name, RULE_KEYS)}")
            return object.__new__(cls)

    def __post_init__(self) -> None:
        if not isinstance(self.outcome, str) or self.outcome not in _OUTCOMES:
            raise ConfigError(f"outcome {self.outcome!r}: give 'allow', 'ask' or 'deny'")
        for name in (*_GLOBS, "fingerprint", "reason"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                glob_too = ", which may be a glob such as 'read_*'" if name in _GLOBS else ""
                raise ConfigError(f"{name} {value!r}: give a text{glob_too}, or leave {name} out")
        for name in (*_HINTS, "trusted"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, bool):
                raise ConfigError(f"{name} {value!r}: give true or false, or leave it out")
        _check_kind(self)
        constraints = _constraints("arguments", self.arguments)
        meta = _constraints("meta", self.meta)
        check_context(self.context)
        if self.origin not in (None, *get_args(CallOrigin), "any"):
            raise ConfigError(f"origin {self.origin!r}: give 'host', 'app', 'code' or 'any'")
        conditions = {name for name, _ in self._conditions()} - {"kind"}
        if self.origin == "any":
            conditions -= {"origin"}
        if self.outcome == "allow" and not (conditions or constraints or meta):
            name = "tool" if self.kind == "call" else "subject"
            raise ConfigError(
                "an 'allow' without a condition allows everything: if that is intended, write "
                f"{name}='*'"
            )
        ends = _end_of(self.expires_at)
        globs = ((name, getattr(self, name)) for name in _GLOBS)
        hints = ((name, getattr(self, name)) for name in _HINTS)
        set = object.__setattr__
        set(self, "findings", _kinds_of(self.findings))
        set(self, "arguments", constraints.wanted or None)
        set(self, "_constraints", constraints)
        set(self, "_ends", ends)
        set(self, "meta", meta.wanted or None)
        set(self, "_meta", meta)
        set(self, "_globs", tuple((name, glob(text)) for name, text in globs if text is not None))
        set(self, "_hints", tuple((name, value) for name, value in hints if value is not None))

    def matches(self, request: ApprovalRequest, at: datetime | None = None) -> bool:
        """Return whether the rule matches ``request``; ``at`` is a time other than now."""
        if self._ends is not None and (at or datetime.now(UTC)) >= self._ends:
            return False
        if self.kind not in (request.kind, "any"):
            return False
        for name, match in self._globs:
            if not match(request.server if name == "server" else request.subject):
                return False
        for name, wanted in self._hints:
            if getattr(request.hints, name) is not wanted:
                return False
        if self.trusted is not None and request.trusted is not self.trusted:
            return False
        if not self._fits_findings(request):
            return False
        if self.fingerprint is not None and request.fingerprint != self.fingerprint:
            return False
        if self.context is not None and not same_context(self.context, request.context):
            return False
        origin = self.origin or ("host" if self.outcome == "allow" else "any")
        if origin != "any" and request.origin != origin:
            return False
        return self._meets_constraints(request)

    def _fits_findings(self, request: ApprovalRequest) -> bool:
        found = [one for one in request.findings if one.kind != request.kind]
        if self.outcome == "allow":
            return all(one.note or one.kind in self.findings for one in found)
        return not self.findings or any(one.kind in self.findings for one in found)

    def _meets_constraints(self, request: Any) -> bool:
        """Check a tool call; only rules for calls have constraints (``_check_kind``)."""
        return (not self._constraints or self._meets(self._constraints, request.arguments)) and (
            not self._meta or self._meets(self._meta, json.loads(request.meta_json or "{}"))
        )

    def _meets(self, constraints: Constraints, value: Any) -> bool:
        hold = constraints.hold(value)
        return hold is True if self.outcome == "allow" else hold is not False

    def __str__(self) -> str:
        """On one line, safe to show."""
        words = [
            f"{name}={value!r}" if name in _GLOBS else f"{name}={value}"
            for name, value in self._conditions()
        ]
        if self._constraints:
            words.append(f"where {self._constraints}")
        if self._meta:
            words.append(f"where _meta {self._meta}")
        if self.findings:
            words.append(f"findings={','.join(self.findings)}")
        if self._ends is not None:
            words.append(f"until {self._ends.isoformat()}")
        text = safe_text(" ".join([self.outcome, *(words or ["everything"])]), 500)
        return text if self.reason is None else f"{text}: {safe_text(self.reason, 300)}"

    def _conditions(self) -> list[tuple[str, Any]]:
        conditions = [("kind", self.kind)] if self.kind != "call" else []
        names = (*_GLOBS, "fingerprint", "trusted", *_HINTS, "context", "origin")
        values = ((name, getattr(self, name)) for name in names)
        return [*conditions, *(each for each in values if each[1] is not None)]


RULE_KEYS = tuple(name for name in Rule.__dataclass_fields__ if not name.startswith("_"))


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision of the rules on a call, and the rule that decides it."""

    outcome: Outcome
    rule: Rule | None
    """The rule that decides; None if no rule matches."""
    number: int | None
    """The position of the rule, counted from 1."""
    text: str
    """The same as a sentence, safe to show."""


@with_option_names()
@dataclass(frozen=True, init=False, repr=False)
class Rules:
    """An immutable policy for ``connect(approval=...)``.

    The ``rules`` are tried in order. A call that one allows or denies is not shown to a person, and
    a remembered decision never overrides a denial. All other calls go to remembered decisions and
    then to ``ask``, an approval hook; without one, to the person at the terminal. Arguments that
    ``ask`` edited are decided by the rules again.

    To refuse all tools that may write, use ``Rules([Rule("allow", read_only=True)], ask=deny_all)``
    with ``connect(trusted=True)``. Without trust, every tool counts as one that writes.
    """

    rules: tuple[Rule, ...]
    """The rules in the order in which they are tried."""
    ask: ApprovalHook | None
    """The hook for calls that no rule decides; None for the person at the terminal."""
    _answers: tuple[Answer | None, ...] = field(compare=False)
    """The decision of each rule."""

    def __init__(self, rules: Iterable[Rule], ask: ApprovalHook | None = None) -> None:
        """Raises ``ConfigError`` for anything but rules and a hook."""
        if not isinstance(rules, Iterable):
            raise ConfigError(f"Rules({rules!r}): give a list of Rule(...)")
        rules = tuple(rules)
        for number, rule in enumerate(rules, 1):
            if type(rule) is not Rule:
                raise ConfigError(f"rule {number} is a {type(rule).__name__}: give a Rule(...)")
        if ask is not None and (not callable(ask) or isinstance(ask, Rules)):
            raise ConfigError(
                f"Rules(ask={ask!r}): give a function from ApprovalRequest to Allow or Deny"
            )
        object.__setattr__(self, "rules", rules)
        object.__setattr__(self, "ask", ask)
        object.__setattr__(self, "_answers", tuple(map(_decision, rules, range(len(rules)))))

    @classmethod
    def read_only_without_asking(cls, ask: ApprovalHook | None = None) -> Rules:
        """Return rules that allow read-only tools of a trusted server, and ask about all others.

        They also ask about findings. A tool that only reads may still send its arguments to other
        machines. To prevent that, use ``Rule("allow", read_only=True, open_world=False)``.
        """
        return cls([Rule("allow", trusted=True, read_only=True, origin="any")], ask)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], ask: ApprovalHook | None = None) -> Rules:
        """Load the rules of a TOML or JSON file, by its extension: a list ``rules`` of tables.

        ```toml
        [[rules]]
        outcome = "allow"
        tool = "read_*"
        arguments = { "/path" = { glob = "/srv/*" } }
        ```

        The keys are those of ``Rule``. Raises ``ConfigError``, which names the file, the rule and
        the key, for an unknown key or value, and for a file that other users may write.
        """
        from .rules_file import read_rules

        path = checked_path(path, f"Rules.from_file({path!r})")
        return cls((rule_of(*each) for each in read_rules(path, RULE_KEYS)), ask)

    def explain(self, call: ApprovalRequest, *, at: datetime | None = None) -> Explanation:
        """Return the rule that decides ``call``, and its decision; ``at`` is a time other than now.

        Use it with ``ToolCall.example`` to test a policy.
        """
        if at is not None and at.tzinfo is None:
            raise ConfigError(
                f"explain(at={at}): give the time with its offset, tzinfo=timezone.utc"
            )
        number = self._first(call, at)
        if number is None:
            return Explanation("ask", None, None, "no rule matches: it is asked about")
        rule = self.rules[number]
        return Explanation(rule.outcome, rule, number + 1, _text(rule, number))

    def decide(self, call: ApprovalRequest) -> Answer | None:
        """Return the decision on ``call``; None if the rules leave it open."""
        number = self._first(call)
        return None if number is None else self._answers[number]

    def __call__(self, call: ApprovalRequest) -> Answer | Awaitable[Answer]:
        """The rules as an approval hook, for another hook to call."""
        decision = self.decide(call)
        if decision is not None:
            return decision
        return self.unmatched(call) if self.ask is None else self.ask(call)

    def unmatched(self, request: ApprovalRequest) -> Deny:
        """Return the denial of a request that no rule matches and no one can be asked about.

        A model sees only the reason; advice for the host is in ``Deny.rule``.
        """
        subject = request._stored_as().subject
        arguments = getattr(request, "arguments", None)
        if request.kind == "call":
            subject = getattr(request, "tool").qualified_name  # noqa: B009 - of a ToolCall alone
        names = ", ".join(safe_text(name, 60) for name in arguments) if arguments else ""
        quoted = f"{safe_text(subject, 200)}{f' (arguments {names})' if names else ''}"
        return Deny(
            f"no rule allows this {request.kind}",
            source="gate",
            rule=f"no rule matches {quoted}; add a rule, or give Rules(ask=...)",
        )

    def check_tools(self, server: str, prefix: str) -> None:
        """Raise ``ConfigError`` for a rule whose ``tool`` is the name that models see.

        ``prefix`` is the beginning of the names that models see for the tools of ``server``. A rule
        with a ``server`` may name a tool whose own name begins with it.
        """
        for number, rule in enumerate(self.rules, 1):
            if rule.tool is not None and rule.server is None and rule.tool.startswith(prefix):
                own = rule.tool.removeprefix(prefix)
                raise ConfigError(
                    f"rule {number}: tool={rule.tool!r} is a name that only models see. Give the "
                    f"server's own name: Rule({rule.outcome!r}, server={server!r}, tool={own!r})"
                )

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __str__(self) -> str:
        """One line a rule, and what happens where none matches."""
        lines = [f"{number:>3}. {rule}" for number, rule in enumerate(self.rules, 1)]
        return "\n".join([*lines, "     ask everything else"])

    def __repr__(self) -> str:
        return f"<Rules, {len(self.rules)} of them>"

    def _first(self, call: ApprovalRequest, at: datetime | None = None) -> int | None:
        for number, rule in enumerate(self.rules):
            if rule.matches(call, at):
                return number
        return None


def _constraints(name: str, wanted: Any) -> Constraints:
    try:
        return Constraints(wanted)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def _end_of(expires_at: Any) -> datetime | None:
    if expires_at is None:
        return None
    if isinstance(expires_at, str):
        try:
            expires_at = (
                date.fromisoformat(expires_at)
                if len(expires_at) == 10
                else datetime.fromisoformat(expires_at)
            )
        except ValueError:
            expires_at = None
    if isinstance(expires_at, datetime) and expires_at.tzinfo is not None:
        return expires_at
    if (
        isinstance(expires_at, date)
        and not isinstance(expires_at, datetime)
        and expires_at < date.max
    ):
        return datetime.combine(expires_at + timedelta(days=1), time(), UTC)
    raise ConfigError(
        "expires_at: give a time with its offset, such as 2026-12-31T18:00:00Z, or a day, which "
        "counts to its end, UTC"
    )


def _check_kind(rule: Rule) -> None:
    if rule.kind not in _KINDS:
        raise ConfigError(f"kind {rule.kind!r}: give one of {', '.join(_KINDS)}")
    if rule.kind == "call":
        return
    for name in _OF_CALLS:
        if getattr(rule, name) is not None:
            advice = "; what else it may be about is subject" if name == "tool" else ""
            raise ConfigError(f"{name} is for tool calls, and kind is {rule.kind!r}{advice}")


def _kinds_of(findings: Any) -> tuple[str, ...]:
    kinds = findings if isinstance(findings, Sequence) and not isinstance(findings, str) else None
    if kinds is None:
        raise ConfigError(f"findings {findings!r}: give a list of kinds of findings")
    for kind in kinds:
        if kind not in Finding.KINDS:
            raise ConfigError(
                f"findings: {safe_text(repr(kind), 60)} is not a kind of finding"
                f"{near(str(kind), Finding.KINDS)}"
            )
    return tuple(kinds)


def _text(rule: Rule, number: int) -> str:
    return f"rule {number + 1}: {rule}"


def _decision(rule: Rule, number: int) -> Answer | None:
    text = _text(rule, number)
    if rule.outcome == "allow":
        expires_at = None if rule._ends is None else rule._ends.timestamp()
        return Allow(reason=text, source="rule", expires_at=expires_at)
    if rule.outcome == "ask":
        return None
    reason = "refused by policy" if rule.reason is None else safe_text(rule.reason, 300)
    return Deny(reason, source="rule", rule=text)


def rule_of(place: str, keys: dict[str, Any]) -> Rule:
    """Return the rule of a table of ``keys``. Raises ``ConfigError``, which names the ``place``."""
    try:
        return Rule(keys.pop("outcome"), **keys)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None
