"""References in config values: one pass, no shell, and nothing put in that is missing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.config.values import Syntax, Unset, Variables, expand, file_text, followed
from tests.support.properties import examples

NO_SYNTAX: Syntax = frozenset()
BRACED = frozenset({"braced"})
DOLLAR = frozenset({"braced", "bare"})
EDITOR = frozenset({"env", "input", "directories"})


def variables(directory: Path = Path("/srv/project"), **environ: str) -> Variables:
    return Variables(directory, {"key": "in-put"}, environ, Path("/home/ana"))


@pytest.mark.parametrize(
    ("text", "syntax", "value", "displayed"),
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
    text: str, syntax: Syntax, value: str, displayed: str
) -> None:
    found = expand(text, syntax, variables(X="1", Y="2", EMPTY=""))
    assert (found.value, found.shown) == (value, displayed)


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
        ("${file:/nowhere/at/all}", EDITOR, "/nowhere/at/all"),
        ("${keyring:token}", BRACED, "keyring:SERVICE/USER"),
        ("${keyring:/user}", BRACED, "keyring:SERVICE/USER"),
        ("${keyring:service/}", BRACED, "keyring:SERVICE/USER"),
        ("${keyring:}", BRACED, "keyring:"),
    ],
)
def test_what_is_missing_or_unknown_is_an_error_that_names_it(
    text: str, syntax: Syntax, named: str
) -> None:
    with pytest.raises(Unset) as caught:
        expand(text, syntax, variables(X="1"), secrets=True)
    assert named in str(caught.value)


def test_a_secret_is_named_and_not_read(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    found = expand("a ${file:token}.${X}", BRACED, variables(tmp_path, X="1"), secrets=True)
    assert (found.value, found.shown) == ("a ***.1", "a ${file:token}.${X}")
    assert found.used == ("file:token", "X")
    (secret,) = found.secrets
    assert secret == ("file", "token", str(tmp_path / "token"))
    assert "s3cret" not in repr(found.parts)


def test_a_default_is_put_in_as_it_is_and_what_the_host_gave_goes_before_it() -> None:
    passed = Variables(
        Path("/srv"), {"a": "host's"}, {}, defaults={"a": "file's", "b": "${input:a}"}
    )
    found = expand("${input:a} ${input:b}", EDITOR, passed)
    assert found.value == "host's ${input:a}"
    assert found.shown == "${input:a} ${input:a}"
    assert found.used == ("input:a",)


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


@given(st.text() | _VALUES, st.sampled_from([BRACED, DOLLAR, EDITOR]))
@examples(300)
def test_any_text_is_expanded_or_refused_and_shown_without_a_value(
    text: str, syntax: Syntax
) -> None:
    try:
        found = expand(text, syntax, variables(A="\0secret", B="\0secret"))
    except Unset:
        return
    assert "\0secret" not in found.shown or "\0secret" in text


def test_a_file_may_have_so_many_bytes_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("12345")
    assert file_text(path, 5, shown="f") == "12345"
    with pytest.raises(Unset) as caught:
        file_text(path, 4, shown="f")
    assert str(caught.value) == "f has more than 4 bytes"


@pytest.mark.parametrize(
    ("path", "why"),
    [("none", "No such file or directory"), ("a\0b", "its path is not one")],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(
    tmp_path: Path, path: str, why: str
) -> None:
    with pytest.raises(Unset) as caught:
        file_text(tmp_path / path, 5, shown="f")
    assert str(caught.value) == f"f cannot be read ({why}): check the path"


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right of their own")
def test_thirty_nine_links_in_a_row_are_followed(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("")
    for number in range(40):
        (tmp_path / f"{number + 1}").symlink_to(f"{number}")
    assert followed(str(tmp_path / "39"), [str(tmp_path)]) == (str(tmp_path / "0"), True)
    assert followed(str(tmp_path / "40"), [str(tmp_path)]) == (str(tmp_path / "0"), False)
