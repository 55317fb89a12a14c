"""What is seen of a simulated life from outside, and whether every promise was kept.

The observer is told by the servers what reached them, by the people what they approved, by the
storage what was written, and by the callers what they got. It knows nothing of the package's own
state. Times are those of the life.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mcp_client import errors
from mcp_client.errors import McpError

from .world import World

__all__ = ["Observer", "Seen"]


@dataclass
class Approval:
    arguments: dict[str, Any]
    definition: str
    at: float
    used: bool = False


@dataclass
class Seen:
    """One call, by its argument ``n``."""

    n: str
    may_repeat: bool = False
    """Whether the caller permitted that it is sent twice."""
    began: float = 0.0
    ended: float | None = None
    bound: float = 0.0
    """Seconds within which it has to end."""
    outcome: Any = None
    left: float | None = None
    """When its caller cancelled it."""
    approvals: list[Approval] = field(default_factory=list)
    received: list[float] = field(default_factory=list)
    ran: int = 0
    lost: bool = False
    """Whether its client was killed."""


class Observer:
    def __init__(self, world: World) -> None:
        self._world = world
        self.calls: dict[str, Seen] = {}
        self.standing: set[tuple[str, str, str]] = set()
        """Session, tool and definition of what was approved for all calls."""
        self._announced: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
        self._lists: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
        self.servers: dict[str, Any] = {}
        self.audit: dict[str, list[str]] = defaultdict(list)

    # ------------------------------------------------------- what is seen meanwhile

    def announced(self, session: str, server: str, version: int) -> None:
        """A session has been told that the server's tools changed."""
        self._world.note(session, f"is told of version {version} of {server}")
        self._announced[session, server].append((self._world.now(), version))

    def listing(self, session: str, server: str, version: int) -> Callable[[], None]:
        """A list is on its way to a session: what to call when it has arrived."""

        def delivered() -> None:
            self._world.note(session, f"has version {version} of {server}")
            self._lists[session, server].append((self._world.now(), version))

        return delivered

    def approved(self, n: str, arguments: dict[str, Any], definition: str) -> None:
        approval = Approval(arguments, definition, self._world.now())
        self.calls[n].approvals.append(approval)

    def received(
        self, session: str, server: str, tool: str, arguments: dict[str, Any], at: float
    ) -> None:
        """A server has received a call, which was sent ``at`` a time."""
        n = str(arguments.get("n"))
        self._world.note(server, f"received {n} ({tool})")
        call = self.calls.get(n)
        if call is None:
            self._world.fail(f"{n}: a call was received that nobody made")
            return
        call.received.append(at)
        if len(call.received) > 1 and not call.may_repeat:
            self._world.fail(f"{n}: it was sent {len(call.received)} times")
        if call.left is not None and at > call.left:
            self._world.fail(f"{n}: it was sent after its caller had left")
        in_force = self._in_force(session, server, tool, at)
        definition = self._approval_of(call, session, tool, arguments, in_force)
        if definition is not None and definition not in in_force:
            self._world.fail(f"{n}: it was sent though {tool} {definition} is not in force")

    def _approval_of(
        self, call: Seen, session: str, tool: str, arguments: Any, in_force: set[str]
    ) -> str | None:
        """The definition for which exactly this was approved."""
        same = [each for each in call.approvals if each.arguments == arguments]
        unused = [each for each in same if not each.used]
        if unused:
            unused[-1].used = True
            return unused[-1].definition
        if same and call.may_repeat:
            return same[-1].definition
        for definition in sorted(in_force):
            if (session, tool, definition) in self.standing:
                return definition
        what = "with other arguments" if call.approvals and not same else "without an approval"
        self._world.fail(f"{call.n}: it was sent {what}: {json.dumps(arguments)}")
        return None

    def _in_force(self, session: str, server: str, tool: str, at: float) -> set[str]:
        """The definitions of a tool that the session may take for the one in force.

        What it was told before this moment counts: a notification, and the age of its lists.
        """
        sim, told = self.servers[server], self._announced[session, server]
        oldest = max([version for then, version in told if then < at], default=0)
        if sim.ttl is not None:
            fresh = [v for then, v in self._lists[session, server] if then + sim.ttl >= at]
            oldest = max(oldest, min(fresh, default=0))
        return {
            each["description"]
            for version in range(oldest, sim.version + 1)
            for each in sim.definitions(version)
            if each["name"] == tool
        }

    def ran(self, n: str) -> str:
        """A server runs a call: what its result says."""
        call = self.calls[n]
        call.ran += 1
        return f"{n} run {call.ran}"

    def record(self, record: Any) -> None:
        """A record of the audit was written."""
        self.audit[record.get("call", "")].append(record["event"])

    # ----------------------------------------------------------------- the verdict

    def end(self, call: Seen, outcome: Any) -> None:
        """A call has ended, with a result, an error, or None if its task was cancelled."""
        world = self._world
        name = type(outcome).__name__ if outcome is not None else "cancelled"
        world.note(call.n, f"ends: {name}: {_shown(outcome)}")
        world.happened[f"outcome: {name}"] += 1
        if call.ended is not None:
            world.fail(f"{call.n}: it ended twice")
        call.ended, call.outcome = world.now(), outcome
        took = call.ended - call.began
        if took > call.bound:
            world.fail(f"{call.n}: it took {took:.0f} s, and {call.bound:.0f} s are its bound")
        if isinstance(outcome, BaseException) and not isinstance(outcome, McpError):
            world.fail(f"{call.n}: it raised {name}: {outcome}")

    def judge(self) -> None:
        """Check what can be told only at the end."""
        for call in self.calls.values():
            if call.lost:
                continue
            if call.ended is None:
                self._world.fail(f"{call.n}: it never ended")
                continue
            wrong = self._wrong(call, call.outcome)
            if wrong:
                self._world.fail(f"{call.n}: {wrong}")
        for id, events in self.audit.items():
            if id and sorted(events) != ["closed", "opened"] and sorted(events) != ["closed"]:
                self._world.fail(f"the audit has {events} of one call")

    def _wrong(self, call: Seen, outcome: Any) -> str | None:
        """What is not true of a call's outcome."""
        if isinstance(outcome, errors.NotSent):
            if call.received and not (call.may_repeat or outcome.follows):
                return f"{type(outcome).__name__} says that nothing was sent, and it was received"
        elif isinstance(outcome, errors.OutcomeUnknown):
            if not call.approvals and not outcome.follows and not self.standing:
                return (
                    f"{type(outcome).__name__} says that it may have run, and it was not approved"
                )
        elif isinstance(outcome, errors.BrokenPromise):
            if not call.received:
                return f"{type(outcome).__name__}, and it was not received"
        elif outcome is not None and not isinstance(outcome, McpError):
            text = outcome.content[0].text if outcome.content else ""
            if not call.ran:
                return "it has a result, and it did not run"
            if not text.startswith(f"{call.n} run "):
                return f"its result is that of another call: {text}"
        return None


def _shown(outcome: Any) -> str:
    if isinstance(outcome, BaseException):
        return str(outcome).replace("\n", " ")[:160]
    return "" if outcome is None else outcome.text[:60]
