"""Each mistake of a newcomer is answered with one of our errors, which names the way out."""

from __future__ import annotations

import pytest

from mcp_client import McpError
from tests.newcomer_messages import MISTAKES, error_of

MESSAGES = {
    'StdioServer("python server.py")': "StdioServer('python', ['server.py'])",
    'connect("python server.py")': "StdioServer('python', ['server.py'])",
    'connect("localhost:8000/mcp")': "http://localhost:8000/mcp",
    'connect({"command": "python"})': "StdioServer(",
    'connect(Path("server.py"))': "StdioServer(",
    "connect(...) without async with": "async with",
    "timeouts=10": "Timeouts(",
    "limits=5": "Limits(",
    'client_info="x"': "ClientInfo(",
    "name=5": "name=5",
    "redaction=5": "redaction=5",
    "approval=True": "allow_all",
    "approval=Allow": "allow_all",
    'arguments="{...}"': "json.loads",
    "a variable that is set here and not passed on": "env={'WEATHER_KEY'",
    "a server that answers 500": "500",
    "a server that wants a login": "auth=",
    "a self-signed certificate": "certificate",
    "http:// to a server with TLS": "https://",
}
"""What the text of each error has in it."""


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("written", MISTAKES)
async def test_a_mistake_is_one_typed_error_that_names_the_way_out(
    written: str, anyio_backend: str
) -> None:
    error = await error_of(MISTAKES[written])
    assert isinstance(error, McpError), repr(error)
    assert MESSAGES[written] in error.message
    assert "s3cret-value" not in str(error)


def test_every_mistake_has_an_answer() -> None:
    assert set(MESSAGES) == set(MISTAKES)
