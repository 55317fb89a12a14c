"""Let each user of a web app decide their own calls, on a page mounted in the app.

A call waits for its person. Web frameworks do not report a closed browser tab, and the handler
continues. This handler cancels the call in that case, which also ends the question about it.
"""

import re
import sys

import anyio
import httpx

from mcp_client import ApprovalQueue, CancelToken, McpError, connect
from mcp_client.desk import ApprovalPage

try:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Mount, Route
except ModuleNotFoundError as error:
    sys.exit(f"{error}: pip install starlette")


async def set_alarm(request: Request) -> Response:
    user, token = request.cookies["user"], CancelToken()

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        token.cancel("the browser went away")

    text = ""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        try:
            call = request.app.state.session.call_tool
            arguments = {"location": request.query_params["location"]}
            text = (await call("set_alarm", arguments, context=user, cancel=token)).text
        except McpError as error:
            text = error.message
        tasks.cancel_scope.cancel()
    return PlainTextResponse(text)


queue = ApprovalQueue()
page = ApprovalPage(
    queue,
    authorize=lambda scope: Request(scope).cookies.get("user"),  # your app asks its own login
    visible=lambda person, call: call.context == person,
)
routes = [Route("/alarm", set_alarm, methods=["POST"]), Mount("/approvals", page)]
app = Starlette(routes=routes)  # FastAPI: app.mount("/approvals", page)


def browser_of(user: str) -> httpx.AsyncClient:
    web, cookies = httpx.ASGITransport(app), {"user": user}
    return httpx.AsyncClient(transport=web, base_url="http://app", cookies=cookies)


async def want_alarm(user: str, location: str) -> None:
    async with browser_of(user) as browser:
        print((await browser.post("/alarm", params={"location": location}, timeout=None)).text)


async def press(user: str, **decision: str) -> None:
    """Send what the browser of ``user`` sends when a button is pressed."""
    async with browser_of(user) as browser:
        html = (await browser.get("/approvals/")).text
        form = dict(re.findall(r'name="(token|ids)" value="([^"]+)"', html))
        await browser.post("/approvals/decide", data=form | decision)


async def main() -> None:
    weather = [sys.executable, "examples/servers/weather.py"]
    async with connect(weather, approval=queue) as session, anyio.create_task_group() as users:
        app.state.session = session
        users.start_soon(want_alarm, "ana", "Oslo")
        users.start_soon(want_alarm, "bo", "Rome")
        async for pending in queue.changes():
            if len(pending) == 2:
                break
        await press("ana", answer="allow")
        await press("bo", answer="deny", reason="not at night")


if __name__ == "__main__":
    anyio.run(main)
