"""A chat bot asks with two buttons, a webhook brings the answer. Here the chat is the screen."""

import hmac
import json

import anyio

from mcp_client import Allow, ApprovalQueue, Deny, ToolCall, connect
from mcp_client.errors import NotPending

SECRET = b"what the chat signs its requests with"
queue = ApprovalQueue()


async def bot() -> None:
    """Posts a message for each call that waits; yours calls the chat's API."""
    async for pending in queue.changes():
        for one in pending:
            assert isinstance(one.request, ToolCall)  # this program decides calls only
            print(message(one.request))
            body = json.dumps({"id": one.id, "button": "yes", "user": "ana"}).encode()
            for signature in ("forged", sign(body), sign(body)):  # somebody pressed the button
                print(webhook(body, signature))


def message(call: ToolCall) -> str:
    """What a person has to know, in a server's own words: ``safe`` takes their markup away."""
    facts = [fact for fact in call.facts() if fact.kind != "fingerprint"]
    return "\n".join(f"{fact.label}: {fact.safe(1_000)}" for fact in facts) + "\n[yes] [no]"


def sign(body: bytes) -> str:
    return hmac.new(SECRET, body, "sha256").hexdigest()


def webhook(body: bytes, signature: str) -> str:
    """What the chat calls when a button is pressed; returns what the message says then."""
    press = json.loads(body) if hmac.compare_digest(sign(body), signature) else None
    if press is None:
        return "This does not come from the chat."
    try:
        answer = Allow(remember="call") if press["button"] == "yes" else Deny("no")
        queue.decide(press["id"], answer, by=press["user"])
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
