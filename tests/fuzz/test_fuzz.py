"""A short run of the fuzzers, and what they found before."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.fuzz.cases import CASES
from tests.fuzz.engine import search
from tests.fuzz.targets import TARGETS, Target

EXECUTIONS = 300

every_target = pytest.mark.parametrize("name", list(TARGETS))


@pytest.fixture(autouse=True)
def no_log() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@every_target
def test_no_bytes_break_a_promise(name: str) -> None:
    for data in CASES.get(name, ()):
        TARGETS[name].run(data)
    found = search(TARGETS[name], seed=1, executions=EXECUTIONS)
    assert found.error is None, (found.failing, found.error)
    assert found.branches > 20, "its files are covered"


@pytest.mark.slow
@every_target
def test_no_bytes_break_a_promise_in_a_longer_run(name: str) -> None:
    found = search(TARGETS[name], seed=2, seconds=4)
    assert found.error is None, (found.failing, found.error)


def test_the_search_finds_what_lies_behind_several_branches() -> None:
    from mcp_client.protocol import jsonrpc

    def broken(data: bytes) -> None:
        try:
            found = jsonrpc.parse(data, 9)
        except jsonrpc.InvalidFrame:
            return
        assert not any(isinstance(message, jsonrpc.Notification) for message in found)

    target = Target(broken, ("protocol/jsonrpc.py",), (b'{"jsonrpc":"2.0","id":1,"method":"m"}',))
    found = search(target, seed=1, executions=100_000)
    assert isinstance(found.error, AssertionError)
    assert found.failing is not None
    with pytest.raises(AssertionError):
        broken(found.failing)


@pytest.mark.slow
def test_a_target_is_run_by_name() -> None:
    words = ["-m", "tests.fuzz", "decoder", "--seconds", "0.2", "--engine", "own"]
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("decoder: ")
