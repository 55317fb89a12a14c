"""The agents of ``examples/`` on durable engines, killed in each phase: their call runs once."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.interop import peers
from tests.support.starting import free_port

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SECONDS = 180.0


@pytest.fixture
def restate(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Where Restate's server is, as its example reads it from the environment."""
    program, directory = peers.restate_server(), tmp_path / "restate"
    directory.mkdir()
    ingress, admin, node = free_port(), free_port(), free_port()
    settings = {
        "RESTATE_BASE_DIR": str(directory),
        "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}",
        "RESTATE_ADVERTISED_ADDRESS": f"http://127.0.0.1:{node}",
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
        "RESTATE_DEFAULT_NUM_PARTITIONS": "1",
        "RESTATE_DEFAULT_RETRY_POLICY__MAX_INTERVAL": "1s",  # a worker may be slow to start
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_LOG_FILTER": "warn",
    }
    urls = {
        "RESTATE": f"http://127.0.0.1:{ingress}",
        "RESTATE_ADMIN": f"http://127.0.0.1:{admin}",
    }
    log = directory / "log"
    with log.open("wb") as file:
        server = subprocess.Popen(
            [str(program)], env={**os.environ, **settings}, stdout=file, stderr=file
        )
    try:
        for url in (f"{urls['RESTATE_ADMIN']}/health", f"{urls['RESTATE']}/restate/health"):
            _wait_for(url, server, log)
        yield urls
    finally:
        server.kill()
        server.wait(30)
        shutil.rmtree(directory)  # of 200 MB


@pytest.fixture(params=["dbos", "dbos on PostgreSQL", "restate"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str]]:
    """The name of the example, and what it reads from the environment."""
    peers.durable()
    env = {"AGENT_DIRECTORY": str(tmp_path)}
    if request.param == "restate":
        port = free_port()
        env |= {"ADDRESS": f"127.0.0.1:{port}", **request.getfixturevalue("restate")}
        return "durable_agent_restate", env
    if request.param != "dbos":
        env["DATABASE"] = request.getfixturevalue("own_postgres").new_database()
    return "durable_agent_dbos", env


def test_an_agent_killed_while_it_waits_and_while_the_tool_runs_runs_its_call_once(
    engine: tuple[str, dict[str, str]],
) -> None:
    name, env = engine
    reported, seen = run(f"examples/hosting/{name}.py", **env).splitlines()[-2:]
    assert reported.startswith("OutcomeUnknown: ")
    assert re.fullmatch("settled: [^ ]+/call_1", seen)


def test_a_call_whose_result_was_not_checkpointed_is_given_its_result_again(
    engine: tuple[str, dict[str, str]],
) -> None:
    name, env = engine
    words = ("-m", "tests.interop.durable_checks", f"examples.hosting.{name}")
    check = "killed_between_the_result_and_the_checkpoint"
    assert run(*words, check, **env, PAYMENT_SECONDS="0") == "tea: paid\n"


@pytest.mark.parametrize("engine", ["dbos", "restate"], indirect=True)
def test_no_engine_retries_a_call_whose_server_died_while_it_ran(
    engine: tuple[str, dict[str, str]],
) -> None:
    name, env = engine
    words = ("-m", "tests.interop.durable_checks", f"examples.hosting.{name}")
    assert run(*words, "the_server_dies_while_the_tool_runs", **env).startswith("ConnectionLost: ")


def run(*words: str, **env: str) -> str:
    with subprocess.Popen(
        [str(peers.durable()), *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as program:
        with suppress(subprocess.TimeoutExpired):
            program.wait(SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)  # its workers, too
        output, wrong = program.communicate()
    assert program.returncode == 0, output + wrong[-4000:]
    return output


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + SECONDS
    while server.poll() is None and time.monotonic() < until:
        try:
            if httpx.get(url, trust_env=False).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError(log.read_text())
