"""Answers are added to their file without writing it again, and no crash makes one of nothing."""

from __future__ import annotations

import errno
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_client import Answers, ConfigError, Remembered

KEY = "ab" * 32
MANY = 300
"""Answers of a file that is added to, and not replaced with every change."""


def an_answer(tool: str = "read", **members: Any) -> Remembered:
    given: dict[str, Any] = {
        "server": "files",
        "identity": f"keyed-sha256:{'0' * 64}",
        "tool": tool,
        "fingerprint": "sha256:11",
        "trusted": False,
        "scope": "always",
        "when": 1_700_000_000.0,
        **members,
    }
    return Remembered(**given)


def written(path: Path, count: int = MANY) -> Path:
    """A file as a store writes it, with answers for the tools t0, t1 ..."""
    lines = [json.dumps(an_answer(f"t{n}").to_json()) for n in range(count)]
    text = f'{{"version": 1, "key": "{KEY}", "answers": [\n' + ",\n".join(lines) + "\n]}\n"
    path.write_text(text)
    path.chmod(0o600)
    return path


def tools(store: Answers) -> list[str]:
    return [answer.tool for answer in store.list()]


ALL = [f"t{n}" for n in range(MANY)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "answers.json")


def is_whole(file: Path) -> bool:
    """Whether it is one object, with nothing after it."""
    try:
        return "answers" in json.loads(file.read_text())
    except ValueError:
        return False


# ------------------------------------------------------------------------------- adding


def test_adding_to_many_answers_writes_the_new_one_alone(file: Path) -> None:
    before, inode = file.read_bytes(), file.stat().st_ino
    store = Answers(file)
    store.add(an_answer("new"))
    store.add(an_answer("newer", context=("acme", 1), by="ana", expires=9e10))
    after = file.read_bytes()
    assert after.startswith(before)
    assert after[len(before) :].count(b"\n") == 2
    assert len(after) - len(before) < 1_000
    assert file.stat().st_ino == inode
    assert file.stat().st_mode & 0o777 == 0o600
    for each in (store, Answers(file)):
        assert tools(each) == [*ALL, "new", "newer"]
        assert each.list()[-1].context == ("acme", 1)


def test_a_newer_answer_to_the_same_question_counts(file: Path) -> None:
    store = Answers(file)
    store.add(replace(store.list()[0], fingerprint="sha256:22"))
    for each in (store, Answers(file)):
        assert tools(each) == [*ALL[1:], "t0"]
        assert each.list()[-1].fingerprint == "sha256:22"


def test_a_file_is_replaced_by_one_object_before_it_is_twice_as_long_as_it_has_to_be(
    file: Path,
) -> None:
    store, size, replaced = Answers(file), file.stat().st_size, 0
    answer = store.list()[7]
    for n in range(2 * MANY):
        if n % 100 == 50:
            store = Answers(file)
        inode = file.stat().st_ino
        store.add(replace(answer, fingerprint=f"sha256:{n:02}"))
        replaced += file.stat().st_ino != inode
        assert file.stat().st_size < 2 * size + 100
    assert replaced in (1, 2)
    assert tools(store) == tools(Answers(file)) == [tool for tool in ALL if tool != "t7"] + ["t7"]


def test_what_expired_leaves_a_file_when_it_is_replaced(file: Path) -> None:
    store = Answers(file)
    store.add(an_answer("gone", expires=1.0))
    assert b'"gone"' in file.read_bytes()
    assert tools(store) == tools(Answers(file)) == ALL
    assert store.revoke(tool="t0") == 1
    assert b'"gone"' not in file.read_bytes()


def test_a_small_file_stays_one_object(tmp_path: Path) -> None:
    store = Answers(tmp_path / "answers.json")
    for tool in ALL[:50]:
        store.add(an_answer(tool))
        assert is_whole(tmp_path / "answers.json")
    assert tools(store) == ALL[:50]


# ------------------------------------------------------------------------- many writers


def test_what_another_adds_or_revokes_is_seen_at_once(file: Path) -> None:
    one, other = Answers(file), Answers(file)
    assert tools(other) == ALL
    one.add(an_answer("a"))
    assert tools(other) == [*ALL, "a"]
    other.add(an_answer("b"))
    assert tools(one) == [*ALL, "a", "b"]
    assert one.revoke(tool="a") == 1
    assert tools(other) == [*ALL, "b"]
    assert other.clear() == MANY + 1
    assert tools(one) == []


def test_what_was_added_and_revoked_is_gone_though_the_file_is_as_it_was_before(
    file: Path,
) -> None:
    reader, writer = Answers(file), Answers(file)
    writer.revoke(tool="t0")  # the file is now as a store writes it
    before = file.read_bytes()
    assert tools(reader) == ALL[1:]
    writer.add(an_answer("a"))
    assert tools(reader) == [*ALL[1:], "a"]
    writer.revoke(tool="a")
    assert file.read_bytes() == before
    assert tools(reader) == tools(writer) == ALL[1:]


def test_an_answer_taken_out_by_hand_is_gone_though_the_file_grew(file: Path) -> None:
    store = Answers(file)
    assert tools(store) == ALL
    lines = file.read_text().splitlines(keepends=True)
    more = [json.dumps(an_answer(f"long{n}").to_json()) + ",\n" for n in range(9)]
    file.write_text("".join([lines[0], *more, *lines[2:]]))
    assert "t0" not in tools(store)
    assert "long8" in tools(store)


def test_only_what_was_added_is_read_as_answers(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = Answers(file), Answers(file)
    assert tools(other) == ALL
    parsed: list[str | bytes] = []
    loads = json.loads

    def counted(text: str | bytes, **options: Any) -> Any:
        parsed.append(text)
        return loads(text, **options)

    monkeypatch.setattr(json, "loads", counted)
    one.add(an_answer("a"))
    parsed.clear()
    assert tools(one) == tools(other) == [*ALL, "a"]
    assert [len(text) < 1_000 for text in parsed] == [True]
    other.add(an_answer("b"))
    parsed.clear()
    assert tools(one) == tools(other) == [*ALL, "a", "b"]
    assert [len(text) < 1_000 for text in parsed] == [True]


WRITER = """
import sys
from mcp_client import Answers, Remembered
from mcp_client.runtime import atomic_file
atomic_file.PATIENCE = 50
store = Answers(sys.argv[1])
for n in range(200):
    if n % 40 == 39:
        store.revoke(server=sys.argv[2], tool=f"t{n - 1}")
    store.add(
        Remembered(server=sys.argv[2], identity="i", tool=f"t{n}", fingerprint="f", trusted=False,
                   scope="always", when=0.0)
    )
"""


def test_processes_that_add_and_revoke_at_once_lose_nothing(file: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(file)]
    writers = [subprocess.Popen([*command, name]) for name in ("x", "y")]
    assert [writer.wait(50) for writer in writers] == [0, 0]
    found = {(answer.server, answer.tool) for answer in Answers(file).list()}
    kept = {n for n in range(200) if n % 40 != 38}
    expected = {(name, f"t{n}") for name in "xy" for n in kept}
    assert found == expected | {("files", tool) for tool in ALL}
    assert [path.name for path in file.parent.iterdir()] == ["answers.json"]


# ------------------------------------------------------------------------------ crashes


def test_a_line_that_a_crash_cut_off_anywhere_is_not_read_and_removed_by_the_next(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Answers(file).add(an_answer("kept"))
    before = file.read_bytes()
    Answers(file).add(an_answer("cut"))
    line = file.read_bytes()[len(before) :]
    known = Answers(file)
    for end in range(1, len(line), 7):
        file.write_bytes(before + line[:end])
        caplog.clear()
        assert tools(Answers(file)) == tools(known) == [*ALL, "kept"]
        assert "end with a part of a line, which is not read" in caplog.text
    caplog.clear()
    known.add(an_answer("next"))
    assert is_whole(file)
    assert tools(Answers(file)) == tools(known) == [*ALL, "kept", "next"]
    assert not [record for record in caplog.records if record.levelno > logging.WARNING]


@pytest.mark.parametrize("tail", [b"\0" * 300, b"\0" * 300 + b"\n", b"\xff\xfe\n", b"\n", b"{"])
def test_what_a_disk_without_power_leaves_at_the_end_is_not_read(tail: bytes, file: Path) -> None:
    Answers(file).add(an_answer("kept"))
    with open(file, "ab") as stream:
        stream.write(tail)
    store = Answers(file)
    assert tools(store) == [*ALL, "kept"]
    store.add(an_answer("next"))
    assert tools(Answers(file)) == [*ALL, "kept", "next"]
    assert is_whole(file)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda line: b"\n", "what follows its answer 300 is not JSON"),
        (lambda line: line[:40] + b"\n", "what follows its answer 300 is not JSON"),
        (lambda line: b"[]\n", "answer 301 does not have exactly the members"),
        (lambda line: line.replace(b"false", b"1"), "answer 301 has a trusted of the wrong type"),
        (lambda line: line.replace(b'"always"', b'"session"'), "answer 301 is not one that is"),
        (lambda line: line.replace(b'"where": null', b'"where": {"n": {}}'), "answer 301: "),
    ],
)
def test_anything_else_that_is_no_answer_makes_the_file_unusable(
    damage: Callable[[bytes], bytes], why: str, file: Path
) -> None:
    before = file.read_bytes()
    for tool in "ab":
        Answers(file).add(an_answer(tool))
    known = Answers(file)
    known.list()
    first, second = file.read_bytes()[len(before) :].splitlines(keepends=True)
    assert damage(first) != first
    file.write_bytes(before + damage(first) + second)
    for store in (known, Answers(file)):
        for use in (store.list, lambda s=store: s.add(an_answer("c"))):
            with pytest.raises(ConfigError, match=why) as caught:
                use()
            assert "delete it to be asked again" in str(caught.value)


def test_a_full_disk_leaves_the_answers_as_they_were(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, before, write = Answers(file), file.read_bytes(), os.write

    def full(descriptor: int, data: bytes) -> int:
        if os.fstat(descriptor).st_size > len(before):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data[:50])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(ConfigError, match="cannot be written: No space left on device"):
            store.add(an_answer("new"))
    assert file.read_bytes() == before
    assert tools(store) == ALL
    store.add(an_answer("new"))
    assert tools(store) == tools(Answers(file)) == [*ALL, "new"]


# --------------------------------------------------------------------------- other files


@pytest.mark.parametrize("form", ["indented", "without a key"])
def test_a_file_of_another_hand_is_read_and_replaced_by_the_first_change(
    form: str, file: Path
) -> None:
    whole = json.loads(file.read_text())
    if form == "indented":
        file.write_text(json.dumps(whole, indent=2))
    else:
        file.write_text(file.read_text().replace(f'"key": "{KEY}", ', ""))
    store = Answers(file)
    assert tools(store) == ALL
    store.add(an_answer("new"))
    assert is_whole(file)
    assert len(json.loads(file.read_text())["key"]) == 64
    assert tools(store) == tools(Answers(file)) == [*ALL, "new"]


def test_a_file_that_others_may_read_is_not_added_to(file: Path) -> None:
    store = Answers(file)
    assert tools(store) == ALL
    before = file.read_bytes()
    file.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod it to 600"):
        store.add(an_answer("new"))
    assert file.read_bytes() == before


def test_a_link_to_the_file_is_followed_and_stays(file: Path) -> None:
    link = file.with_name("link.json")
    link.symlink_to(file)
    store = Answers(link)
    store.add(an_answer("new"))
    assert link.is_symlink()
    assert tools(Answers(file)) == tools(store) == [*ALL, "new"]
