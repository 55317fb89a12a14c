"""A person at the terminal answers what a server asks."""

from __future__ import annotations

import re
import sys
import threading
import webbrowser
from typing import Any

import anyio
import pytest

from mcp_client import Handlers, MemoryServer, allow_all, connect
from mcp_client.handlers import Accept, Cancel, Decline, ElicitRequest, elicit_on_terminal
from mcp_client.handlers.terminal import typed_value
from mcp_client.protocol.elicitation import form_of
from mcp_client.testing import JsonRpcError
from tests.support.terminal import CTRL_C, CTRL_D, Desk

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")

PROFILE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2, "maxLength": 20},
        "age": {"type": "integer", "minimum": 18, "description": "In years."},
        "height": {"type": "number", "default": 1.8},
        "member": {"type": "boolean", "default": True},
        "colour": {"type": "string", "enum": ["red", "green"], "default": "green"},
        "size": {
            "type": "string",
            "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}],
        },
        "days": {
            "type": "array",
            "items": {
                "anyOf": [{"const": "mo", "title": "Monday"}, {"const": "tu", "title": "Tuesday"}]
            },
            "default": ["mo"],
        },
    },
    "required": ["name", "age"],
}


def form(schema: dict[str, Any] | None = None, message: str = "Tell me.") -> ElicitRequest:
    schema = PROFILE if schema is None else schema
    return ElicitRequest("shop", message, "form", schema, form_of(schema).fields)


def one(name: str = "x", required: bool = False, **schema: Any) -> ElicitRequest:
    return form({"properties": {name: schema}, "required": [name] if required else []})


def page(url: str = "https://pay.example.com/x?y=1") -> ElicitRequest:
    return ElicitRequest("shop", "Pay here.", "url", url=url)


Opened = list[tuple[str, bool]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    """The pages a browser was started with, and whether that was in the event loop's thread."""
    found: Opened = []
    here = threading.current_thread()

    def start(url: str) -> bool:
        found.append((url, threading.current_thread() is here))
        return "nobrowser" not in url

    monkeypatch.setattr(webbrowser, "open", start)
    return found


async def answered(desk: Desk, request: ElicitRequest, *lines: str) -> Any:
    return await desk.asked(request, *lines, ask=elicit_on_terminal)


# ------------------------------------------------------------------------------ a form


async def test_a_form_is_filled_in_field_by_field_then_shown_and_sent(desk: Desk) -> None:
    lines = ["y", "Ana", "44", "1.75", "no", "1", "Large", "1, 2", "y"]
    response = await answered(desk, form(), *lines)
    filled = {
        "name": "Ana",
        "age": 44,
        "height": 1.75,
        "member": False,
        "colour": "red",
        "size": "l",
        "days": ["mo", "tu"],
    }
    assert response == Accept(filled, fill=False)
    screen = await desk.screen()
    assert screen[:6] == [
        "",
        "A server asks for information, in 7 fields.",
        "Server       | shop",
        "It says      | Tell me.",
        "Field 1      | Your name",
        "Field 2      | age",
    ]
    for line in (
        "Field 1/7    | name",
        "Its title    | Your name",
        "Wanted         a text, at least 2 characters, at most 20 characters; required",
        "It says      | In years.",
        "Default      | 1.8",
        "Choices      | 1  red",
        "Choices      | 1  Small = s",
        "             | 2  Large = l",
        "Field 7      | days",
        '             | Monday = "mo", Tuesday = "tu"',
        "Send it? [y/N/number] y",
    ):
        assert line in screen, line
    assert screen.index("This is what will be sent:") > screen.index("7/7> 1, 2")


async def test_enter_takes_the_default_or_leaves_the_field_out(desk: Desk) -> None:
    response = await answered(desk, form(), "y", "Ana", "18", "", "!-", "", "", "", "y")
    assert response.content == {
        "name": "Ana",
        "age": 18,
        "height": 1.8,
        "colour": "green",
        "days": ["mo"],
    }
    screen = await desk.screen()
    assert "             + left out" in screen
    offers = [line for line in screen if "Enter leaves it out" in line]
    assert len(offers) == 1, "of the seven fields one has no default and is not required"


async def test_an_invalid_value_is_asked_for_again_with_the_reason(desk: Desk) -> None:
    response = await answered(
        desk, form(), "y", "A", "", "Ana", "17", "x", "20", "", "", "3", "", "", "", "y"
    )
    assert response.content["age"] == 20
    screen = await desk.screen()
    reasons = [line.removeprefix("Rejected: ") for line in screen if line.startswith("Rejected")]
    assert reasons == [
        "it is shorter than 2 characters",
        "a value is required",
        "it is below 18",
        "the value is not a whole number",
        "give a number from 1 to 2",
    ]


async def test_a_field_can_be_changed_before_sending(desk: Desk) -> None:
    response = await answered(desk, one("x", type="string"), "y", "old", "9", "1", "new", "y")
    assert response == Accept({"x": "new"}, fill=False)
    assert "Answer y, n or the number of a field." in await desk.screen()


@pytest.mark.parametrize(
    "lines", [("n",), ("",), ("y", "!n"), ("y", "a", "n"), ("y", "a", ""), ("?", "?", "?")]
)
async def test_no_declines(desk: Desk, lines: tuple[str, ...]) -> None:
    assert await answered(desk, one(type="string"), *lines) == Decline()


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D])
@pytest.mark.parametrize("before", [(), ("y",), ("y", "a")])
async def test_leaving_the_dialog_cancels(desk: Desk, key: str, before: tuple[str]) -> None:
    assert await answered(desk, one(type="string"), *before, key) == Cancel()


async def test_a_form_without_fields_asks_for_consent(desk: Desk) -> None:
    assert await answered(desk, form({}), "y") == Accept({}, fill=False)
    assert "A server asks for your consent." in await desk.screen()


async def test_many_choices_are_folded_and_shown_on_request(desk: Desk) -> None:
    request = one(type="string", enum=[f"v{number}" for number in range(1, 101)])
    assert (await answered(desk, request, "y", "!v", "100", "y")).content == {"x": "v100"}
    screen = "\n".join(await desk.screen())
    folded, whole = screen.split("Choices      |")[1:3]
    assert "+ 70 more lines" in folded
    assert "| 100  v100" not in folded
    assert "| 100  v100" in whole


@pytest.mark.parametrize(
    ("name", "message", "warned"),
    [
        ("password", "Hi.", True),
        ("apiKey", "Hi.", True),
        ("x", "Give me your API key!", True),
        ("x", "What is your pass\u0301word?", True),
        ("card_number", "Hi.", True),
        ("spinach", "Hi.", False),
        ("email", "Where to?", False),
    ],
)
async def test_a_form_that_asks_for_a_secret_shows_a_warning(
    desk: Desk, name: str, message: str, warned: bool
) -> None:
    request = form({"properties": {name: {"type": "string"}}}, message)
    await answered(desk, request, "n")
    screen = "\n".join(await desk.screen())
    assert ("WARNING: this looks like a request for a secret." in screen) == warned


async def test_no_text_of_a_form_becomes_a_link(desk: Desk) -> None:
    request = ElicitRequest(
        "shop",
        "See https://evil.example and www.evil.example",
        fields=form_of(
            {
                "properties": {
                    "http://a": {"type": "string", "title": "HTTP://b", "enum": ["ftp://c"]}
                }
            }
        ).fields,
    )
    await answered(desk, request, "y", "1", "n")
    screen = "\n".join(await desk.screen())
    assert "See https[://]evil.example and www[.]evil.example" in screen
    assert "http[://]a" in screen
    assert not re.search(r"\w://", screen)
    assert "www." not in screen


async def test_without_a_terminal_the_request_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert await elicit_on_terminal(form()) == Cancel()


async def test_a_cancelled_dialog_states_that_the_question_is_withdrawn(desk: Desk) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(answered, desk, form())
        await desk.until("[y/N] ")
        group.cancel_scope.cancel()
    await desk.until("(The question is withdrawn.)")


async def test_a_call_that_asks_back_gets_the_persons_response(desk: Desk) -> None:
    answers: list[Any] = []
    calls: list[Any] = []

    def server(message: dict[str, Any], send: Any) -> Any:
        match message.get("method"):
            case "server/discover":
                raise JsonRpcError(-32601, "method not found")
            case "tools/list":
                return {"tools": [{"name": "order", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                calls.append(message["id"])
                params = {"message": "Who?", "requestedSchema": PROFILE}
                send(
                    {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params}
                )
                return None
            case None if message.get("id") == "q":
                answers.append(message["result"])
                send({"jsonrpc": "2.0", "id": calls[0], "result": {"content": []}})
        return NotImplemented

    desk.sit()
    handlers = Handlers(elicitation=elicit_on_terminal)
    async with (
        connect(
            MemoryServer(server),
            name="shop",
            approval=allow_all,
            handlers=handlers,
            revision="2025-11-25",
        ) as session,
        anyio.create_task_group() as group,
    ):
        group.start_soon(session.call_tool, "order")
        await desk.answer("y", "Ana", "30", "", "", "", "", "", "y")
    assert answers[0]["action"] == "accept"
    assert answers[0]["content"]["name"] == "Ana"
    assert "Server       | shop" in await desk.screen()


# ---------------------------------------------------------------------- what is typed


def field_of(required: bool = False, **schema: Any) -> Any:
    return one("x", required, **schema).fields[0]


@pytest.mark.parametrize(
    ("schema", "line", "value"),
    [
        ({"type": "string"}, "!!n", "!n"),
        ({"type": "string"}, "!e", ""),
        ({"type": "string", "default": "d"}, "", "d"),
        ({"type": "string", "default": "d"}, "!-", None),
        ({"type": "string"}, "-", "-"),
        ({"type": "integer"}, "-7", -7),
        ({"type": "integer"}, "9" * 40, int("9" * 40)),
        ({"type": "number"}, "7", 7),
        ({"type": "number"}, ".5e1", 5.0),
        ({"type": "boolean"}, "Y", True),
        ({"type": "boolean"}, "false", False),
        ({"type": "string", "enum": ["2", "1"]}, "1", "2"),
        ({"type": "string", "enum": ["b", "a"]}, "a", "a"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, "!e", []),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, "2,a,2", ["b", "a"]),
        ({"type": "array", "items": {"type": "string"}}, "a, b c,d", ["a", "b c", "d"]),
        ({"type": "array", "items": {"type": "string"}}, '["a, b"]', ["a, b"]),
        ({"type": "array", "items": {"type": "string"}}, "!e", []),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "", None),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "7", 7),
    ],
)
def test_a_typed_line_becomes_the_value_it_represents(
    schema: dict[str, Any], line: str, value: object
) -> None:
    assert typed_value(field_of(**schema), line) == value


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        ({"type": "string"}, "!x"),
        ({"type": "string", "format": "email"}, "ana"),
        ({"type": "string", "format": "date"}, "2026-02-30"),
        ({"type": "integer"}, "1.0"),
        ({"type": "integer"}, "1_000"),
        ({"type": "integer"}, "!e"),
        ({"type": "integer"}, "٣"),
        ({"type": "number"}, "nan"),
        ({"type": "number"}, "1e999"),
        ({"type": "number"}, "1,5"),
        ({"type": "boolean"}, "1"),
        ({"type": "string", "enum": ["a"]}, "0"),
        ({"type": "string", "enum": ["a"]}, "2"),
        ({"type": "string", "enum": ["a"]}, "b"),
        ({"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": 1}, "!e"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 1}, "1,2"),
        ({"type": "array", "items": {"type": "string", "enum": ["a"]}}, "1,,"),
        ({"type": "array", "items": {"type": "string"}}, "[a"),
        ({"type": "array", "items": {"type": "string"}}, "[1]"),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 1}, "a,b"),
    ],
)
def test_a_typed_line_without_a_value_is_refused(schema: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        typed_value(field_of(**schema), line)


# ------------------------------------------------------------------------------- a URL


async def test_a_url_is_opened_only_after_an_approval(desk: Desk, opened: Opened) -> None:
    assert await answered(desk, page(), "y") == Accept()
    assert opened == [("https://pay.example.com/x?y=1", False)]
    assert await desk.screen() == [
        "",
        "A server asks you to open a page in your browser.",
        "Server       | shop",
        "It says      | Pay here.",
        "The URL      | https://pay.example.com/x?y=1",
        "leads to     | pay.example.com",
        "               Its end says whose it is, not its beginning.",
        "  Nothing was opened or looked at yet. What you do there, this program does",
        "  not see.",
        "Open it? [y/N] y",
    ]


@pytest.mark.parametrize(
    ("line", "response"),
    [("n", Decline()), ("", Decline()), (CTRL_C, Cancel()), (CTRL_D, Cancel())],
)
async def test_a_url_is_not_opened_without_an_approval(
    desk: Desk, opened: Opened, line: str, response: object
) -> None:
    assert await answered(desk, page(), line) == response
    assert opened == []


async def test_without_a_browser_the_person_opens_the_url(desk: Desk, opened: Opened) -> None:
    assert await answered(desk, page("https://nobrowser.example"), "y", "y") == Accept()
    assert "No browser could be started: open the URL yourself." in await desk.screen()
    assert await answered(desk, page("https://nobrowser.example"), "y", "n") == Decline()


@pytest.mark.parametrize(
    ("url", "displayed"),
    [
        ("https://xn--pypal-4ve.com/", "punycode"),
        ("https://p\u0430ypal.com/", "xn--pypal-4ve.com"),
        ("https://paypal.com@evil.example/", "before the @ is not its host"),
    ],
)
async def test_a_url_that_looks_like_another_shows_a_warning(
    desk: Desk, opened: Opened, url: str, displayed: str
) -> None:
    await answered(desk, page(url), "n")
    warnings = [line for line in await desk.screen() if line.startswith("WARNING")]
    assert warnings
    assert displayed in "\n".join(await desk.screen())


async def test_a_long_url_is_shown_in_full(desk: Desk, opened: Opened) -> None:
    url = "https://example.com/" + "".join(f"{number}/" for number in range(1_500))
    await answered(desk, page(url), "n")
    screen = "\n".join(await desk.screen())
    assert url in screen.replace("\n             : ", "")


@pytest.mark.parametrize("url", ["http://example.com", "javascript:alert(1)", "file:///etc/passwd"])
async def test_a_dangerous_url_is_refused_without_asking(
    desk: Desk, opened: Opened, url: str
) -> None:
    assert await answered(desk, page(url)) == Cancel()
    assert opened == []
