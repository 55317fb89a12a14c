"""Lives of a client in a simulated world: see ``world``. Here are as many as take some seconds."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from mcp_client import errors

from .life import Options, live, lives
from .mutations import MUTATIONS
from .observer import DENIALS
from .world import FAULTS

LIVES, MANY = 200, 2_000
OUTCOMES = (
    "CallCancelled",
    "CallDenied",
    "CallPending",
    "CallTimeout",
    "CallWithdrawn",
    "ConnectError",
    "ConnectionLost",
    "InvalidArguments",
    "InvalidResult",
    "NotSent",
    "OutcomeUnknown",
    "ProtocolViolation",
    "ServerError",
    "StateError",
    "ToolResult",
    "Unanswered",
    "UnknownTool",
    "cancelled",
    "what a model reads",
)
CANNOT_CONNECT = ("ConnectError", "NegotiationError", "StateError")
NOT_SIMULATED = {
    "McpError, BrokenPromise": "only what is derived from them is raised",
    "ConfigError": "a mistake of the program",
    "AuditError": "of a file or a database of records",
    "AuthError": "no server asks for a login",
    "StartDenied": "the program allows each start",
    "InvalidSchema": "each definition is sound",
    "MissingCapability, UrlElicitationRequired": "no server raises them",
    "NotFound, SkillError": "only tools are used",
    "ResultNotStored": "no state fails only for a result",
    "NotPending": "a person meets it",
    "ToolChanged, ToolFailed": "of stubs and results that are unpacked",
}
"""Classes of errors that no life has, and why."""
FOUND = Path(__file__).with_name("found.txt")
OTHER_PYTHONS = os.environ.get("MCP_CLIENT_TESTS_PYTHONS", "").split()
"""Other versions of Python with the same packages, to be compared as well: the part ``versions`` of
``.ci/run`` names one."""
_TIMELINES = """
from tests.simulation.life import Options, live
for seed in range(5):
    for backend in ("trio", "asyncio"):
        print(*live(seed, Options(backend=backend, messages=True)).trace, sep="\\n")
"""


def found() -> list[int]:
    lines = FOUND.read_text().splitlines()
    return [int(line.split()[0]) for line in lines if not line.startswith("#")]


@pytest.mark.parametrize("seed", found())
def test_what_was_found_once_is_right(seed: int) -> None:
    for backend in ("", "trio", "asyncio"):
        assert live(seed, Options(backend=backend)).wrong == []


@pytest.mark.parametrize("part", range(4))
def test_every_promise_holds_in_each_life(part: int) -> None:
    seeds = range(part, LIVES, 4)
    assert {seed: wrong for seed, _, wrong in lives(seeds) if wrong} == {}


def test_each_class_of_errors_is_one_that_happens_or_one_that_cannot() -> None:
    classes = {name for name in errors.__all__ if inspect.isclass(getattr(errors, name))}
    unreached = {name for names in NOT_SIMULATED for name in names.split(", ")}
    reached = {*OUTCOMES, *CANNOT_CONNECT}
    assert classes == unreached | (reached & classes)
    assert unreached & reached == set()


@pytest.mark.slow
def test_each_kind_of_fault_error_and_denial_happens_in_some_life() -> None:
    happened, wrong = Counter[str](), dict[int, list[str]]()
    for seed, found, broken in lives(range(LIVES, LIVES + MANY)):
        happened.update(found)
        if broken:
            wrong[seed] = broken
    assert wrong == {}
    sometimes = {
        *(f"fault: {kind}" for kind in FAULTS),
        *(f"denied: {why}" for why in DENIALS),
        *(f"outcome: {kind}" for kind in OUTCOMES),
        *(f"connect: {kind}" for kind in CANNOT_CONNECT),
    }
    assert sometimes - {*happened} == set()


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_mistake_can_be_made(name: str) -> None:
    mutation = MUTATIONS[name]
    assert mutation.source.count(mutation.before) == 1
    assert mutation.before != mutation.after


def test_a_mistake_is_noticed() -> None:
    words = ["-m", "tests.simulation.mutations", "--most=100", "an answer that is none allows"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert (done.returncode, "was sent without an approval" in done.stdout) == (0, True), done


def test_the_same_seed_gives_the_same_timeline_in_another_process() -> None:
    def timelines(python: str, hash_seed: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        words = [python, "-c", _TIMELINES]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
        return done.stdout

    here = timelines(sys.executable, "1")
    with redirect_stdout(StringIO()) as printed:  # in a process that has lived other lives
        exec(_TIMELINES, {})
    assert printed.getvalue() == here
    for python in (sys.executable, *OTHER_PYTHONS):
        assert timelines(python, "2") == here, python
