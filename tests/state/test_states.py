"""Each state of ours is held to the contract, and a file that cannot be used is left as it is."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_client import ConfigError, FileState
from mcp_client.auth.tokens import Key, Token
from mcp_client.runtime import atomic_file
from mcp_client.runtime.json_file import JsonFile
from mcp_client.runtime.storage import Change, Object
from mcp_client.state import MemoryState, PostgresState, State
from mcp_client.state.file_state import state_of
from tests.state.contract import KIND, SharedStateContract, StateContract

pytestmark = pytest.mark.usefixtures("directory_way")


def open_file(path: str) -> JsonFile:
    return JsonFile(path, "things", [KIND, "others", "keys"], "delete it to begin another")


class TestMemoryState(StateContract):
    @pytest.fixture
    def address(self) -> str:
        state = MemoryState()
        self.opener = lambda address: state
        return ""


class TestFileState(SharedStateContract):
    opener = "mcp_client:FileState"


class DictState(State):
    """What a host writes for an engine of its own: four methods."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, str], str] = {}
        self.changes = 0
        self.lock = threading.Lock()

    def get(self, kind: str, key: str) -> Object | None:
        return json.loads(self.stored.get((kind, key), "null"))  # type: ignore[no-any-return]

    def change(self, kind: str, key: str, function: Change) -> Object | None:
        with self.lock:
            before = self.stored.get((kind, key), "null")
            after = json.dumps(function(json.loads(before)), allow_nan=False)
            self.stored[kind, key] = after
            self.changes += after != before
            return self.get(kind, key)

    def list(self, kind: str) -> dict[str, Object]:
        with self.lock:
            stored = [key for kind_, key in self.stored if kind_ == kind]
        found = {key: self.get(kind, key) for key in stored}
        return {key: each for key, each in found.items() if each is not None}

    def stamp(self, kind: str) -> int:
        return self.changes


class TestStateOfOnesOwn(StateContract):
    @pytest.fixture
    def address(self) -> str:
        state = DictState()
        self.opener = lambda address: state
        return ""

    async def test_it_returns_what_any_state_does(self) -> None:
        state = DictState()
        assert state.decisions.list() == ()
        assert state.pins._read() == {}
        assert state.audit is None
        key = Key("https://issuer.example", "https://mcp.example/", "client")
        await state.tokens.save(key, Token("secret"))
        assert await state.tokens.load(key) == Token("secret")


class TestJsonFile(SharedStateContract):
    opener = "tests.state.test_states:open_file"


def test_a_file_of_some_kinds_keeps_no_other(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stores no cats"):
        open_file(str(tmp_path / "things.json")).get("cats", "a")


def test_a_directory_and_its_files_are_for_their_owner_alone_whatever_the_umask(
    tmp_path: Path,
) -> None:
    before = os.umask(0)
    try:
        FileState(tmp_path / "deep" / "er").change(KIND, "a", lambda found: {})
    finally:
        os.umask(before)
    for directory in (tmp_path / "deep", tmp_path / "deep" / "er"):
        assert directory.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in directory.iterdir()] == ["things.json"]
    assert (directory / "things.json").stat().st_mode & 0o777 == 0o600


def test_a_read_creates_nothing(tmp_path: Path) -> None:
    state = FileState(tmp_path / "none")
    assert state.get(KIND, "a") is None
    assert state.list(KIND) == {}
    assert state.known_secret("a") is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_a_directory_that_others_may_write_is_refused(mode: int, tmp_path: Path) -> None:
    directory = tmp_path / "state"
    state = FileState(directory)
    state.change(KIND, "a", lambda found: {})
    directory.chmod(mode)
    uses: list[Callable[[], object]] = [
        lambda: state.get(KIND, "a"),
        lambda: state.change(KIND, "a", lambda found: None),
    ]
    for use in uses:
        with pytest.raises(ConfigError, match=r"its directory .* may be written by others .*chmod"):
            use()
    directory.chmod(0o755)
    assert state.get(KIND, "a") == {}


def test_links_to_a_state_or_in_it_are_not_followed(tmp_path: Path) -> None:
    state = FileState(tmp_path / "state")
    state.change(KIND, "a", lambda found: {})
    (tmp_path / "link").symlink_to("state")
    with pytest.raises(ConfigError, match="symbolic link"):
        FileState(tmp_path / "link").get(KIND, "a")
    (tmp_path / "state" / "others.json").symlink_to("things.json")
    for use in (state.list, state.stamp):
        with pytest.raises(ConfigError, match="symbolic link"):
            use("others")


OTHER_FORMAT = "it is not of the format 'mcp-client things'"
UNUSABLE = {
    "empty": ("", "it is not JSON"),
    "cut off": ('{"format": "mcp-client things", "version": 1, "things": {"a": {}', "not JSON"),
    "a list": ("[]", "it is not a JSON object"),
    "of another format": (
        '{"format": "mcp-client pins", "version": 1}',
        OTHER_FORMAT,
    ),
    "of no format": ('{"version": 1, "things": {}}', OTHER_FORMAT),
    "newer": (
        '{"format": "mcp-client things", "version": 2, "things": []}',
        "its version is not 1: a newer version of this package wrote it, so use that one",
    ),
    "without a version": ('{"format": "mcp-client things"}', "its version is not 1;"),
    "of an unknown kind": (
        '{"format": "mcp-client things", "version": 1, "cats": {}}',
        "it has the unknown member 'cats'",
    ),
    "of a list": (
        '{"format": "mcp-client things", "version": 1, "things": []}',
        "'things' is not an object of objects",
    ),
    "with a member twice": (
        '{"format": "mcp-client things", "version": 1, "things": {"a": {}, "a": {}}}',
        "the member 'a' appears twice",
    ),
    "deep": ('{"things":' + "[" * 5000 + "]" * 5000 + "}", "cannot be used"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_file_that_cannot_be_used_is_an_error_and_never_written_over(
    case: str, tmp_path: Path
) -> None:
    text, why = UNUSABLE[case]
    path = tmp_path / "things.json"
    path.write_text(text)
    path.chmod(0o600)
    state = open_file(str(path))
    for use in (
        lambda: state.get(KIND, "a"),
        lambda: state.list(KIND),
        lambda: state.change(KIND, "a", lambda found: {}),
        lambda: state.change(KIND, "a", lambda found: None),
        lambda: state.secret("a"),
    ):
        with pytest.raises(ConfigError) as caught:
            use()
        assert why in str(caught.value)
        assert f"the things {path}" in str(caught.value)
        assert "delete it to begin another" in str(caught.value)
    assert path.read_text() == text


def test_a_key_that_was_damaged_is_an_error(tmp_path: Path) -> None:
    state = FileState(tmp_path / "state")
    state.change("keys", "a", lambda found: {"key": "ab"})
    with pytest.raises(ConfigError, match=r"keys\.json .* 64 hexadecimal digits"):
        state.secret("a")


def test_an_error_in_what_is_stored_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "state"
    assert str(path / "things.json") in str(FileState(path).unusable(KIND, "it is odd"))
    assert "it is odd" in str(MemoryState().unusable(KIND, "it is odd"))


@pytest.mark.parametrize("kind", ["", "../a", "a/b", "A", "ä", "a.b", "_a", "a" * 100])
def test_a_kind_of_a_directory_is_a_word(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a kind"):
        FileState(tmp_path).get(kind, "a")


def test_a_path_is_a_state_in_that_directory_and_anything_else_is_refused(tmp_path: Path) -> None:
    made, memory = state_of(tmp_path / "state"), MemoryState()
    assert isinstance(made, FileState)
    assert made.path == tmp_path / "state"
    assert state_of(memory) is memory
    assert state_of(None) is None
    odd: object
    for odd in (1, b"state", {}, State, ""):
        with pytest.raises(ConfigError, match="give the path of a"):
            state_of(odd)


def test_the_url_of_a_database_is_a_state_there_and_no_error_repeats_it() -> None:
    for url in ("postgresql://u:pass@h/x", "postgres://u:pass@h/x"):
        made = state_of(url)
        assert isinstance(made, PostgresState)
        assert repr(made) == "PostgresState(postgresql://h/x, schema='mcp_client')"
        with pytest.raises(ConfigError) as caught:
            state_of(url.encode())
        assert "pass" not in str(caught.value)


def test_a_process_that_may_only_read_a_file_cannot_hold_up_who_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = open_file(str(tmp_path / "things.json"))
    state.change(KIND, "a", lambda found: {})
    held = [os.open(path, os.O_RDONLY) for path in (tmp_path, tmp_path / "things.json")]
    assert all(atomic_file.lock(each, 0) for each in held)
    monkeypatch.setattr(atomic_file, "LOCK_SECONDS", 0.0)
    state.change(KIND, "a", lambda found: None)
    assert state.list(KIND) == {}
    for each in held:
        os.close(each)


def test_what_writers_lock_can_be_opened_by_their_owner_alone_and_goes_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, other = (open_file(str(tmp_path / "things.json")) for _ in range(2))
    monkeypatch.setattr(atomic_file, "LOCK_SECONDS", 0.05)
    seen = []

    def look(found: object) -> dict[str, int]:
        lock = tmp_path / ".things.json.lock"
        seen.append(lock.stat().st_mode & 0o777)
        with pytest.raises(ConfigError, match="another process has been writing it"):
            other.change(KIND, "b", lambda found: {})
        return {}

    before = os.umask(0)
    try:
        state.change(KIND, "a", look)
    finally:
        os.umask(before)
    assert seen == [0o600]
    assert [path.name for path in tmp_path.iterdir()] == ["things.json"]


def test_a_lock_that_others_could_open_is_not_used(tmp_path: Path) -> None:
    state = open_file(str(tmp_path / "things.json"))
    lock = tmp_path / ".things.json.lock"
    lock.touch(mode=0o600)
    state.change(KIND, "a", lambda found: {})  # a killed writer left it
    assert not lock.exists()
    lock.touch(mode=0o600)
    lock.chmod(0o644)
    with pytest.raises(ConfigError, match=r"its lock file \.things\.json\.lock: others may"):
        state.change(KIND, "a", lambda found: None)
    assert state.list(KIND) == {"a": {}}
