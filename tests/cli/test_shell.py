"""``shell``: many commands in one session."""

from __future__ import annotations

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
