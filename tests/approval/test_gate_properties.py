"""What holds of the gate for any rules, any server and any failure of those it asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_client import (
    Allow,
    CallDenied,
    ConfigError,
    ConnectError,
    Deny,
    Finding,
    Limits,
    MemoryServer,
    Rule,
    Rules,
    Session,
    ToolCall,
    connect,
)
from mcp_client.approval import Decisions, Remember, one_at_a_time
from mcp_client.approval.constraints import Constraints
from mcp_client.approval.decision import Verdict
from mcp_client.approval.gate import Gate
from mcp_client.approval.remembered import ApprovalMemory
from mcp_client.catalog.tool import fingerprint_of, fingerprinted
from mcp_client.errors import ConnectionLost
from mcp_client.protocol.canonical_json import canonical
from mcp_client.transports.memory import MemoryTransport
from tests.support.properties import examples

pytestmark = pytest.mark.one_backend

few = settings(deadline=None, suppress_health_check=list(HealthCheck))


def run(story: Callable[[], Awaitable[None]], backend: str) -> None:
    async def bounded() -> None:
        with anyio.fail_after(30):
            await story()

    anyio.run(bounded, backend=backend)


# -------------------------------------------- no annotation changes a decision

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
NAMES = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "title")
any_annotations: st.SearchStrategy[Any] = st.one_of(
    st.dictionaries(st.sampled_from(NAMES), st.booleans() | json_values), json_values
)
flags = st.none() | st.booleans()
constraints: st.SearchStrategy[Any] = st.dictionaries(
    st.sampled_from(["", "/n", "/x"]),
    st.sampled_from([{"equals": 1}, {"max": 5}, {"glob": "a*"}, {"in": [1, "a"]}]),
    max_size=2,
)


@st.composite
def rules(draw: st.DrawFn) -> list[Rule]:
    made = []
    for _ in range(draw(st.integers(0, 4))):
        options: dict[str, Any] = {
            "server": draw(st.sampled_from([None, "*", "memory", "other"])),
            "tool": draw(st.sampled_from([None, "*", "t", "[tu]", "u*"])),
            "fingerprint": draw(st.sampled_from([None, None, "sha256:00"])),
            "arguments": draw(constraints),
            "findings": draw(st.sampled_from([(), ("broken_arguments",), Finding.KINDS])),
            **{name: draw(flags) for name in FLAGS},
        }
        outcome: Any = draw(st.sampled_from(["allow", "ask", "deny"]))
        if outcome == "allow":
            options["tool"] = options["tool"] or "*"
        made.append(Rule(outcome, **options))
    return made


FLAGS = ("trusted", "read_only", "destructive", "idempotent", "open_world")


async def outcomes_of(policy: list[Rule], drawn: Any, arguments: Any) -> list[str]:
    """How two calls of a tool with these annotations are decided."""
    outcomes: list[str] = []
    definition = {"name": "t", "inputSchema": {"properties": {"n": {"type": "integer"}}}}

    def server(message: dict[str, Any]) -> Any:
        match message["method"]:
            case "tools/list":
                return {"tools": [{**definition, "annotations": drawn}]}
            case "tools/call":
                outcomes.append("sent")
                return {"content": []}
        return NotImplemented

    async def ask(call: ToolCall) -> Allow:
        outcomes.append(f"asked, knowing {call.hints} and {call.findings}")
        return Allow(remember="session")

    async with connect(MemoryServer(server), approval=Rules(policy, ask)) as session:
        for _ in range(2):
            try:
                await session.call_tool("t", arguments)
            except CallDenied as error:
                outcomes.append(str(error))
    return outcomes


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(rules(), any_annotations, st.sampled_from([{}, {"n": 1}, {"n": "odd"}, {"x": "abc"}]))
@settings(few, max_examples=examples(80).max_examples)
def test_no_annotation_of_an_untrusted_server_changes_a_decision(
    backend: str, policy: list[Rule], drawn: Any, arguments: Any
) -> None:
    async def story() -> None:
        assert (await outcomes_of(policy, drawn, arguments)) == (
            await outcomes_of(policy, None, arguments)
        )

    run(story, backend)


# --------------------------------- no approval is used for what it was not given for


def definition(version: int) -> dict[str, Any]:
    return {
        "name": "t",
        "description": f"Version {version}.",
        "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
    }


@dataclass
class World:
    """A server whose list changes, a person who answers as drawn, and the gate's verdicts."""

    script: Iterator[tuple[Any, int]]
    version: int = 0
    served: int = 0
    session: Session | None = None
    allowed: list[tuple[ToolCall, Allow]] = field(default_factory=list)
    verdicts: list[Verdict[Any]] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    at_once: bool = False

    def serve(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        match message["method"]:
            case "tools/list":
                self.served = self.version
                return {"tools": [definition(self.version)]}
            case "tools/call":
                self.sent.append(canonical(message["params"]["arguments"]))
                return {"content": []}
            case "ping":
                send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
                return {}
        return NotImplemented

    async def approve(self, call: ToolCall) -> Allow | Deny:
        decision, event = next(self.script)
        if not self.at_once:
            assert call.tool.fingerprint == fingerprint_of(fingerprinted(definition(self.served)))
        await self.happen(event)
        if isinstance(decision, Allow):
            self.allowed.append((call, decision))
        return decision  # type: ignore[no-any-return]

    async def happen(self, event: int) -> None:
        """0: nothing. 1: the list changes. 2: it changes unheard. 3: the connection is lost."""
        assert self.session is not None
        if event in (1, 2):
            self.version += 1
        if event == 1:
            await self.session.ping()
        if event == 3:
            self.session._connection.transport.end()  # type: ignore[attr-defined]

    async def call(self, arguments: dict[str, Any], context: Any) -> None:
        assert self.session is not None
        try:
            await self.session.call_tool("t", arguments, context=context)
        except (CallDenied, ConnectError, ConnectionLost):
            return

    def judge(self) -> None:
        for verdict in self.verdicts:
            assert any(self.covers(*one, verdict) for one in self.allowed), verdict
        approved = [verdict.request.arguments_json for verdict in self.verdicts]
        for arguments in self.sent:
            approved.remove(arguments)

    def covers(self, asked: ToolCall, allow: Allow, verdict: Verdict[Any]) -> bool:
        call = verdict.request
        if call.tool.fingerprint != asked.tool.fingerprint:
            return False
        if repr(call.context) != repr(asked.context):
            return False
        wanted = asked.arguments if allow.arguments is None else allow.arguments
        same: bool = call.id == asked.id and call.arguments_json == canonical(wanted)
        if verdict.source != "memory":
            return same
        remember = Remember.of(allow.remember)
        if remember is not None and remember.scope == "call":
            new = {one.kind for one in set(call.findings) - set(asked.findings)}
            return same and new <= {"reconnected"}
        return (
            allow.arguments is None
            and remember is not None
            and set(call.findings) <= set(asked.findings)
            and Constraints(remember.where).hold(call.arguments) is True
        )


yes_or_no = st.sampled_from(
    [
        Deny("no"),
        Allow(),
        Allow(remember="call"),
        Allow(remember="session"),
        Allow(remember="always"),
        Allow(remember=Remember("session", where={"/n": {"max": 2}})),
        Allow(remember=Remember("always", where={"/n": {"in": [1, "odd"]}})),
        Allow({"n": 2}),
        Allow({"n": 1}, remember="session"),
        Allow({"n": "odd"}, remember="call"),
    ]
)
events = st.sampled_from([0, 0, 0, 1, 2, 3])
some_arguments = st.sampled_from([{}, {"n": 1}, {"n": 2}, {"n": 3}, {"n": "odd"}, {"n": []}])
whose = st.lists(st.sampled_from([None, "ana", 1, True, ("ana", 1)]), min_size=3, max_size=3)
deeds = st.lists(st.tuples(events, st.lists(some_arguments, max_size=3)), max_size=6)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(deeds, whose, st.lists(st.tuples(yes_or_no, events), min_size=1, max_size=6), st.booleans())
@settings(few, max_examples=examples(120).max_examples)
def test_no_call_runs_under_an_approval_for_another_fingerprint_or_other_arguments(
    backend: str,
    todo: list[tuple[int, list[dict[str, Any]]]],
    contexts: list[Any],
    answers: list[tuple[Any, int]],
    at_once: bool,
) -> None:
    def script() -> Iterator[tuple[Any, int]]:
        yield from answers
        while True:
            yield answers[-1][0], 0

    world = World(script(), at_once=at_once)
    approve = Gate.decide

    async def judged(gate: Gate, call: ToolCall, *rest: Any) -> Verdict[Any]:
        verdict = await approve(gate, call, *rest)
        world.verdicts.append(verdict)
        return verdict

    async def story() -> None:
        class Known(MemoryTransport):
            stable_identity = "the server"

            def clone(self) -> Known:
                return Known(self._handler)

        server = Known(world.serve)
        async with connect(
            server, approval=world.approve, state=Decisions(), limits=Limits(restarts=1_000)
        ) as session:
            world.session = session
            for event, calls in todo:
                await world.happen(event)
                if at_once:
                    async with anyio.create_task_group() as tasks:
                        for arguments, context in zip(calls, contexts, strict=False):
                            tasks.start_soon(world.call, arguments, context)
                else:
                    for arguments, context in zip(calls, contexts, strict=False):
                        await world.call(arguments, context)

    with patch.object(Gate, "decide", judged):
        run(story, backend)
    world.judge()


# ------------------------------------------ whatever is raised, nothing is sent


class Interrupted(BaseException):
    pass


def raises(error: BaseException) -> Callable[..., Any]:
    def raising(*args: Any, **options: Any) -> Any:
        raise error

    return raising


def raises_async(error: BaseException) -> Callable[..., Any]:
    async def raising(*args: Any, **options: Any) -> Any:
        raise error

    return raising


PLACES: dict[str, Callable[[BaseException], tuple[dict[str, Any], list[Any]]]] = {
    "an async hook": lambda error: ({"approval": raises_async(error)}, []),
    "a sync hook": lambda error: ({"approval": raises(error)}, []),
    "a hook that takes turns": lambda error: (
        {"approval": one_at_a_time(raises_async(error))},
        [],
    ),
    "a policy of the host's own": lambda error: ({"approval": OwnPolicy(error)}, []),
    "the hook of rules": lambda error: ({"approval": Rules([], raises_async(error))}, []),
    "a rule": lambda error: (
        {"approval": Rules([Rule("allow", tool="*")])},
        [patch.object(Rule, "matches", raises(error))],
    ),
    "what the session remembers": lambda error: (
        {"approval": remembering("session"), "state": Decisions()},
        [patch.object(ApprovalMemory, "recall", raises(error))],
    ),
    "the store, looked into": lambda error: (
        {"approval": remembering("always"), "state": Decisions()},
        [patch.object(Decisions, "find", raises(error))],
    ),
    "the store, written to": lambda error: (
        {"approval": remembering("always"), "state": Decisions()},
        [patch.object(Decisions, "add", raises(error))],
    ),
}


class OwnPolicy:
    ask = None

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def decide(self, call: ToolCall) -> None:
        raise self.error


def remembering(scope: Any) -> Callable[[ToolCall], Allow]:
    return lambda call: Allow(remember=scope)


exceptions: st.SearchStrategy[Callable[[], BaseException]] = st.sampled_from(
    [
        lambda: Exception("one"),
        lambda: RuntimeError("two"),
        lambda: KeyError("three"),
        RecursionError,
        MemoryError,
        StopIteration,
        StopAsyncIteration,
        TimeoutError,
        lambda: OSError(28, "full"),
        AssertionError,
        lambda: ConfigError("ours"),
        lambda: ConnectError("ours"),
        lambda: CallDenied("ours"),
        lambda: ExceptionGroup("many", [ValueError("one"), OSError("two")]),
        Interrupted,
        lambda: BaseExceptionGroup("many", [Interrupted()]),
    ]
)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("place", sorted(PLACES))
@given(exceptions)
@settings(few, max_examples=examples(20).max_examples)
def test_nothing_is_sent_whatever_an_approver_raises(
    place: str, backend: str, make: Callable[[], BaseException]
) -> None:
    error = make()
    messages: list[str] = []
    raised: list[BaseException] = []
    if place == "the store, written to" and type(error) is ConfigError:
        return  # it cannot be written down, which an approval of this one call does not need

    def server(message: dict[str, Any]) -> Any:
        messages.append(message["method"])
        if message["method"] == "tools/list":
            return {"tools": [definition(0)]}
        return {"content": []} if message["method"] == "tools/call" else NotImplemented

    async def story() -> None:
        class Known(MemoryTransport):
            stable_identity = "the server"

        options, broken = PLACES[place](error)
        async with connect(Known(server), **options) as session:
            with ExitStack() as patches:
                for one in broken:
                    patches.enter_context(one)
                try:
                    await session.call_tool("t", {"n": 1})
                except BaseException as found:
                    raised.append(found)

    run(story, backend)
    assert "tools/list" in messages
    assert "tools/call" not in messages
    (found,) = raised
    if isinstance(error, Exception):
        assert isinstance(found, CallDenied)
        assert found.source == "gate"
    else:
        assert found is error or isinstance(found, CallDenied | RuntimeError)
