"""Somebody else decides: a call is an open question until a web page answers. Silence is a no."""

import anyio

from mcp_client import Allow, CallDenied, Deny, Session, Timeouts, ToolCall, connect

ALARM = ["python", "examples/servers/weather.py"]
questions: dict[str, tuple[ToolCall, anyio.Event, list[Allow | Deny]]] = {}  # a page shows these


async def ask_on_the_web(call: ToolCall) -> Allow | Deny:
    _, answered, answers = questions[call.id] = call, anyio.Event(), []
    try:
        await answered.wait()
        return answers[0]
    finally:  # also when time ran out, or the caller has gone
        del questions[call.id]


async def sound(session: Session, location: str) -> None:
    try:
        print((await session.call_tool("set_alarm", {"location": location, "loud": True})).text)
    except CallDenied as error:
        print(f"{location}: {error.reason}")


async def main() -> None:
    async with connect(ALARM, approval=ask_on_the_web) as session, anyio.create_task_group() as all:
        all.start_soon(sound, session, "Oslo")
        all.start_soon(sound, session, "Rome")
        while len(questions) < 2:  # noqa: ASYNC110 - another request of the web app, looking
            await anyio.sleep(0.01)
        for call, answered, answers in tuple(questions.values()):  # and the page's buttons
            answers.append(Deny("not here") if call.arguments["location"] == "Oslo" else Allow())
            answered.set()
    async with connect(ALARM, approval=ask_on_the_web, timeouts=Timeouts(approval=0.1)) as session:
        await sound(session, "Bern")


anyio.run(main)
