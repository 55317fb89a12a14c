"""Whatever is stored in a state, in a directory or in a file of its own: no kill and no second
writer loses anything that was acknowledged."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import ConfigError, FileState, Pins, Tool
from mcp_client.approval import Decisions, Remember
from mcp_client.approval.tickets import Ticket
from mcp_client.auth import FileTokens, Token
from mcp_client.auth.store import TOKENS
from mcp_client.auth.tokens import Key
from mcp_client.runtime.storage import Storage
from mcp_client.state import State
from tests.state.contract import killed_writers, run_together
from tests.support.terminal import call_of

SLOTS = 20
"""So many things are stored at once: a later one takes the place of an earlier one."""


class Stored:
    """One thing that is stored: ``write`` stores a number, ``numbers`` returns the stored ones."""

    write: Callable[[int], object]
    numbers: Callable[[], set[int]]

    def __init__(self, thing: str, where: str, address: str) -> None:
        getattr(self, thing)(Path(address), where == "a directory")

    def decisions(self, path: Path, is_directory: bool) -> None:
        store = FileState(path).decisions if is_directory else Decisions(path)
        self.write = lambda n: store.add(
            call_of(name=f"t{n % SLOTS}-{n // 1_000}"), Remember("always"), "here", str(n)
        )
        self.numbers = lambda: {int(one.by or 0) for one in store.list()}

    def tickets(self, path: Path, is_directory: bool) -> None:
        store = (FileState(path).decisions if is_directory else Decisions(path)).tickets

        def write(n: int) -> None:
            request, now = call_of(name=f"t{n % SLOTS}-{n // 1_000}"), time.time()
            old = store.look(request)
            if old is not None:
                store.withdraw(old.id)
            store.claim(Ticket(str(n), request, now, now + 600, is_kept=True), SLOTS * 9)

        self.write = write
        self.numbers = lambda: {int(one.id) for one in store.pending()}

    def pins(self, path: Path, is_directory: bool) -> None:
        pins = FileState(path).pins if is_directory else Pins(path)

        def write(n: int) -> None:
            server = f"s{n % SLOTS}-{n // 1_000}"
            pins.accept(server, [Tool(f"t{n}", server, False, {"name": f"t{n}"})])

        self.write = write
        self.numbers = lambda: {int(name[1:]) for (name,) in pins._read().values()}

    def tokens(self, path: Path, is_directory: bool) -> None:
        store = FileState(path).tokens if is_directory else FileTokens(path)
        state: Storage = store._state

        def write(n: int) -> None:
            key = Key("issuer", "resource", f"c{n % SLOTS}-{n // 1_000}")
            anyio.run(functools.partial(store.save, key, Token(f"at-{n}")))

        self.write = write
        self.numbers = lambda: {int(row["access_token"][3:]) for row in state.list(TOKENS).values()}


def write_on(thing: str, where: str, address: str) -> Iterator[int]:
    stored = Stored(thing, where, address)
    n = max(stored.numbers(), default=0)
    while True:
        n += 1
        stored.write(n)
        yield n


def write_some(thing: str, where: str, address: str, first: str) -> None:
    stored = Stored(thing, where, address)
    for n in range(int(first), int(first) + SLOTS):
        stored.write(n)


things = pytest.mark.parametrize("thing", ["decisions", "tickets", "pins", "tokens"])
places = pytest.mark.parametrize("where", ["a directory", "a file"])


@pytest.fixture
def address(where: str, tmp_path: Path) -> str:
    return str(tmp_path / ("state" if where == "a directory" else "kept.json"))


@pytest.mark.slow
@things
@places
def test_kills_lose_nothing_that_was_acknowledged(thing: str, where: str, address: str) -> None:
    writer = f"{__name__}:write_on"
    for acknowledged in killed_writers(writer, thing, where, address, kills=40):
        last = max(Stored(thing, where, address).numbers(), default=0)
        assert acknowledged <= last
    files = [path.name for path in Path(address).parent.rglob(".*") if path.is_file()]
    # The lock of a key that is made once is never taken again, even if its process was killed.
    assert set(files) <= {".keys.json.lock"}, "nothing that was half written is left behind"


@pytest.mark.slow
@things
@places
def test_two_processes_that_write_at_once_lose_nothing(
    thing: str, where: str, address: str
) -> None:
    writer = f"{__name__}:write_some"
    run_together([(writer, thing, where, address, first) for first in ("0", "5000")])
    found = Stored(thing, where, address).numbers()
    assert found == {*range(SLOTS), *range(5_000, 5_000 + SLOTS)}


# ----------------------------------------------------------------- one state for all


def use(thing: str) -> Callable[[State], Any]:
    uses: dict[str, Callable[[State], Any]] = {
        "decisions": lambda state: state.decisions.list(),
        "tickets": lambda state: state.decisions.tickets.pending(),
        "pins": lambda state: state.pins._read(),
        "tokens": lambda state: anyio.run(state.tokens.load, Key("i", "r", "c")),
    }
    return uses[thing]


@things
@pytest.mark.parametrize(
    "text",
    ["", "{", '{"format": "mcp-client state: FILE", "version": 2}', '{"version": 1, "FILE": {}}'],
    ids=["empty", "cut off", "newer", "another format"],
)
def test_a_file_of_a_state_that_cannot_be_used_is_named_and_left(
    thing: str, text: str, tmp_path: Path
) -> None:
    state = FileState(tmp_path / "state")
    state.change(thing, "a", lambda found: None)
    (tmp_path / "state").mkdir(mode=0o700, exist_ok=True)
    file = tmp_path / "state" / f"{thing}.json"
    file.write_text(text.replace("FILE", thing))
    file.chmod(0o600)
    before = file.read_bytes()
    with pytest.raises(ConfigError, match="cannot be used") as caught:
        use(thing)(state)
    assert str(file) in str(caught.value)
    assert "put back an older one, or delete it" in str(caught.value)
    assert file.read_bytes() == before


def test_a_directory_states_its_content(tmp_path: Path) -> None:
    state = FileState(tmp_path / "state")
    Stored("decisions", "a directory", str(state.path)).write(1)
    Stored("pins", "a directory", str(state.path)).write(1)
    Stored("tokens", "a directory", str(state.path)).write(1)
    names = {path.name for path in state.path.iterdir()}
    assert names == {"decisions.json", "keys.json", "pins.json", "tokens.json"}
    for path in state.path.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        assert json.loads(path.read_text())["version"] == 1
