"""Decisions are stored, found again for exactly what they were for, listed, and revoked."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from mcp_client import (
    ApprovalRequest,
    ConfigError,
    FileState,
    Finding,
    MemoryServer,
    ToolCall,
    connect,
)
from mcp_client.approval import Decision, Decisions, Remember, SamplingRequest, StartRequest
from mcp_client.state import MemoryState
from tests.support.skills import request_of
from tests.support.terminal import call_of

pytestmark = pytest.mark.one_backend

ALWAYS = Remember("always")
HERE = f"https://example.com:443 sha256:{'0' * 64}"
WAYS = ["this object", "a memory", "a directory", "a file"]


@pytest.fixture(params=WAYS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Decisions]:
    """Opens the same store each time, as another process would where it can."""
    if request.param in ("this object", "a memory"):
        store = Decisions() if request.param == "this object" else Decisions(MemoryState())
        return lambda: store
    if request.param == "a directory":
        return lambda: FileState(tmp_path / "state").decisions
    return lambda: Decisions(tmp_path / "decisions.json")


def start_of(**members: Any) -> StartRequest:
    passed: dict[str, Any] = {
        "server": "files",
        "command": "python3",
        "args": ("serve.py",),
        "env_names": (),
        "cwd": None,
        "url": None,
        "header_names": (),
        "findings": (Finding("start", "this starts a program"),),
        "variables": MappingProxyType({}),
        "fingerprint": "sha256:" + "1" * 64,
        "path": Path("/project/.mcp.json"),
        "scope": "project",
    }
    return StartRequest(**{**passed, **members})


def sampling_of(**members: Any) -> SamplingRequest:
    message = {"role": "user", "content": {"type": "text", "text": "Say hello."}}
    params = {"messages": [message], "maxTokens": 100, **members}
    return SamplingRequest.of(params, "files")


def keep(store: Decisions, request: ApprovalRequest, remember: Remember = ALWAYS) -> Decision:
    store.add(request, remember, HERE, "ana")
    return store.list()[-1]


REQUESTS: dict[str, ApprovalRequest] = {
    "call": call_of({"n": 1}),
    "skill": request_of(),
    "start": start_of(),
    "sampling": sampling_of(),
}


# ----------------------------------------------------------------------- found again


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_request_of_each_kind_is_found_again_and_by_no_other_kind(
    kind: str, opened: Callable[[], Decisions]
) -> None:
    store = opened()
    assert store.list() == ()
    for request in REQUESTS.values():
        assert store.find(request, HERE) is None
    made = keep(store, REQUESTS[kind])
    for other, request in REQUESTS.items():
        found = opened().find(request, HERE)
        assert (found == made) is (other == kind)
        assert (found is None) is (other != kind)
    assert (made.kind, made.by, made.scope, made.allowed) == (kind, "ana", "always", True)


OTHERS: dict[str, Any] = {
    "another server": lambda: call_of({"n": 1}, server="mail"),
    "another tool": lambda: call_of({"n": 1}, name="mv"),
    "another definition": lambda: call_of({"n": 1}, description="Other."),
    "another trust": lambda: call_of({"n": 1}, trusted=True),
    "another context": lambda: replace(call_of({"n": 1}), context="bo"),
    "another origin": lambda: replace(call_of({"n": 1}), origin="app"),
    "a finding": lambda: call_of({"n": 1}, findings=("new",)),
}


@pytest.mark.parametrize("how", OTHERS)
def test_an_approval_is_for_nothing_else(how: str, opened: Callable[[], Decisions]) -> None:
    keep(opened(), call_of({"n": 1}))
    assert opened().find(call_of({"n": 2}), HERE) is not None
    assert opened().find(OTHERS[how](), HERE) is None
    assert opened().find(call_of({"n": 1}), "elsewhere") is None


def test_a_start_that_shows_anything_else_is_another(opened: Callable[[], Decisions]) -> None:
    keep(opened(), start_of())
    for change in ({"fingerprint": "sha256:2"}, {"server": "x"}):
        assert opened().find(start_of(**change), HERE) is None, change
    assert start_of()._server_is() != start_of(path=Path("/other.json"))._server_is()


def test_exact_is_for_these_arguments_and_where_for_those_that_it_states(
    opened: Callable[[], Decisions],
) -> None:
    keep(opened(), call_of({"n": 1}), Remember("always", exact=True))
    keep(opened(), call_of({"n": 50}, name="mv"), Remember("always", where={"/n": {"max": 60}}))
    store = opened()
    assert store.find(call_of({"n": 1}), HERE) is not None
    assert store.find(call_of({"n": 2}), HERE) is None
    assert store.find(call_of({"n": 1}, meta={"a": 1}), HERE) is None
    assert store.find(call_of({"n": 60}, name="mv"), HERE) is not None
    assert store.find(call_of({"n": 61}, name="mv"), HERE) is None


def test_the_newest_yes_to_one_question_takes_the_place_of_the_others(
    opened: Callable[[], Decisions],
) -> None:
    first = keep(opened(), call_of())
    keep(opened(), call_of(name="mv"))
    narrow = keep(opened(), call_of(), Remember("always", where={"/path": {"glob": "/srv/*"}}))
    newer = keep(opened(), call_of(description="Other."))
    assert newer.id == first.id != narrow.id
    assert {one.id for one in opened().list()} == {narrow.id, newer.id, opened().list()[0].id}
    assert opened().list()[-1] == newer
    assert len(opened().list()) == 3


def test_what_is_stored_after_the_file_was_deleted_is_found_by_other_processes(
    tmp_path: Path,
) -> None:
    store = Decisions(tmp_path / "d.json")
    keep(store, call_of(name="mv"))
    (tmp_path / "d.json").unlink()  # and with it the key of its digests
    made = keep(store, call_of())
    assert Decisions(tmp_path / "d.json").find(call_of(), HERE) == made


def test_an_approval_with_findings_covers_those_and_no_others(
    opened: Callable[[], Decisions],
) -> None:
    known = Finding("hidden_text", "one wording", "/description")
    keep(opened(), replace(call_of(), findings=(known,)))
    worded_otherwise = Finding("hidden_text", "in other words", "/description")
    elsewhere = Finding("hidden_text", "one wording", "/title")
    assert opened().find(replace(call_of(), findings=(worded_otherwise,)), HERE) is not None
    assert opened().find(call_of(), HERE) is not None
    assert opened().find(replace(call_of(), findings=(known, elsewhere)), HERE) is None


def test_looking_one_up_looks_at_no_decision_to_another_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, looked = Decisions(), 0
    for n in range(1_000):
        store.add(call_of(name=f"t{n}"), ALWAYS, HERE)
        store.add(call_of({"n": n}), Remember("session", exact=True), HERE)
    covers = mcp_client_covers()

    def counted(*arguments: Any) -> bool:
        nonlocal looked
        looked += 1
        return covers(*arguments)

    monkeypatch.setattr("mcp_client.approval.decisions._covers", counted)
    assert store.find(call_of(name="t77"), HERE) is not None
    assert store.find(call_of({"n": 77}), HERE) is not None
    assert store.find(call_of({"n": -1}), HERE) is None
    assert looked <= 2


def mcp_client_covers() -> Callable[..., bool]:
    from mcp_client.approval import decisions

    return decisions._covers


# ------------------------------------------------------------------- listed, taken back


def test_decisions_are_listed_by_kind_and_server_and_revoked_one_by_one_or_all(
    opened: Callable[[], Decisions],
) -> None:
    for request in (*REQUESTS.values(), call_of(server="mail")):
        keep(opened(), request)
    store = opened()
    assert [one.kind for one in store.list()] == ["call", "skill", "start", "sampling", "call"]
    assert [one.server for one in store.list(kind="call")] == ["files", "mail"]
    assert [one.kind for one in store.list(server="mail")] == ["call"]
    assert store.list(kind="start", server="mail") == ()
    first = store.list()[0]
    assert store.revoke(first.id)
    assert not store.revoke(first.id)
    assert not opened().revoke("unknown")
    assert opened().find(REQUESTS["call"], HERE) is None
    assert store.revoke_all(kind="skill") == 1
    assert store.revoke_all(server="mail") == 1
    assert [one.kind for one in opened().list()] == ["start", "sampling"]
    assert store.revoke_all() == 2
    assert store.revoke_all() == 0
    assert opened().list() == ()


def test_the_beginning_of_an_id_is_enough_if_no_other_id_begins_so(
    opened: Callable[[], Decisions],
) -> None:
    for origin in ("host", "app", "code"):  # three decisions on one tool
        keep(opened(), replace(call_of(), origin=origin))
    store = opened()
    ids = [one.id for one in store.list()]
    assert len({id[:8] for id in ids}) == 3
    for short in ("", ids[0][:3], ids[0] + "0", "zzzz"):
        assert not store.revoke(short), short
    assert opened().revoke(ids[1][:8])
    assert [one.id for one in store.list()] == [ids[0], ids[2]]
    with pytest.MonkeyPatch.context() as patch:
        twins = tuple(replace(one, id=f"same{n}") for n, one in enumerate(store.list()))
        patch.setattr(Decisions, "list", lambda self: twins)
        with pytest.raises(
            ConfigError, match="2 ids begin with this: give more characters of the id"
        ):
            store.revoke("same")


@pytest.mark.parametrize("odd", [None, 1, ("a",)])
def test_revoke_never_means_all_by_leaving_something_out(odd: Any) -> None:
    store = Decisions()
    keep(store, call_of())
    with pytest.raises(TypeError):
        store.revoke()  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"revoke_all\(\)"):
        store.revoke(odd)
    with pytest.raises(ConfigError, match="kind='tool': give one of call, skill, start"):
        store.revoke_all(kind="tool")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="server=1"):
        store.list(server=1)  # type: ignore[arg-type]
    assert len(store.list()) == 1


def test_who_watches_a_store_receives_what_is_revoked_and_by_whom() -> None:
    class Watch:
        def __init__(self) -> None:
            self.received: list[Any] = []

        def revoked(self, decisions: tuple[Decision, ...], by: str | None) -> None:
            self.received.append(([one.subject for one in decisions], by))

    store, watch = Decisions(), Watch()
    store.observers.add(watch)
    made = [keep(store, call_of(name=name)) for name in "ab"]
    store.revoke(made[0].id, by="bo")
    store.revoke("unknown")
    store.revoke_all()
    assert watch.received == [(["a"], "bo"), (["b"], None)]


def test_an_approval_for_some_time_ends_then_and_leaves_the_file_with_the_next_change(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now = 1_700_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    store = Decisions(tmp_path / "d.json")
    made = keep(store, call_of(), Remember("always", seconds=60))
    assert made.expires_at == now + 60
    now += 59.9
    assert store.find(call_of(), HERE) == made
    now += 0.2
    assert store.find(call_of(), HERE) is None
    assert store.list() == ()
    again = Decisions(tmp_path / "d.json")
    assert again.list() == ()
    keep(again, call_of(name="mv"))
    (row,) = json.loads((tmp_path / "d.json").read_text())["decisions"].values()
    assert [one["subject"] for one in row["decisions"].values()] == ["mv"]


# ------------------------------------------------------------------------- as written


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_decision_is_json_and_back(kind: str) -> None:
    made = keep(Decisions(), REQUESTS[kind])
    as_json = made.to_json()
    assert Decision.from_json(json.loads(json.dumps(as_json))) == made
    in_team = replace(made, context=("team", ("ana", 1))).to_json()
    assert json.loads(json.dumps(in_team)) == in_team
    for name in as_json:
        with pytest.raises(ValueError, match=r"decision|context"):
            Decision.from_json({**as_json, name: object()})
        if name in ("id", "kind", "server", "subject", "scope", "decided_at", "context"):
            with pytest.raises(ValueError, match="an entry is not a decision"):
                Decision.from_json({key: as_json[key] for key in as_json if key != name})


def test_nothing_that_may_be_secret_can_be_found_out_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "d.json"
    store = Decisions(file)
    pin = start_of(args=("serve.py", "--pin=pin-4321"))
    keep(store, pin)
    keep(store, call_of({"pin": "pin-4321"}), Remember("always", exact=True))
    text = file.read_text()
    assert "pin-4321" not in text
    assert not re.search("0" * 64, text)
    assert pin.fingerprint not in text
    other = Decisions(tmp_path / "other.json")
    keep(other, pin)
    assert other.list()[0].fingerprint != store.list()[0].fingerprint
    assert store.list()[0].subject == "python3"
    assert file.stat().st_mode & 0o777 == 0o600


ROW = keep(Decisions(), call_of()).to_json()


@pytest.mark.parametrize(
    "change",
    [
        {"server": 1},
        {"trusted": 1},
        {"allowed": "yes"},
        {"decided_at": "now"},
        {"decided_at": True},
        {"decided_at": -1},
        {"decided_at": 1e300},
        {"scope": "ever"},
        {"kind": "tool"},
        {"findings": [1]},
        {"origin": 1},
        {"script": 1},
        {"where": {"n": {"equals": 1}}},
        {"context": {"a": 1}},
        {"more": 1},
    ],
)
async def test_a_row_that_is_not_a_decision_starts_nothing(
    change: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "d.json"
    row = {name: value for name, value in {**ROW, **change}.items() if name != "id"}
    whole = {"format": "mcp-client decisions", "version": 1, "decisions": {"a": row}}
    file.write_text(json.dumps(whole))
    file.chmod(0o600)
    asked: list[Any] = []
    with pytest.raises(ConfigError, match="decision") as caught:
        await connect(MemoryServer(asked.append), state=Decisions(file))
    assert str(file) in str(caught.value)
    assert "delete it to be asked again" in str(caught.value)
    assert asked == []
    assert json.loads(file.read_text()) == whole


@pytest.mark.parametrize("odd", [1, True, ["a"], object()])
def test_anything_but_a_store_or_a_path_is_refused_at_once(odd: Any) -> None:
    with pytest.raises(ConfigError, match="state="):
        connect(MemoryServer(lambda message: None), state=odd)


def test_the_file_of_a_state_is_not_proposed_for_deletion(tmp_path: Path) -> None:
    keep(FileState(tmp_path).decisions, call_of({"n": 1}))
    with pytest.raises(
        ConfigError, match=r"part of a state.* FileState\(.*\)\.decisions"
    ) as raised:
        Decisions(tmp_path / "decisions.json").list()
    assert "delete" not in str(raised.value)


def test_a_call_with_arguments_that_are_not_shown_is_never_matched_by_where() -> None:
    store = Decisions()
    keep(store, call_of({"n": 1}), Remember("always", where={"/n": {"equals": 1}}))
    call: ToolCall = call_of({})
    assert store.find(call, HERE) is None


def test_a_context_that_no_store_can_hold_finds_nothing_that_others_were_given(
    opened: Callable[[], Decisions],
) -> None:
    store = opened()
    keep(store, call_of())
    assert store.find(call_of(), HERE) is not None
    assert store.find(replace(call_of(), context=object()), HERE) is None


def test_a_decision_in_the_place_of_another_question_is_refused() -> None:
    state = MemoryState()
    keep(state.decisions, call_of(name="cp"))
    ((there, row),) = state.list("decisions").items()
    keep(state.decisions, call_of(name="rm"))
    place = next(key for key in state.list("decisions") if key != there)
    state.change("decisions", place, lambda _: row)
    for use in (state.decisions.list, lambda: state.decisions.find(call_of(name="rm"), HERE)):
        with pytest.raises(ConfigError, match="under a wrong key"):
            use()


@pytest.mark.parametrize(
    "change",
    [
        {"decided_at": -1},
        {"decided_at": 1e12},
        {"expires_at": float("inf")},
        {"decided_at": float("nan")},
        {"scope": "sometimes"},
        {"kind": "wish"},
        {"allowed": 1},
        {"more": 1},
    ],
)
def test_what_is_not_a_decision_is_not_read_as_one(change: dict[str, Any]) -> None:
    made = keep(Decisions(), call_of())
    assert Decision.from_json(made.to_json()) == made
    with pytest.raises(ValueError, match="decision"):
        Decision.from_json({**made.to_json(), **change})


def test_a_decision_for_a_context_that_cannot_be_stored_shows_its_type() -> None:
    made = keep(Decisions(), replace(call_of(), context=object()), Remember("session"))
    assert made.to_json()["context"] == "<object>"
