"""Pause a model's calls until a person has decided, and continue in another process."""

import subprocess
import sys
import tempfile

from mcp_client import Allow, ApprovalQueue, CallPending, Rule, Rules, sync
from mcp_client.adapters import openai_chat

OSLO = '{"location": "Oslo"}'
LOOK = {"type": "function", "function": {"name": "get_weather", "arguments": OSLO}}
WAKE = {"type": "function", "function": {"name": "set_alarm", "arguments": OSLO}}
MESSAGE = {"role": "assistant", "tool_calls": [{"id": "1", **LOOK}, {"id": "2", **WAKE}]}


def agent(queue: ApprovalQueue, paused: str | None) -> str | None:
    rules = Rules([Rule("allow", tool="get_*")], ask=queue)
    with sync.connect(["python", "examples/servers/weather.py"], approval=rules) as session:
        kit = openai_chat.toolset(session.list_tools())
        try:
            if paused is None:
                done = kit.run(session, MESSAGE, context="ana")
            else:
                done = kit.resume(session, paused, context="ana")
            for message in done:
                print(message["tool_call_id"], message["content"].splitlines()[1])
        except CallPending as error:
            return error.paused
    return None


with tempfile.TemporaryDirectory() as new:
    directory, text = sys.argv[1:] or (new, None)
    queue = ApprovalQueue(decisions=f"{directory}/decisions.json", wait=0)
    text = agent(queue, text)
    for pending in queue.pending_for("ana"):  # hours later, on a page
        print("waits:", pending.request.subject, flush=True)
        queue.decide(pending.id, Allow(), by="bo")
    if text is not None:
        subprocess.run([sys.executable, __file__, directory, text], check=True)  # noqa: S603
