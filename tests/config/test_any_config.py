"""Any file, of any program: parsed or refused with its place, and no secret in a report."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import ConfigError
from mcp_client.config import Config, load_config
from mcp_client.config.programs import PROGRAMS
from tests.support.properties import examples

SECRET = "s3cret-t0ken"
_FIELDS = sorted({name for program in PROGRAMS.values() for name in program.fields})
_FORMS = [
    "${SECRET}",
    "$SECRET",
    "${env:SECRET}",
    "${workspaceFolder}/x",
    "${file:secret}",
    "plain",
]
_ODD = [
    *("${MISSING}", "${input:id}", "${A:-b}", "${", "unix:///tmp/x", "http://${SECRET}/?k=$SECRET"),
    *("..", "~/.ssh", "", "\ud800", "\0", "\x1b[2J\n", "stdio", "http", ".env", "sh", "-c"),
]
_GOOD = st.sampled_from(_FORMS)
_TEXTS = st.sampled_from(_FORMS * 6 + _ODD) | st.text(max_size=12)
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXTS
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(_TEXTS | st.sampled_from(_FIELDS), inner, max_size=3)
    ),
    max_leaves=8,
)
_NAMES = st.sampled_from(["A", "PATH", "Authorization", "X-Y"])
_HARMLESS = {
    "timeout": st.integers(),
    "disabled": st.booleans(),
    "trust": st.booleans(),
    "alwaysAllow": st.lists(_TEXTS, max_size=2),
    "mcp-client": st.fixed_dictionaries(
        {}, optional={"trusted": st.booleans(), "validation": st.just("off"), "x": _VALUES}
    ),
}
_STDIO = st.fixed_dictionaries(
    {"command": st.sampled_from(["npx", "sh", "${SECRET}", "${env:SECRET}"])},
    optional={
        "args": st.lists(_GOOD | _TEXTS, max_size=4),
        "env": st.dictionaries(_NAMES, _GOOD, max_size=3),
        "envFile": st.just(".env") | _GOOD,
        "cwd": _GOOD,
        **_HARMLESS,
    },
)
_HTTP = st.fixed_dictionaries(
    {"url": st.sampled_from(["https://e.com/${SECRET}", "https://e.com/?k=${env:SECRET}"])},
    optional={
        "headers": st.dictionaries(_NAMES, _GOOD, max_size=3),
        "oauth": st.dictionaries(st.sampled_from(["clientId", "clientSecret"]), _GOOD),
        **_HARMLESS,
    },
)
_SERVERS = st.tuples(
    _STDIO | _HTTP,
    st.just({}) | st.just({}) | st.dictionaries(st.sampled_from(_FIELDS) | _TEXTS, _VALUES),
).map(lambda parts: {**parts[0], **parts[1]})
_TOPS = st.sampled_from(["mcpServers", "servers", "mcp_servers"])
_FILES = st.tuples(
    st.dictionaries(st.sampled_from(["a", "b", "c d", "\x00"]), _SERVERS | _VALUES, max_size=4),
    st.dictionaries(st.sampled_from(["inputs", "mcp", "projects", "other"]), _VALUES, max_size=1),
    st.dictionaries(_TOPS, _VALUES, max_size=1),
).map(
    lambda parts: {
        **dict.fromkeys(("mcpServers", "servers", "mcp_servers"), parts[0]),
        **parts[1],
        **parts[2],
    }
)


@contextmanager
def file_of(name: str, content: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", directory)
        patch.setenv("SECRET", SECRET)
        patch.delenv("MISSING", raising=False)
        Path(directory, "secret").write_text("shown where it is a word")
        Path(directory, ".env").write_text(f"FROM_FILE={SECRET}")
        path = Path(directory, name)
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
        yield path


def checked(path: Path, program: str) -> Config | None:
    """The promises of every config, whatever it contains."""
    try:
        config = load_config(path, program=program)
    except ConfigError as error:
        refused = error
    else:
        _check(config, path, program)
        return config
    assert SECRET not in str(refused)
    return None


def _check(config: Config, path: Path, program: str) -> None:
    lines = path.read_bytes().count(b"\n") + 1
    for problem in config.problems:
        assert problem.message
        assert problem.line is None or 1 <= problem.line <= lines
        assert str(problem).isprintable()
    assert list(config.servers) == list(config.requests)
    for server in config.servers.values():
        assert server.trusted in (None, False)
        assert (server.approval, server.handlers) == (None, None)
        assert server.validation in (None, "strict")
    displayed = [repr(config), *map(str, config.problems)]
    displayed += [f"{each}{each.args}{each.findings[1:]}" for each in config.requests.values()]
    assert SECRET not in "".join(displayed)
    again = load_config(path, program=program)
    assert [each.fingerprint for each in again.requests.values()] == [
        each.fingerprint for each in config.requests.values()
    ]


_JSON = sorted(name for name, program in PROGRAMS.items() if not program.toml)


@pytest.mark.slow
@given(_FILES | _VALUES, st.sampled_from(_JSON))
@examples(400)
def test_any_json_is_read_or_refused(value: Any, program: str) -> None:
    with file_of("mcp.json", json.dumps(value, indent=1)) as path:
        checked(path, program)


@pytest.mark.slow
@given(_FILES, st.sampled_from(_JSON), st.randoms())
@examples(200)
def test_any_broken_json_is_read_or_refused(value: Any, program: str, random: Any) -> None:
    text = json.dumps(value)
    start, end = sorted(random.choices(range(len(text) + 1), k=2))
    piece = random.choice(
        ["", "{", "]", '"', ",", "//", "/*", "\\", ": {", "\n", "\ufeff", "1e999"]
    )
    with file_of("mcp.json", text[:start] + piece + text[end:]) as path:
        checked(path, program)


def _toml(value: Any) -> str:
    match value:
        case None:
            return '""'
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case dict():
            members = (f"{_quoted(name)} = {_toml(each)}" for name, each in value.items())
            return f"{{ {', '.join(members)} }}"
        case list():
            return f"[{', '.join(map(_toml, value))}]"
        case str():
            return _quoted(value)
    return repr(value)


def _quoted(text: str) -> str:
    return json.dumps(text.replace("\x7f", ""), ensure_ascii=True).replace("\\/", "/")


@pytest.mark.slow
@given(_FILES)
@examples(300)
def test_any_toml_is_read_or_refused(value: Any) -> None:
    text = "".join(
        f"[{top}.{_quoted(name)}]\n"
        + "".join(f"{_quoted(field)} = {_toml(each)}\n" for field, each in members.items())
        for top, servers in value.items()
        if isinstance(servers, dict)
        for name, members in servers.items()
        if isinstance(members, dict)
    )
    with file_of("config.toml", text) as path:
        checked(path, "codex")


@given(st.binary(max_size=60), st.sampled_from(sorted(PROGRAMS)))
@examples(200)
def test_any_bytes_are_read_or_refused(content: bytes, program: str) -> None:
    with file_of("file", "") as path:
        path.write_bytes(content)
        checked(path, program)


_CODEX = """[mcp_servers.bad]
command = "x"
{field} = {number}
env = {{ A = {number} }}
[mcp_servers.good]
command = "y"
"""
_JSON_FILE = """{{"{top}": {{
  "bad": {{"command": "x", "{field}": {number}, "env": {{"A": {number}}}}},
  "good": {{"command": "y"}}}}}}"""
_NUMBER_FIELDS = ["timeout", "startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec", "odd"]


@pytest.mark.slow
@given(
    st.sampled_from(sorted(PROGRAMS)),
    st.sampled_from(_NUMBER_FIELDS),
    st.sampled_from(["", "-"]),
    st.sampled_from(["{}", "1e{}", "{}.5", "0.{}", "{}e9"]),
    st.integers(0, 6_000),
)
@examples(300)
def test_a_number_of_any_size_costs_its_own_server_at_most(
    program: str, field: str, sign: str, form: str, digits: int
) -> None:
    number = sign + form.format("9" * (digits + 1))
    text = _CODEX if PROGRAMS[program].toml else _JSON_FILE
    content = text.format(top=PROGRAMS[program].servers, field=field, number=number)
    with file_of("file", content) as path:
        config = checked(path, program)
    assert config is not None
    assert "good" in config.servers
    for problem in config.problems:
        assert problem.key.startswith(f"{PROGRAMS[program].servers}.bad"), problem


_USABLE: dict[str, Callable[[str], Any]] = {
    "args": lambda text: {"command": "x", "args": [text]},
    "env": lambda text: {"command": "x", "env": {"A": text}},
    "headers": lambda text: {"url": "https://example.com", "headers": {"A": text}},
    "url": lambda text: {"url": f"https://example.com/{text}"},
    "cwd": lambda text: {"command": "x", "cwd": text},
}


@given(st.sampled_from(sorted(_USABLE)), st.sets(st.text("ab"), min_size=2, max_size=2))
@examples(100)
def test_two_servers_that_differ_in_a_literal_have_different_digests(
    place: str, texts: set[str]
) -> None:
    digests = set()
    with file_of("mcp.json", "") as path:
        for text in texts:
            path.write_text(json.dumps({"mcpServers": {"a": _USABLE[place](text)}}))
            config = checked(path, "mcp-client")
            assert config is not None
            digests.add(config.requests["a"].fingerprint)
    assert len(digests) == 2
