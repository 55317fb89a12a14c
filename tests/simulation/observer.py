"""What is seen of a simulated life from outside, and whether every promise was kept.

The observer is told by the servers what reached them, by the people what they approved, by the
audit what was recorded, and by the callers what they got. It knows nothing of the package's own
state. Times are those of the life. A call goes by its argument ``n``; with an idempotency key,
several callers may make the same one.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from mcp_client import ToolResult, errors
from mcp_client.errors import McpError

from .sometimes import allowed_by, refused_by
from .world import World

__all__ = ["IN_TASK", "Caller", "Observer"]

_TOLD_SECONDS = 30.0
"""The seconds within which a server is notified that a task is given up."""
IN_TASK = "who, in the task"
"""The beginning of a question that a task asks, and asks once."""


@dataclass
class Approval:
    arguments: dict[str, Any]
    definition: str
    at: float
    used: bool = False


@dataclass
class Caller:
    """One caller of a call, and what became of it."""

    n: str
    client: str
    began: float
    bound: float
    """Seconds within which it has to end."""
    least: float
    """The seconds after which a clock of the call may run out."""
    is_keyed: bool
    may_repeat: bool
    """Whether it permits that the call is sent twice."""
    left: float | None = None
    """When it cancelled the call."""
    ended: float | None = None
    outcome: Any = None


@dataclass
class OnWire:
    """What is known of one call."""

    n: str
    callers: list[Caller] = field(default_factory=list)
    approvals: list[Approval] = field(default_factory=list)
    received: list[tuple[str, float]] = field(default_factory=list)
    """From which client, and when that sent it."""
    ran: int = 0
    refused: list[float] = field(default_factory=list)
    """When the server answered that it needs something first, and has not run it."""
    asked: float = 0.0
    """Seconds in which a person was asked something by the server since it was approved."""
    asked_since: float | None = None
    """Since when a person is being asked."""

    @property
    def most(self) -> int:
        """How often it may be sent: once by each caller, or once by all that share a key."""
        return 1 + len(self.refused) if self.callers[0].is_keyed else len(self.callers)

    @property
    def may_repeat(self) -> bool:
        return any(each.may_repeat for each in self.callers)


class Observer:
    def __init__(self, world: World) -> None:
        self._world = world
        self._calls: dict[str, OnWire] = {}
        self._standing: set[tuple[str, str, str]] = set()
        self._announced: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
        self._lists: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
        self._records: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.servers: dict[str, Any] = {}
        self.has_storage = False
        self.hears_all = True
        """Whether all that a client sends reaches its server."""
        self._opened: set[tuple[str, str]] = set()
        """The clients and the calls that their audits have records of."""
        self._questions: Counter[str] = Counter()
        self.returned: set[str] = set()
        """The calls whose callers get a task, which they look at when they like."""

    # ------------------------------------------------------- what is seen meanwhile

    def begins(self, caller: Caller) -> Caller:
        self._calls.setdefault(caller.n, OnWire(caller.n)).callers.append(caller)
        return caller

    def announced(self, client: str, server: str, version: int) -> None:
        """A client has been told that the server's tools changed."""
        self._world.note(client, f"is told of version {version} of {server}")
        self._announced[client, server].append((self._world.now(), version))

    def listing(self, client: str, server: str, version: int) -> Callable[[], None]:
        """A list is on its way to a client: what to call when it has arrived."""

        def delivered() -> None:
            self._world.note(client, f"has version {version} of {server}")
            self._lists[client, server].append((self._world.now(), version))

        return delivered

    def approved(self, arguments: dict[str, Any], definition: str) -> None:
        """A person or a hook approves these arguments for this definition, once."""
        call = self._calls[str(arguments["n"])]
        call.approvals.append(Approval(arguments, definition, self._world.now()))
        call.asked = 0.0

    def approved_for_all(self, client: str, tool: str, definition: str) -> None:
        """What a client calls of a tool from now on, while it is this one; "" is all clients."""
        self._standing.add((client, tool, definition))

    def received(
        self, client: str, server: str, tool: str, arguments: dict[str, Any], at: float
    ) -> None:
        """A server has received a call, which was sent ``at`` a time."""
        n = str(arguments.get("n"))
        self._world.note(server, f"received {n} ({tool}) of {client}")
        call = self._calls.get(n)
        if call is None:
            self._world.fail(f"{n}: a call was received that no one made")
            return
        began = [each.began for each in call.callers if each.client == client]
        at = max([at, *began[-1:]])  # it may have waited for room behind others
        call.received.append((client, at))
        if (client, n) not in self._opened and "audit fails" not in self._world.rates:
            self._world.fail(f"{n}: it was sent before its audit record was opened")
        if len(call.received) > call.most and not call.may_repeat:
            self._world.fail(f"{n}: it was sent {len(call.received)} times")
        mine = [each for each in call.callers if each.client == client and each.began <= at]
        if all((each.left or each.ended or at) < at for each in mine):
            self._world.fail(f"{n}: it was sent when no caller of {client} waited for it")
        in_force = self._in_force(client, server, tool, at)
        definition = self._approval_of(call, client, tool, arguments, in_force)
        if definition is not None and definition not in in_force:
            self._world.fail(f"{n}: it was sent though {tool} {definition} is not in force")

    def _approval_of(
        self, call: OnWire, client: str, tool: str, arguments: Any, in_force: set[str]
    ) -> str | None:
        """The definition for which exactly this was approved."""
        same = [each for each in call.approvals if each.arguments == arguments]
        same.sort(key=lambda each: each.definition in in_force)
        unused = [each for each in same if not each.used]
        if unused and unused[-1].definition in in_force:
            unused[-1].used = True
            return unused[-1].definition
        for definition in sorted(in_force):
            if self._standing & {(client, tool, definition), ("", tool, definition)}:
                return definition
        if unused or (same and call.may_repeat):
            return same[-1].definition
        what = "with other arguments" if call.approvals and not same else "without an approval"
        self._world.fail(f"{call.n}: it was sent {what}: {json.dumps(arguments)}")
        return None

    def _in_force(self, client: str, server: str, tool: str, at: float) -> set[str]:
        """The definitions of a tool that the client may take for the one in force.

        What it was told before this moment counts: a notification, and the age of its lists.
        """
        sim, told = self.servers[server], self._announced[client, server]
        oldest = max([version for then, version in told if then < at], default=0)
        if sim.ttl is not None:
            fresh = [v for then, v in self._lists[client, server] if then + sim.ttl >= at]
            # Storage may take longer to look at a list than the list holds.
            none = 0 if self.has_storage else sim.version + 1
            oldest = max(oldest, min(fresh, default=none))
        return {
            each["description"]
            for version in range(oldest, sim.version + 1)
            for each in sim.definitions(version)
            if each["name"] == tool
        }

    def asks(self, message: str) -> Callable[[], None]:
        """A server asks something within a call, until what is returned is called."""
        n = message.rpartition(" ")[2]
        call = self._calls[n]
        self._questions[message] += 1
        if self._questions[message] > 1 and IN_TASK in message and n not in self.returned:
            self._world.fail(f"{n}: a question of its task was asked again")
        call.asked_since = began = self._world.now()

        def over() -> None:
            call.asked += self._world.now() - began
            call.asked_since = None

        return over

    def refused(self, n: str) -> None:
        """A server answers that it needs something before it runs a call."""
        self._calls[n].refused.append(self._world.now())

    def ran(self, n: str) -> str:
        """A server runs a call: what its result says."""
        call = self._calls[n]
        call.ran += 1
        return f"{n} run {call.ran}"

    def recorded(self, client: str, record: Any) -> None:
        """A record of a client's audit was written."""
        if record["event"] == "closed" and (who := allowed_by(record)) is not None:
            self._world.happened[f"allowed: {who}"] += 1
        is_run = record.get("tool") is None and "script" in record  # which opens again if resumed
        if "call" in record and not is_run:
            self._records[client, record["call"]].append(record["event"])
        arguments = record.get("arguments")
        if record["event"] == "opened" and isinstance(arguments, Mapping):
            self._opened.add((client, str(arguments.get("n"))))

    # ----------------------------------------------------------------- the verdict

    def ends(self, caller: Caller, outcome: Any) -> None:
        """A caller's call has ended, with a result, an error, or None if its task was cancelled."""
        world, n = self._world, caller.n
        name = type(outcome).__name__ if outcome is not None else "cancelled"
        name = "what a model reads" if name == "str" else name
        world.note(n, f"ends for {caller.client}: {name}: {_shown(outcome)}".rstrip(": "))
        if caller.client in world.dead:
            return
        world.happened[f"outcome: {name}"] += 1
        if isinstance(outcome, McpError) and (why := refused_by(outcome)) is not None:
            world.happened[f"refused: {why}"] += 1
        if isinstance(outcome, ToolResult) and outcome.is_error:
            with suppress(errors.ToolFailed):
                outcome.raise_for_error()
                world.fail(f"{n}: its result is an error, which is not raised")
            world.happened["outcome: ToolFailed"] += 1
        caller.ended, caller.outcome = world.now(), outcome
        took = caller.ended - caller.began
        if took > caller.bound:
            world.fail(f"{n}: it took {took:.0f} s, and {caller.bound:.0f} s are its bound")
        if isinstance(outcome, BaseException) and not isinstance(outcome, McpError):
            world.fail(f"{n}: it raised {name}: {outcome}")
        call = self._calls[n]
        was_sent = call.approvals and call.received and not caller.may_repeat
        if isinstance(outcome, errors.CallTimeout) and was_sent and not outcome.retryable:
            asked = 0.0 if call.asked_since is None else caller.ended - call.asked_since
            sent = call.received[-1][1]  # an approval after that came too late
            before = [each.at for each in call.approvals if each.at <= sent]
            clocked = caller.ended - max(before, default=sent) - call.asked - asked
            early = clocked < caller.least - 1e-6 and not caller.is_keyed
            early = early and "one call at a time" not in world.rates  # it waited for its turn
            if early:
                world.fail(f"{n}: a clock of {caller.least} s ran out after {clocked} s")

    def given_up(self, client: str, calls: list[str]) -> None:
        """The calls that a server still makes for a client, which is about to close."""
        for n in calls:
            mine = [each for each in self._calls[n].callers if each.client == client]
            if n not in self.returned and all(each.ended is not None for each in mine):
                self._world.fail(f"{n}: it was given up, and its server was not told")

    def went_on(self, n: str, client: str, known_at: float) -> None:
        """A task of a client's call ran to its end, and no one reported that it was given up.

        The client has known of it since ``known_at``.
        """
        mine = [each for each in self._calls[n].callers if each.client == client]
        now, ends = self._world.now(), [each.ended or math.inf for each in mine]
        is_over = all(known_at + 1 < end < now - _TOLD_SECONDS for end in ends)
        if is_over and self.hears_all and n not in self.returned and client not in self._world.dead:
            self._world.fail(f"{n}: its task went on, and its server was not told")

    def judge(self) -> None:
        """Check what can be told only at the end."""
        world = self._world
        for n, call in self._calls.items():
            for caller in call.callers:
                if caller.client in world.dead:
                    continue
                wrong = "it never ended" if caller.ended is None else self._wrong(call, caller)
                if wrong:
                    world.fail(f"{n}: {wrong}")
            if not call.callers[0].is_keyed:
                continue
            results = {each.outcome.text for each in call.callers if _is_result(each.outcome)}
            if len(results) > 1 and not call.may_repeat:
                world.fail(f"{n}: its callers have different results: {sorted(results)}")
        for (client, _), events in self._records.items():
            right = events in (["opened", "closed"], ["closed"]) or "audit fails" in world.rates
            right = right or (bool(self.returned) and events == ["opened"])
            if not right and client not in world.dead:
                world.fail(f"the audit of {client} has {events} of one call")

    def _wrong(self, call: OnWire, caller: Caller) -> str | None:
        """What is not true of the outcome that a caller got."""
        outcome, name = caller.outcome, type(caller.outcome).__name__
        began, ended = caller.began, caller.ended or 0.0
        if isinstance(outcome, errors.NotSent):
            if caller.may_repeat or outcome.follows:
                return None
            beside = [
                each
                for each in call.callers
                if each is not caller and each.began <= ended and began <= (each.ended or ended)
            ]
            mine = [at for client, at in call.received if client == caller.client]
            if not beside and any(began <= at <= ended for at in mine):
                return f"{name} says that nothing was sent, and it was received"
            if isinstance(outcome, errors.InvalidArguments):
                return None
            received = sum(at < began for _, at in call.received)
            if caller.is_keyed and received > sum(at <= ended for at in call.refused):
                return f"{name} does not follow, and the call was received before"
        elif isinstance(outcome, errors.OutcomeUnknown):
            if not call.approvals and not outcome.follows and not self._standing:
                return f"{name} says that it was sent, and it was not approved"
        elif isinstance(outcome, errors.BrokenPromise):
            if not call.received:
                return f"{name}, and it was not received"
        elif isinstance(outcome, str):
            if " run " in outcome[:20] and not (call.ran and outcome.startswith(f"{call.n} run ")):
                return f"a model reads what no call of its own returned: {outcome}"
        elif _is_result(outcome):
            if not call.ran:
                return "it has a result, and it did not run"
            if not outcome.text.startswith(f"{call.n} run "):
                return f"its result is that of another call: {outcome.text}"
        return None


def _is_result(outcome: Any) -> bool:
    return outcome is not None and not isinstance(outcome, BaseException | str)


def _shown(outcome: Any) -> str:
    text = "" if outcome is None else str(getattr(outcome, "text", outcome))
    return re.sub(r"end \w{8}", "end", text).replace("\n", " ")[:160]
