"""What the commands that work on files print, and how they end, without a process of their own."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_client.approval.stored_decision import Decision
from mcp_client.cli import file_commands
from mcp_client.cli.exits import UsageError
from mcp_client.errors import AuditError, NotFound

# --------------------------------------------------------------------------- audit


def output_of(log: Path | Any, capsys: Any, **kwargs: Any) -> tuple[int, str, str]:
    """The exit code, and what is printed on standard output and on standard error."""
    options = Namespace(**{"state": None, "json": False, "key": None, "noted": None} | kwargs)
    code = file_commands._show(options, str(log) if isinstance(log, Path) else log)
    return code, *capsys.readouterr()


def test_a_record_is_a_row_of_what_a_person_looks_for(capsys: Any, tmp_path: Path) -> None:
    time = {"time": "2026-01-02T03:04:05.678Z"}
    records: list[Any] = [
        {"event": "begun"},
        {**time, "event": "opened", "server": "s", "tool": "t", "arguments": {"a": "\u00e9"}},
        {**time, "event": "closed", "server": "s", "tool": "t", "outcome": "ok", "decision": 3},
        {"event": "closed", "skill": "u", "decision": {"answer": "deny", "source": "rule"}},
        {"event": "closed", "outcome": "x", "decision": {"answer": "allow", "by": "ana"}},
        {"event": "closed", "script": "1", "code_digest": "sha256:0"},
        {"event": "closed", "script": "1", "code_digest": "sha256:0", "code": "c" * 201},
    ]
    rows = [file_commands._row(one, "ana") for one in records[1:]]
    assert rows == [
        ("2026-01-02T03:04:05", "opened", "ana", "s/t", '{"a": "é"}'),
        ("2026-01-02T03:04:05", "closed", "ana", "s/t", "ok"),
        ("None", "closed", "ana", "u", "deny by rule"),
        ("None", "closed", "ana", "", "x allow by ana"),
        ("None", "closed", "ana", "1", "sha256:0"),
        ("None", "closed", "ana", "1", rows[5][4]),
    ]
    assert rows[5][4].startswith("c" * 190)
    assert len(rows[5][4]) < 240
    log = tmp_path / "log"
    log.write_text("".join(f"{json.dumps(one)}\n" for one in records[:3]))
    code, out, reported = output_of(log, capsys)
    assert (code, reported, len(out.splitlines())) == (0, "", 2)
    code, out, reported = output_of(log, capsys, json=True)
    assert (code, reported, json.loads(out)) == (0, "", {"records": records[:3]})


def test_lines_that_are_not_records_are_reported_ten_times_and_counted(
    capsys: Any, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    for count in (1, 10, 11):
        log.write_text('{"event": "opened"}\n' + "[]\n" * count)
        code, out, reported = output_of(log, capsys)
        lines = reported.splitlines()
        assert (code, len(out.splitlines())) == (1, 1)
        assert lines[0] == f"{log}, line 2: no record of an audit"
        assert lines[-1] == f"{count} lines are not records: see 'audit verify'"
        assert len(lines) == min(count, 10) + 1
    log.write_text("{\n")
    with pytest.raises(UsageError, match="is not an audit log"):
        output_of(log, capsys)
    assert capsys.readouterr().out == ""
    log.write_text("")
    assert output_of(log, capsys) == (0, "", "")
    with pytest.raises(UsageError, match="No such file"):
        output_of(tmp_path / "none", capsys)


def test_the_records_of_a_database_are_sorted_and_those_of_a_call_have_its_context(
    capsys: Any,
) -> None:
    about = {"call": "1", "process": 7}
    later = {"time": "2", "event": "closed", "call": "1", "opened_by": 7, "process": 8}
    first = {"time": "1", "event": "opened", **about, "context": ["bo"]}
    lines = [json.dumps(one).encode() for one in (later, first, {"time": "3", "event": "x"})]
    log = SimpleNamespace(records=lambda: [("db", n, line) for n, line in enumerate(lines)])
    code, out, reported = output_of(log, capsys, state="db")
    assert (code, reported) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert rows == [["1", "opened", '["bo"]'], ["2", "closed", '["bo"]'], ["3", "x"]]
    _, out, _ = output_of(log, capsys)
    assert [line.split()[0] for line in out.splitlines()] == ["2", "1", "3"]


@pytest.mark.parametrize(
    ("context", "wanted"),
    [(None, ""), ("", ""), ("ana", "ana"), (["bo", 7], '["bo", 7]'), ({"a": "é"}, '{"a": "é"}')],
)
def test_whose_call_it_was_is_shown_in_few_characters(context: Any, wanted: str) -> None:
    assert file_commands._context({"context": context}) == wanted


FOUND: dict[str, Any] = {
    "lines": 3,
    "files": ["f"],
    "calls": 1,
    "lost": 0,
    "repaired": 0,
    "keyed": False,
    "last_hash": "h",
    "open_calls": [],
}


@pytest.mark.parametrize(
    ("found", "state", "out", "err"),
    [
        ({"keyed": True}, None, "", ""),
        ({}, None, "", "no key was given: who can write the file can rewrite it all\n"),
        ({}, "db", "", "no key was given: who can write the state can rewrite it all\n"),
        ({"keyed": True, "repaired": 1, "lost": 2}, None, "cut off by a crash: 1\nlost: 2\n", ""),
        (
            {"keyed": True, "open_calls": [SimpleNamespace(server="s", tool="t", time="now")]},
            None,
            "not closed, so it runs or its process was killed: s/t at now\n",
            "",
        ),
    ],
)
def test_what_was_verified_is_reported_whole(
    found: dict[str, Any],
    state: str | None,
    out: str,
    err: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = SimpleNamespace(**{**FOUND, **found})
    asked: list[Any] = []

    def verify(log: Any, **more: Any) -> Any:
        asked.append((log, more))
        return whole

    monkeypatch.setattr("mcp_client.audit.verify_audit", verify)
    monkeypatch.setenv("KEY", "k")
    options = Namespace(state=state, json=False, key="env:KEY", noted="n")
    assert file_commands._verify(options, "log") == 0
    last = "last hash, for --noted the next time: h\n"
    assert capsys.readouterr() == (f"intact: 3 lines, 1 calls\n{out}{last}", err)
    assert asked == [("log", {"key": b"k", "noted": "n"})]
    options = Namespace(state=state, json=True, key=None, noted=None)
    assert file_commands._verify(options, "log") == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {
        "intact": True,
        "lines": 3,
        "files": ["f"],
        "calls": 1,
        "lastHash": "h",
        "openCalls": ["s/t at now"] if whole.open_calls else [],
        "lost": whole.lost,
        "repaired": whole.repaired,
        "keyed": whole.keyed,
    }


def test_what_is_not_intact_is_reported_with_its_place(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def verify(log: Any, **more: Any) -> Any:
        raise AuditError("broken", path="p", line=2, reason="r")

    monkeypatch.setattr("mcp_client.audit.verify_audit", verify)
    for as_json in (False, True):
        options = Namespace(state=None, json=as_json, key=None, noted=None)
        assert file_commands._verify(options, "log") == 1
    text, document = capsys.readouterr().out.split("\n", 1)
    assert text == "not intact: broken"
    assert json.loads(document) == {"intact": False, "path": "p", "line": 2, "reason": "r"}


@pytest.mark.parametrize(
    ("action", "file", "state"),
    [
        *[(action, None, None) for action in ("show", "verify", "export")],
        *[(action, "log", "db") for action in ("show", "verify")],
        ("export", None, "db"),
    ],
)
async def test_an_audit_is_a_file_or_a_state_and_an_export_needs_both(
    action: str, file: str | None, state: str | None
) -> None:
    options = Namespace(action=action, file=file, state=state)
    with pytest.raises(UsageError, match=f"audit {action}: give (FILE|DIR)"):
        await file_commands.audit(options)


async def test_only_a_database_is_exported(capsys: pytest.CaptureFixture[str]) -> None:
    options = Namespace(file="folder", json=False)
    with pytest.raises(UsageError, match="names no database"):
        await file_commands._export(options, "log")
    log = SimpleNamespace(export=lambda directory: [Path(directory) / "a", Path(directory) / "b"])
    assert await file_commands._export(options, log) == 0
    assert capsys.readouterr().out.split() == [str(Path("folder/a")), str(Path("folder/b"))]


# ------------------------------------------------------------------------ decisions


@pytest.mark.parametrize(
    ("members", "wanted"),
    [
        ({"allowed": False, "origin": "app"}, "refused once"),
        ({}, "always, any arguments"),
        ({"exact": "sha256:0"}, "always, these arguments only"),
        ({"where": {"/path": {"equals": "/"}}}, "always, these arguments only"),
        ({"kind": "start", "scope": "session"}, "session"),
        ({"origin": "app"}, "always, any arguments, called by its view"),
        ({"origin": "code", "scope": "script"}, "script, any arguments, called by scripts"),
    ],
)
def test_a_decision_is_listed_with_how_far_it_goes(members: dict[str, Any], wanted: str) -> None:
    about: dict[str, Any] = {"kind": "call", "scope": "always", **members}
    one = Decision(id="1", server="s", subject="t", decided_at=0.0, **about)
    assert file_commands._reach(one) == wanted


def test_as_much_of_each_id_is_listed_as_distinguishes_them() -> None:
    assert file_commands._unique_chars([]) == 8
    assert file_commands._unique_chars(["0123456789", "abcdefghij"]) == 8
    assert file_commands._unique_chars(["0123456789", "0123456788"]) == 10


@pytest.mark.parametrize(
    ("passed", "asked"),
    [
        ({"id": ["a", "b"]}, ["a", "b"]),
        ({"all": True}, (None, None)),
        ({"kind": "call"}, ("call", None)),
        ({"server": "s"}, (None, "s")),
        ({"all": True, "kind": "call", "server": "s"}, ("call", "s")),
        ({}, None),
        ({"id": ["a"], "all": True}, None),
        ({"id": ["a"], "kind": "call"}, None),
        ({"id": ["a"], "server": "s"}, None),
    ],
)
def test_decisions_are_revoked_by_their_names_or_by_what_they_are(
    passed: dict[str, Any], asked: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[Any] = []

    class Store:
        def revoke(self, name: str) -> bool:
            done.append(name)
            return name == "a"

        def revoke_all(self, *which: str | None) -> int:
            done.extend(which)
            return 1

    options = Namespace(
        **{"id": [], "all": 0, "kind": None, "server": None, "json": False} | passed
    )
    if asked is None:
        with pytest.raises(UsageError, match="decisions revoke: "):
            file_commands._revoke(Store(), options)  # type: ignore[arg-type]
    else:
        assert file_commands._revoke(Store(), options) == 0  # type: ignore[arg-type]
        assert capsys.readouterr().out == "revoked: 1\n"
    assert done == list(asked or ())


# -------------------------------------------------------------------- pins and servers


def test_a_tool_is_accepted_by_its_name_or_why_it_cannot_be_is_reported() -> None:
    accepted: list[Any] = []
    book = SimpleNamespace(
        _accept_tool=accepted.append, _was_removed=lambda server, name: name == "old"
    )
    tools = [SimpleNamespace(name="one"), SimpleNamespace(name="two")]
    file_commands._accept(book, "s", tools, "two")
    assert accepted == tools[1:]
    with pytest.raises(UsageError, match="the server no longer has 'old'"):
        file_commands._accept(book, "s", tools, "old")
    with pytest.raises(NotFound, match=r"the server has no tool 'tow'; did you mean two\?"):
        file_commands._accept(book, "s", tools, "tow")
    assert accepted == tools[1:]


@pytest.mark.parametrize(
    ("command", "url", "wanted"),
    [
        ("npx", None, "npx"),
        (None, "https://ana:secret@example.com:8/mcp?key=secret#x", "https://example.com:8/mcp"),
        (None, "https://[broken", "a URL"),
        (None, None, "://"),
    ],
)
def test_where_a_server_is_has_no_secret(command: Any, url: Any, wanted: str) -> None:
    assert file_commands._place(SimpleNamespace(command=command, url=url)) == wanted


def test_servers_that_are_left_out_have_the_first_reason() -> None:
    def problem(key: str, message: str, left_out: bool = True) -> Any:
        return SimpleNamespace(key=key, message=message, left_out=left_out)

    problems = [
        problem("mcpServers", "of all"),
        problem("mcpServers.a", "first"),
        problem("mcpServers.a.env", "second"),
        problem("mcpServers.b", "only noted", left_out=False),
        problem("mcpServers.own", "usable"),
    ]
    config: Any = SimpleNamespace(
        problems=problems, servers={"own": 1}, path="p", program="g", scope="user"
    )
    (found,) = file_commands._left_out(config)
    assert (found["name"], found["leftOut"], found["file"]) == ("a", "first", "p")
    assert not found["mayStart"]
