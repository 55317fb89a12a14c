"""The file of what was confirmed: who may use it, what is in it, and who writes it when."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_client import ConfigError, Confirmations, StartRequest, load_config

CONFIG = {
    "mcpServers": {"a": {"command": "run", "env": {"KEY": "PIN 1234"}}, "b": {"command": "x"}}
}


@pytest.fixture
def requests(tmp_path: Path) -> dict[str, StartRequest]:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(CONFIG))
    return dict(load_config(path).requests)


async def test_what_is_confirmed_is_found_again(
    tmp_path: Path, requests: dict[str, StartRequest]
) -> None:
    for store in (Confirmations(tmp_path / "file.json"), Confirmations()):
        assert not await store.is_confirmed(requests["a"])
        await store.confirm(requests["a"])
        assert await store.is_confirmed(requests["a"])
        assert not await store.is_confirmed(requests["b"])
    assert await Confirmations(tmp_path / "file.json").is_confirmed(requests["a"])


async def test_the_file_is_private_and_holds_no_digest_that_could_be_guessed_from(
    tmp_path: Path, requests: dict[str, StartRequest]
) -> None:
    path = tmp_path / "file.json"
    await Confirmations(path).confirm(requests["a"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert requests["a"].fingerprint.removeprefix("sha256:") not in text
    assert "PIN 1234" not in text


async def test_confirmations_are_listed_and_revoked(
    tmp_path: Path, requests: dict[str, StartRequest]
) -> None:
    store = Confirmations(tmp_path / "file.json")
    for request in requests.values():
        await store.confirm(request)
        await store.confirm(request)
    assert [one.server for one in store.list()] == ["a", "b"]
    assert store.revoke(server="a") == 1
    assert store.revoke(path=tmp_path / "elsewhere.json") == 0
    assert not await store.is_confirmed(requests["a"])
    assert await store.is_confirmed(requests["b"])
    assert store.revoke() == 1
    assert store.list() == ()


async def test_a_file_that_others_may_read_or_write_is_refused(
    tmp_path: Path, requests: dict[str, StartRequest]
) -> None:
    path = tmp_path / "file.json"
    store = Confirmations(path)
    await store.confirm(requests["a"])
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod"):
        await store.is_confirmed(requests["a"])
    with pytest.raises(ConfigError, match="chmod"):
        await store.confirm(requests["b"])


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"version": 2}',
        '{"version": 1, "key": "x", "confirmed": []}',
        '{"version": 1, "key": "%s", "confirmed": {}}' % ("a" * 64),
        '{"version": 1, "key": "%s", "confirmed": [1]}' % ("a" * 64),
        '{"version": 1, "key": "%s", "confirmed": [{"path": "x"}]}' % ("a" * 64),
        '{"version": 1, "key": "%s", "confirmed": [{"path": 1, "server": "", "digest": "",'
        ' "when": 0}]}' % ("a" * 64),
    ],
)
async def test_a_file_of_another_form_is_refused_and_kept(
    tmp_path: Path, requests: dict[str, StartRequest], content: str
) -> None:
    path = tmp_path / "file.json"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="confirmations"):
        await Confirmations(path).is_confirmed(requests["a"])
    with pytest.raises(ConfigError, match="confirmations"):
        await Confirmations(path).confirm(requests["a"])
    assert path.read_text() == content


PROGRAM = """
import sys, anyio
from dataclasses import replace
from mcp_client import Confirmations, load_config

async def main(config, file, name):
    request = load_config(config).requests["a"]
    store = Confirmations(file)
    for n in range(10):
        await store.confirm(replace(request, server=f"{name}{n}"))

anyio.run(main, *sys.argv[1:])
"""


def test_processes_that_write_it_take_turns(
    tmp_path: Path, requests: dict[str, StartRequest]
) -> None:
    path = tmp_path / "file.json"
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "mcp.json"), str(path)]
    writers = [subprocess.Popen([*words, name]) for name in ("one", "two", "three")]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert len(Confirmations(path).list()) == 30
    assert [each.name for each in tmp_path.glob(".file*")] == []
