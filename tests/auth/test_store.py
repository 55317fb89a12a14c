"""Tokens are stored where no one else can read them, and two processes lose nothing."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import anyio
import keyring
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring

from mcp_client import ConfigError, FileState, OAuth
from mcp_client.auth import KeyringTokens
from mcp_client.auth.store import FileTokens, MemoryTokens, TokenStore, _KeyringStorage
from mcp_client.auth.tokens import Key, Registration, Source, Token
from mcp_client.state import MemoryState, State
from tests.state.contract import StateContract
from tests.support.properties import examples

pytestmark = [pytest.mark.one_backend, pytest.mark.usefixtures("directory_way")]

Result = TypeVar("Result")

ISSUER = "https://as.example"
KEY = Key(ISSUER, "https://mcp.example/mcp", "the-client")
OTHERS = [
    Key("https://as.example/", KEY.resource, KEY.client),
    Key(ISSUER, "https://mcp.example", KEY.client),
    Key(ISSUER, KEY.resource, "another"),
]
TOKEN = Token("at-SECRET", "Bearer", 1_800_000_000.5, 3600.0, "rt-SECRET", frozenset("ab"))
CLIENT = Registration(
    "the-client", "cs-SECRET", "none", 1.5, ("http://127.0.0.1/cb",), ISSUER, frozenset({"read"})
)
SOURCE = Source(KEY, "https://as.example/token", "client_secret_basic")


class Entries(KeyringBackend):
    """A keyring in a dictionary."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.entries[service, username]


class Locked(Entries):
    def get_password(self, service: str, username: str) -> str | None:
        raise RuntimeError("SECRET: the collection is locked")


@pytest.fixture
def entries() -> Iterator[Entries]:
    before = keyring.get_keyring()
    made = Entries()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory that is only ours, as a store wants it."""
    made = tmp_path / "home"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture(params=["memory", "file", "keyring"])
def store(request: pytest.FixtureRequest, home: Path, entries: Entries) -> TokenStore:
    match request.param:
        case "memory":
            return MemoryTokens()
        case "file":
            return FileTokens(home / "tokens.json")
        case _:
            return KeyringTokens(claims=home / "claims.json")


# ------------------------------------------------------------ what every store does


async def test_what_is_stored_is_found_until_it_is_deleted(store: TokenStore) -> None:
    assert await store.load(KEY) is None
    await store.delete(KEY)
    await store.save(KEY, TOKEN)
    assert await store.load(KEY) == TOKEN
    newer = Token("at-2")
    await store.save(KEY, newer)
    assert await store.load(KEY) == newer
    await store.delete(KEY)
    assert await store.load(KEY) is None


async def test_a_token_is_for_one_issuer_one_resource_and_one_client(store: TokenStore) -> None:
    await store.save(KEY, TOKEN)
    for other in OTHERS:
        assert await store.load(other) is None
    for number, other in enumerate(OTHERS):
        await store.save(other, Token(f"at-{number}"))
    await store.delete(OTHERS[0])
    assert await store.load(KEY) == TOKEN
    assert await store.load(OTHERS[1]) == Token("at-1")


async def test_a_registration_is_for_its_issuer_letter_by_letter(store: TokenStore) -> None:
    assert await store.load_registration(ISSUER) is None
    await store.save_registration(CLIENT)
    assert await store.load_registration(ISSUER) == CLIENT
    assert await store.load_registration(ISSUER + "/") is None
    renewed = Registration("another", issuer=ISSUER)
    await store.save_registration(renewed)
    assert await store.load_registration(ISSUER) == renewed
    await store.delete_registration(ISSUER)
    await store.delete_registration(ISSUER)
    assert await store.load_registration(ISSUER) is None


async def test_where_tokens_came_from_is_remembered_for_a_server(store: TokenStore) -> None:
    assert await store.recall("https://mcp.example/mcp") is None
    await store.remember("https://mcp.example/mcp", SOURCE)
    await store.remember("https://mcp.example/mcp", SOURCE)
    assert await store.recall("https://mcp.example/mcp") == SOURCE
    assert await store.recall("https://mcp.example") is None


async def test_a_claim_belongs_to_one_caller_until_it_is_released(store: TokenStore) -> None:
    mark = await store.claim(KEY, 60)
    assert mark is not None
    assert await store.claim(KEY, 60) is None
    other = await store.claim(OTHERS[0], 60)
    assert other is not None
    await store.release(KEY, other)
    await store.release(KEY, "")
    assert await store.claim(KEY, 60) is None
    await store.release(KEY, mark)
    assert await store.claim(KEY, 60) not in (None, mark)


async def test_an_expired_claim_is_free_and_its_old_mark_releases_nothing(
    store: TokenStore,
) -> None:
    dead = await store.claim(KEY, 0)
    assert dead is not None
    heir = await store.claim(KEY, 60)
    assert heir is not None
    await store.release(KEY, dead)
    assert await store.claim(KEY, 60) is None
    await store.release(KEY, heir)


async def test_no_store_shows_a_secret(store: TokenStore, caplog: pytest.LogCaptureFixture) -> None:
    await store.save(KEY, TOKEN)
    await store.save_registration(CLIENT)
    assert "SECRET" not in f"{store!r} {store}"
    assert "SECRET" not in caplog.text


def at(now: float) -> MemoryTokens:
    store = MemoryTokens()
    store._clock = lambda: now
    return store


def at_once(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """The result of what waits for nothing."""
    with pytest.raises(StopIteration) as done:
        coroutine.send(None)
    result: Result = done.value.value
    return result


async def test_a_claim_made_while_the_clock_was_wrong_does_not_last_forever() -> None:
    store = at(9_000_000.0)
    assert await store.claim(KEY, 60) is not None
    store._clock = lambda: 9_000_059.0
    assert await store.claim(KEY, 60) is None
    store._clock = lambda: 1_000_000.0
    assert await store.claim(KEY, 60) is not None


async def test_a_claim_ends_at_its_second() -> None:
    store = at(100.0)
    assert await store.claim(KEY, 60) is not None
    store._clock = lambda: 159.9
    assert await store.claim(KEY, 60) is None
    store._clock = lambda: 160.0
    assert await store.claim(KEY, 60) is not None


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 4), st.floats(0, 40), st.floats(0, 90)),
        max_size=20,
    )
)
@examples(80)
def test_two_claims_are_never_valid_at_once(steps: list[tuple[bool, int, float, float]]) -> None:
    now = 1_000.0
    store = at(now)
    given_out: dict[str, float] = {}
    for claims, which, passed, seconds in steps:
        now += passed
        store._clock = lambda now=now: now  # type: ignore[misc]
        if claims:
            mark = at_once(store.claim(KEY, seconds))
            good = [each for each, until in given_out.items() if now < until]
            assert (mark is None) == bool(good)
            if mark is not None:
                given_out[mark] = now + seconds
        elif given_out:
            mark = list(given_out)[which % len(given_out)]
            at_once(store.release(KEY, mark))
            del given_out[mark]


# --------------------------------------------------------------------------- a file


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_file_is_made_for_its_owner_only_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "tokens.json"
    before = os.umask(0)
    try:
        await FileTokens(path).save(KEY, TOKEN)
    finally:
        os.umask(before)
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert mode(tmp_path / "deep") == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["tokens.json"]


async def test_reading_creates_no_file(tmp_path: Path) -> None:
    store = FileTokens(tmp_path / "none" / "tokens.json")
    assert await store.load(KEY) is None
    assert await store.recall("https://mcp.example/mcp") is None
    assert list(tmp_path.iterdir()) == []


async def test_another_store_on_the_same_file_finds_what_was_saved(home: Path) -> None:
    await FileTokens(home / "tokens.json").save(KEY, TOKEN)
    await FileTokens(home / "tokens.json").remember("https://mcp.example/mcp", SOURCE)
    later = FileTokens(str(home / "tokens.json"))
    assert await later.load(KEY) == TOKEN
    assert await later.recall("https://mcp.example/mcp") == SOURCE


def test_the_default_file_is_in_the_users_data_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert FileTokens().path == tmp_path / "mcp-client" / "tokens.json"
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    for unset in ("", "relative/path"):
        monkeypatch.setenv("XDG_DATA_HOME", unset)
        expected = tmp_path / "me" / ".local/share/mcp-client/tokens.json"
        assert FileTokens().path == expected
    assert FileTokens("~/t.json").path == tmp_path / "me" / "t.json"


async def refused(store: TokenStore, reason: str) -> None:
    """Each method reports the reason; none changes or shows anything."""
    ways: list[Any] = [
        lambda: store.load(KEY),
        lambda: store.save(KEY, TOKEN),
        lambda: store.delete(KEY),
        lambda: store.load_registration(ISSUER),
        lambda: store.recall("https://mcp.example/mcp"),
        lambda: store.remember("https://mcp.example/mcp", SOURCE),
        lambda: store.claim(KEY, 60),
        lambda: store.release(KEY, "mark"),
    ]
    for way in ways:
        with pytest.raises(ConfigError, match=reason) as caught:
            await way()
        assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o620, 0o610, 0o666])
async def test_a_file_that_others_can_open_is_refused(home: Path, bits: int) -> None:
    path = home / "tokens.json"
    await FileTokens(path).save(KEY, TOKEN)
    before = path.read_bytes()
    path.chmod(bits)
    await refused(FileTokens(path), r"others may read or write it \(mode \d+, chmod it to 600\)")
    assert path.read_bytes() == before
    path.chmod(0o600)
    assert await FileTokens(path).load(KEY) == TOKEN


@pytest.mark.parametrize("bits", [0o720, 0o702, 0o777, 0o1777])
async def test_a_directory_that_others_can_write_to_is_refused(home: Path, bits: int) -> None:
    path = home / "tokens.json"
    await FileTokens(path).save(KEY, TOKEN)
    home.chmod(bits)
    await refused(FileTokens(path), r"its directory .* may be written by others .*chmod go-w")
    home.chmod(0o700)


@pytest.mark.parametrize("bits", [0o750, 0o755])
async def test_a_directory_that_others_can_only_read_is_fine(home: Path, bits: int) -> None:
    path = home / "tokens.json"
    await FileTokens(path).save(KEY, TOKEN)
    home.chmod(bits)
    assert await FileTokens(path).load(KEY) == TOKEN


@pytest.mark.parametrize("whose", ["file", "directory"])
async def test_what_belongs_to_another_user_is_refused(
    home: Path, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home / "tokens.json"
    await FileTokens(path).save(KEY, TOKEN)
    me, check = os.geteuid(), {"file": "access_problem", "directory": "_directory_problem"}[whose]
    asks = lambda: sys._getframe(2).f_code.co_name  # noqa: E731
    monkeypatch.setattr(os, "geteuid", lambda: me + (asks() == check))
    words = {"file": "it belongs", "directory": "its directory .* belongs"}[whose]
    await refused(FileTokens(path), f"{words} to another user")


async def test_a_link_is_not_followed(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    await FileTokens(elsewhere / "tokens.json").save(KEY, TOKEN)
    (home / "tokens.json").symlink_to(elsewhere / "tokens.json")
    await refused(FileTokens(home / "tokens.json"), "is a symbolic link")
    (tmp_path / "link").symlink_to(elsewhere)
    await refused(FileTokens(tmp_path / "link" / "tokens.json"), "is a symbolic link")
    assert await FileTokens(elsewhere / "tokens.json").load(KEY) == TOKEN


async def test_a_file_that_is_not_regular_is_refused_without_waiting_for_it(home: Path) -> None:
    os.mkfifo(home / "tokens.json", 0o600)
    await refused(FileTokens(home / "tokens.json"), "it is not a regular file")
    (home / "dir.json").mkdir(mode=0o700)
    await refused(FileTokens(home / "dir.json"), "it is not a regular file|Is a directory")


BROKEN = {
    "empty": (b"", "it is not JSON"),
    "cut off": (b'{"version": 1, "tokens": {', "it is not JSON"),
    "a list": (b"[]", "it is not a JSON object"),
    "another version": (b'{"format": "mcp-client tokens", "version": 2}', "its version is not 1"),
    "something else": (b'{"name": "SECRET"}', "it is not of the format 'mcp-client tokens'"),
    "a broken list": (
        b'{"format": "mcp-client tokens", "version": 1, "tokens": ["SECRET"]}',
        "'tokens' is not an object of objects",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
async def test_a_broken_file_is_an_error_and_is_not_changed(home: Path, case: str) -> None:
    text, reason = BROKEN[case]
    path = home / "tokens.json"
    path.write_bytes(text)
    path.chmod(0o600)
    await refused(FileTokens(path), f"{re.escape(reason)}.*delete it, and log in again")
    assert path.read_bytes() == text
    path.unlink()
    await FileTokens(path).save(KEY, TOKEN)


@pytest.mark.parametrize(
    ("kind", "entry", "reason"),
    [
        ("tokens", {"access_token": ["SECRET"]}, "the access_token of a token is not a str"),
        ("clients", {"clients": [{"client_secret": "SECRET"}]}, "a registration has no client_id"),
        ("clients", {"clients": "SECRET"}, "the clients of an issuer are not a list"),
        ("token_claims", {"mark": "SECRET"}, "a mark in it is not one"),
    ],
)
async def test_a_broken_entry_spoils_itself_alone_and_is_named_without_a_secret(
    home: Path, kind: str, entry: dict[str, Any], reason: str
) -> None:
    store = FileTokens(home / "tokens.json")
    name = ISSUER if kind == "clients" else json.dumps([KEY.issuer, KEY.resource, KEY.client])
    store._state.change(kind, name, lambda found: entry)
    uses: dict[str, list[Any]] = {
        "tokens": [lambda: store.load(KEY)],
        "clients": [
            lambda: store.load_registration(ISSUER),
            lambda: store.save_registration(CLIENT),
            lambda: store.delete_registration(ISSUER),
        ],
        "token_claims": [lambda: store.claim(KEY, 60)],
    }
    for use in uses[kind]:
        with pytest.raises(ConfigError, match=f"{reason}; delete it, and log in again") as caught:
            await use()
        assert "SECRET" not in str(caught.value)
    assert store._state.get(kind, name) == entry
    await store.save(OTHERS[0], TOKEN)
    assert await store.load(OTHERS[0]) == TOKEN


@pytest.mark.slow
async def test_a_file_that_never_ends_is_not_read_to_its_end(home: Path) -> None:
    path = home / "tokens.json"
    with path.open("wb") as file:
        file.truncate(2**40)  # a hole, which takes no place on the disk
    path.chmod(0o600)
    await refused(FileTokens(path), r"it has more than \d+ bytes")


async def test_a_disk_that_is_full_leaves_the_file_as_it_was(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home / "tokens.json"
    store = FileTokens(path)
    await store.save(KEY, TOKEN)

    def full(*places: Any, **directories: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        with pytest.raises(ConfigError, match="No space left on device"):
            await store.save(KEY, Token("at-2"))
    assert await store.load(KEY) == TOKEN
    assert [each.name for each in home.iterdir()] == ["tokens.json"]


async def test_a_claim_that_fails_writes_nothing(home: Path) -> None:
    store = FileTokens(home / "tokens.json")
    await store.claim(KEY, 60)

    def stamp() -> tuple[int, int]:
        about = store.path.stat()
        return about.st_ino, about.st_mtime_ns

    before = stamp()
    assert await store.claim(KEY, 60) is None
    await store.delete(KEY)
    await store.release(KEY, "another's")
    assert stamp() == before


async def test_the_draft_of_a_killed_writer_is_removed(home: Path) -> None:
    (home / ".tokens.json.0123456789abcdef").write_text("rt-SECRET")
    (home / "other.json").write_text("not ours to touch")
    await FileTokens(home / "tokens.json").save(KEY, TOKEN)
    assert sorted(each.name for each in home.iterdir()) == ["other.json", "tokens.json"]


async def test_waiting_for_the_lock_of_the_file_is_bounded(
    home: Path, without_pauses: None
) -> None:
    store = FileTokens(home / "tokens.json")
    held = os.open(home / ".tokens.json.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match=r"another process has been writing it"):
            await store.save(KEY, TOKEN)
    finally:
        os.close(held)
    await store.save(KEY, TOKEN)


@pytest.mark.both_backends
async def test_changes_of_many_tasks_are_all_stored(home: Path) -> None:
    store = FileTokens(home / "tokens.json")
    keys = [Key(ISSUER, KEY.resource, f"client-{number}") for number in range(12)]
    async with anyio.create_task_group() as tasks:
        for key in keys:
            tasks.start_soon(store.save, key, Token(key.client))
    assert [await store.load(key) for key in keys] == [Token(key.client) for key in keys]


# ------------------------------------------------------------------------ a keyring


async def test_a_keyring_has_one_entry_for_each_value_and_its_claims_hold_no_secret(
    entries: Entries, home: Path
) -> None:
    store = KeyringTokens("my-app", claims=home / "claims.json")
    await store.save(KEY, TOKEN)
    await store.save(OTHERS[0], TOKEN)
    await store.save_registration(CLIENT)
    assert len(entries.entries) == 3
    assert {service for service, _ in entries.entries} == {"my-app"}
    assert not any("SECRET" in name for _, name in entries.entries)
    await store.claim(KEY, 60)
    assert "SECRET" not in (home / "claims.json").read_text()
    await store.delete(KEY)
    await store.delete_registration(ISSUER)
    assert len(entries.entries) == 1


async def test_a_doubtful_client_that_no_token_needs_goes_with_the_next_one(
    store: TokenStore,
) -> None:
    needed = Registration("needed", issuer=ISSUER, doubtful=True)
    await store.save(Key(ISSUER, KEY.resource, "needed"), TOKEN)
    for client in (needed, Registration("not", issuer=ISSUER, doubtful=True), CLIENT):
        await store.save_registration(client)
    assert await store.load_registration(ISSUER, "needed") == needed
    assert await store.load_registration(ISSUER, "not") is None
    assert await store.load_registration(ISSUER) == CLIENT


class TestKeyringState(StateContract):
    """What ``KeyringTokens`` keeps its objects in."""

    kind, other = "tokens", "clients"

    @pytest.fixture
    def address(self, entries: Entries, home: Path) -> str:
        self.opener = lambda address: _KeyringStorage("contract", Path(address))
        return str(home / "claims.json")


def test_the_claims_of_a_keyring_are_in_its_file_and_not_in_the_keyring(
    entries: Entries, home: Path
) -> None:
    storage = _KeyringStorage("contract", home / "claims.json")
    storage.change("token_claims", "one", lambda found: {"mark": "m"})
    assert storage.get("token_claims", "one") == {"mark": "m"}
    assert storage.list("token_claims") == {"one": {"mark": "m"}}
    assert storage.get("tokens", "one") is None
    assert entries.entries == {}


async def test_a_keyring_that_cannot_be_used_states_what_to_do(
    home: Path, entries: Entries
) -> None:
    store = KeyringTokens(claims=home / "claims.json")
    for unusable in (Locked(), NoKeyring()):
        keyring.set_keyring(unusable)
        for way in (lambda: store.load(KEY), lambda: store.delete(KEY)):
            with pytest.raises(ConfigError, match=r"Unlock it .* FileTokens\(\)") as caught:
                await way()
            assert "SECRET" not in str(caught.value)


async def test_a_keyring_entry_that_is_not_a_token_is_an_error(
    home: Path, entries: Entries
) -> None:
    store = KeyringTokens(claims=home / "claims.json")
    await store.save(KEY, TOKEN)
    for broken in ("", "SECRET", "{}", '{"access_token": ["SECRET"]}'):
        for name in entries.entries:
            entries.entries[name] = broken
        with pytest.raises(ConfigError, match=r"delete it, and log in again") as caught:
            await store.load(KEY)
        assert "SECRET" not in str(caught.value)


def test_without_the_package_the_error_names_which_extra_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigError, match=r"install mcp-client-host\[keyring\]"):
        KeyringTokens()


# -------------------------------------------------------------------- any other state


@pytest.mark.parametrize("how", ["memory", "folder"])
async def test_a_state_keeps_tokens_and_returns_their_store(how: str, tmp_path: Path) -> None:
    state: State = MemoryState() if how == "memory" else FileState(tmp_path / "state")
    await state.tokens.save(KEY, TOKEN)
    await state.tokens.save_registration(CLIENT)
    for store in (TokenStore(state), TokenStore.of(state), state.tokens):
        assert await store.load(KEY) == TOKEN
        assert await store.load_registration(ISSUER) == CLIENT
    assert "SECRET" not in repr(state.tokens)


@pytest.mark.parametrize("odd", ["tokens.json", 1, MemoryState])
def test_what_is_not_a_store_is_refused_by_name(odd: Any) -> None:
    with pytest.raises(ConfigError, match=r"store=.*: give FileTokens\(\)"):
        OAuth(store=odd)
    with pytest.raises(ConfigError, match="give a State"):
        TokenStore(odd)
