"""What a policy's patterns allow and deny, of commands and of URLs."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from mcp_client import ConfigError
from mcp_client.approval import ManagedPolicy
from mcp_client.approval.start_patterns import ServerPatterns, Unreadable
from mcp_client.errors import StartDenied

pytestmark = pytest.mark.one_backend


def denied(patterns: list[str], *words: str) -> str | None:
    return ServerPatterns(patterns).denies_command(words, shutil.which)


SEEN_THROUGH = [
    ["npx", "-y", "x"],
    ["npx"],
    ["NPX", "x"],
    ["npx.cmd", "x"],
    ["C:\\Program Files\\node\\npx.CMD", "x"],
    ["/opt/node/bin/npx", "x"],
    ["env", "-i", "A=b", "npx", "x"],
    ["env", "-S", "npx x"],
    ["env", "-Snpx x"],
    ["env", "--split-string=npx x"],
    ["env", "-S", 'n"p"x x'],
    ["env", "-S", r"npx\_x"],
    ["sudo", "-n", "npx", "x"],
    ["timeout", "5", "nice", "npx", "x"],
    ["uvx", "--from", "x", "npx", "x"],
    ["cmd", "/c", "npx x"],
    ["sh", "-c", "npx -y x"],
    ["sh", "-c", "cd /srv && exec npx x"],
    ["sh", "-c", "cd /srv\nnpx x"],
    ["sh", "-c", "true;npx x"],
    ["sh", "-c", "if true; then npx x; fi"],
    ["sh", "-c", "echo $(npx x)"],
    ["sh", "-c", "echo x | xargs npx"],
    ["sh", "-c", "n'p'x x"],
    ["sh", "-c", "np\\x x"],
    ["sh", "-c", "np\\\nx x"],
    ["bash", "-lc", "npx x"],
    ["bash", "-c", "-e", "npx x"],
    ["/bin/bash", "-o", "pipefail", "-c", "npx x"],
    ["busybox", "sh", "-c", "n'p'x x"],
    ["env", "sh", "-c", "sh -c 'n\"p\"x x'"],
    ["python", "-c", "import os; os.execvp('npx', ['x'])"],
]


@pytest.mark.parametrize("words", SEEN_THROUGH, ids=shlex.join)
def test_a_denied_command_is_seen_however_it_is_written(words: list[str]) -> None:
    assert denied(["npx *"], *words) == "npx *"


HIDDEN = [
    ("$X x", "variable or a wildcard"),
    ("env A=b $X x", "variable or a wildcard"),
    ("npx${IFS}x", "variable or a wildcard"),
    ("$'\\x6epx' x", "variable or a wildcard"),
    ("`echo np``echo x` x", "variable or a wildcard"),
    ("np$(echo x) x", "variable or a wildcard"),
    ("{npx,x}", "variable or a wildcard"),
    ("/usr/bin/np? x", "variable or a wildcard"),
    ('eval "$X"', "variable or a wildcard"),
    ('"$@"', "variable or a wildcard"),
    ("don't", "unbalanced quotation marks"),
]


@pytest.mark.parametrize(("code", "why"), HIDDEN)
def test_a_shell_is_refused_if_what_runs_cannot_be_known(code: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        denied(["npx *"], "sh", "-c", code)
    assert denied([], "sh", "-c", code) is None  # where nothing is denied, nothing is looked for


def nested(code: str, shells: int) -> list[str]:
    for _ in range(shells - 1):
        code = shlex.join(["sh", "-c", code])
    return ["sh", "-c", code]


def test_five_shells_in_shells_are_looked_through_and_six_are_refused() -> None:
    assert denied(["npx *"], *nested("uvx x", 5)) is None
    with pytest.raises(Unreadable, match="too deep"):
        denied(["npx *"], *nested("uvx x", 6))


def test_shells_in_shells_and_long_commands_are_refused_and_not_looked_through_forever() -> None:
    for words in (nested("x", 10), ["x"] * 501, ["x" * 50_001], ["a b " * 400]):
        with pytest.raises(Unreadable):
            denied(["npx *"], *words)


@pytest.mark.parametrize(
    "words",
    [
        ["node", "npx.js"],
        ["uvx", "server", "--name", "Bob's files"],
        ["sh", "-c", '[ -f x ] && TOKEN=$(cat x) exec node s.js --token "$TOKEN" > $LOG 2>&1'],
        ["python", "-c", "print('it is', \"don't\")"],
        ["sh", "-c", "node npxx *"],
    ],
    ids=shlex.join,
)
def test_what_is_not_denied_is_left_alone(words: list[str]) -> None:
    assert denied(["npx *", "rm *", "https://evil.example/*"], *words) is None


def test_a_pattern_is_about_the_whole_text() -> None:
    assert denied(["npx"], "npx") == denied(["npx"], "env", "npx") == "npx"
    assert denied(["npx"], "npx", "x") is None
    assert denied(["npx x"], "npx", "x", "y") is None
    assert denied(["*x"], "npx", "x", "y") is None
    for pattern in ("* 'a b' *", "* a b *"):
        assert denied([pattern], "npx", "a b", "c") == pattern


def test_links_are_followed_from_name_to_name(tmp_path: Path) -> None:
    program = tmp_path / "lib" / "npx-cli"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "bin").symlink_to(tmp_path / "lib")
    (tmp_path / "npx").symlink_to("bin/npx-cli")
    (tmp_path / "harmless").symlink_to("npx")
    for pattern in ("npx *", "npx-cli *", f"{program} *", f"{tmp_path / 'npx'} *"):
        for words in ([str(tmp_path / "harmless"), "x"], ["env", str(tmp_path / "harmless"), "x"]):
            assert denied([pattern], *words) == pattern
    for path in ("lib/npx-cli", "bin/npx-cli"):
        assert denied([f"{tmp_path / 'npx'} *"], "node", str(tmp_path / path), "x") is not None
    (tmp_path / "lib" / "busybox").write_text("")
    (tmp_path / "lib" / "busybox").chmod(0o755)
    for name in ("one", "two"):
        (tmp_path / name).symlink_to("lib/busybox")
    assert denied([f"{tmp_path / 'one'} *"], str(tmp_path / "two"), "x") is None
    (tmp_path / "round").symlink_to("round")
    assert (
        ServerPatterns(["npx *"]).denies_command(["round"], lambda word: str(tmp_path / word))
        is None
    )


def test_what_is_allowed_is_what_is_written() -> None:
    allowed = ServerPatterns(["npx -y @acme/*", "/usr/bin/python3 server.py", "uvx 'my server'"])
    for words, may in (
        (["npx", "-y", "@acme/server", "--port", "1"], True),
        (["/usr/bin/python3", "server.py"], True),
        (["uvx", "my server"], True),
        (["uvx", "my", "server"], False),
        (["npx", "-y @acme/server"], False),
        (["npx -y", "@acme/server"], False),
        (["NPX", "-y", "@acme/server"], False),
        (["/tmp/npx", "-y", "@acme/server"], False),
        (["env", "npx", "-y", "@acme/server"], False),
        (["sh", "-c", "npx -y @acme/server"], False),
        (["/usr/bin/python3", "server.py", "--eval"], False),
        (["/usr/bin/python3"], False),
    ):
        assert allowed.allows_command(words) is may, words
    assert ServerPatterns(["*"]).allows_command(["sh", "-c", "$X"])
    assert not ServerPatterns([]).allows_command(["npx"])


def test_an_allowed_url_is_of_that_host_and_below_that_path() -> None:
    allowed = ServerPatterns(
        ["https://*.acme.example/*", "https://acme.example:8443/team/*", "https://bare.example"]
    )
    for url, may in (
        ("https://mcp.acme.example/x?y", True),
        ("https://mcp.acme.example", True),
        ("https://MCP.acme.example/", True),
        ("https://acme.example:8443/team/x", True),
        ("https://bare.example/any/path", True),
        ("https://evil.example/.acme.example/", False),
        ("https://evil.example/?.acme.example/", False),
        ("https://evil.example\\@mcp.acme.example/", False),
        ("https://mcp.acme.example@evil.example/", False),
        ("https://mcp.acme.example:444/", False),
        ("http://mcp.acme.example/", False),
        ("https://acme.example:8443/team/../x", False),
        ("https://acme.example:8443/team/%2e%2e/x", False),
        ("https://acme.example/team/x", False),
        ("https://mcp.acme.example%00.evil.example/", False),
        ("https://[::1/", False),
    ):
        assert allowed.allows_url(url) is may, url
    assert ServerPatterns(["*"]).allows_url("https://any.example")
    assert not ServerPatterns(["npx *"]).allows_url("https://any.example")


def test_a_denied_url_is_seen_in_any_spelling_and_within_a_command() -> None:
    patterns = ServerPatterns(["https://evil.example", "https://*.bad.example/a/*", "*tracker*"])
    for url, pattern in (
        ("https://evil.example./", "https://evil.example"),
        ("https://evil.example\u3002/", "https://evil.example"),
        ("https://EVIL.example:8443/x?y", "https://evil.example"),
        ("https://user:secret@evil.example/a", "https://evil.example"),
        ("https://x.bad.example/b/../a/c", "https://*.bad.example/a/*"),
        ("https://x.bad.example/%61/c", "https://*.bad.example/a/*"),
        ("https://Tracker.example/", "*tracker*"),
        ("https://good.example/evil.example", None),
        ("http://evil.example/", None),
    ):
        assert patterns.denies_url(url) == pattern, url
    for words in (
        ["npx", "mcp-remote", "https://evil.example/mcp"],
        ["bridge", "--url=https://evil.example/mcp"],
        ["sh", "-c", "bridge 'https://evil.example/mcp'"],
        ["bridge", "https:evil.example/mcp"],
        ["bridge", "https:\\\\evil.example\\mcp"],
        ["bridge", "--url=HTTPS:/evil.ex\tample"],
    ):
        assert patterns.denies_command(words, shutil.which) == "https://evil.example", words
    for passed in ("https://[x@evil.example/", "https://evil.example:x/"):
        with pytest.raises(Unreadable, match="a URL that cannot be parsed"):
            patterns.denies_command(["bridge", passed], shutil.which)
        with pytest.raises(StartDenied, match="a URL that cannot be parsed"):
            ManagedPolicy(deny=["https://evil.example"]).check_url(passed)
    for passed in ("https://evil%2eexample/", "https://evil%E3%80%82example/mcp"):
        assert patterns.denies_url(passed) == "https://evil.example"
        assert patterns.denies_command(["bridge", passed], shutil.which) == "https://evil.example"
    plain = "https://xn--e1afmkfd.example"
    assert ServerPatterns([plain]).denies_url("https://пример.example/") == plain


@pytest.mark.parametrize(
    ("pattern", "urls"),
    [
        (
            "http://127.0.0.1",
            "2130706433 0x7f.1 127.1 0177.0.0.1 [::ffff:127.0.0.1] [::ffff:7f00:1]",
        ),
        ("http://[::1]", "[::1] [0:0:0:0:0:0:0:1] [::0.0.0.1] [::1%25lo]"),
        ("http://[::1]:80*/*", "[::1]:8080"),
        ("http://10.*", "10.1.2.3 167838211"),
    ],
)
def test_a_denied_address_is_seen_in_any_spelling(pattern: str, urls: str) -> None:
    patterns = ServerPatterns([pattern])
    for host in urls.split():
        assert patterns.denies_url(f"http://{host}/mcp") == pattern, host
    for host in ("127.0.0.2", "[::2]", "1", ":", "localhost", "999.0.0.1", "127.0.0.1.example"):
        assert patterns.denies_url(f"http://{host}/mcp") is None, host
        assert not patterns.allows_url(f"http://{host}/mcp"), host


def test_an_address_of_ipv6_is_allowed_as_it_is_written() -> None:
    patterns = ServerPatterns(["http://[::1]:8080/mcp"])
    assert patterns.allows_url("http://[::1]:8080/mcp")
    assert not patterns.allows_url("http://[::1]:8081/mcp")
    assert not patterns.allows_url("http://[0::1]:8080/mcp")


@pytest.mark.parametrize("pattern", ["", "  ", 5, None, "://x", "https://", "https:///path"])
def test_what_is_not_a_pattern_is_an_error(pattern: object) -> None:
    with pytest.raises(ConfigError):
        ServerPatterns([pattern])  # type: ignore[list-item]
