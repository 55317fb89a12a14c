"""``KeyringTokens`` in a real Secret Service: GNOME Keyring, on a D-Bus of its own.

Each run of ours is a process of its own, as a program that a person starts. The servers run here.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.interop import peers
from tests.support.authorization import guarded

# What waits are the processes, on one event loop each.
pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.one_backend]

ROOT = Path(__file__).resolve().parents[2]
BUS = """
<busconfig>
  <type>session</type>
  <listen>unix:tmpdir=/tmp</listen>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"""
PROGRAM = """
import sys
import anyio
import secretstorage
from dataclasses import replace
from mcp_client import ConfigError, HttpServer, OAuth, allow_all, connect
from mcp_client.auth import KeyringTokens
from tests.auth.driving import no_one
from tests.interop.logins import agree, use

async def main(url, what):
    store = KeyringTokens("mcp-client test")
    auth = OAuth(store=store, on_url=agree if what == "log in" else no_one)
    if what == "log out":
        await auth.logout(url)
    elif what == "expire":
        source = await store.recall(url)
        token = await store.load(source.key)
        await store.save(source.key, replace(token, expires_at=1.0, access_token="expired"))
    elif what == "lock":
        secretstorage.get_default_collection(secretstorage.dbus_init()).lock()
    else:
        await use(url, auth)

anyio.run(main, *sys.argv[1:])
"""


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def gnome_keyring(home: Path) -> Iterator[Mapping[str, str]]:
    """The environment of a person whose keyring is unlocked."""
    bus, daemon, libraries = peers.gnome_keyring()
    (home / "run").mkdir(mode=0o700)
    config = home / "bus.conf"
    config.write_text(BUS)
    env = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home / "data")}
    env |= {"XDG_RUNTIME_DIR": str(home / "run"), "PYTHONPATH": str(ROOT), "no_proxy": "*"}
    env.pop("PYTHON_KEYRING_BACKEND", None)
    words = [str(bus), f"--config-file={config}", "--nofork", "--print-address"]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with ended(
        subprocess.Popen(
            words, env={**env, **libraries}, stdout=pipe, stderr=nothing, stdin=nothing, text=True
        )
    ) as process:
        assert process.stdout is not None
        env["DBUS_SESSION_BUS_ADDRESS"] = process.stdout.readline().strip()
        words = [str(daemon), "--unlock", "--foreground", "--components=secrets"]
        with ended(
            subprocess.Popen(
                [*words, f"--control-directory={home}/run/keyring"],
                env={**env, **libraries},
                stdin=pipe,
                stdout=nothing,
                stderr=nothing,
                text=True,
            )
        ) as process:
            assert process.stdin is not None
            process.stdin.write("correct horse")
            process.stdin.close()
            yield env


def run(url: str, what: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", PROGRAM, url, what]
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=120, check=False)


async def done(url: str, what: str, env: Mapping[str, str]) -> None:
    result = await anyio.to_thread.run_sync(run, url, what, env)
    assert result.returncode == 0, result.stderr


async def started(env: Mapping[str, str]) -> None:
    """Wait until the Secret Service is on the bus."""
    code = (
        "import secretstorage as s, sys; sys.exit(not s.check_service_availability(s.dbus_init()))"
    )
    with anyio.fail_after(60):
        while True:
            words = [sys.executable, "-c", code]
            if (await anyio.run_process(words, env=env, check=False)).returncode == 0:
                return
            await anyio.sleep(0.05)


async def test_a_login_lasts_in_the_keyring_until_the_logout(tmp_path: Path) -> None:
    with gnome_keyring(tmp_path) as env:
        await started(env)
        async with guarded() as world:
            await done(world.url, "log in", env)
            await done(world.url, "call", env)
            assert len(world.consents) == 1
            await done(world.url, "log out", env)
            result = await anyio.to_thread.run_sync(run, world.url, "call", env)
            assert "on_url raised" in result.stderr  # a person was asked
            (token,) = world.tokens
        for path in tmp_path.rglob("*"):
            assert not path.is_file() or token.encode() not in path.read_bytes(), path


async def test_processes_that_share_a_keyring_refresh_a_token_once(tmp_path: Path) -> None:
    with gnome_keyring(tmp_path) as env:
        await started(env)
        async with guarded() as world:
            await done(world.url, "log in", env)
            await done(world.url, "expire", env)
            async with anyio.create_task_group() as tasks:
                for _ in range(4):
                    tasks.start_soon(done, world.url, "call", env)
            grants = [form["grant_type"] for form in world.forms("/token")]
            assert grants == ["authorization_code", "refresh_token"]


async def test_a_keyring_that_stays_locked_is_an_error_that_names_the_cause(tmp_path: Path) -> None:
    with gnome_keyring(tmp_path) as env:
        await started(env)
        async with guarded() as world:
            await done(world.url, "log in", env)
            await done(world.url, "lock", env)
            result = await anyio.to_thread.run_sync(run, world.url, "call", env)
            assert "ConfigError" in result.stderr
            assert "keyring cannot be used (KeyringLocked)" in result.stderr
            assert not any(token in result.stderr for token in world.tokens)


async def test_a_command_takes_a_secret_of_the_keyring_and_shows_it_nowhere(
    tmp_path: Path,
) -> None:
    with gnome_keyring(tmp_path) as env:
        await started(env)
        keep = "import keyring; keyring.set_password('example.com', 'ana', 'hunter2')"
        words = [sys.executable, "-c", keep]
        assert (await anyio.run_process(words, env=env, check=False)).returncode == 0
        server = shlex.join([sys.executable, "-IS", str(ROOT / "tests/support/scripted.py")])
        words = [sys.executable, "-m", "mcp_client", "call", server, "environment"]
        words += ["--allow", "*", "--json", "--env", "KEY=keyring:example.com/ana"]
        done = await anyio.run_process(words, env=env, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(json.loads(done.stdout)["content"][0]["text"])["KEY"] == "hunter2"
        assert b"hunter2" not in done.stderr
