"""What a script may take: calls, memory, output, time. It cannot catch that it took more."""

from __future__ import annotations

from typing import Any

import pytest
from anyio import create_task_group, fail_after

from mcp_client import Allow, Handlers, Limits, Timeouts, ToolCall
from mcp_client.handlers import Accept, ElicitRequest
from tests.code.worlds import run
from tests.support.asking import FORM, REVISIONS, Asking
from tests.support.timing import Clock
from tests.support.worlds import Server, opened

CAUGHT = """\
print("before")
while True:
    try:
        {}
    except BaseException:
        print("caught")
"""


async def test_a_script_cannot_catch_that_it_made_too_many_calls() -> None:
    server = Server()
    async with opened(server, limits=Limits(script_calls=3)) as session:
        with fail_after(60):
            found = await run(session, CAUGHT.format("await desk.echo(text='x')"))
    assert len(server.ran) == found.calls == 3
    assert found.stop is not None
    assert found.stop.kind == "script_calls"
    assert found.output == "before\n"
    assert found.text.splitlines() == [
        "before",
        "The script was ended: it made more than 3 calls (Limits.script_calls).",
        "Calls that it had sent before: 3. What they did stays done: do not simply run it again.",
    ]


async def test_of_too_many_calls_side_by_side_none_is_made() -> None:
    server = Server()
    code = "import asyncio\nawait asyncio.gather(*[desk.echo(text=str(n)) for n in range(4)])"
    async with opened(server, limits=Limits(script_calls=3)) as session:
        found = await run(session, code)
    assert server.ran == []
    assert found.stop is not None
    assert found.text.endswith("Nothing was sent by it.")


async def test_a_script_that_takes_too_much_memory_ends_there() -> None:
    async with opened(Server(), limits=Limits(script_memory=4 * 1024 * 1024)) as session:
        with fail_after(60):
            found = await run(session, "x = []\n" + CAUGHT.format("x.append('x' * 1000)"))
    assert found.stop is not None
    assert found.stop.kind == "script_memory"
    assert found.output == "before\n"
    assert "more than 4,194,304 bytes of memory (Limits.script_memory)" in found.text


@pytest.mark.parametrize("loop", ["while True: print('x' * 100)", "while True: print()"])
async def test_a_script_that_prints_without_end_ends_there(loop: str) -> None:
    async with opened(Server(), limits=Limits(script_output=1_000)) as session:
        with fail_after(60):  # the interpreter itself would go on for its time, which is longer
            found = await run(session, loop)
    assert len(found.output) == 1_000
    assert found.stop is not None
    assert found.stop.kind == "script_output"


@pytest.mark.parametrize("builtin", ["sum(range(10**12))", "max(range(10**12))", "str(7**9999999)"])
async def test_what_was_printed_before_a_long_builtin_is_not_lost(builtin: str) -> None:
    for seconds in (0.5, 5.0):
        async with opened(Server(), timeouts=Timeouts(script=seconds)) as session:
            with fail_after(60):
                found = await run(session, f"print('before')\n{builtin}")
        assert found.stop is not None
        assert found.stop.kind == "script"
        if found.output:
            break  # else it had not begun by then, on a busy machine
    assert found.output == "before\n"


@pytest.mark.parametrize("value", ["'x' * 900", "[list(range(100))] * 100"])
async def test_the_last_expression_counts_as_output(value: str) -> None:
    async with opened(Server(), limits=Limits(script_output=1_000)) as session:
        found = await run(session, f"print('y' * 200)\n{value}")
    assert found.stop is not None
    assert found.stop.kind == "script_output"
    assert "xxx" not in found.text
    assert found.output in found.text + "\n"


async def test_a_value_that_represents_more_than_can_be_written_costs_the_host_nothing() -> None:
    bomb = "x = [0] * 10\nfor _ in range(9): x = [x] * 10\n"
    server = Server()
    async with opened(server) as session:
        with fail_after(60):
            displayed = await run(session, f"{bomb}x")
            sent = await run(session, f"{bomb}await desk.result(result=x)")
    assert displayed.stop is not None
    assert len(repr(displayed)) < 1_000
    assert "ValueError: Nothing was sent. The arguments take more than" in sent.text
    assert server.ran == []


async def test_a_script_that_computes_or_waits_for_too_long_ends_there() -> None:
    for code, ran in (
        (CAUGHT.format("pass"), []),
        ("print('before')\nawait desk.wait(n=1)", [("wait", {"n": 1})]),
    ):
        for seconds in (0.2, 2.0, 20.0):
            server = Server()
            async with opened(server, timeouts=Timeouts(script=seconds)) as session:
                with fail_after(200):
                    found = await run(session, code)
            assert found.stop is not None
            assert found.stop.kind == "script"
            assert "Timeouts.script" in found.text
            if found.output and server.ran == ran:
                break  # else it had not begun by then, on a busy machine
        assert found.output == "before\n"
        assert server.ran == ran


async def test_the_time_that_people_take_to_answer_does_not_count(clock: Clock) -> None:
    asked = []

    async def hook(call: ToolCall) -> Allow:
        asked.append(call)
        clock.jump(8)
        return Allow()

    async with opened(Server(), approval=hook, timeouts=Timeouts(script=5)) as session:
        with fail_after(25):
            found = await run(session, "await desk.echo(text='a')\nawait desk.echo(text='b')")
    assert (found.text, found.stop, len(asked)) == ("b", None, 2)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_time_that_people_take_for_a_servers_question_does_not_count(
    clock: Clock, revision: Any
) -> None:
    async def fill_in(request: ElicitRequest) -> Accept:
        clock.jump(8)
        return Accept({"name": "ana"})

    options = {"handlers": Handlers(elicitation=fill_in), "timeouts": Timeouts(script=5)}
    async with opened(Asking(revision, FORM), **options) as session:
        with fail_after(25):
            found = await run(session, "await desk.ask()\nprint('done')")
    assert (found.text, found.stop) == ("done", None)


async def test_the_time_of_a_server_counts(clock: Clock) -> None:
    server = Server()
    server.wanted = 1
    async with (
        opened(server, timeouts=Timeouts(script=5)) as session,
        create_task_group() as group,
    ):

        async def late() -> None:
            await server.all_wait.wait()
            clock.jump(8)

        group.start_soon(late)
        with fail_after(25):
            found = await run(session, "await desk.wait()")
    assert found.stop is not None
    assert found.stop.kind == "script"
