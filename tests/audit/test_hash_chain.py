"""What of a file is not a chain, and where: verified line by line without a log that writes it."""

from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from mcp_client import AuditLog, ConfigError
from mcp_client.audit import verify_audit
from mcp_client.audit.hash_chain import NOTHING, Check, Position, seal, unseal
from mcp_client.errors import AuditError
from tests.audit.test_log_file import SMALL, entry, lines_of, written

pytestmark = pytest.mark.one_backend

BEGUN = {"event": "begun"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


def sealed(*records: dict[str, Any], after: Position) -> bytes:
    lines = []
    for record in records:
        line, after = seal(record, after, None, 1)
        lines.append(line + b"\n")
    return b"".join(lines)


@pytest.mark.parametrize("tail", [b"x\n", b"x", b'{"line":6', b"\0" * 100, b"\n"])
def test_bytes_at_the_end_that_no_line_explains_are_found(tail: bytes, path: Path) -> None:
    written(path, 2)
    path.write_bytes(path.read_bytes() + tail)
    with pytest.raises(AuditError) as caught:
        verify_audit(path)
    assert caught.value.line == 6
    assert caught.value.reason == "it was changed, or cut off by a crash"
    assert caught.value.path == str(path)


@pytest.mark.parametrize("change", [b"", b"x\n", b"x"])
def test_a_file_of_which_no_line_can_be_read_may_have_another_key(
    change: bytes, path: Path
) -> None:
    written(path, 2)
    path.write_bytes(change or path.read_bytes())
    with pytest.raises(AuditError, match="the key is not the one") as caught:
        verify_audit(path, key=b"another key of 16 bytes")
    assert caught.value.line == 1


def test_a_line_that_lacks_its_newline_is_not_a_line_yet(path: Path) -> None:
    written(path, 2)
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    with pytest.raises(AuditError) as caught:
        verify_audit(path)
    assert caught.value.line == 5


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (Position(5, 0, NOTHING), "it is not the first line, and claims to be"),
        (Position(0, 0, "1" * 64), "or the reverse"),
    ],
)
def test_a_first_line_and_the_line_it_names_before_it_must_agree(
    last: Position, message: str, path: Path
) -> None:
    path.write_bytes(sealed(BEGUN, entry(1), after=last))
    with pytest.raises(AuditError, match=message) as caught:
        verify_audit(path)
    assert caught.value.line == 1


@pytest.mark.parametrize("head", [b'{"a":1', b'{"line":1,"file":null', b'{"line":1', b"{x"])
def test_a_line_with_a_good_hash_and_no_place_in_a_chain_is_none(head: bytes, path: Path) -> None:
    line = b'%b,"hash":"%b"}' % (head, hashlib.sha256(head).hexdigest().encode())
    with pytest.raises(ValueError):  # noqa: PT011 - any: the caller names the place
        unseal(line, None)
    path.write_bytes(line + b"\n")
    with pytest.raises(AuditError, match="it was changed"):
        verify_audit(path)


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        ((entry(1), BEGUN), 1),
        ((BEGUN, entry(1), {"event": "lost", "last_line": 2}), 3),
        ((BEGUN, {"event": "repaired", "bytes": 3, "sha256": "0"}), 2),
    ],
)
def test_a_line_in_an_impossible_place_is_named(
    lines: tuple[dict[str, Any], ...], number: int, path: Path
) -> None:
    path.write_bytes(sealed(*lines, after=Position(0, 0, NOTHING)))
    with pytest.raises(AuditError) as caught:
        verify_audit(path)
    assert caught.value.line == number


def test_how_many_lines_are_gone_before_one_is_reported(path: Path) -> None:
    written(path, 3)
    lines = lines_of(path)
    for left, reported in (
        (lines[:2] + lines[5:], "3 lines before it"),
        (lines[:3] + lines[2:], "in"),
    ):
        path.write_bytes(b"".join(left))
        with pytest.raises(AuditError, match=reported):
            verify_audit(path)


def test_a_file_that_ends_while_it_is_read_was_cut(path: Path) -> None:
    with pytest.raises(AuditError, match="cut while it was read") as caught:
        Check(None, None).file(path, io.BytesIO(b""), 10)
    assert caught.value.line == 1


@pytest.mark.parametrize(("vanishes", "is_intact"), [(0, True), (1, False)])
def test_only_the_oldest_file_may_vanish_while_files_are_opened(
    vanishes: int, is_intact: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = written(path, 2, **SMALL)
    while len(os.listdir(path.parent)) < 4:
        log.append(entry(7), entry(7, "closed"))
    names = os.listdir(path.parent)
    oldest = sorted(names)[1 + vanishes]
    path.with_name(oldest).unlink()
    monkeypatch.setattr(os, "listdir", lambda directory: names)
    if is_intact:
        assert verify_audit(path).earlier > 0
    else:
        with pytest.raises(ConfigError, match="cannot be read"):
            verify_audit(path)


def test_a_record_keeps_the_line_and_the_hash_that_the_chain_gives_it() -> None:
    last = Position(4, 2, "a" * 64)
    claims = {"line": 1, "file": 9, "previous": "x", "hash": "y", "event": "note"}
    line, position = seal(claims, last, None)
    record, again = unseal(line, None)
    assert again == position == Position(5, 2, record["hash"])
    assert (record["line"], record["file"], record["previous"]) == (5, 2, last.hash)
    assert list(json.loads(line))[:3] == ["line", "file", "previous"]


def test_a_call_is_open_until_the_process_that_opened_it_or_its_heir_closes_it(
    path: Path,
) -> None:
    log = AuditLog(path)
    log.append(entry(1), entry(2), entry(3, process=8))
    log.append(entry(1, "closed", process=8))  # of another process: not the same call
    log.append(entry(2, "closed", process=9, opened_by=7))
    assert [(one.call, one.process, one.line) for one in verify_audit(path).open_calls] == [
        ("c-1", 7, 2),
        ("c-3", 8, 4),
    ]
