"""An organisation's policy: the owner of its file, its valid content, and its rules."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_client import (
    Allow,
    CallDenied,
    ConfigError,
    Deny,
    Handlers,
    MemoryServer,
    Rule,
    Rules,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.approval import ManagedPolicy, managed_policy
from mcp_client.approval.gate import Gate
from mcp_client.errors import StartDenied
from mcp_client.handlers import SamplingResult
from mcp_client.handlers.wire_format import RequestRefused
from tests.approval.test_terminal_sampling import prompt

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="modes of files are of POSIX")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the machine's policy, in a directory that counts as root's."""
    tmp_path.chmod(0o755)
    directory = tmp_path / "mcp-client"
    directory.mkdir(mode=0o755)
    monkeypatch.setattr(managed_policy, "_place", lambda: str(directory / "policy.toml"))
    monkeypatch.setattr(managed_policy, "_TOP", str(tmp_path))
    monkeypatch.setattr(managed_policy, "_ROOT", getattr(os, "geteuid", int)())
    return directory / "policy.toml"


def wrote(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(0o644)
    return path


WHOLE = """
sandbox = "required"
[servers]
allow = ["npx *"]
deny = ["npx evil*"]
[[rules]]
outcome = "deny"
tool = "delete_*"
reason = "nothing is deleted"
"""


class TestTheFile:
    pytestmark = pytest.mark.one_backend

    def test_without_one_everything_is_allowed(self, place: Path) -> None:
        policy = ManagedPolicy.system()
        assert policy == ManagedPolicy()
        policy.check_command(["anything"], lambda word: None, confined=False)
        policy.check_url("https://any.example")
        assert policy.over(allow_all) is allow_all
        place.parent.rmdir()
        assert ManagedPolicy.system() == ManagedPolicy()

    def test_its_text(self, place: Path) -> None:
        policy = ManagedPolicy.system() if wrote(place, WHOLE) else None
        assert policy == ManagedPolicy(
            place,
            ["npx *"],
            ["npx evil*"],
            True,
            [Rule("deny", tool="delete_*", reason="nothing is deleted")],
        )
        assert policy == ManagedPolicy.from_file(place)
        assert ManagedPolicy.from_file(wrote(place.parent / "empty.toml", "")).allow is None

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("[server]\ndeny = ['x']", "unknown key server; did you mean servers"),
            ("[servers]\ndenied = ['x']", "unknown key servers.denied; did you mean deny"),
            ("sandboxed = true", "unknown key sandboxed; did you mean sandbox"),
            ("sandbox = true", 'sandbox: write "required", or omit it'),
            ("servers = ['npx *']", r"servers is not a table: write \[servers\]"),
            ("[servers]\ndeny = 'npx *'", "deny: give a list of patterns"),
            ("[servers]\nallow = [5]", "allow: 5 is not a pattern"),
            ("[servers]\ndeny = ['https:///x']", "deny: 'https:///x' is not a pattern of URLs"),
            ("rules = 5", r"rules is not a list of tables: write \[\[rules\]\]"),
            (
                "[[rules]]\noutcome = 'allow'\ntool = '*'",
                "rule 1 allows, and a policy can only restrict",
            ),
            ("[[rules]]\noutcome = 'deny'\ntools = '*'", "rule 1: unknown key 'tools'"),
            ("[[rules]]\ntool = '*'", "rule 1: outcome is missing"),
            ("[servers", "it is not TOML"),
            (b"\xff\xfe", "it is not UTF-8 text"),
            (b"\0", "it is not TOML"),
            ("a = " + "[" * 5_000, "it is not TOML"),
            ("#" * 1024 * 1024, "it has more than 262,144 bytes"),
        ],
    )
    def test_anything_wrong_in_it_is_an_error_and_nothing_runs(
        self, place: Path, text: str | bytes, why: str
    ) -> None:
        wrote(place, text)
        with pytest.raises(ConfigError, match=why) as raised:
            ManagedPolicy.system()
        assert str(raised.value).startswith(f"the policy {place} cannot be used: ")
        assert "nothing is started or connected to until that is fixed" in str(raised.value)
        with pytest.raises(ConfigError, match=why):
            ManagedPolicy.from_file(place)

    @posix_only
    def test_it_is_root_s_own_with_every_directory_it_is_in(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wrote(place, WHOLE)
        for path, mode in ((place, 0o664), (place, 0o646), (place.parent, 0o775)):
            before = path.stat().st_mode & 0o777
            path.chmod(mode)
            with pytest.raises(ConfigError, match=f"users other than root may write {path} "):
                ManagedPolicy.system()
            path.chmod(before)
        place.parent.parent.chmod(0o1777)
        with pytest.raises(ConfigError, match="users other than root may write"):
            ManagedPolicy.system()
        place.parent.parent.chmod(0o755)
        assert ManagedPolicy.system().sandbox_required
        monkeypatch.setattr(managed_policy, "_ROOT", os.geteuid() + 1)
        with pytest.raises(ConfigError, match=f"{place} does not belong to root"):
            ManagedPolicy.system()

    @posix_only
    def test_no_link_is_followed_and_nothing_but_a_file_is_read(self, place: Path) -> None:
        other = wrote(place.parent.parent / "other.toml", "")
        place.symlink_to(other)
        with pytest.raises(ConfigError, match=f"{place} is a symbolic link"):
            ManagedPolicy.system()
        place.unlink()
        place.symlink_to("missing")
        with pytest.raises(ConfigError, match=f"{place} is a symbolic link"):
            ManagedPolicy.system()
        place.unlink()
        directory = place.parent.parent / "real"
        place.parent.rename(directory)
        place.parent.symlink_to(directory)
        wrote(directory / "policy.toml", "")
        with pytest.raises(ConfigError, match=f"{place.parent} is a symbolic link"):
            ManagedPolicy.system()
        place.parent.unlink()
        wrote(place.parent, "")
        with pytest.raises(ConfigError, match="it cannot be examined"):
            ManagedPolicy.system()
        place.parent.unlink()
        place.mkdir(parents=True)
        with pytest.raises(ConfigError, match="it cannot be read"):
            ManagedPolicy.system()
        place.rmdir()
        os.mkfifo(place, 0o644)
        with pytest.raises(ConfigError, match="it is not a regular file"):
            ManagedPolicy.system()

    def test_a_file_at_another_place_has_to_be_there_and_this_user_s(self, place: Path) -> None:
        with pytest.raises(ConfigError, match="cannot be read"):
            ManagedPolicy.from_file(place)
        with pytest.raises(ConfigError, match="give the path"):
            ManagedPolicy.from_file(5)  # type: ignore[arg-type]
        if sys.platform != "win32":
            wrote(place, "").chmod(0o666)
            with pytest.raises(ConfigError, match="others may write it"):
                ManagedPolicy.from_file(place)

    @pytest.mark.skipif(sys.platform == "win32", reason="the registry has the place there")
    def test_no_variable_names_where_it_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before = managed_policy._place()
        for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "ProgramData", "PROGRAMDATA"):
            monkeypatch.setenv(name, "/nowhere")
        assert managed_policy._place() == before
        assert before in (
            "/etc/mcp-client/policy.toml",
            "/Library/Application Support/mcp-client/policy.toml",
        )


class TestServers:
    pytestmark = pytest.mark.one_backend

    @pytest.mark.parametrize(
        ("options", "words", "confined", "rule"),
        [
            ({"deny": ["npx *"]}, ["env", "npx", "x"], True, "deny 'npx *'"),
            ({"allow": ["npx *"], "deny": ["npx *"]}, ["npx", "x"], True, "deny 'npx *'"),
            ({"deny": ["npx *"]}, ["sh", "-c", "$X"], True, ""),
            ({"allow": ["npx *"]}, ["node", "x"], True, "allow"),
            ({"allow": []}, ["npx"], True, "allow"),
            ({"sandbox_required": True}, ["npx"], False, "sandbox"),
        ],
    )
    def test_a_refusal_names_the_file_and_what_in_it(
        self, options: dict[str, Any], words: list[str], confined: bool, rule: str
    ) -> None:
        policy = ManagedPolicy(Path("/etc/policy.toml"), **options)
        with pytest.raises(StartDenied, match="refused by the policy /etc/") as raised:
            policy.check_command(words, lambda word: None, confined=confined)
        assert (raised.value.source, raised.value.rule) == ("policy", rule)
        assert raised.value.message == f"the server was not started: {raised.value.reason}"

    def test_what_it_does_not_refuse_may_be_used(self) -> None:
        policy = ManagedPolicy(
            allow=["npx *", "https://a.example"], deny=["npx x*"], sandbox_required=True
        )
        policy.check_command(["npx", "y"], lambda word: None, confined=True)
        policy.check_url("https://a.example/mcp")  # which is nothing to confine
        with pytest.raises(StartDenied, match="not among those that it allows"):
            policy.check_url("https://b.example/mcp")


def call(tool: str = "delete_file", **options: Any) -> ToolCall:
    return ToolCall.example(tool, **options)


class TestItsRules:
    async def test_what_they_deny_no_one_allows(self) -> None:
        policy = ManagedPolicy(
            Path("/etc/policy.toml"), rules=[Rule("deny", tool="delete_*", reason="never")]
        )
        for hook in (allow_all, Rules([Rule("allow", tool="*")]), None):
            with pytest.raises(CallDenied, match="never") as raised:
                await Gate(policy.over(hook), 5).decide(call())
            assert raised.value.rule.startswith("the policy /etc/policy.toml: rule 1: deny")
        await Gate(policy.over(allow_all), 5).decide(call("read_file"))
        await Gate(policy.over(Rules([Rule("allow", tool="*")])), 5).decide(call("read_file"))

    async def test_what_they_ask_about_no_rule_of_the_host_allows(self) -> None:
        policy = ManagedPolicy(rules=[Rule("ask", tool="delete_*")])
        asked: list[str] = []

        def ask(request: Any) -> Allow:
            asked.append(request.subject)
            return Allow()

        rules = Rules([Rule("deny", tool="delete_all"), Rule("allow", tool="*")], ask)
        gate = Gate(policy.over(rules), 5)
        await gate.decide(call("read_file"))
        assert asked == []
        await gate.decide(call())
        assert asked == ["delete_file"]
        with pytest.raises(CallDenied):  # the host's own no still counts
            await gate.decide(call("delete_all"))
        assert asked == ["delete_file"]

    async def test_they_hold_for_calls_and_for_the_use_of_the_model(self) -> None:
        policy = ManagedPolicy(
            rules=[Rule("deny", tool="run"), Rule("deny", kind="sampling", reason="no models")]
        )

        def sample(request: Any) -> SamplingResult:
            raise AssertionError("no one should be asked")

        def respond(message: Any) -> Any:
            if message["method"] != "tools/list":
                return NotImplemented
            return {"tools": [{"name": "run", "inputSchema": {"type": "object"}}]}

        handlers = Handlers(sampling=sample)
        options: Any = {"approval": allow_all, "handlers": handlers, "policy": policy}
        async with connect(MemoryServer(respond), **options) as session:
            with pytest.raises(CallDenied, match="refused by policy"):
                await session.call_tool("run")
            with pytest.raises(RequestRefused):
                await session._dispatcher._sampling_gate.approve(prompt())

    async def test_rules_without_a_rule_still_decide_about_the_use_of_the_model(self) -> None:
        policy = ManagedPolicy(rules=[Rule("deny", tool="run")])
        asked: list[Any] = []

        def refuse(request: Any) -> Deny:
            asked.append(request)
            return Deny("no models")

        handlers = Handlers(sampling=asked.append, sampling_approval=Rules([], ask=refuse))
        options: Any = {"approval": allow_all, "handlers": handlers, "policy": policy}
        async with connect(MemoryServer(lambda message: NotImplemented), **options) as session:
            with pytest.raises(RequestRefused):
                await session._dispatcher._sampling_gate.approve(prompt())
        assert len(asked) == 1

    def test_a_policy_is_not_anything_else(self) -> None:
        with pytest.raises(ConfigError, match=r"policy=5: give ManagedPolicy.system\(\)"):
            connect("https://one.example", policy=5)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="rule 1 allows"):
            ManagedPolicy(rules=[Rule("allow", tool="x")])
        with pytest.raises(ConfigError, match="give a list of patterns"):
            ManagedPolicy(deny="npx *")
