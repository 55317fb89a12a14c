"""Logging in on another device (RFC 8628): what is asked, what is shown, what is refused."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import anyio
import pytest

from mcp_client import ConfigError, OAuth
from mcp_client.auth import DeviceLogin, browser, oauth
from mcp_client.auth.code_flow import Login, LoginRequest, authorize
from mcp_client.auth.code_request import LoginOptions
from mcp_client.auth.registration import RegisteredClient
from mcp_client.auth.steps import Fetched
from mcp_client.auth.tokens import Registration
from mcp_client.errors import AuthError
from mcp_client.protocol.headers import Challenge
from tests.auth.flows import ISSUER, SERVER, World, metadata

pytestmark = pytest.mark.one_backend

METADATA = f"{ISSUER}/.well-known/oauth-authorization-server"
DEVICE, REGISTER, TOKEN = f"{ISSUER}/device", f"{ISSUER}/register", f"{ISSUER}/token"
GRANT = "urn:ietf:params:oauth:grant-type:device_code"
CODE: dict[str, Any] = {
    "device_code": "d3v1ce",
    "user_code": "WDJB-MJHT",
    "verification_uri": f"{ISSUER}/activate",
    "verification_uri_complete": f"{ISSUER}/activate?user_code=WDJB-MJHT",
    "expires_in": 600,
    "interval": 5,
}
GRANTED = {"access_token": "at", "token_type": "Bearer", "expires_in": 60}
PENDING, SLOW = {"error": "authorization_pending"}, {"error": "slow_down"}
READ = Challenge("bearer", {"scope": "read"})


def offering(*answers: Any, code: Any = None, **described: Any) -> World:
    """A world whose server offers the device flow, and answers so when it is asked for a token."""
    pages = {
        METADATA: metadata(device_authorization_endpoint=DEVICE, **described),
        DEVICE: CODE if code is None else code,
        TOKEN: [*answers, GRANTED] if not answers else list(answers),
    }
    return World(pages)


def logged_in(world: World, device: Any = "auto", **options: Any) -> Login:
    client = options.pop("client", RegisteredClient())
    scopes = options.pop("scopes", None)
    request = LoginRequest(SERVER, "example", READ, now=world.now, **options)
    login = world.run(authorize(request, client, LoginOptions(scopes=scopes, device=device)))
    assert isinstance(login, Login)
    return login


def asked(world: World) -> list[str]:
    return [step.url for step in world.fetched if step.method == "POST"]


def test_a_person_is_shown_where_to_type_which_code_and_the_token_is_asked_for() -> None:
    world = offering(PENDING, PENDING, GRANTED)
    login = logged_in(world)
    assert world.displayed == [
        DeviceLogin(
            "example",
            CODE["verification_uri"],
            "WDJB-MJHT",
            f"{ISSUER}/activate?user_code=WDJB-MJHT",
            1_600.0,
        )
    ]
    assert (world.displayed[0].issuer, world.displayed[0].warning) == (ISSUER, None)
    assert world.consents == []
    assert asked(world) == [REGISTER, DEVICE, TOKEN, TOKEN, TOKEN]
    assert world.form(DEVICE) == {"client_id": "registered", "scope": "read", "resource": SERVER}
    assert world.form(TOKEN) == {
        "client_id": "registered",
        "grant_type": GRANT,
        "device_code": "d3v1ce",
        "resource": SERVER,
    }
    assert world.waits == [5, 5, 5]
    assert login.token.access_token == "at"
    assert login.source.key.client == "registered"
    assert login.scopes == {"read"}
    assert "WDJB" not in repr(world.displayed)


def test_a_client_is_registered_for_both_ways() -> None:
    world = offering()
    logged_in(world)
    register = next(step for step in world.fetched if step.url == REGISTER)
    assert f'"{GRANT}"'.encode() in (register.body or b"")
    world = World()
    logged_in(world)
    register = next(step for step in world.fetched if step.url == REGISTER)
    assert b"device_code" not in (register.body or b"")


@pytest.mark.parametrize(
    ("device", "offers", "way"),
    [
        ("auto", True, "code"),
        ("auto", False, "browser"),
        (True, True, "code"),
        (False, True, "browser"),
    ],
)
def test_the_way_is_the_one_that_was_chosen_and_is_offered(
    device: Any, offers: bool, way: str
) -> None:
    world = offering(GRANTED) if offers else World()
    logged_in(world, device)
    assert (len(world.displayed), len(world.consents)) == ((1, 0) if way == "code" else (0, 1))


def test_the_device_endpoint_may_answer_with_any_status_of_success() -> None:
    world = offering(GRANTED, code=Fetched(201, body=json.dumps(CODE).encode()))
    assert logged_in(world).token.access_token == "at"


def test_no_browser_is_needed_where_the_server_has_no_page_for_one() -> None:
    world = offering(
        GRANTED,
        authorization_endpoint=None,
        response_types_supported=[],
        code_challenge_methods_supported=None,
    )
    assert logged_in(world).token.access_token == "at"
    with pytest.raises(AuthError, match="no authorization_endpoint"):
        logged_in(world, False)


def test_a_server_that_does_not_offer_it_is_named_where_it_has_to_be_so() -> None:
    with pytest.raises(AuthError, match=r"no device_authorization_endpoint.*device=True"):
        logged_in(World(), True)
    elsewhere = metadata(device_authorization_endpoint="http://evil.example/device")
    world = World({METADATA: elsewhere})
    with pytest.raises(AuthError, match=r"unusable device_authorization_endpoint.*plain http"):
        logged_in(world, True)
    assert logged_in(world, "auto").token.access_token == "at"
    assert len(world.consents) == 1


# --------------------------------------------------------------------- asking for the token


def test_it_asks_more_slowly_when_asked_to_and_never_faster_than_stated() -> None:
    world = offering(PENDING, SLOW, PENDING, SLOW, GRANTED, code={**CODE, "interval": 7})
    logged_in(world)
    assert world.waits == [7, 7, 12, 12, 17]


@pytest.mark.parametrize(
    ("interval", "waits"),
    [
        (None, 5),
        ("3", 3),
        (0, 5),
        (-1, 5),
        (1e9, 60),
        (0.01, 1),
        ("x", 5),
        (True, 5),
        (10**400, 60),
    ],
)
def test_an_interval_that_makes_no_sense_is_not_followed(interval: Any, waits: float) -> None:
    world = offering(GRANTED, code={**CODE, "interval": interval})
    logged_in(world)
    assert world.waits == [waits]


@pytest.mark.parametrize("problem", ["it is down", 500, 429])
def test_a_server_that_does_not_answer_is_asked_again_less_and_less_often(problem: Any) -> None:
    world = offering(problem, problem, PENDING, GRANTED)
    logged_in(world)
    assert world.waits == [5, 10, 20, 20]
    world = offering(*[problem] * 20)
    with pytest.raises(AuthError):
        logged_in(world)
    assert world.waits == [5, 10, 20, 40, 60, 60]


def test_failures_count_only_in_a_row() -> None:
    world = offering(*[503, PENDING] * 8, GRANTED, code={**CODE, "expires_in": 3600})
    logged_in(world)
    assert len(world.waits) == 17


@pytest.mark.parametrize(
    ("seconds", "asks"), [(12, 3), ("12", 3), (None, 120), (1e12, 720), (1 << 2000, 720)]
)
def test_it_ends_when_the_code_expires(seconds: Any, asks: int) -> None:
    world = offering(PENDING, code={**CODE, "expires_in": seconds})
    with pytest.raises(AuthError, match="not finished before its code expired") as caught:
        logged_in(world)
    assert caught.value.oauth_error == "expired_token"
    assert caught.value.retryable
    assert asked(world).count(TOKEN) == asks


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("access_denied", "was refused there"),
        ("expired_token", "not finished before its code expired"),
        ("invalid_grant", "refused with invalid_grant"),
        ("authorization_pending ", "HTTP status 400"),
    ],
)
def test_a_refusal_ends_the_login(code: str, what: str) -> None:
    world = offering({"error": code, "error_description": "of d3v1ce"}, GRANTED)
    with pytest.raises(AuthError, match=what) as caught:
        logged_in(world)
    assert "d3v1ce" not in str(caught.value)
    assert len(world.waits) == 1


def test_what_is_not_a_token_is_not_used() -> None:
    for response in (
        {**GRANTED, "access_token": "a b"},
        {**GRANTED, "token_type": "MAC"},
        b"<html>",
    ):
        with pytest.raises(AuthError):
            logged_in(offering(response))


# ------------------------------------------------------------------ what must not be shown


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.example/activate",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://as.example/\x1b[2J",
        "https://as.example/\u202eetavitca",
        "https://user:pw@as.example/",
        "https://as.example/" + "a" * 100_000,
        "https:///activate",
        7,
        None,
        "",
    ],
)
def test_an_address_that_is_not_https_or_draws_on_the_screen_is_not_shown(url: Any) -> None:
    world = offering(code={**CODE, "verification_uri": url})
    with pytest.raises(AuthError, match="verification_uri that cannot be shown") as caught:
        logged_in(world)
    assert world.displayed == []
    assert str(caught.value).isprintable()


def test_plain_http_is_for_this_machine() -> None:
    for url in ("http://127.0.0.1:8080/activate", "http://localhost/activate"):
        world = offering(code={**CODE, "verification_uri": url})
        logged_in(world)
        assert world.displayed[0].url == url
        assert world.displayed[0].complete_url is None  # it is elsewhere


@pytest.mark.parametrize("code", ["", " A", "A\n", "\x1b[31m", "ÄÖ", "a" * 65, 7, None, ["A"]])
def test_a_code_that_no_one_can_type_is_not_shown(code: Any) -> None:
    world = offering(code={**CODE, "user_code": code})
    with pytest.raises(AuthError, match="user_code") as caught:
        logged_in(world)
    assert world.displayed == []
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("device_code", ["", "a b", "a\r\nb", 7, None])
def test_a_device_code_that_cannot_be_sent_is_not_used(device_code: Any) -> None:
    with pytest.raises(AuthError, match="device_code"):
        logged_in(offering(code={**CODE, "device_code": device_code}))


def test_the_older_name_of_the_address_is_understood() -> None:
    code = {**CODE, "verification_url": CODE["verification_uri"]}
    del code["verification_uri"]
    world = offering(code=code)
    logged_in(world)
    assert world.displayed[0].url == CODE["verification_uri"]


# ---------------------------------------------------------------------------- the client


def test_a_client_that_may_not_use_it_logs_in_with_a_browser_unless_it_has_to_be_so() -> None:
    client = RegisteredClient(client_id="by-hand")
    world = offering(GRANTED, code={"error": "unauthorized_client"})
    logged_in(world, client=client)
    assert len(world.consents) == 1
    with pytest.raises(AuthError, match="unauthorized_client"):
        logged_in(offering(code={"error": "unauthorized_client"}), True, client=client)


def test_a_stored_client_that_was_registered_for_browsers_alone_is_replaced_once() -> None:
    world = offering(GRANTED)
    world.pages[DEVICE] = [{"error": "unauthorized_client"}, CODE]
    world.stored[ISSUER] = Registration("old", issuer=ISSUER, redirect_uris=(world.redirect_uri,))
    assert logged_in(world).source.key.client == "registered"
    assert asked(world) == [DEVICE, REGISTER, DEVICE, TOKEN]


def test_a_secret_is_shown_to_both_endpoints_by_the_method_that_the_server_takes() -> None:
    client = RegisteredClient(client_id="by-hand", client_secret="s3cret", issuer=ISSUER)
    methods = ["client_secret_basic", "client_secret_post"]
    world = offering(PENDING, GRANTED, token_endpoint_auth_methods_supported=methods)
    world.pages[DEVICE] = [{"error": "invalid_client"}, CODE]
    login = logged_in(world, client=client)
    assert world.form(TOKEN)["client_secret"] == "s3cret"
    assert login.source.auth_method == "client_secret_post"
    assert asked(world) == [DEVICE, DEVICE, TOKEN, TOKEN]


def test_a_scope_that_we_added_is_left_out_where_it_is_refused() -> None:
    world = offering(GRANTED, scopes_supported=["read", "offline_access"])
    world.pages[DEVICE] = [{"error": "invalid_scope"}, CODE]
    login = logged_in(world, client=RegisteredClient(client_id="by-hand"))
    assert world.form(DEVICE)["scope"] == "read"
    assert login.source.refused_scopes == {"offline_access"}


# ----------------------------------------------------------------------------- the option


@pytest.mark.parametrize(
    ("passed", "environment", "expected"),
    [
        ({}, {"DISPLAY": ":0"}, False),
        ({}, {}, "auto"),
        ({}, {"DISPLAY": ":0", "SSH_CONNECTION": "a b c d"}, "auto"),
        ({"headless": True}, {"DISPLAY": ":0"}, "auto"),
        ({"on_url": print}, {}, False),
        ({"on_url": print, "on_device": print}, {}, "auto"),
        ({"device": True}, {"DISPLAY": ":0"}, True),
        ({"device": False, "headless": True}, {}, False),
    ],
)
def test_another_device_is_for_where_no_browser_can_be_opened(
    passed: Any, environment: dict[str, str], expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "SSH_CONNECTION", "SSH_TTY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("mcp_client.auth.browser.sys.platform", "linux")
    seen: list[Any] = []
    monkeypatch.setattr(oauth, "authorize", lambda *passed: seen.append(passed[2].device))
    OAuth(**passed)._grant.obtain(LoginRequest(SERVER, "example"))
    assert seen == [expected]


@pytest.mark.parametrize("passed", [{"device": "yes"}, {"device": None}, {"on_device": "x"}])
def test_a_wrong_option_is_reported(passed: Any) -> None:
    with pytest.raises(ConfigError, match=r"OAuth\("):
        OAuth(**passed)


# ------------------------------------------------------------------------------- a person

LOGIN = DeviceLogin("files", f"{ISSUER}/activate", "WDJB-MJHT", None, 1e10)


async def test_a_function_of_the_host_gets_what_a_person_needs_async_or_not() -> None:
    seen: list[DeviceLogin] = []

    async def show(login: DeviceLogin) -> None:
        seen.append(login)

    await browser.Browser(on_device=show).show_code(LOGIN)
    await browser.Browser(on_device=seen.append).show_code(LOGIN)
    assert seen == [LOGIN, LOGIN]

    def fail(login: DeviceLogin) -> None:
        raise ValueError(login.code)

    with pytest.raises(AuthError, match="given as on_device raised ValueError") as caught:
        await browser.Browser(on_device=fail).show_code(LOGIN)
    assert "WDJB" not in str(caught.value)


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_the_function_returned_is_called_once_when_the_login_has_ended(
    is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[str] = []

    def end() -> None:
        ended.append("yes")
        raise ValueError("x")

    async def show(login: DeviceLogin) -> Any:
        return end

    person = browser.Browser(on_device=show if is_async else lambda login: end)
    person.hide_code()
    await person.show_code(LOGIN)
    assert ended == []
    person.hide_code()
    person.hide_code()
    assert ended == ["yes"]
    assert "on_device" in caplog.text


async def test_where_no_one_can_see_the_code_the_error_names_the_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(browser, "why_no_terminal", lambda: "no terminal to ask at")
    with pytest.raises(AuthError, match=r"as\.example.*no terminal.*OAuth\(on_device="):
        await browser.Browser().show_code(LOGIN)


async def test_the_code_is_shown_at_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []

    async def report(text: str) -> None:
        reported.append(text)

    monkeypatch.setattr(browser, "why_no_terminal", lambda: None)
    monkeypatch.setattr(browser, "write_notice", report)
    soon = DeviceLogin("files\x1b[2J", LOGIN.url, LOGIN.code, None, time.time() + 299)
    await browser.Browser().show_code(soon)
    await browser.Browser().show_code(replace(soon, expires_at=time.time() + 1))
    for text, minutes in zip(reported, (5, 1), strict=True):
        assert f"by opening   {LOGIN.url}\n" in text
        assert f"with code    {LOGIN.code}\n" in text
        assert f"within {minutes} min" in text
        assert "\x1b" not in text
        assert "asked by" not in text
    await browser.Browser().show_code(replace(soon, issuer="https://as\x1b", warning="other\x1b"))
    for part in ("asked by     https://as", "Careful: other"):
        assert part in reported[-1]
    assert "\x1b" not in reported[-1]


async def test_all_waits_together_are_as_long_as_a_login_may_take() -> None:
    person = browser.Browser(seconds=30, on_device=lambda login: None)
    await person.show_code(LOGIN)
    await person.wait(LOGIN, 0.01)
    with pytest.raises(AuthError, match=r"was not finished within 30 s") as caught:
        await person.wait(LOGIN, 30)
    assert caught.value.retryable


async def test_a_function_of_the_host_that_hangs_takes_no_longer_than_a_login_may() -> None:
    async def hang(login: DeviceLogin) -> None:
        await anyio.sleep_forever()

    with anyio.fail_after(60), pytest.raises(AuthError, match=r"not finished within 0\.01 s"):
        await browser.Browser(seconds=0.01, on_device=hang).show_code(LOGIN)
