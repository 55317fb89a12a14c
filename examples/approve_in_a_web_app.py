"""Two users of a web app decide their own calls, on a page mounted in the app."""

import re

import anyio
import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from mcp_client import ApprovalPage, ApprovalQueue, CallDenied, Session, connect

queue = ApprovalQueue()
page = ApprovalPage(
    queue,
    authorize=lambda scope: Request(scope).cookies.get("user"),  # yours asks the app's own login
    visible=lambda person, call: call.context == person,
)
app = Starlette(routes=[Mount("/approvals", page)])  # FastAPI: app.mount("/approvals", page)


async def agent(session: Session, user: str, location: str) -> None:
    try:
        print((await session.call_tool("set_alarm", {"location": location}, context=user)).text)
    except CallDenied as error:
        print(f"{location}: {error.by} says {error.reason}")


async def press(user: str, **answer: str) -> None:
    """What the browser of ``user`` sends when a button is pressed."""
    web, cookies = httpx.ASGITransport(app), {"user": user}
    async with httpx.AsyncClient(transport=web, base_url="http://app", cookies=cookies) as browser:
        html = (await browser.get("/approvals/")).text
        form = dict(re.findall(r'name="(token|ids)" value="([^"]+)"', html))
        await browser.post("/approvals/decide", data=form | answer)


async def main() -> None:
    weather = ["python", "examples/servers/weather.py"]
    async with connect(weather, approval=queue) as session, anyio.create_task_group() as agents:
        agents.start_soon(agent, session, "ana", "Oslo")
        agents.start_soon(agent, session, "bo", "Rome")
        async for pending in queue.changes():
            if len(pending) == 2:
                break
        await press("ana", answer="allow")
        await press("bo", answer="deny", reason="not at night")


anyio.run(main)
