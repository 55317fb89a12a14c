"""Answers are added to their file without writing it again, and no crash makes one of nothing."""

from __future__ import annotations

import json
import subprocess
import sys
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


def test_a_newer_answer_to_the_same_question_counts(file: Path) -> None:
    store = Answers(file)
    store.add(replace(store.list()[0], fingerprint="sha256:22"))
    for each in (store, Answers(file)):
        assert tools(each) == [*ALL[1:], "t0"]
        assert each.list()[-1].fingerprint == "sha256:22"


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
