"""The reader of front matter beside a YAML 1.2 library: what it takes, the library reads alike."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mcp_client.extensions.front_matter import BadYaml, front_matter, same
from tests.interop import peers
from tests.support.properties import examples

pytestmark = [pytest.mark.interop, pytest.mark.one_backend]

Library = Callable[[str], Any]


@pytest.fixture(scope="module")
def library() -> Iterator[Library]:
    """The value of a text as the npm package ``yaml`` parses it."""
    process = subprocess.Popen(
        peers.yaml_reader(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdin is not None and process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def read(text: str) -> Any:
        stdin.write(json.dumps(text) + "\n")
        stdin.flush()
        return json.loads(stdout.readline())

    yield read
    stdin.close()
    process.wait(timeout=30)
    stdout.close()


def _agrees(yaml: str, library: Library) -> bool:
    """Whether ours took it; fails where the library reads it otherwise."""
    yaml = re.split(r"(?m)^---[ \t]*$", yaml)[0].removesuffix("\n")
    try:
        ours, _ = front_matter(f"---\n{yaml}\n---\n".encode())
    except BadYaml:
        return False
    theirs = library(yaml + "\n")
    assert "value" in theirs, (yaml, ours, theirs)
    assert same(ours, theirs["value"]), (yaml, ours, theirs["value"])
    return True


_PIECES = [
    *(
        "a",
        "b1",
        "key",
        "é",
        "😀",
        "null",
        "~",
        "true",
        "False",
        "yes",
        "0o17",
        "0x1F",
        "-3",
        "1.5",
    ),
    *("1e3", ".5", "1_000", "012", "2026-01-01", "12:30", ".inf", "+1", "0b1", "1.", "-", "--"),
    *(" ", "  ", "    ", ": ", ":", "- ", "#", " #", " # c", '"', "'", "''", "\\", "\\n", "\\x41"),
    *("\\u00e9", "\\\n", "[", "]", "{", "}", ", ", ",", "|", ">", "|-", ">+", "|\n", ">\n", ">-\n"),
    *("&a ", "*a", "!t ", "? ", "<<: ", "%", "@", "`", "=", "\t", "\n", "\n  ", "\n    ", "\n- "),
    *(
        "\n  - ",
        "\nk: ",
        "\n  k: ",
        "\n\n",
        "\n   ",
        "a: ",
        "b: ",
        "c:\n",
        "http://x",
        "a#b",
        "...",
    ),
]
_SLOW_TO_MAKE = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@settings(examples(2_000), deadline=None, suppress_health_check=_SLOW_TO_MAKE)
@given(st.lists(st.sampled_from(_PIECES), min_size=1, max_size=14))
@example(["- b\n  - c"])
def test_any_yaml_that_is_taken_is_read_as_the_library_reads_it(
    library: Library, pieces: list[str]
) -> None:
    _agrees("a: " + "".join(pieces), library)
    _agrees("".join(pieces), library)


_LINES = st.lists(
    st.tuples(
        st.sampled_from(["", " ", "  ", "   ", "    "]),
        st.sampled_from(
            [
                *("a:", "b: x", "c: 'x", "x'", 'd: "x', 'y"', "e: |", "f: >", "g: >-", "h: |+"),
                *("- p", "-", "- q: r", "- - s", "t", "u v", "# n", "w: [1, b]", "x: {a: 1}", ""),
                *("i: j # k", "- |", "- >", "- 'x", '"k": v', "? z", "- # c", "l: #", "\\", " m"),
            ]
        ),
    ),
    min_size=1,
    max_size=9,
)


@settings(examples(2_000), deadline=None, suppress_health_check=_SLOW_TO_MAKE)
@given(_LINES)
def test_any_lines_that_are_taken_are_read_as_the_library_reads_them(
    library: Library, lines: list[tuple[str, str]]
) -> None:
    _agrees("\n".join(indent + line for indent, line in lines), library)
    _agrees("z:\n" + "\n".join(indent + line for indent, line in lines), library)


_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=30)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | _TEXT | st.floats(-1e6, 1e6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)


@settings(examples(500), deadline=None, suppress_health_check=_SLOW_TO_MAKE)
@given(st.dictionaries(_TEXT, _JSON, min_size=1, max_size=4))
def test_what_the_library_writes_for_any_json_is_taken_or_refused_and_never_misread(
    library: Library, value: dict[str, Any]
) -> None:
    # JSON is YAML, but for what no front matter has: here one member a line, in quotation marks.
    lines = [f"{json.dumps(k, ensure_ascii=False)}: {json.dumps(v)}" for k, v in value.items()]
    _agrees("\n".join(lines), library)


@pytest.mark.parametrize(
    "yaml",
    [
        "name: pdf\ndescription: Extract text, fill forms. Use when (a) or [b].",
        "name: pdf\ndescription: >-\n  One\n  two\n\n  three\nlicense: MIT",
        "name: pdf\ndescription: |\n  - not a list\n    more\n\n\nmetadata:\n  version: 1.0\n",
        'name: pdf # the name\ndescription: it\'s "fine"\nallowed-tools: Bash(git:*) Read',
        "name: pdf\nallowed-tools:\n- Read\n- Bash\nmetadata:\n    author: me\n    tags: [a, b-c]",
        "hooks:\n  - name: x\n    run: y\n    with:\n      a: [1, 2.5, null, 'q']\n  -\n    - z",
        'description: "two\n  lines \\\n  and\n\n  more"',
    ],
)
def test_front_matter_as_people_write_it_is_taken(library: Library, yaml: str) -> None:
    assert _agrees(yaml, library)
