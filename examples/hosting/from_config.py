"""Run the servers of a config file, each only after its command was confirmed."""

import tempfile
from pathlib import Path

import anyio

from mcp_client import Allow, Deny, Host, allow_all
from mcp_client.approval import StartRequest

CONFIG = Path(__file__).parents[1] / "mcp.json"


def confirm(request: StartRequest) -> Allow | Deny:  # at a terminal: confirm=ask_on_terminal
    print("may this run?", request.command, *request.args)
    print("  with", dict(request.env))  # as the file has it; ${NAME} comes from the host
    print(*request.findings, sep="\n")
    known = request.subject == "python3 servers/weather.py"
    return Allow(remember="always") if known else Deny("never seen before")


async def main() -> None:
    state = tempfile.mkdtemp()  # in practice a directory beside your own settings
    async with Host.from_config(CONFIG, confirm=confirm, state=state, approval=allow_all) as host:
        for problem in host.problems:
            print(f"{problem.path.name}:{problem.line}: {problem.key}: {problem.message}")
        await host.session("weather")  # waits for a person who has not answered yet
        print([tool.qualified_name for tool in await host.list_tools()])
        result = await host.call_tool("weather__get_weather", {"location": "Oslo"}, timeout=10)
        print(result.text)

    # The approval is remembered for exactly this command.
    async with Host.from_config(CONFIG, state=state, approval=allow_all) as host:
        assert host.status()["weather"].state == "connected"


anyio.run(main)
