"""Ask in a chat with two buttons; a webhook receives the decision. Here the chat is the screen."""

import hmac
import json

import anyio

from mcp_client import Allow, ApprovalQueue, Deny, ToolCall, connect
from mcp_client.errors import NotPending

SECRET = b"what the chat signs its requests with"
queue = ApprovalQueue()


async def bot() -> None:
    """Post a message for each call that waits. Your bot calls the API of the chat."""
    async for pending in queue.changes():
        for one in pending:
            assert isinstance(one.request, ToolCall)  # this program decides calls only
            print(message(one.request))
            body = json.dumps({"id": one.id, "button": "yes", "user": "ana"}).encode()
            for signature in ("forged", sign(body), sign(body)):  # a person pressed the button
                print(webhook(body, signature))


def message(call: ToolCall) -> str:
    """Return what a person has to know. ``safe`` removes markup from the words of a server."""
    facts = [fact for fact in call.facts() if fact.kind != "fingerprint"]
    return "\n".join(f"{fact.label}: {fact.safe(1_000)}" for fact in facts) + "\n[yes] [no]"


def sign(body: bytes) -> str:
    return hmac.new(SECRET, body, "sha256").hexdigest()


def webhook(body: bytes, signature: str) -> str:
    """Handle a pressed button, and return what the message shows then."""
    press = json.loads(body) if hmac.compare_digest(sign(body), signature) else None
    if press is None:
        return "This does not come from the chat."
    try:
        decision = Allow(remember="call") if press["button"] == "yes" else Deny("no")
        queue.decide(press["id"], decision, by=press["user"])
    except NotPending:
        return "It was decided already."
    return f"{press['user']} said {press['button']}."


async def main() -> None:
    weather = ["python", "examples/servers/weather.py"]
    async with connect(weather, approval=queue) as session, anyio.create_task_group() as tasks:
        tasks.start_soon(bot)
        print((await session.call_tool("set_alarm", {"location": "Oslo"})).text)
        tasks.cancel_scope.cancel()


anyio.run(main)
