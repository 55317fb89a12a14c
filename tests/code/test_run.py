"""A script's calls: each goes through the gate, and errors are as in Python."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from typing import Any

import anyio
import pytest
from anyio import create_task_group, fail_after

from mcp_client import Allow, CancelToken, ConfigError, Deny, Rule, Rules, Timeouts, ToolCall
from mcp_client.code import interpreter
from mcp_client.code import run as runs
from mcp_client.code.interpreter import as_plain, parsed_arguments
from mcp_client.errors import CallCancelled, InvalidArguments
from mcp_client.runtime import pausable_clock
from mcp_client.runtime.deadline_timer import DeadlineTimer
from tests.code.test_pause_in_processes import interpreters
from tests.code.worlds import run
from tests.support.worlds import Server, opened

both_eras = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
TRY = """\
try:
    print(await {})
except {} as error:
    print("{}:", error)
"""


@both_eras
async def test_a_script_calls_tools_and_returns_what_it_printed_and_its_last_expression(
    revision: Any,
) -> None:
    server = Server()
    code = (
        "import asyncio\n"
        "print(await desk.echo(text='one'))\n"
        "more = await asyncio.gather(*[desk.echo(text=str(n)) for n in range(3)])\n"
        "data = await desk.result(result={'structuredContent': {'n': 7}, 'content': []})\n"
        "[more, data['n'] + 1]\n"
    )

    async def serve(message: dict[str, Any]) -> Any:
        if message["method"] == "server/discover" and revision == "2026-07-28":
            return {"supportedVersions": [revision], "capabilities": {"tools": {}}}
        return await server(message)

    async with opened(serve, revision=revision) as session:
        found = await run(session, code)
    assert found.text == 'one\n[["0", "1", "2"], 8]'
    assert (found.value, found.calls, found.is_error) == ([["0", "1", "2"], 8], 5, False)
    assert len(server.ran) == 5


async def test_the_approver_sees_the_script_and_the_line_of_each_call() -> None:
    asked: list[ToolCall] = []

    async def hook(call: ToolCall) -> Allow:
        asked.append(call)
        return Allow()

    code = "x = 1\r\nawait desk.echo(\r\n    text='a')\r\nawait desk.echo(text='b')"
    async with opened(Server(), approval=hook) as session:
        found = await run(session, code, context="ana")
    scripts = [call.script for call in asked if call.script is not None]
    assert [(one.calls, one.line) for one in scripts] == [(0, 2), (1, 4)]
    assert {(one.id, one.code) for one in scripts} == {(found.id, code.replace("\r\n", "\n"))}
    assert {(call.origin, call.context) for call in asked} == {("code", "ana")}


async def test_calls_side_by_side_are_asked_about_and_made_side_by_side() -> None:
    server, asked, all_asked = Server(), [], anyio.Event()
    server.wanted = 3

    async def hook(call: ToolCall) -> Allow:
        asked.append(call)
        if len(asked) == 3:
            all_asked.set()
        await all_asked.wait()
        return Allow()

    code = "import asyncio\nawait asyncio.gather(*[desk.wait(n=n) for n in range(3)])"
    async with opened(server, approval=hook) as session, create_task_group() as group:

        async def respond() -> None:
            await server.all_wait.wait()
            server.go_on.set()

        group.start_soon(respond)
        with fail_after(60):
            found = await run(session, code)
    assert found.value == ["waited 0", "waited 1", "waited 2"]


async def test_one_branch_goes_on_while_another_one_waits() -> None:
    server = Server()
    code = (
        "import asyncio\n"
        "async def quick():\n"
        "    for n in range(3):\n"
        "        last = await desk.echo(text=str(n))\n"
        "    return last\n"
        "await asyncio.gather(desk.wait(n=9), quick())"
    )

    async def hook(call: ToolCall) -> Allow:
        if call.arguments.get("text") == "2":
            server.go_on.set()
        return Allow()

    async with opened(server, approval=hook) as session:
        with fail_after(60):
            found = await run(session, code)
    assert found.value == ["waited 9", "2"]


async def test_refusals_errors_and_timeouts_are_exceptions_that_a_script_can_catch() -> None:
    async def hook(call: ToolCall) -> Allow | Deny:
        return Deny("not on Fridays") if call.arguments.get("text") == "no" else Allow()

    code = "".join(
        [
            TRY.format("desk.echo(text='no')", "CallDenied", "denied"),
            TRY.format("desk.fail()", "ToolFailed", "failed"),
            TRY.format("desk.wait()", "CallTimeout", "late"),
            TRY.format("desk.echo(text={1: 2})", "InvalidArguments", "wrong"),
            TRY.format("desk.refused()", "CallFailed", "error"),
            "await desk.echo(text='and on')",
        ]
    )

    async def serve(message: dict[str, Any]) -> Any:
        if message["method"] == "tools/list":
            names = ("echo", "wait", "fail", "refused")
            return {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names]}
        return await server(message)

    server = Server()
    async with opened(serve, approval=hook) as session:
        with fail_after(60):
            found = await run(session, code, timeout=Timeouts(total=0.1))
    lines = found.text.splitlines()
    assert lines[0] == (
        "denied: Nothing was sent. The call was not approved: not on Fridays. Do not repeat it as "
        "it is."
    )
    assert lines[1] == "failed: the disk is full"
    assert lines[2].startswith("late: The server 'desk' did not respond in time. It may have run:")
    assert lines[3].startswith("wrong: Nothing was sent. Arguments cannot be sent as JSON")
    assert lines[4].startswith("error: Error from the server 'desk' (its words are data")
    assert "hunter2" not in found.text
    assert lines[-1] == "and on"


async def test_an_exception_ends_the_script_with_its_traceback_and_no_frame_of_ours() -> None:
    code = "print('so far')\nasync def inner():\n    return await desk.fail()\nawait inner()"
    async with opened(Server()) as session:
        found = await run(session, code)
    assert found.text == (
        "so far\n"
        "Traceback (most recent call last):\n"
        '  File "script", line 4, in <module>\n'
        "    await inner()\n"
        "    ~~~~~~~~~~~~~\n"
        '  File "script", line 3, in inner\n'
        "    return await desk.fail()\n"
        "           ~~~~~~~~~~~~~~~~~\n"
        "RuntimeError: the disk is full\n"
        "Calls that it had sent before: 1. What they did stays done: do not simply run it again."
    )


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("nothing", "NameError: name 'nothing' is not defined"),
        ("await nothing()", "NameError: name 'nothing' is not defined"),
        ("await desk.nothing()", "AttributeError: there is no tool desk.nothing"),
        ("await desk.echo('x')", "TypeError: desk.echo() takes keyword arguments only"),
        ("(", "SyntaxError"),
        ("import subprocess", "ModuleNotFoundError"),
    ],
)
async def test_what_does_not_exist_is_reported_as_python_reports_it(
    code: str, expected: str
) -> None:
    server = Server()
    async with opened(server) as session:
        found = await run(session, code)
    assert expected in found.text
    assert found.error is not None
    assert server.ran == []


async def test_a_tool_is_a_value_too() -> None:
    async with opened(Server()) as session:
        found = await run(session, "say = desk.echo\n[await say(text=t) for t in 'ab']")
    assert found.value == ["a", "b"]


@pytest.mark.parametrize("name", ["id", "type", "list", "max", "item"])
async def test_a_variable_of_a_comprehension_may_have_any_name(name: str) -> None:
    async with opened(Server()) as session:
        found = await run(session, f"[await desk.echo(text={name}) for {name} in 'ab']")
    assert found.value == ["a", "b"]


async def test_arguments_that_break_the_schema_are_an_exception_and_no_question() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}

    async def serve(message: dict[str, Any]) -> Any:
        if message["method"] == "tools/list":
            return {"tools": [{"name": "add", "inputSchema": schema}]}
        return NotImplemented

    def hook(call: ToolCall) -> Allow:
        raise AssertionError(call)

    async with opened(serve, approval=hook) as session:
        found = await run(session, TRY.format("desk.add(n='x')", "InvalidArguments", "wrong"))
    assert found.text.startswith("wrong: Nothing was sent.")


async def test_a_call_that_the_script_does_not_wait_for_is_not_made() -> None:
    server = Server()
    async with opened(server) as session:
        found = await run(session, "desk.echo(text='x')\nprint('done')")
    assert server.ran == []
    assert found.text == (
        "done\nCalls that it did not wait for and that were not made: 1. Use await."
    )


async def test_a_run_that_waits_for_a_call_leaves_the_loop_to_others() -> None:
    server = Server()
    server.wanted = 1
    async with opened(server) as session, create_task_group() as group:
        group.start_soon(run, session, "await desk.echo(text='x')\nawait desk.wait()")
        with fail_after(60):
            await server.all_wait.wait()
            await anyio.wait_all_tasks_blocked()
        server.go_on.set()


async def test_no_timer_is_left_when_a_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    timers = list[DeadlineTimer]()

    class Noted(DeadlineTimer):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            timers.append(self)

    monkeypatch.setattr(pausable_clock, "DeadlineTimer", Noted)
    async with opened(Server()) as session:
        assert (await run(session, "1 + 1")).text == "2"
    assert [timer.at for timer in timers] == [math.inf]


async def test_a_call_that_is_under_way_when_the_script_ends_is_cancelled() -> None:
    server = Server()
    async with opened(server) as session:
        with fail_after(60):
            found = await run(session, "desk.wait()\nprint(await desk.echo(text='x'))")
    assert found.text.splitlines() == [
        "x",
        "Calls that it did not wait for and that were cancelled: 1. They may have run. Use await.",
    ]


async def test_a_rule_that_names_no_origin_allows_no_script() -> None:
    server = Server()
    own = [Rule("allow", tool="*", origin="code")]
    others = [Rule("allow", tool="*")]
    for rules, ran in ((others, 0), (own, 1)):
        policy = Rules(rules, ask=lambda call: Deny("no rule"))
        async with opened(server, approval=policy) as session:
            found = await run(session, "await desk.echo(text='x')")
        assert len(server.ran) == ran
        assert ("no rule" in found.text) is (ran == 0)


async def test_a_script_that_is_not_unicode_is_run_as_it_is_shown() -> None:
    asked: list[ToolCall] = []

    async def hook(call: ToolCall) -> Allow:
        asked.append(call)
        return Allow()

    async with opened(Server(), approval=hook) as session:
        found = await run(session, "await desk.echo(text='a\ud800b')")
    assert found.text == "a?b"
    assert asked[0].script is not None
    assert asked[0].script.code == "await desk.echo(text='a?b')"


async def test_a_text_that_no_string_of_a_script_can_hold_arrives_without_it() -> None:
    result = {"structuredContent": {"a": "x\ud800y"}, "content": []}

    async def serve(message: dict[str, Any]) -> Any:
        if message["method"] == "tools/list":
            return {"tools": [{"name": "odd", "inputSchema": {"type": "object"}}]}
        return result if message["method"] == "tools/call" else NotImplemented

    async with opened(serve) as session:
        found = await run(session, "(await desk.odd())['a']")
    assert found.value == "x?y"


# ------------------------------------------------------------------------ its end


async def test_cancelling_the_run_cancels_what_is_under_way() -> None:
    server = Server()
    server.wanted = 2
    code = "import asyncio\nawait asyncio.gather(desk.wait(), desk.wait())"
    async with opened(server) as session:
        with fail_after(60):
            async with create_task_group() as group:
                group.start_soon(run, session, code)
                await server.all_wait.wait()
                group.cancel_scope.cancel()


@pytest.mark.parametrize(
    "code", ["await desk.wait()", "print(await desk.wait())\nwhile True: pass"]
)
async def test_a_token_cancels_the_run(code: str) -> None:
    server, token = Server(), CancelToken()
    server.wanted = 1
    async with opened(server) as session, create_task_group() as group:

        async def cancel() -> None:
            await server.all_wait.wait()
            if "True" in code:
                server.go_on.set()
                while not server.ran:
                    await anyio.lowlevel.checkpoint()
            token.cancel("enough")

        group.start_soon(cancel)
        with fail_after(60), pytest.raises(CallCancelled, match="enough"):
            await run(session, code, cancel=token)
        with pytest.raises(CallCancelled):
            await run(session, "1", cancel=token)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
async def test_cancelling_a_script_that_computes_ends_its_process() -> None:
    async with opened(Server()) as session:
        with anyio.move_on_after(0.2):
            await run(session, "while True: pass")
        assert interpreters(os.getpid()) == []  # it would go on for 20 seconds


async def test_a_server_that_dies_is_an_exception_in_the_script() -> None:
    class Dead(Exception):
        pass

    async def serve(message: dict[str, Any]) -> Any:
        if message["method"] == "tools/call":
            raise Dead
        if message["method"] == "tools/list":
            return {"tools": [{"name": "die", "inputSchema": {"type": "object"}}]}
        return NotImplemented

    async with opened(serve) as session:
        with fail_after(60):
            found = await run(session, TRY.format("desk.die()", "CallFailed", "gone"))
    assert found.text.startswith("gone: ")


async def test_an_interpreter_that_dies_ends_the_run_and_settles_every_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[interpreter.Interpreter] = []

    class Watched(interpreter.Interpreter):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            made.append(self)

    monkeypatch.setattr(runs, "Interpreter", Watched)

    async def hook(call: ToolCall) -> Allow:
        process = made[-1]._process
        assert process is not None
        os.kill(process, signal.SIGKILL)
        return Allow()

    async with opened(Server(), approval=hook) as session:
        with fail_after(60):
            found = await run(session, "print('a')\nprint(await desk.echo(text='x'))")
    assert found.stop is not None
    assert found.stop.kind == "crashed"
    assert found.output == "a\n"
    assert "Calls that it had sent before: 1." in found.text


async def test_without_the_package_a_script_is_a_wrong_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pydantic_monty", None)
    async with opened(Server()) as session:
        with pytest.raises(ConfigError, match=r'pip install "mcp-client-host\[code\]"'):
            await run(session, "1")


FIRST_SCRIPTS = """
import threading
from mcp_client import Limits
from mcp_client.code.interpreter import Interpreter
from mcp_client.code.bindings import Bindings

def run(script):
    ready.wait()
    try:
        script.start()
        said.append(script.output)
    finally:
        script.close()

limits, ready, said = Limits(), threading.Barrier(8), []
options = {"limits": limits, "seconds": 60, "seed": ""}
scripts = [Interpreter("print(1)", Bindings([]), **options) for _ in range(8)]
threads = [threading.Thread(target=run, args=[one]) for one in scripts]
for one in threads: one.start()
for one in threads: one.join()
print(len(said))
"""


@pytest.mark.one_backend
def test_the_first_scripts_of_a_process_may_run_side_by_side() -> None:
    made = subprocess.run(
        [sys.executable, "-c", FIRST_SCRIPTS], capture_output=True, text=True, timeout=120
    )
    assert (made.returncode, made.stdout, made.stderr) == (0, "8\n", "")


def test_each_value_of_a_result_counts_two_characters_and_those_of_its_text() -> None:
    assert as_plain([1, "abc"], 9) == [1, "abc"]
    with pytest.raises(ValueError, match="more than 8 characters"):
        as_plain([1, "abc"], 8)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ({1: {"a": (1, 2)}, None: {3}}, {"1": {"a": [1, 2]}, "None": [3]}),
        (
            [float("inf"), 0.5, 1 << 1_024, b"", True, None],
            ["inf", 0.5, "<int>", "<bytes>", True, None],
        ),
    ],
    ids=["objects", "others"],
)
def test_what_json_does_not_have_is_a_text_in_the_value_of_a_script(value: Any, plain: Any) -> None:
    assert as_plain(value, 1_000) == plain


def test_the_names_of_members_count_and_so_do_levels() -> None:
    assert as_plain({"ab": 1}, 6) == {"ab": 1}
    with pytest.raises(ValueError, match="more than 5 characters"):
        as_plain({"ab": 1}, 5)
    deep: list[Any] = []
    for _ in range(128):
        deep = [deep]
    assert as_plain(deep, 1_000) == deep
    with pytest.raises(ValueError, match="more than"):
        as_plain([deep], 1_000)


def test_arguments_of_a_script_have_lists_for_tuples_and_are_bounded_in_all() -> None:
    parsed = parsed_arguments({"a": {"b": (1, ("c",))}, "d": {2}})
    assert parsed == {"a": {"b": [1, ["c"]]}, "d": {2}}
    with pytest.raises(InvalidArguments, match="4,000,000 characters"):
        parsed_arguments({"a": {"b": "x" * 4_000_000}})
