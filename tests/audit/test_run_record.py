"""The run of a script has two records of its own, which have its code only where that is wanted."""

from __future__ import annotations

import json
import pickle
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from mcp_client import (
    AuditLog,
    CallDenied,
    ConfigError,
    Host,
    MemoryServer,
    Session,
    allow_all,
    connect,
)
from mcp_client.approval import Script
from mcp_client.audit import Audit, verify_audit
from mcp_client.cli.file_commands import audit

CODE = 'password = "hunter2-hunter2"\nawait s.a()'
SCRIPT = Script("run-1", CODE)


def serve(message: dict[str, Any]) -> Any:
    if message["method"] == "tools/list":
        return {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}
    return {"content": []} if message["method"] == "tools/call" else NotImplemented


async def one_run(target: Session | Host, tool: str, **over: Any) -> None:
    audit = target._for_scripts.audit
    assert audit is not None
    record = audit.run(SCRIPT, "ana")
    await record.open()
    await target._call_as_code(tool, {}, {}, SCRIPT)
    record.counts = {"calls": 1, "output_chars": 5}
    assert await record.over(**over) == ()


def records_of(path: Path) -> list[dict[str, Any]]:
    lines = map(json.loads, path.read_text().splitlines())
    return [one for one in lines if one["event"] in ("opened", "closed")]


@pytest.mark.parametrize("kind", ["session", "host"])
async def test_a_run_is_opened_and_closed_around_its_calls(kind: str, tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    server = MemoryServer(serve)
    if kind == "session":
        async with connect(server, name="s", approval=allow_all, audit=log) as session:
            await one_run(session, "a")
    else:
        async with Host({"s": server}, approval=allow_all, audit=log) as host:
            await one_run(host, "s__a")
    opened, of_call, _, closed = records_of(log)
    assert (opened["call"], opened["script"], opened["tool"]) == ("run-1", "run-1", None)
    assert (opened["origin"], opened["context"]) == ("code", "ana")
    assert opened["server"] == ("s" if kind == "session" else "")
    assert opened["code_digest"] == SCRIPT.digest
    assert opened["code_bytes"] == len(CODE)
    assert (of_call["tool"], of_call["script"], of_call["script_call"]) == ("a", "run-1", 1)
    assert (closed["outcome"], closed["calls"], closed["output_chars"]) == ("ok", 1, 5)
    assert closed["running_seconds"] >= 0
    assert "await" not in log.read_text()
    found = verify_audit(log)
    assert (found.calls, found.open_calls) == (2, ())


async def test_the_code_is_in_a_log_that_asks_for_it_without_its_secrets(tmp_path: Path) -> None:
    logs = [AuditLog(tmp_path / "code", code=True), AuditLog(tmp_path / "digest")]
    function: list[Any] = []
    async with connect(
        MemoryServer(serve), name="s", approval=allow_all, audit=[*logs, function.append]
    ) as session:
        await one_run(session, "a", outcome="script_error", error="ValueError")
    opened, *_, closed = records_of(tmp_path / "code")
    assert opened["code"] == 'password = "[redacted]"\nawait s.a()'
    assert (closed["outcome"], closed["error"]) == ("script_error", "ValueError")
    assert "code" not in records_of(tmp_path / "digest")[0]
    assert "code" not in function[0]
    assert function[0]["code_digest"] == SCRIPT.digest


async def test_under_a_key_the_digest_of_the_code_is_made_with_it(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "calls.jsonl", key=b"k" * 16)
    async with connect(MemoryServer(serve), name="s", approval=allow_all, audit=log) as session:
        await one_run(session, "a")
    assert records_of(log.path)[0]["code_digest"].startswith("hmac-sha256:")


async def test_a_run_that_goes_on_is_opened_again(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    for resumed in (False, True):
        async with connect(MemoryServer(serve), name="s", audit=log) as session:
            audit = session._for_scripts.audit
            assert audit is not None
            record = audit.run(SCRIPT, None)
            await record.open(resumed=resumed)
            await record.over("paused" if not resumed else "ok")
    found = [(one["event"], one.get("resumed"), one.get("outcome")) for one in records_of(log)]
    assert found == [
        *[("opened", None, None), ("closed", None, "paused")],
        *[("opened", True, None), ("closed", None, "ok")],
    ]
    assert verify_audit(log).open_calls == ()


async def test_a_run_that_cannot_be_recorded_is_refused() -> None:
    def broken(record: Any) -> None:
        raise OSError("no")

    for failure in ("refuse", "warn"):
        async with connect(MemoryServer(serve), audit=Audit(broken, failure=failure)) as session:
            audit = session._for_scripts.audit
            assert audit is not None
            record = audit.run(SCRIPT, None)
            if failure == "refuse":
                with pytest.raises(CallDenied, match="audit"):
                    await record.open()
            else:
                await record.open()
                assert await record.over() == ()


async def test_without_an_audit_a_run_has_no_record() -> None:
    async with connect(MemoryServer(serve)) as session:
        assert session._for_scripts.audit is None
    async with Host({"s": MemoryServer(serve)}) as host:
        assert host._for_scripts.audit is None


def test_a_log_keeps_its_word_on_code_in_a_copy(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "calls.jsonl", code=True)
    assert pickle.loads(pickle.dumps(log)).code is True
    with pytest.raises(ConfigError, match=r"code='yes'"):
        AuditLog(tmp_path / "calls.jsonl", code="yes")  # type: ignore[arg-type]


async def test_audit_show_names_the_run_and_its_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = AuditLog(tmp_path / "calls.jsonl", code=True)
    async with connect(MemoryServer(serve), name="s", approval=allow_all, audit=log) as session:
        await one_run(session, "a", outcome="script_calls")
    assert await audit(Namespace(action="show", file=str(log.path), state=None, json=False)) == 0
    displayed = capsys.readouterr().out.splitlines()
    of_run, of_call, *_, end = displayed[-4:]
    assert "s/run-1" in of_run
    assert "s/a/run-1" in of_call
    assert "s/run-1" in end
    assert "await s.a()" in of_run
    assert "script_calls" in end
