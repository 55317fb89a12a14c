"""Secrets in a server's ``env=`` or command line that it repeats are shown to no one."""

from __future__ import annotations

import base64
import json
import logging
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from mcp_client import Handlers, McpError, ServerError, StdioServer, allow_all, connect
from mcp_client.adapters import openai_chat
from mcp_client.handlers import LogMessage
from mcp_client.runtime.masking import secrets_passed

SECRET = "zq8-Kestrel/+Ünlit 4471"
FORMS = {
    "plain": SECRET,
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "base64 of more": base64.b64encode(b"x" + SECRET.encode() + b"yz").decode(),
    "base64url": base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
    "hex": SECRET.encode().hex(),
    "HEX": SECRET.encode().hex().upper(),
    "url": quote(SECRET, safe=""),
    "json": json.dumps(SECRET)[1:-1],
    "python": ascii(SECRET)[1:-1],
}

SERVER = """
import json, os, sys
form = os.environ["FORM_OF_IT"]
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    method, params = m["method"], m.get("params", {})
    if method == "initialize":
        say(id=m["id"], result={"protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}, "logging": {}},
            "serverInfo": {"name": "s", "version": "0"}})
    elif method == "tools/list":
        say(id=m["id"], result={"tools": [{"name": "t", "inputSchema": {"type": "object"}}]})
    elif method != "tools/call":
        say(id=m["id"], error={"code": -32601, "message": "no"})
    else:
        way = params["arguments"]["way"]
        if way == "error":
            say(id=m["id"], error={"code": -32000, "message": f"denied: {form}!",
                "data": {form: [form], "n": 271828182}})
        elif way == "code":
            say(id=m["id"], error={"code": form, "message": "x"})
        elif way == "is_error":
            say(id=m["id"], result={"isError": True, "content": [{"type": "text", "text": form}]})
        elif way == "junk":
            print(form, flush=True)
            os._exit(3)
        elif way == "stderr":
            print(form, file=sys.stderr, flush=True)
            os._exit(3)
        elif way == "result":
            say(id=m["id"], result={"content": [{"type": "text", "text": form}]})
        elif way == "notices":
            token = params["_meta"]["progressToken"]
            say(method="notifications/message", params={"level": "error", "data": {"at": form}})
            say(method="notifications/progress",
                params={"progressToken": token, "progress": 1, "message": form})
            say(id=m["id"], result={"content": []})
"""


def server(form: str, **more: str) -> StdioServer:
    env = {"API_TOKEN": SECRET, "FORM_OF_IT": FORMS.get(form, form), **more}
    return StdioServer(sys.executable, ["-IS", "-c", SERVER], env=env)


def everything_in(error: BaseException) -> str:
    return f"{error} {error!r} {error.args} {vars(error)}"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", ["error", "code", "junk", "stderr"])
@pytest.mark.one_backend
async def test_an_error_has_no_value_of_env_in_any_form(
    form: str, way: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    audit = tmp_path / "calls.jsonl"
    async with connect(
        server(form, PIN="271828182"), approval=allow_all, revision="2025-11-25", audit=audit
    ) as session:
        kit = openai_chat.toolset(await session.list_tools())
        with pytest.raises(McpError) as caught:
            await session.call_tool("t", {"way": way})
        if way == "error":
            assert isinstance(caught.value, ServerError)
            assert caught.value.data == {"***": ["***"], "n": "***"} or form == "base64 of more"
        call = {"id": "1", "type": "function", "function": {"name": "t"}}
        call["function"]["arguments"] = json.dumps({"way": way})  # type: ignore[index]
        answers = await kit.run(session, {"role": "assistant", "tool_calls": [call]})
        stats = repr(session.stats)
    # The middle of it, which is the same in base64 wherever it is in the encoded text.
    core = FORMS[form][4:-4]
    for displayed in (
        everything_in(caught.value),
        str(answers),
        audit.read_text(),
        stats,
        caplog.text,
    ):
        assert core not in displayed


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.one_backend
async def test_a_result_that_is_an_error_has_none_and_another_result_is_as_it_came(
    form: str,
) -> None:
    async with connect(server(form), approval=allow_all, revision="2025-11-25") as session:
        failed = await session.call_tool("t", {"way": "is_error"})
        done = await session.call_tool("t", {"way": "result"})
    assert FORMS[form][4:-4] not in repr(failed.raw) + failed.text
    assert done.text == FORMS[form]


async def test_log_lines_and_progress_have_none(
    caplog: pytest.LogCaptureFixture, anyio_backend: str
) -> None:
    reported: list[Any] = []

    def hear(message: LogMessage) -> None:
        reported.append(repr(message))

    async with connect(
        server("hex"), approval=allow_all, revision="2025-11-25", handlers=Handlers(log=hear)
    ) as session:
        await session.call_tool(
            "t", {"way": "notices"}, on_progress=lambda *args: reported.append(args)
        )
    assert len(reported) == 2
    assert FORMS["hex"] not in str(reported) + caplog.text


async def test_what_is_plainly_a_setting_is_not_hidden(anyio_backend: str) -> None:
    reported = "production 8080 true eu-west-1 1 /srv/data/v2 http://localhost:8080/mcp"
    words = {f"SETTING_{n}": word for n, word in enumerate(reported.split())}
    made = StdioServer(
        sys.executable,
        ["-IS", "-c", SERVER.replace('os.environ["FORM_OF_IT"]', repr(reported))],
        env=words,
    )
    async with connect(made, approval=allow_all, revision="2025-11-25") as session:
        with pytest.raises(ServerError, match=f"denied: {reported}!"):
            await session.call_tool("t", {"way": "error"})


@pytest.mark.parametrize(
    ("name", "value", "secrets"),
    [
        ("API_KEY", "abcd", {"abcd"}),
        ("API_KEY", "abc", set()),
        ("DB_PASSWORD", "swordfish", {"swordfish"}),
        ("PASSWORD_FOR_CI", "swordfish", {"swordfish"}),
        ("MODE", "swordfish", set()),
        ("MODE", "production", set()),
        ("VERBOSE", "1", set()),
        ("USE_TOKEN", "true", set()),
        ("TOKEN_TTL", "3600", set()),
        ("PORT", "50051", set()),
        ("REGION", "eu-west-1", set()),
        ("LOCALE", "en_US.UTF-8", set()),
        ("ROOT", "/home/ana2/work v1.2", set()),
        ("ROOT", "C:\\Users\\ana2\\work", set()),
        ("URL", "https://api2.example.com:8443/v1/mcp", set()),
        ("ACCOUNT", "271828182", {"271828182"}),
        ("ANY", "hunter2", {"hunter2"}),
        ("ANY", "two words!", {"two words!"}),
        (
            "DATABASE_URL",
            "postgres://app:p%40ss1@db/x",
            {"postgres://app:p%40ss1@db/x", "p%40ss1", "p@ss1"},
        ),
        ("DSN", "Server=db;Password=fish", {"Server=db;Password=fish", "fish"}),
    ],
)
def test_the_rule_of_which_values_are_secret(name: str, value: str, secrets: set[str]) -> None:
    assert secrets_passed({name: value}) == secrets


def test_words_of_a_command_are_secret_by_their_option() -> None:
    words = [
        "-y",
        "pkg",
        "--token",
        "abcd1",
        "--api-key=efgh2",
        "-e",
        "DB_PASSWORD=ijkl3",
        "--port",
        "8080",
    ]
    assert secrets_passed({}, words) == {"abcd1", "efgh2", "ijkl3"}
