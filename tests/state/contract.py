"""What every ``State`` is held to. To hold one of your own to it, derive from one of the classes::

    class TestMine(SharedStateContract):
        opener = "my_package.my_state:open_for_tests"       # called with the text of ``address``

        @pytest.fixture
        def address(self) -> str: ...

``StateContract`` is for a state of one process: its ``opener`` may give the same object each time.
``SharedStateContract`` is also for one that several processes open by its ``address``.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_client.runtime.storage import Storage

__all__ = [
    "DatabaseStateContract",
    "SharedStateContract",
    "StateContract",
    "killed_writers",
    "open_by_name",
    "run_together",
]

KIND = "things"
_WRITES = 25
"""Of each process."""
ODD_KEYS = ["", "a", "A", "a/b", "../a", "ä", "\U0001f600", "\ud800", "x" * 2_000, "\0", " a"]
OBJECTS: list[dict[str, Any]] = [
    {},
    {"text": "ü\u202e\ud800\n", "number": 1.5, "whole": -(2**60), "flags": [True, False, None]},
    {"nested": {"list": [{"": {}}, []]}, "long": "x" * 100_000},
]


class StateContract:
    opener: Callable[[str], Storage] | str
    kind = KIND
    other = "others"

    @pytest.fixture
    def address(self, tmp_path: Path) -> str:
        return str(tmp_path / "state")

    @pytest.fixture
    def state(self, address: str) -> Storage:
        return self.open(address)

    def open(self, address: str) -> Storage:
        opener = self.opener
        return open_by_name(opener, address) if isinstance(opener, str) else opener(address)

    # -------------------------------------------------------------- get, change, list

    def test_what_is_not_there_is_none_and_asking_changes_nothing(self, state: Storage) -> None:
        before = state.stamp(self.kind)
        assert state.get(self.kind, "a") is None
        assert state.list(self.kind) == {}
        assert state.change(self.kind, "a", lambda found: found) is None
        assert state.stamp(self.kind) == before

    @pytest.mark.parametrize("key", ODD_KEYS)
    def test_any_text_is_a_key_and_differs_from_any_other(self, key: str, address: str) -> None:
        state = self.open(address)
        for other in ODD_KEYS:
            if other != key:
                state.change(self.kind, other, lambda found: {"other": True})
        state.change(self.kind, key, lambda found: {"mine": True})
        again = self.open(address)
        assert again.get(self.kind, key) == {"mine": True}
        assert set(again.list(self.kind)) == set(ODD_KEYS)
        again.change(self.kind, key, lambda found: None)
        assert state.get(self.kind, key) is None
        assert set(state.list(self.kind)) == set(ODD_KEYS) - {key}

    @pytest.mark.parametrize("number", range(len(OBJECTS)))
    def test_an_object_is_returned_as_it_was_stored(self, number: int, address: str) -> None:
        value = OBJECTS[number]
        assert self.open(address).change(self.kind, "a", lambda found: value) == value
        state = self.open(address)
        assert state.get(self.kind, "a") == value
        assert state.list(self.kind) == {"a": value}
        assert json.dumps(state.get(self.kind, "a"), sort_keys=True) == json.dumps(
            value, sort_keys=True
        )

    def test_a_change_gets_what_is_there_and_puts_what_it_returns(self, state: Storage) -> None:
        seen: list[Any] = []

        def count(found: dict[str, Any] | None) -> dict[str, Any]:
            seen.append(found)
            return {"n": (found or {"n": 0})["n"] + 1}

        assert [state.change(self.kind, "a", count) for _ in range(3)] == [
            {"n": 1},
            {"n": 2},
            {"n": 3},
        ]
        assert seen == [None, {"n": 1}, {"n": 2}]
        assert state.change(self.kind, "a", lambda found: None) is None
        assert state.get(self.kind, "a") is None

    def test_a_change_that_raises_changes_nothing(self, state: Storage) -> None:
        state.change(self.kind, "a", lambda found: {"n": 1})
        before = state.stamp(self.kind)

        def fail(found: dict[str, Any] | None) -> dict[str, Any]:
            assert found is not None
            found["n"] = 2
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            state.change(self.kind, "a", fail)
        assert state.get(self.kind, "a") == {"n": 1}
        assert state.stamp(self.kind) == before
        assert state.change(self.kind, "a", lambda found: {"n": 3}) == {"n": 3}

    @pytest.mark.parametrize("odd", [{"a": float("nan")}, {"a": object()}, {"a": {1, 2}}])
    def test_what_is_not_json_is_not_stored(self, odd: dict[str, Any], state: Storage) -> None:
        state.change(self.kind, "a", lambda found: {"n": 1})
        with pytest.raises((TypeError, ValueError)):
            state.change(self.kind, "a", lambda found: odd)
        assert state.get(self.kind, "a") == {"n": 1}

    def test_what_a_caller_does_to_an_object_it_got_changes_nothing(self, state: Storage) -> None:
        value = {"list": [1]}
        returned = state.change(self.kind, "a", lambda found: value)
        value["list"].append(2)
        got, listed = state.get(self.kind, "a"), state.list(self.kind)["a"]
        for each in (returned, got, listed):
            assert each == {"list": [1]}
            each["list"].append(3)
        assert state.get(self.kind, "a") == {"list": [1]}

    def test_kinds_are_apart(self, state: Storage) -> None:
        state.change(self.kind, "a", lambda found: {"n": 1})
        state.change(self.other, "a", lambda found: {"n": 2})
        assert state.get(self.kind, "a") == {"n": 1}
        assert state.list(self.other) == {"a": {"n": 2}}
        state.change(self.other, "a", lambda found: None)
        assert state.get(self.kind, "a") == {"n": 1}

    def test_several_are_removed_at_once_and_those_that_are_not_there_already_are(
        self, state: Storage
    ) -> None:
        for key in "abc":
            state.change(self.kind, key, lambda found: {"n": 1})
        before = state.stamp(self.kind)
        state.remove(self.kind, [])
        state.remove(self.kind, ["x"])
        assert state.stamp(self.kind) == before
        state.remove(self.kind, ["a", "x", "c"])
        assert state.list(self.kind) == {"b": {"n": 1}}
        assert state.stamp(self.kind) != before

    def test_several_are_found_at_once_and_those_that_are_not_there_are_left_out(
        self, state: Storage
    ) -> None:
        for n, key in enumerate(ODD_KEYS):
            state.change(self.kind, key, lambda found, n=n: {"n": n})  # type: ignore[misc]
        wanted = [*ODD_KEYS[2:6], "none", ODD_KEYS[2]]
        found = state.several(self.kind, iter(wanted))
        assert found == {key: {"n": ODD_KEYS.index(key)} for key in ODD_KEYS[2:6]}
        assert state.several(self.kind, []) == state.several(self.other, wanted) == {}

    def test_what_is_due_is_found_the_lowest_first(self, state: Storage) -> None:
        odd = [None, True, "5", [5]]
        for n, due in enumerate([7, 5, 5.5, -1, 0, 1e9, *odd]):
            state.change(self.kind, str(n), lambda found, due=due: {"due": due})  # type: ignore[misc]
        state.change(self.kind, "without", lambda found: {"n": 5})
        assert state.due(self.kind, 5, 6) == {"1": {"due": 5}, "2": {"due": 5.5}}
        assert list(state.due(self.kind, 0, 2e9)) == ["4", "1", "2", "0", "5"]
        assert list(state.due(self.kind, 0, 7, 2)) == ["4", "1"]
        assert state.due(self.other, 0, 10) == {}
        state.change(self.kind, "1", lambda found: {"due": 8})
        state.change(self.kind, "2", lambda found: {"n": 1})
        assert list(state.due(self.kind, 1, 10)) == ["0", "1"]

    # ------------------------------------------------------------------------ stamps

    def test_a_stamp_is_the_same_until_something_was_changed_and_never_again(
        self, state: Storage
    ) -> None:
        seen = []
        for n in range(30):  # quicker than the clock of a file system ticks
            seen.append(state.stamp(self.kind))
            assert state.stamp(self.kind) == seen[-1]
            state.get(self.kind, "a")
            state.change(self.kind, "a", lambda found: found)
            assert state.stamp(self.kind) == seen[-1]
            state.change(self.kind, "a", lambda found, n=n: {"n": n % 2})  # type: ignore[misc]
        assert len(set(seen)) == len(seen)

    def test_a_watch_that_has_ended_is_not_notified_of_changes(self, state: Storage) -> None:
        reported: list[str] = []
        for _ in range(2):
            end = state.watch(self.kind, lambda: reported.append("too late"))
            end()
            end()
        state.change(self.kind, "a", lambda found: {"n": 1})
        assert reported == []

    # ----------------------------------------------------------------------- secrets

    def test_a_secret_is_made_once_and_each_has_its_own(self, address: str) -> None:
        state = self.open(address)
        assert state.known_secret("one") is None
        one = state.secret("one")
        assert len(one) == 32
        assert state.secret("two") != one
        again = self.open(address)
        assert again.secret("one") == again.known_secret("one") == one
        assert one.hex() not in repr(state)

    # ----------------------------------------------------------------------- threads

    def test_threads_that_change_one_object_lose_nothing(self, address: str) -> None:
        states = [self.open(address) for _ in range(4)]

        def write(state: Storage) -> None:
            for _ in range(25):
                state.change(self.kind, "a", lambda found: {"n": (found or {"n": 0})["n"] + 1})

        threads = [threading.Thread(target=write, args=[state]) for state in states]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert states[0].get(self.kind, "a") == {"n": 100}


class SharedStateContract(StateContract):
    opener: str

    def test_what_one_writes_another_reads(self, address: str) -> None:
        one, other = self.open(address), self.open(address)
        stamp = other.stamp(KIND)
        one.change(KIND, "a", lambda found: {"n": 1})
        assert other.stamp(KIND) != stamp
        assert other.get(KIND, "a") == {"n": 1}
        other.change(KIND, "a", lambda found: None)
        assert one.list(KIND) == {}

    @pytest.mark.slow
    def test_eight_processes_that_write_at_once_lose_nothing(self, address: str) -> None:
        run_together(
            [("tests.state.contract:count_up", self.opener, address, str(n)) for n in range(8)]
        )
        state = self.open(address)
        assert state.get(KIND, "both") == {"n": 8 * _WRITES}
        each = {f"{process} {n}" for process in range(8) for n in range(_WRITES)}
        assert state.list(KIND).keys() == {"both", *each}

    def test_processes_that_need_a_secret_at_once_get_one(self, address: str) -> None:
        found = run_together([("tests.state.contract:print_secret", self.opener, address)] * 2)
        assert len(set(found)) == 1

    @pytest.mark.slow
    def test_a_writer_that_is_killed_loses_nothing_that_was_acknowledged(
        self, address: str
    ) -> None:
        opener = self.opener
        for acknowledged in killed_writers("tests.state.contract:count_on", opener, address):
            found = open_by_name(opener, address).list(KIND)
            last = max((each["n"] for each in found.values()), default=0)
            assert acknowledged <= last


class DatabaseStateContract(SharedStateContract):
    """For a state whose writers of different keys do not wait for one another, and whose ``watch``
    reports changes."""

    def test_changes_that_end_in_another_order_than_they_began_give_another_stamp_each(
        self, address: str
    ) -> None:
        one, other, reader = (self.open(address) for _ in range(3))
        one.change(KIND, "a", lambda found: {"n": 0})
        stamps = [reader.stamp(KIND)]

        def change_others(found: object) -> dict[str, int]:
            for key in ("b", "c"):
                other.change(KIND, key, lambda found: {"n": 1})
                stamps.append(reader.stamp(KIND))
            other.remove(KIND, ["b"])
            stamps.append(reader.stamp(KIND))
            return {"n": 1}

        one.change(KIND, "a", change_others)
        stamps.append(reader.stamp(KIND))
        assert len(set(stamps)) == len(stamps) == 5

    def test_it_reports_changes_made_elsewhere(self, address: str) -> None:
        one, other = self.open(address), self.open(address)
        assert one.reports_changes
        reported = threading.Semaphore(0)
        end = one.watch(KIND, reported.release)
        assert reported.acquire(timeout=120), "what changed before it began may have been missed"
        strange: list[str] = []
        end_other = one.watch(self.other, lambda: strange.append("told"))
        for n in range(3):
            other.change(KIND, "a", lambda found, n=n: {"n": n})  # type: ignore[misc]
            assert reported.acquire(timeout=120)
        other.remove(KIND, ["a", "b"])
        assert reported.acquire(timeout=120)
        assert strange == []
        end_other()
        end()


# --------------------------------------------------------------------- other processes


def open_by_name(opener: str, *args: str) -> Any:
    """Call the function that ``opener`` names, as ``package.module:function``."""
    module, _, name = opener.partition(":")
    return getattr(importlib.import_module(module), name)(*args)


def count_up(opener: str, address: str, name: str) -> None:
    state = open_by_name(opener, address)
    for n in range(_WRITES):
        state.change(KIND, "both", lambda found: {"n": (found or {"n": 0})["n"] + 1})
        state.change(KIND, f"{name} {n}", lambda found, n=n: {"n": n})


def print_secret(opener: str, address: str) -> None:
    print(open_by_name(opener, address).secret("shared").hex())


def count_on(opener: str, address: str) -> Iterator[int]:
    """Yields each number once it was stored."""
    state = open_by_name(opener, address)
    n = max((each["n"] for each in state.list(KIND).values()), default=0)
    while True:
        n += 1
        state.change(KIND, str(n % 7), lambda found, n=n: {"n": n, "more": "x" * 300})
        yield n


_RUN = """
import sys
from mcp_client.runtime import atomic_file
atomic_file.LOCK_SECONDS = 150.0  # on a busy machine others may hold the lock for long
from tests.state.contract import open_by_name
open_by_name(*sys.argv[1:])
"""
_NURSERY = """
import sys
from tests.state.contract import nursery
nursery(*sys.argv[1:])
"""


def _python(code: str, *args: str, **options: Any) -> subprocess.Popen[str]:
    path = os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-c", code, *args],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        **options,
    )


def run_together(calls: list[tuple[str, ...]]) -> list[str]:
    """Call these functions, each in a process of its own, at the same time. What they print."""
    running = [_python(_RUN, *call) for call in calls]
    printed = [process.communicate(timeout=180)[0] for process in running]
    assert [process.returncode for process in running] == [0] * len(calls)
    return printed


def killed_writers(writer: str, *args: str, kills: int = 100) -> Iterator[int]:
    """Run ``writer(*args)`` again and again, each in a process that is killed at some moment.

    ``writer`` yields a number after each thing that it has written. Yields the last such number
    (0 before the first) after each kill, and again after a last writer wrote three things.
    """
    nursery = _python(_NURSERY, writer, str(kills), *args, stdin=subprocess.PIPE)
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    with nursery:
        for line in nursery.stdout:
            yield int(line)
            nursery.stdin.write("\n")  # only now may the next begin
            nursery.stdin.flush()
    assert nursery.returncode == 0


def nursery(writer: str, kills: str, *args: str) -> None:
    """Forks the writers, which is far quicker than to start them."""
    importlib.import_module(writer.partition(":")[0])  # once, and not in each
    last, moment = 0, random.Random(7)
    for number in range(int(kills) + 1):
        is_last = number == int(kills)
        reader, pipe = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            for count, written in enumerate(open_by_name(writer, *args), 1):
                os.write(pipe, b"%d\n" % written)
                if is_last and count == 3:
                    os._exit(0)
        os.close(pipe)
        if not is_last:
            time.sleep(moment.random() * 0.01)
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with open(reader) as acknowledged:
            last = int(([str(last), *acknowledged.read().split()])[-1])
        print(last, flush=True)
        sys.stdin.readline()
