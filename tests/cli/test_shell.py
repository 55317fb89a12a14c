"""``shell``: many commands in one session; and the scripts that complete the command line."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
import pytest

from tests.cli.shell import at_terminal, example, run, server, without_extra


def test_commands_of_a_pipe_run_in_one_session() -> None:
    lines = "call pid\n# a comment\n\ncall pid --json\nnosuch\ntools --json"
    done = run("shell", server("scripted", "--era", "stateless"), "--allow", "pid", stdin=lines)
    first, second, third = done.out.splitlines()
    assert f'"text": "{first}"' in second
    assert '"tools"' in third
    assert done.code == 2
    assert "unknown command 'nosuch'" in done.err


def test_the_shell_does_not_take_options_of_the_session_in_a_line() -> None:
    line = "call set_alarm location=Oslo --allow=*"
    done = run("shell", example("weather"), stdin=line)
    assert (done.code, done.out) == (2, "")
    assert "give it to 'shell'" in done.err


@pytest.mark.parametrize("extra", [True, False])
def test_the_shell_at_a_terminal_asks_before_a_call_and_goes_on_after_a_no(
    extra: bool, tmp_path: Path
) -> None:
    env: dict[str, Any] = {} if extra else without_extra(tmp_path / "without")
    child = at_terminal("shell", example("weather"), home=tmp_path, **env)
    child.expect("mcp>")
    child.sendline("call set_alarm location=Oslo")
    child.expect(r"Run it\? ")
    child.sendline("n")
    child.expect("not approved")
    child.expect("mcp>")
    child.sendline("describe get_weather")
    child.expect("Fingerprint")
    child.expect("mcp>")
    child.sendline("quit")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 3


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_one_that_its_shell_can_read(shell: str) -> None:
    done = run("completion", shell)
    assert done.code == 0
    for word in ("doctor", "complete", "allow"):
        assert word in done.out
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=done.out, text=True, check=True, timeout=30)


def test_bash_completes_commands_and_options() -> None:
    script = run("completion", "bash").out
    script += (
        "COMP_WORDS=(mcp-client call x --al); COMP_CWORD=3; _mcp_client; echo ${COMPREPLY[@]}\n"
    )
    script += "COMP_WORDS=(mcp-client descr); COMP_CWORD=1; _mcp_client; echo ${COMPREPLY[@]}\n"
    done = subprocess.run(
        ["bash", "-s"], input=script, capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.split() == ["--allow", "describe"]
