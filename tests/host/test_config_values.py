"""References in config values: one pass, no shell, and nothing put in that is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.host.config_values import (
    Syntax,
    Unset,
    Variables,
    expand,
)
from tests.properties import examples

NO_SYNTAX: Syntax = frozenset()
BRACED = frozenset({"braced"})
DOLLAR = frozenset({"braced", "bare"})
EDITOR = frozenset({"env", "input", "folders"})
FILES = frozenset({"env", "file"})


def variables(folder: Path = Path("/srv/project"), **environ: str) -> Variables:
    return Variables(folder, {"key": "in-put"}, environ, Path("/home/ana"))


@pytest.mark.parametrize(
    ("text", "syntax", "value", "shown"),
    [
        ("a ${X} b", BRACED, "a 1 b", "a ${X} b"),
        ("${X}${Y}", BRACED, "12", "${X}${Y}"),
        ("${NO:-default}", BRACED, "default", "default"),
        ("<${NO:-}>", BRACED, "<>", "<>"),
        ("${X:-default}", BRACED, "1", "${X:-default}"),
        ("${EMPTY:-default}", BRACED, "", "${EMPTY:-default}"),
        ("$X", BRACED, "$X", "$X"),
        ("$X-${Y}", DOLLAR, "1-2", "$X-${Y}"),
        ("5$", DOLLAR, "5$", "5$"),
        ("${X}", NO_SYNTAX, "${X}", "${X}"),
        ("${env:X}", EDITOR, "1", "${env:X}"),
        ("${input:key}", EDITOR, "in-put", "${input:key}"),
        ("${workspaceFolder}/a", EDITOR, "/srv/project/a", "/srv/project/a"),
        ("${workspaceFolderBasename}", EDITOR, "project", "project"),
        ("${userHome}${/}x", EDITOR, f"/home/ana{os.sep}x", f"/home/ana{os.sep}x"),
        ("$X", EDITOR, "$X", "$X"),
    ],
)
def test_references_are_put_in_as_the_program_does(
    text: str, syntax: Syntax, value: str, shown: str
) -> None:
    found = expand(text, syntax, variables(X="1", Y="2", EMPTY=""))
    assert (found.value, found.shown) == (value, shown)


@pytest.mark.parametrize(
    ("text", "syntax", "named"),
    [
        ("${NO}", BRACED, "NO"),
        ("x $NO x", DOLLAR, "NO"),
        ("${env:NO}", EDITOR, "NO"),
        ("${input:none}", EDITOR, "none"),
        ("${command:evil}", EDITOR, "command:evil"),
        ("${config:x}", EDITOR, "config:x"),
        ("${file}", EDITOR, "file"),
        ("${env:X}", BRACED, "env:X"),
        ("${op://vault/item}", EDITOR, "op://vault/item"),
        ("${A:-${B}}", BRACED, "does not end"),
        ("${X", BRACED, "does not end"),
        ("${}", BRACED, "${}"),
        ("${env:}", EDITOR, "env:"),
        ("${file:/nowhere/at/all}", FILES, "/nowhere/at/all"),
    ],
)
def test_what_is_missing_or_unknown_is_an_error_that_names_it(
    text: str, syntax: Syntax, named: str
) -> None:
    with pytest.raises(Unset) as caught:
        expand(text, syntax, variables(X="1"))
    assert named in str(caught.value)


def test_a_file_is_put_in_without_its_last_line_break(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    found = expand("Bearer ${file:token}", FILES, variables(tmp_path))
    assert found.value == "Bearer secret"
    assert found.shown == "Bearer ${file:token}"
    assert found.used == ("file:token",)
    assert found.files == (("token", "secret"),)
    assert (
        expand("x ${file:token}", FILES, variables(tmp_path), shows_files=True).shown == "x secret"
    )


def test_a_default_is_put_in_as_it_is_and_what_the_host_gave_goes_before_it() -> None:
    given = Variables(
        Path("/srv"), {"a": "host's"}, {}, defaults={"a": "file's", "b": "${input:a}"}
    )
    found = expand("${input:a} ${input:b}", EDITOR, given)
    assert found.value == "host's ${input:a}"
    assert found.shown == "${input:a} ${input:a}"
    assert found.used == ("input:a",)


def test_a_pipe_a_folder_and_a_large_file_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * 100_000)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("pipe", "large", "binary", "."):
        with pytest.raises(Unset):
            expand(f"${{file:{name}}}", FILES, variables(tmp_path))


_VALUES = st.text(alphabet="${}:-AB\\`|;& \n", max_size=12)


@given(st.lists(_VALUES, min_size=2, max_size=2), st.sampled_from([BRACED, DOLLAR, EDITOR]))
@examples(300)
def test_what_a_variable_brings_is_put_in_as_it_is(values: list[str], syntax: Syntax) -> None:
    form = "${env:%s}" if syntax is EDITOR else "${%s}"
    text = f"<{form % 'A'}|{form % 'B'}>"
    found = expand(text, syntax, variables(A=values[0], B=values[1]))
    assert found.value == f"<{values[0]}|{values[1]}>"
    assert found.shown == text
    assert found.used == ("A", "B")


@given(st.text() | _VALUES, st.sampled_from([BRACED, DOLLAR, EDITOR, FILES]))
@examples(300)
def test_any_text_is_expanded_or_refused_and_shown_without_a_value(
    text: str, syntax: Syntax
) -> None:
    try:
        found = expand(text, syntax, variables(A="\0secret", B="\0secret"))
    except Unset:
        return
    assert "\0secret" not in found.shown or "\0secret" in text
