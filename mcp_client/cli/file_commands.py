"""The commands that work on files of this machine: stubs, audit, decisions, pins, servers."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from ..audit.hash_chain import opened_files
from ..errors import AuditError, ConfigError, NotFound, StartDenied
from ..runtime.callbacks import in_thread
from ..runtime.safe_text import near, safe_text
from .exits import DONE, TOOL_FAILED, UsageError
from .output import note, print_document, print_json, print_table, print_text
from .session import decisions_of, existing_state_of, open_session
from .target import configs_of

if TYPE_CHECKING:
    from ..approval.decisions import Decision, Decisions
    from ..config.config import Config

__all__ = ["audit", "decisions", "pins", "servers", "stubs"]

_MAX_LINE_BYTES = 1024 * 1024
_MAX_NOTES = 10
_MIN_ID_CHARS = 8
_NAMES = ("server", "tool", "skill", "start", "sampling", "resource", "prompt", "script")
"""The kinds of subjects of a record."""


async def stubs(options: argparse.Namespace) -> int:
    """Write typed Python for a server's tools, to ``-o FILE`` or to standard output."""
    from ..stubs import generate

    async with open_session(options) as session:
        text = generate(await session.list_tools())
    if options.json or options.output is None:
        print_document(options, {"stubs": text}, text.rstrip("\n"))
    if options.output is None:
        return DONE
    try:
        await anyio.Path(options.output).write_text(text)
    except OSError as error:
        raise UsageError(f"-o {options.output}: {error.strerror or error}") from None
    note(f"wrote {options.output}")
    return DONE


# --------------------------------------------------------------------------- audit


async def audit(options: argparse.Namespace) -> int:
    """Verify an audit log (1 if it was changed), show its records, or export them to files."""
    exports = options.action == "export"
    if (options.file is None) != (options.state is not None and not exports):
        what = "DIR and --state" if exports else "FILE or --state"
        raise UsageError(f"audit {options.action}: give {what}")
    if getattr(options, "context", None) is not None and options.action != "show":
        raise UsageError(f"--context goes with 'audit show', not with 'audit {options.action}'")
    log = options.file if options.state is None else _audit_of(options)
    if exports:
        return await _export(options, log)
    return _verify(options, log) if options.action == "verify" else _show(options, log)


def _audit_of(options: argparse.Namespace) -> Any:
    """Return the path of a directory's log, or the log of a database."""
    state = existing_state_of(options)
    return getattr(state.audit, "path", state.audit)


async def _export(options: argparse.Namespace, log: Any) -> int:
    if not hasattr(log, "export"):
        raise UsageError("audit export: --state names no database, so the audit is in files")
    files = await in_thread(log.export, options.file)
    names = [str(file) for file in files]
    print_document(options, {"files": names}, "\n".join(names))
    return DONE


def _verify(options: argparse.Namespace, log: Any) -> int:
    from ..audit import verify_audit
    from .target import secret_of

    key = None if options.key is None else secret_of(options.key, "--key").encode()
    try:
        found = verify_audit(log, key=key, noted=options.noted)
    except AuditError as error:
        document = {"intact": False, "path": error.path, "line": error.line, "reason": error.reason}
        print_document(options, document, f"not intact: {error}")
        return TOOL_FAILED
    unfinished = [f"{call.server}/{call.tool} at {call.time}" for call in found.open_calls]
    if options.json:
        log_facts = {"intact": True, "lines": found.lines, "files": list(found.files)}
        calls = {"calls": found.calls, "openCalls": unfinished}
        damage = {"lost": found.lost, "repaired": found.repaired}
        chain = {"keyed": found.keyed, "lastHash": found.last_hash}
        print_json({**log_facts, **calls, **damage, **chain})
        return DONE
    print_text(f"intact: {found.lines} lines, {found.calls} calls")
    for call in unfinished:
        print_text(f"not closed, so it runs or its process was killed: {call}")
    for count, what in ((found.repaired, "cut off by a crash"), (found.lost, "lost")):
        if count:
            print_text(f"{what}: {count}")
    print_text(f"last hash, for --noted the next time: {found.last_hash}")
    if not found.keyed:
        what = "file" if options.state is None else "state"
        note(f"no key was given: who can write the {what} can rewrite it all")
    return DONE


def _show(options: argparse.Namespace, log: Any) -> int:
    """Return the records of the log, the oldest first."""
    records: list[dict[str, Any]] = []
    unreadable = 0
    try:
        for place, number, line in log.records() if hasattr(log, "records") else _lines(log):
            record = _record(line)
            if record is not None:
                records.append(record)
            elif (unreadable := unreadable + 1) <= _MAX_NOTES:
                note(f"{place}, line {number}: no record of an audit")
    except OSError as error:
        raise UsageError(f"{log}: {error.strerror or error}") from None
    if unreadable and not records:
        raise UsageError(f"{log} is not an audit log")
    if unreadable:
        note(f"{unreadable} lines are not records: see 'audit verify'")
    wanted = getattr(options, "context", None)
    if wanted is not None:
        own_calls = {_call(record) for record in records if _is_of(record.get("context"), wanted)}
        records = [record for record in records if _call(record) in own_calls]
    if options.state is not None:  # the chains of several processes
        records.sort(key=lambda record: str(record.get("time")))
    code = TOOL_FAILED if unreadable else DONE
    if options.json:
        print_json({"records": records})
        return code
    whose = {_call(record): _context(record) for record in records if "context" in record}
    rows = [
        _row(record, whose.get(_call(record), ""))
        for record in records
        if record.get("event") != "begun"
    ]
    print_table(rows, "time", "event", "for", "tool", "what")
    return code


def _lines(log: str) -> Iterator[tuple[Path, int, bytes]]:
    """Yield the lines of a file and of the files it was rotated into."""
    with closing(opened_files(Path(log))) as files:
        for file, path, size in files:
            with file:
                number = 0
                while size > 0 and (line := file.readline(min(size, _MAX_LINE_BYTES))):
                    size, number = size - len(line), number + 1
                    yield path, number, line


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _call(record: dict[str, Any]) -> tuple[str, str]:
    """Return the text that identifies the call of a record."""
    process = record.get("opened_by", record.get("process"))
    return str(process), str(record.get("call", id(record)))


def _is_of(context: Any, wanted: str) -> bool:
    """Whether it is the context that was given as text, or as its JSON."""
    return context is not None and wanted in (context, json.dumps(context, ensure_ascii=False))


def _context(record: dict[str, Any]) -> str:
    """Return the context of the call, as the host gave it."""
    context = record["context"]
    if context is None or isinstance(context, str):
        return safe_text(context or "", 60)
    return safe_text(json.dumps(context, ensure_ascii=False), 60)


def _row(record: dict[str, Any], whose: str) -> tuple[str, ...]:
    decision = record.get("decision")
    decision = decision if isinstance(decision, dict) else {}
    what = "/".join(str(record[name]) for name in _NAMES if record.get(name))
    if record.get("arguments") is not None:
        text = json.dumps(record["arguments"], ensure_ascii=False)
    elif "code_digest" in record:
        text = str(record.get("code", record["code_digest"]))
    else:
        by = decision.get("by") or decision.get("source")
        decided_by = f"{decision.get('answer', '')} by {by}" if by else ""
        scope = decision.get("scope", "once")
        far = "" if scope == "once" else f"({scope})"
        text = " ".join(filter(None, [str(record.get("outcome") or ""), decided_by, far]))
    when, event = str(record.get("time"))[:19], str(record.get("event"))
    return when, event, whose, what, safe_text(text, 200)


# ------------------------------------------------------------------------ decisions


async def decisions(options: argparse.Namespace) -> int:
    """List what was decided, or revoke some of it or all."""
    store = decisions_of(options) if options.state is None else existing_state_of(options).decisions
    if options.action == "revoke":
        return _revoke(store, options)
    if options.id or options.all:
        raise UsageError("decisions list takes no ID and no --all")
    found = store.list(options.kind, options.server)
    if options.json:
        print_json({"decisions": [one.to_json() for one in found]})
        return DONE
    id_chars = _unique_chars([one.id for one in store.list()])
    rows = [
        (
            one.id[:id_chars],
            one.kind,
            one.server,
            one.subject,
            _reach(one),
            _minute(one.decided_at),
            f"by {one.by}" if one.by else "",
        )
        for one in found
    ]
    print_table(rows, "id", "kind", "server", "of", "for", "since", "by")
    return DONE


def _unique_chars(ids: Sequence[str]) -> int:
    """Return the number of characters that are enough to distinguish all ids."""
    chars = _MIN_ID_CHARS
    while len({id[:chars] for id in ids}) < len(ids):
        chars += 1
    return chars


def _minute(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _reach(one: Decision) -> str:
    if not one.allowed:
        return "refused once"
    until = one.scope if one.expires_at is None else f"until {_minute(one.expires_at)}"
    arguments = "these arguments only" if one.exact or one.where else "any arguments"
    what = [until, *([arguments] if one.kind == "call" else [])]
    by = {"app": ["called by its view"], "code": ["called by scripts"]}.get(one.origin, [])
    return ", ".join([*what, *by])


def _revoke(store: Decisions, options: argparse.Namespace) -> int:
    if options.id and (options.all or options.kind or options.server):
        raise UsageError("decisions revoke: give IDs, or --all, --kind, --server")
    if options.id:
        count = sum(map(store.revoke, options.id))
    elif options.all or options.kind or options.server:
        count = store.revoke_all(options.kind, options.server)
    else:
        raise UsageError("decisions revoke: choose with ID, --kind, --server or --all")
    if not count:
        raise NotFound("decision not found: 'decisions list' shows all")
    print_document(options, {"revoked": count}, f"revoked: {count}")
    return DONE


# ----------------------------------------------------------------------------- pins


async def pins(options: argparse.Namespace) -> int:
    """Compare a server's tools with a lock file, and accept those that are named."""
    from ..catalog.pins import Pins

    if options.pins is None:
        raise UsageError("pins: name the lock file with --pins FILE")
    began = await anyio.Path(options.pins).exists()
    lock_file = Pins(options.pins)
    options.pins = lock_file
    async with open_session(options) as session:
        listed = await session.list_tools()
        if options.accept == ["*"]:
            lock_file.accept(session.name, listed)
        else:
            for name in options.accept:
                _accept(lock_file, session.name, listed, name)
        drifts = lock_file.drift(session.name)
    if options.json:
        found = [
            {"tool": one.tool, "kind": one.kind, "fingerprint": one.fingerprint}
            | {"differences": [list(each) for each in one.differences]}
            for one in drifts
        ]
        print_json({"server": session.name, "drift": found})
        return TOOL_FAILED if drifts else DONE
    for one in drifts:
        print_text(one.diff)
    if not drifts:
        for finding in listed.own_findings:
            note(finding)
        done = "are as written down" if began else f"were written down in {lock_file.path}"
        print_text(f"{len(listed)} tools {done}")
    else:
        note("--accept TOOL writes down what it is now, --accept '*' everything")
    return TOOL_FAILED if drifts else DONE


def _accept(lock_file: Any, server: str, listed: Any, name: str) -> None:
    for tool in listed:
        if tool.name == name:
            lock_file._accept_tool(tool)
            return
    if lock_file._was_removed(server, name):
        raise UsageError(f"the server no longer has {name!r}: accept that with --accept '*'")
    text = f"the server has no tool {safe_text(name, 60)!r}{near(name, [t.name for t in listed])}"
    raise NotFound(text, server=server)


# -------------------------------------------------------------------------- servers


async def servers(options: argparse.Namespace) -> int:
    """List the servers of config files, and whether each may be started; nothing is started."""
    from ..approval.managed_policy import ManagedPolicy
    from ..approval.remembered import ApprovalMemory
    from ..session.connect import transport_of

    memory, policy = ApprovalMemory(store=decisions_of(options)), ManagedPolicy.system()
    found = []
    problems = []
    for config in configs_of(options.config):
        problems += [str(problem) for problem in config.problems]
        for name in config.requests:
            try:
                request = config.requests[name]
            except ConfigError as error:
                problems.append(error.message)
                continue
            refused, enabled = False, True
            try:
                chosen = config._starts[name].config(secrets=False)
                enabled = chosen.enabled
                transport_of(chosen.server).permit(policy)
            except StartDenied as error:
                problems.append(f"{safe_text(name, 60)}: {error.message}")
                refused = True
            confirmed = memory.recall(request) is not None
            allowed = not refused and (confirmed or config.scope == "user")
            found.append(
                _server(
                    config,
                    name,
                    runs=_place(request),
                    confirmed=confirmed,
                    mayStart=allowed,
                    refused=refused,
                    confined=list(request.confined),
                    enabled=enabled,
                )
            )
        found += _left_out(config)
    if options.json:
        print_json({"servers": found, "problems": problems})
        return DONE
    rows = []
    for one in found:
        state = "may start" if one["mayStart"] else "refused" if one["refused"] else "asks first"
        state = "left out" if one["leftOut"] else state if one["enabled"] else "disabled"
        where = f"{one['file']} ({one['scope']})"
        rows.append((str(one["name"]), state, where, safe_text(one["runs"], 60)))
    print_table(rows, "server", "state", "config file", "runs")
    for problem in problems:
        note(problem)
    if not found and not problems:
        note("no config file found, neither here nor among your own settings")
    return DONE


def _left_out(config: Config) -> list[dict[str, Any]]:
    """Return the servers of the file that cannot be used, each with the reason."""
    reasons: dict[str, str] = {}
    for problem in config.problems:
        name = problem.key.split(".")[1:2]
        if problem.left_out and name and name[0] not in config.servers:
            reasons.setdefault(name[0], problem.message)
    return [_server(config, name, leftOut=reason) for name, reason in reasons.items()]


def _server(config: Config, name: str, **facts: Any) -> dict[str, Any]:
    """Return a server of the file as ``--json`` has it: with these facts, else as one left out."""
    return {
        "name": name,
        "file": str(config.path),
        "program": config.program,
        "scope": config.scope,
        "runs": "",
        "confirmed": False,
        "mayStart": False,
        "refused": False,
        "confined": [],
        "leftOut": None,
        "enabled": True,
        **facts,
    }


def _place(request: Any) -> str:
    """Return the program or the URL, without arguments and queries, which may be secret."""
    if request.command is not None:
        return str(request.command)
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(request.url or "")
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    except ValueError:
        return "a URL"
