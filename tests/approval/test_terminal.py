"""A person at the terminal approves or denies a call."""

from __future__ import annotations

import json
import os
import re
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pexpect  # type: ignore[import-untyped]
import pytest

from mcp_client import Allow, Deny, ask_on_terminal
from mcp_client.approval import Remember, Script
from mcp_client.approval.decision import Answer
from mcp_client.approval.gate import Gate
from mcp_client.auth.browser import Browser
from mcp_client.auth.steps import Consent, Listen
from mcp_client.errors import CallDenied
from tests.support.skills import PDF, SkillServer, request_of
from tests.support.terminal import CTRL_C, CTRL_D, Desk, Program, call_of

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals"),
    # Other tests leave idle threads; the child does nothing but start the script.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),
]

YES = Allow(remember=Remember("call"), source="person")
NO = Deny("the person at the terminal denied it", source="person")
LEFT = Deny("the person at the terminal closed the question", source="person")


# ------------------------------------------------------------------------- the answers


@pytest.mark.parametrize("reply", ["y", "YES", " y ", "Yes"])
async def test_yes_is_yes_to_this_one_call(desk: Desk, reply: str) -> None:
    assert await desk.asked(call_of(), reply) == YES


@pytest.mark.parametrize("reply", ["n", "No", "", "   "])
async def test_no_and_nothing_are_no(desk: Desk, reply: str) -> None:
    assert await desk.asked(call_of(), reply) == NO


@pytest.mark.parametrize(
    ("lines", "reply"),
    [
        (["y"], YES),
        (["n"], NO),
        ([""], NO),
        ([CTRL_C], LEFT),
        (["s"], Allow(remember=Remember("session"), source="person")),
        (["a"], Allow(remember=Remember("always"), source="person")),
        (["h"], Allow(remember=Remember("session", seconds=3_600), source="person")),
        (["v", "y"], YES),
        (["e", "x", "s a"], NO),
    ],
)
async def test_a_skill_is_asked_about_in_the_same_dialogue(
    desk: Desk, lines: list[str], reply: Answer
) -> None:
    assert await desk.asked(request_of(), *lines) == reply
    screen = "\n".join(await desk.screen())
    for displayed in (
        *("May this skill be loaded?", "docs", "pdf", PDF, "Fill in forms", "2 files"),
        *("allowed-tools (an approval does not grant these)", "references/FORMS.md"),
    ):
        assert displayed in screen


async def test_a_dynamic_skill_is_not_remembered_at_the_terminal(desk: Desk) -> None:
    entry = {**SkillServer().skills[0], "resources": "dynamic"}
    reply = await desk.asked(request_of(entry), "s", "a", "y")
    assert reply == YES
    assert "cannot be verified" in "\n".join(await desk.screen())


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D])
async def test_ctrl_c_and_ctrl_d_are_no(desk: Desk, key: str) -> None:
    assert await desk.asked(call_of(), key) == LEFT


async def test_ctrl_c_is_a_denial_also_after_something_was_typed(desk: Desk) -> None:
    async def ask() -> None:
        assert await desk.ask(call_of()) == LEFT

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await desk.until("] ")
        desk.type("y" + CTRL_C)


@pytest.mark.parametrize(
    "reply",
    ["yy", "yes please", "j", "ý", "\x1b[A", "y\x00", "1", "true", "e", "s all", "\u202ey"],
)
async def test_any_other_reply_is_asked_again_and_the_third_time_is_a_denial(
    desk: Desk, reply: str
) -> None:
    assert await desk.asked(call_of(), reply, reply, reply) == NO
    assert [line for line in await desk.screen() if line.startswith("That is not one")]
    assert "That counts as no." in await desk.screen()


async def test_a_valid_decision_after_an_invalid_one_counts(desk: Desk) -> None:
    assert await desk.asked(call_of(), "?", "yess", "y") == YES


@pytest.mark.parametrize(
    ("reply", "remembered"),
    [
        ("s", Remember("session")),
        ("H", Remember("session", seconds=3_600)),
        (" a", Remember("always")),
        ("X", Remember("always", exact=True)),
    ],
)
async def test_an_approval_may_go_further_than_this_call(
    desk: Desk, reply: str, remembered: Remember
) -> None:
    assert await desk.asked(call_of(), reply) == Allow(remember=remembered, source="person")


# ------------------------------------------------------------------------ what is shown


@pytest.mark.parametrize("answers", [["n"], ["v", "n"]])
async def test_a_call_that_a_view_makes_is_asked_about_as_one(
    desk: Desk, answers: list[str]
) -> None:
    await desk.asked(replace(call_of(), origin="app"), *answers)
    assert "Called by      the server's own view (MCP App), not the host" in await desk.screen()


@pytest.mark.parametrize("answers", [["r"], ["v", "r"]])
async def test_a_call_of_a_script_is_asked_about_with_the_script(
    desk: Desk, answers: list[str]
) -> None:
    script = Script("r1", "for n in range(3):\n    await files.rm(n=n)\x1b[2J", calls=2, line=2)
    reply = await desk.asked(replace(call_of(), origin="code", script=script), *answers)
    assert reply == Allow(remember=Remember("script"), source="person")
    screen = await desk.screen()
    for displayed in (
        "Called by      a script, which is shown here, not the host",
        "Calls          this is call 3 of the script",
        "Calling line | await files.rm(n=n)\\u{1b}[2J",
        "Script       |   1  for n in range(3):",
        "             | > 2      await files.rm(n=n)\\u{1b}[2J",
        "  r  Until this script ends",
    ):
        assert displayed in screen


async def test_of_a_long_script_the_lines_around_the_call_are_shown(desk: Desk) -> None:
    code = "\n".join([*("x = 1" for _ in range(99)), "y" * 900, "await files.rm()", "z = 2"])
    script = Script("r1", code, line=101)
    await desk.asked(replace(call_of(), origin="code", script=script), "n")
    screen = "\n".join(await desk.screen())
    assert "+ 95 lines above" in screen
    assert "|    96  x = 1" in screen
    assert "| > 101  await files.rm()" in screen
    assert "  95  x = 1" not in screen
    assert "Not all of it is shown: v shows the rest." in screen


async def test_a_call_of_the_host_cannot_be_allowed_for_a_script(desk: Desk) -> None:
    assert await desk.asked(call_of(), "r", "n") == NO


async def test_the_question_states_all_there_is_to_know(desk: Desk) -> None:
    call = call_of(
        {"path": "/srv", "lines": [1, 2.5], "all": True, "none": None, "empty": {}},
        title="Remove",
        description="Removes a file.\nThere is no way back.",
        meta={"team": "ops"},
        findings=("this tool is new",),
        trusted=True,
        annotations={"destructiveHint": False},
    )
    await desk.asked(call, "n")
    assert await desk.screen() == [
        "",
        "May this tool run?",
        "Server       | files",
        "Tool         | rm",
        "Its title    | Remove",
        "It says      | Removes a file.",
        "             | There is no way back.",
        "Read-only      no (assumed, not stated by a trusted server)",
        "Destructive    no (the server's word, which you trust)",
        "Repeatable     no (assumed, not stated by a trusted server)",
        "Reaches out    yes (assumed, not stated by a trusted server)",
        "Call's _meta | {",
        '             |   "team": "ops"',
        "             | }",
        "Arguments    | {",
        '             |   "all": true,',
        '             |   "empty": {},',
        '             |   "lines": [',
        "             |     1,",
        "             |     2.5",
        "             |   ],",
        '             |   "none": null,',
        '             |   "path": "/srv"',
        "             | }",
        "Note         | this tool is new",
        "  y  yes, this once          n  no          v  view all",
        "  s  Until the session ends",
        "  h  For one hour",
        "  a  Always",
        "  x  Always, for exactly these arguments",
        "a covers     | Calls with any arguments of rm on files, until it is revoked,",
        "             : if the host stores approvals; else until the session ends. You",
        "             : are asked again if the definition of the tool changes or",
        "             : something more is found about a call.",
        "Run it? [y/N/s/h/a/x/v] n",
    ]


async def test_what_is_left_out_is_reported_and_v_shows_it(desk: Desk) -> None:
    text = "".join(f"<{number}>" for number in range(400))
    call = call_of({"text": text, "list": list(range(50))})
    assert await desk.asked(call, "v", "y") == YES
    screen = "\n".join(await desk.screen())
    short, whole, again = screen.split("Server       | files")[1:]
    assert "more characters" in short
    assert "more members" in short
    assert "Not all of it is shown: v shows the rest." in short
    assert short.split("Run it?")[0] == again.split("Run it?")[0]
    plain = whole.replace("\n             : ", "")
    assert json.dumps(text) in plain
    assert "    49\n" in plain
    assert call.tool.fingerprint[:60] in whole
    assert "more" not in whole.split("May this tool run?")[0]


async def test_a_long_argument_hides_neither_the_others_nor_its_own_end(desk: Desk) -> None:
    call = call_of({"a": "x" * 50_000 + "; rm -rf /", "b": [["y" * 900] * 90] * 90, "path": "/etc"})
    await desk.asked(call, "n")
    screen = "\n".join(await desk.screen())
    assert '"path": "/etc"' in screen
    assert '; rm -rf /"' in screen
    assert re.search(r"49,\d{3} more characters", screen)
    assert len(await desk.screen()) < 60


async def test_no_line_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in (24, 40, 81, 300):
        with monkeypatch.context() as patch:
            desk = Desk(patch, columns)
            await desk.asked(call_of({"p": "word " * 90 + "東京" * 90}, description="w" * 500), "n")
            await desk.screen()
        desk.close()
        for line in desk.raw.decode().split("\r\n"):
            if "|" in line or ":" in line[13:14]:
                assert len(line) + sum(char in "東京" for char in line) < min(columns, 101), line


async def test_numbers_are_shown_as_they_are_sent(desk: Desk) -> None:
    call = call_of({"n": [1e300, 12345678901234567890, -0.5]})
    await desk.asked(call, "n")
    screen = await desk.screen()
    for number in ("1e+300,", "12345678901234567890,", "-0.5"):
        assert any(line.endswith(f" {number}") for line in screen), number


async def test_a_server_that_contradicts_itself_is_reported(desk: Desk) -> None:
    hints = {"readOnlyHint": True, "destructiveHint": True}
    await desk.asked(call_of(trusted=True, annotations=hints), "n")
    assert "Destructive    yes (assumed, the server contradicts itself)" in await desk.screen()


# --------------------------------------------------------------------------- no terminal


async def test_a_terminal_too_narrow_for_the_marks_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        desk = Desk(patch, 23)
        reply = await desk.ask(call_of())
    desk.close()
    assert isinstance(reply, Deny)
    assert "narrower than 24 columns" in reply.reason
    assert not desk.raw


async def test_in_the_background_the_question_is_not_asked(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "tcgetpgrp", lambda fd: os.getpgrp() + 1)
    reply = await desk.ask(call_of())
    assert isinstance(reply, Deny)
    assert "in the background" in reply.reason
    assert not desk.raw


# --------------------------------------------------------------- withdrawn, and in turn


async def test_a_cancelled_question_is_withdrawn(desk: Desk) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(desk.ask, call_of())
        await desk.until("] ")
        assert termios.tcgetattr(desk.slave) != desk.settings
        group.cancel_scope.cancel()
    await desk.until("\r\n(The question is withdrawn.)\r\n")
    assert termios.tcgetattr(desk.slave) == desk.settings


async def test_a_question_whose_time_runs_out_is_withdrawn(desk: Desk) -> None:
    with pytest.raises(CallDenied) as denied:
        await Gate(desk.ask, 0.2).decide(call_of())
    assert "none within 0.2 s" in denied.value.reason
    screen = await desk.screen()
    # Time may have run out before the question was there, on a machine that is very slow.
    assert ("(The question is withdrawn.)" in screen) == ("May this tool run?" in screen)
    assert termios.tcgetattr(desk.slave) == desk.settings


async def test_one_question_is_open_at_a_time_in_the_order_asked(desk: Desk) -> None:
    answers: dict[str, Answer] = {}

    async def ask(name: str) -> None:
        answers[name] = await desk.ask(call_of(name=name))

    async with anyio.create_task_group() as group:
        for name in ("first", "second", "third"):
            group.start_soon(ask, name)
            await anyio.wait_all_tasks_blocked()
        await desk.answer("y", "n", "y")
    asked_for = [line[15:] for line in await desk.screen() if line.startswith("Tool  ")]
    assert asked_for == ["first", "second", "third"]
    assert answers == {"first": YES, "second": NO, "third": YES}


async def test_another_event_loop_waits_for_its_turn_at_the_terminal(desk: Desk) -> None:
    answers: dict[str, Answer] = {}

    async def ask(name: str) -> None:
        answers[name] = await desk.ask(call_of(name=name))

    other = threading.Thread(target=anyio.run, args=(ask, "other"))
    async with anyio.create_task_group() as group:
        group.start_soon(ask, "ours")
        await desk.until("] ")
        other.start()
        desk.type("y\n")
        await desk.answer("n")
    await anyio.to_thread.run_sync(other.join)
    assert answers == {"ours": YES, "other": NO}
    text = "\n".join(await desk.screen())
    assert text.index("| ours") < text.index("[y/N/s/h/a/x/v] y") < text.index("| other")


async def test_a_line_that_another_process_read_leaves_the_question_open(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = anyio.wait_readable
    times = []

    async def woken(fd: Any) -> None:
        times.append(fd)
        if len(times) > 3:  # before that, the line has gone to another reader
            await wait(fd)

    monkeypatch.setattr(anyio, "wait_readable", woken)
    assert await desk.asked(call_of(), "y") == YES
    assert len(times) == 4


async def test_a_terminal_that_cannot_be_opened_again_is_used_as_it_is(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refused)
    assert await desk.asked(call_of(), "y") == YES


async def test_a_host_that_reads_single_keys_gets_its_terminal_back(desk: Desk) -> None:
    tty.setraw(desk.slave)
    desk.settings = termios.tcgetattr(desk.slave)
    assert await desk.asked(call_of(), "yx\x7f") == YES  # and a line can be edited meanwhile
    assert await desk.asked(call_of(), CTRL_C) == LEFT


async def test_another_interrupt_key_than_ctrl_c_is_a_denial_as_well(desk: Desk) -> None:
    settings = termios.tcgetattr(desk.slave)
    settings[6][termios.VINTR] = b"\x07"
    termios.tcsetattr(desk.slave, termios.TCSANOW, settings)
    desk.settings = termios.tcgetattr(desk.slave)

    async def ask() -> None:
        assert await desk.ask(call_of()) == LEFT

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await desk.prompted()
        desk.type("\x07")
    assert termios.tcgetattr(desk.slave) == desk.settings


# ------------------------------------------------------------------------- the editor

Editor = Callable[[str], Path]


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editor:
    """An editor of a few lines; ``path`` is the file."""

    def made(code: str) -> Path:
        script = tmp_path / "an editor.py"
        script.write_text(
            f"import json, os, pathlib, sys\npath = pathlib.Path(sys.argv[-1])\n{code}"
        )
        monkeypatch.setenv(
            "VISUAL", f"'{sys.executable}' -I '{script}' '--option; touch {tmp_path}/x'"
        )
        return tmp_path

    return made


async def test_edited_arguments_are_asked_about_again(desk: Desk, editor: Editor) -> None:
    there = editor(
        "seen = [path.read_text(), oct(path.stat().st_mode & 0o777),\n"
        "    oct(path.parent.stat().st_mode & 0o777), sys.argv[1]]\n"
        "(pathlib.Path(sys.argv[0]).parent / 'seen').write_text(json.dumps([*seen, str(path)]))\n"
        'path.write_text(\'{"path": "/tmp"}\')\n'
    )
    call = call_of({"path": "/\u202e\U000e0041é"}, findings=("the path is odd",))
    reply = await desk.asked(call, "e", "s", "y")
    assert reply == Allow({"path": "/tmp"}, source="person")
    text, file_mode, directory_mode, option, path = json.loads((there / "seen").read_text())
    assert text == '{\n  "path": "/\\u202e\\udb40\\udc41é"\n}\n'
    assert (file_mode, directory_mode) == ("0o600", "0o700")
    assert option == f"--option; touch {there}/x"
    assert not (there / "x").exists()
    assert not Path(path).parent.exists()
    screen = "\n".join(await desk.screen())
    assert 'Your edit    | {\n             |   "path": "/tmp"' in screen
    assert "Note         | the path is odd" in screen
    assert "Run it? [y/N/e/v]" in screen.split("Your edit")[1]


async def test_an_edit_that_changes_nothing_leaves_the_call_as_it_was(
    desk: Desk, editor: Editor
) -> None:
    editor("path.write_text(path.read_text().replace('  ', ' '))")
    assert await desk.asked(call_of(), "e", "y") == YES


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("path.write_text('{\"a\": 1,')", "it is not JSON: Expecting"),
        ("path.write_text('[1]')", "it is not a JSON object"),
        ('path.write_text(\'{"a": 1, "a": 2}\')', "the member 'a' appears twice"),
        ("path.write_text('{\"a\": NaN}')", "NaN is not a value of JSON"),
        ("path.write_bytes(b'\\xff')", "cannot read the file"),
        ("path.unlink()", "cannot read the file"),
        ("path.write_text('{}'); sys.exit(3)", "the editor ended with status 3"),
        ("path.write_text('[' * 100000)", "it is nested too deep"),
        ("path.write_text('{}' + ' ' * 10_000_000)", "the file is larger than 10,000,000 bytes"),
    ],
)
async def test_an_edit_that_cannot_be_used_changes_nothing(
    desk: Desk, editor: Editor, code: str, reason: str
) -> None:
    editor(code)
    assert await desk.asked(call_of(), "e", "n", "y") == YES
    assert [
        line for line in await desk.screen() if line.startswith("Rejected: ") and reason in line
    ]


async def test_a_draft_with_an_error_in_it_can_be_edited_again(desk: Desk, editor: Editor) -> None:
    editor(
        "text = path.read_text()\n"
        "path.write_text(text[:-2] if text.endswith('}\\n') else text + '}')"
    )
    reply = await desk.asked(call_of({"a": [1]}), "e", "y", "y")
    assert reply == YES
    assert "Edit it again? [y/N] y" in await desk.screen()


async def test_ctrl_c_after_an_edit_is_a_denial_as_well(desk: Desk, editor: Editor) -> None:
    editor("path.write_text('{')")
    assert await desk.asked(call_of(), "e", CTRL_C) == LEFT


async def test_an_editor_that_does_not_start_is_named(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", "/nowhere/ed")
    assert await desk.asked(call_of(), "e", "n", "n") == NO
    assert "Rejected: cannot start the editor '/nowhere/ed': No such file or directory" in (
        await desk.screen()
    )


async def test_an_editor_ends_with_the_call(
    desk: Desk, editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_client.approval.terminal._END_SECONDS", 60.0)  # on a busy machine too
    there = editor(
        "import signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"  # until it is waited for
        "print('EDITING', os.getpid(), path, file=sys.stderr, flush=True)\n"
        "signal.sigwait([signal.SIGTERM])\n"
        "pathlib.Path(sys.argv[0]).with_name('tidied').touch()\n"
    )
    async with anyio.create_task_group() as group:
        group.start_soon(desk.ask, call_of())
        await desk.answer("e")
        await desk.until("EDITING ")
        await desk.until("\n")
        group.cancel_scope.cancel()
    await desk.until("withdrawn")
    pid, path = re.findall(r"EDITING (\d+) (\S+)", desk.raw.decode())[0]
    assert not Path(path).parent.exists()
    assert (there / "tidied").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
    assert termios.tcgetattr(desk.slave) == desk.settings


async def test_without_an_editor_none_is_offered(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "an 'open quotation mark")
    await desk.asked(call_of(), "n")
    assert not [line for line in await desk.screen() if "edit" in line]


# ---------------------------------------------------------------------- taking turns


async def test_a_login_at_the_terminal_waits_until_the_open_question_is_answered(
    desk: Desk,
) -> None:
    answers: list[Answer] = []
    codes: list[str] = []

    async def ask() -> None:
        answers.append(await desk.ask(call_of()))

    async def log_in() -> None:
        person = Browser(headless=True)
        uri = await person.listen(Listen())
        uris.append(uri)
        url = "https://as.example.com/authorize?client_id=c&state=st-4711"
        redirected = await person.consent(Consent(url, uri, "st-4711", "files"))
        codes.append(redirected.params["code"])

    uris: list[str] = []
    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await desk.prompted()
        group.start_soon(log_in)
        while not uris:
            await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        assert "Log in for" not in "\n".join(await desk.screen())
        desk.type("y\n")
        await desk.until("  > ")
        assert answers == [YES]
        desk.type(f"{uris[0]}?code=typed&state=st-4711\n")
    assert codes == ["typed"]


async def test_a_question_that_waited_is_not_asked_if_a_decision_covers_it_meanwhile(
    desk: Desk,
) -> None:
    gate = Gate(ask_on_terminal, 60)
    desk.sit()
    reported: list[str] = []

    async def ask() -> None:
        reported.append((await gate.decide(call_of())).source)

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(ask)
        await desk.answer("s")
    assert sorted(reported) == ["memory", "memory", "person"]


# -------------------------------------------------------------- a program of its own


@pytest.fixture
def program() -> Iterator[Callable[..., Program]]:
    started: list[Program] = []

    def start(env: dict[str, str] | None = None, **options: Any) -> Program:
        started.append(Program(json.dumps(options), env=env))
        return started[-1]

    yield start
    for each in started:
        each.child.close(force=True)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
class TestAProgram:
    @pytest.mark.slow
    def test_goes_on_after_ctrl_c_and_is_interrupted_by_the_next(
        self, program: Any, backend: str
    ) -> None:
        host = program(backend=backend, calls=[{"n": 1}, {"n": 2}, {"n": 3}], do="wait")
        host.answer(CTRL_C, "y", CTRL_D)
        host.until("WAITING")
        host.type(CTRL_C)
        assert host.rest() == [
            "= DENIED person the person at the terminal closed the question",
            '= RESULT it ran {"n": 2}',
            "= DENIED person the person at the terminal closed the question",
            "= SETTINGS KEPT",
            "= WAITING",
            "= INTERRUPTED",
            "= SENT 1",
        ]

    @pytest.mark.slow
    def test_takes_no_reply_that_was_typed_ahead(self, program: Any, backend: str) -> None:
        host = program(backend=backend, do="ahead")
        host.until("TYPE AHEAD")
        host.type("y\ny\n")
        host.answer("n")
        assert host.rest()[-3:] == [
            "= DENIED person the person at the terminal denied it",
            "= SETTINGS KEPT",
            "= SENT 0",
        ]

    @pytest.mark.slow
    def test_prints_while_a_question_is_open(
        self, program: Any, backend: str, tmp_path: Path
    ) -> None:
        flag = tmp_path / "flag"
        host = program(backend=backend, do="print", flag=str(flag))
        host.until("] ")
        flag.touch()
        host.until("OTHER OUTPUT")
        host.type("v\n")
        host.answer("y")
        assert host.rest()[-3:] == [
            '= RESULT it ran {"path": "/"}',
            "= SETTINGS KEPT",
            "= SENT 1",
        ]

    @pytest.mark.slow
    def test_asks_calls_made_together_one_by_one(self, program: Any, backend: str) -> None:
        host = program(backend=backend, together=True, calls=[{"n": 1}, {"n": 2}], do="listen")
        host.answer("y", "n")
        reported = sorted(host.rest())
        assert reported[0] == "= DENIED person the person at the terminal denied it"
        assert reported[1].startswith("= RESULT it ran")
        assert reported[2:] == ["= SENT 1", "= SETTINGS KEPT"]

    @pytest.mark.slow
    def test_withdraws_what_takes_too_long(self, program: Any, backend: str) -> None:
        host = program(backend=backend, seconds=0.2)
        assert host.rest()[-3:] == [
            "= DENIED gate none within 0.2 s, Timeouts(approval=...)",
            "= SETTINGS KEPT",
            "= SENT 0",
        ]
        displayed = "May this tool run?" in host.screen
        assert ("(The question is withdrawn.)" in host.screen) == displayed

    @pytest.mark.slow
    def test_withdraws_what_is_cancelled(self, program: Any, backend: str, tmp_path: Path) -> None:
        flag = tmp_path / "flag"
        host = program(backend=backend, do="cancel", flag=str(flag))
        host.until("] ")
        flag.touch()
        host.until("withdrawn")
        assert host.rest()[-2:] == ["= SETTINGS KEPT", "= SENT 0"]

    @pytest.mark.slow
    def test_is_not_interrupted_by_ctrl_c_in_a_simple_editor(
        self, program: Any, backend: str, editor: Editor
    ) -> None:
        editor("print('EDITING', flush=True)\nsys.stdin.readline()\npath.write_text('{\"n\": 5}')")
        host = program(backend=backend, env={"VISUAL": os.environ["VISUAL"]})
        host.answer("e")
        host.until("EDITING")
        host.type("\x03\n")
        host.answer("y")
        assert '= RESULT it ran {"n": 5}' in host.rest()


@pytest.mark.slow
def test_ask_first_runs_what_a_person_at_the_terminal_agrees_to() -> None:
    example = Path(__file__).parents[2] / "examples" / "approval" / "ask_first.py"
    child = pexpect.spawn(sys.executable, [str(example)], timeout=30, encoding="utf-8")
    try:
        child.expect_exact("v] ")
        child.send("y\n")
        child.expect(pexpect.EOF)
        assert child.before.splitlines()[1:] == ["Alarm set for New York."]
    finally:
        child.close(force=True)
