"""An agent on DBOS: its call waits a day for a person, its workers are killed, it buys tea once.

    pip install ".[postgres]" dbos && python examples/hosting/durable_agent_dbos.py

The checkpoints and the state are in a directory; with ``DATABASE=postgresql:...`` in that database.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mcp_client import Allow, ApprovalQueue, CallPending, FileState, McpError, Retry, sync
from mcp_client.state import PostgresState

try:
    from dbos import DBOS, DBOSClient, SetWorkflowID
except ModuleNotFoundError as error:
    sys.exit(f"{error}: pip install dbos")

DIRECTORY = Path(os.environ.setdefault("AGENT_DIRECTORY", tempfile.mkdtemp()))  # workers, too
SOLD, SECONDS = DIRECTORY / "sold.txt", os.environ.get("PAYMENT_SECONDS", "60")
SHOP = [sys.executable, str(Path(__file__).parents[1] / "servers" / "shop.py"), str(SOLD), SECONDS]
DATABASE = os.environ.get("DATABASE")
CHECKPOINTS = DATABASE or f"sqlite:///{DIRECTORY}/checkpoints.sqlite"
state = PostgresState(DATABASE) if DATABASE else FileState(DIRECTORY / "state")
queue = ApprovalQueue(decisions=state.decisions, wait=0)
host = sync.Host({"shop": SHOP}, approval=queue, state=state)


@DBOS.step(retries_allowed=True, max_attempts=10, should_retry=Retry().permits)
def call_tool(name: str, arguments: dict[str, Any], id: str) -> str:
    agent_id = DBOS.workflow_id  # the desk sends its message there
    key = f"{agent_id}/{id}"
    return host.call_tool(name, arguments, context=agent_id, idempotency_key=key).text


@DBOS.step()
def ask_model(messages: list[Any]) -> dict[str, Any]:  # a script acts as the model
    if len(messages) == 1:
        return {"call": ("shop__buy", {"item": "tea"}, "call_1")}
    return {"content": messages[-1]["content"]}


def outcome(call: Any) -> str:
    for _ in range(24):
        try:
            return str(call_tool(*call))
        except CallPending as error:
            print("it waits", flush=True)
            DBOS.recv(error.ticket, timeout_seconds=3600)  # it looks then, should a message be lost
        except McpError as error:
            return f"{type(error).__name__}: {error.message}"
    return "not approved within a day"


@DBOS.workflow()
def agent(task: str) -> str:
    messages: list[Any] = [{"role": "user", "content": task}]
    while "content" not in (message := ask_model(messages)):
        messages += [message, {"role": "tool", "content": outcome(message["call"])}]
    return str(message["content"])


def work() -> None:
    with host:
        DBOS(config={"name": "agent", "system_database_url": CHECKPOINTS, "log_level": "ERROR"})
        DBOS.launch()  # it goes on with what killed workers left
        with SetWorkflowID(f"agent-{DIRECTORY.name}"):
            print(DBOS.start_workflow(agent, "Buy tea.").get_result())
        DBOS.destroy()


def worker() -> subprocess.Popen[str]:
    words = [sys.executable, __file__, "work"]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)  # noqa: S603


def desk() -> None:
    (pending,) = queue.pending
    queue.decide(pending.id, Allow(), by="ana")
    client = DBOSClient(system_database_url=CHECKPOINTS)
    client.send(pending.request.context, "decided", topic=pending.id)


def main() -> None:
    SOLD.touch()
    first = worker()
    assert first.stdout is not None
    assert first.stdout.readline() == "it waits\n"
    first.kill()
    desk()  # hours later
    second = worker()
    while not SOLD.read_text() and second.poll() is None:
        time.sleep(0.01)
    second.kill()  # while the payment is under way
    print(worker().communicate(timeout=60)[0], end="")
    assert SOLD.read_text() == "tea\n"
    for call in state.calls.unsettled():
        state.calls.settle(call.key)  # by a person, who has looked
        print("settled:", call.key)


if __name__ == "__main__":
    work() if "work" in sys.argv else main()
