"""Programs without a user get their tokens, and their secrets go to one server only."""

from __future__ import annotations

import base64
import inspect
import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import anyio
import httpx
import jwt
import pytest

from mcp_client import ConfigError, HttpServer, allow_all, connect
from mcp_client.auth import (
    ClientCredentials,
    EnterpriseAuthorization,
    FileTokens,
    IdentityProvider,
    MemoryTokens,
    WorkloadIdentity,
)
from mcp_client.auth.code_flow import Login, LoginRequest
from mcp_client.auth.grants import (
    ClientOptions,
    ServiceClient,
    client_credentials,
    enterprise,
    workload_identity,
)
from mcp_client.auth.signing import PrivateKey
from mcp_client.auth.steps import AskHost, Flow
from mcp_client.auth.tokens import Key, Source
from mcp_client.errors import AuthError
from mcp_client.extensions.extension import TASKS
from mcp_client.protocol.headers import Challenge
from tests.auth.flows import ISSUER, SERVER, metadata
from tests.auth.flows import World as Table
from tests.support.authorization import Grant, World, guarded
from tests.support.http_apps import Handshake, Stateless
from tests.support.http_server import Reply, Request

pytestmark = [pytest.mark.one_backend, pytest.mark.usefixtures("http_way")]

NOW = 1_800_000_000.0
WANT = LoginRequest(SERVER, "the-server", now=lambda: NOW)
TOKEN = f"{ISSUER}/token"
IDP = "https://idp.example/token"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
JAG = {"issued_token_type": ID_JAG, "access_token": "jag-SECRET", "token_type": "N_A"}
PRM = "https://mcp.example/.well-known/oauth-protected-resource/mcp"
AS = f"{ISSUER}/.well-known/oauth-authorization-server"
MACHINE = ServiceClient.of("the-client", client_secret="cs-SECRET")
WORKLOAD = ServiceClient.of("the-workload")
PROVIDER = IdentityProvider(IDP, "us-at-idp", "id-SECRET")
KEY_TEXT = PrivateKey.generate().text()


class Supplying(Table):
    """A table that supplies what the host's functions give, too."""

    def answer(self, step: Any) -> Any:
        if isinstance(step, AskHost):
            return step.source()
        return super().answer(step)


FLOWS: dict[str, Callable[[LoginRequest, ServiceClient], Flow[Login]]] = {
    "client credentials": client_credentials,
    "workload": lambda want, machine: workload_identity(want, machine, "wl-SECRET"),
    "enterprise": lambda want, machine: enterprise(want, machine, PROVIDER),
}


def run(flow: Flow[Login], pages: dict[str, Any] | None = None) -> tuple[Supplying, Login]:
    table = Supplying({IDP: JAG, **(pages or {})})
    login = table.run(flow)
    assert isinstance(login, Login)
    return table, login


def basic(table: Table, url: str = TOKEN) -> str | None:
    step = [step for step in table.fetched if step.url == url][-1]
    scheme, _, value = step.headers.get("authorization", "").partition(" ")
    return base64.b64decode(value).decode() if scheme == "Basic" else None


# ----------------------------------------------------------------- what is sent


def test_client_credentials_are_discovery_and_one_request() -> None:
    table, login = run(client_credentials(WANT, MACHINE))
    assert table.urls == [PRM, AS, TOKEN]
    assert table.form(TOKEN) == {
        "grant_type": "client_credentials",
        "client_id": "the-client",
        "resource": SERVER,
    }
    assert basic(table) == "the-client:cs-SECRET"
    assert login.token.access_token == "at"
    assert login.token.expires_at == NOW + 60
    key = Key(ISSUER, SERVER, "the-client")
    assert login.source == Source(key, TOKEN, "client_secret_basic")


@pytest.mark.parametrize(
    ("supported", "in_header"),
    [
        (None, True),
        (["client_secret_post"], False),
        (["client_secret_post", "client_secret_basic"], True),
        (["none"], True),
        (["none", "client_secret_post"], False),
    ],
)
def test_a_client_secret_is_always_sent_in_the_header_or_in_the_form(
    supported: list[str] | None, in_header: bool
) -> None:
    page = metadata(token_endpoint_auth_methods_supported=supported)
    table, _ = run(client_credentials(WANT, MACHINE), {AS: page})
    assert (basic(table) is not None) is in_header
    assert ("client_secret" in table.form(TOKEN)) is not in_header


def test_a_private_key_signs_an_assertion_for_the_issuer_and_is_not_sent() -> None:
    machine = ServiceClient.of("the-client", private_key=KEY_TEXT, key_id="k1")
    table, login = run(client_credentials(replace(WANT, now=time.time), machine))
    form = table.form(TOKEN)
    text = form.pop("client_assertion")
    assert jwt.get_unverified_header(text)["kid"] == "k1"
    claims = jwt.decode(text, jwt.PyJWK(json.loads(KEY_TEXT)).key, ["ES256"], audience=ISSUER)
    assert claims["sub"] == claims["iss"] == "the-client"
    assert form == {
        "grant_type": "client_credentials",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "resource": SERVER,
    }
    assert login.source.auth_method == "private_key_jwt"


def test_a_server_that_does_not_support_our_signature_is_not_asked_for_a_token() -> None:
    machine = ServiceClient.of("the-client", private_key=KEY_TEXT)
    page = metadata(token_endpoint_auth_signing_alg_values_supported=["RS256"])
    table = Supplying({AS: page})
    with pytest.raises(AuthError, match="accepts signatures with RS256"):
        table.run(client_credentials(WANT, machine))
    assert TOKEN not in table.urls


def test_a_workload_sends_its_jwt_in_one_request_and_does_not_retry() -> None:
    table, _ = run(workload_identity(WANT, WORKLOAD, "wl-SECRET"))
    assert table.urls == [PRM, AS, TOKEN]
    assert table.form(TOKEN) == {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": "wl-SECRET",
        "client_id": "the-workload",
        "resource": SERVER,
    }
    refusing = Supplying({TOKEN: {"error": "invalid_grant"}})
    with pytest.raises(AuthError, match="invalid_grant"):
        refusing.run(workload_identity(WANT, WORKLOAD, "wl-SECRET"))
    assert refusing.urls == [PRM, AS, TOKEN]


def test_a_workload_that_is_not_registered_sends_no_client_id() -> None:
    table, login = run(workload_identity(WANT, ServiceClient.of(""), "wl-SECRET"))
    assert "client_id" not in table.form(TOKEN)
    assert login.source.key == Key(ISSUER, SERVER, "")


def test_an_assertion_may_come_from_a_function_asked_each_time() -> None:
    passed = iter(["wl-1", "wl-2"])
    table = Supplying()
    for expected in ("wl-1", "wl-2"):
        table.run(workload_identity(WANT, WORKLOAD, lambda: next(passed)))
        assert table.form(TOKEN)["assertion"] == expected


def test_an_enterprise_exchanges_the_id_token_and_then_the_grant() -> None:
    table, login = run(enterprise(WANT, MACHINE, PROVIDER))
    assert table.urls == [PRM, AS, IDP, TOKEN]
    assert table.form(IDP) == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": ID_JAG,
        "audience": ISSUER,
        "resource": SERVER,
        "subject_token": "id-SECRET",
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "client_id": "us-at-idp",
    }
    assert table.form(TOKEN) == {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": "jag-SECRET",
        "client_id": "the-client",
        "resource": SERVER,
    }
    assert basic(table) == "the-client:cs-SECRET"
    assert basic(table, IDP) is None
    assert login.source.key.client == "the-client"


def test_each_authorization_server_receives_only_its_own_secret() -> None:
    provider = IdentityProvider(IDP, "us-at-idp", lambda: "id-SECRET", "idp-secret")
    table, _ = run(enterprise(WANT, MACHINE, provider))
    assert basic(table, IDP) == "us-at-idp:idp-secret"
    assert basic(table) == "the-client:cs-SECRET"
    for url, secret in ((IDP, "cs-SECRET"), (TOKEN, "idp-secret"), (TOKEN, "id-SECRET")):
        sent = [step for step in table.fetched if step.url == url]
        assert not any(secret.encode() in (step.body or b"") for step in sent)


def test_a_refusal_of_the_identity_provider_is_quoted_in_the_error() -> None:
    table = Supplying({IDP: {"error": "access_denied", "error_description": "not in your group"}})
    with pytest.raises(AuthError, match=r"identity provider.*access_denied: not in your group"):
        table.run(enterprise(WANT, MACHINE, PROVIDER))
    assert TOKEN not in table.urls


@pytest.mark.parametrize(
    "change",
    [
        {"issued_token_type": None},
        {"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"},
        {"access_token": {"a": "jag-SECRET"}},
    ],
)
def test_a_token_that_is_not_an_id_jag_is_not_sent_to_the_server(change: dict[str, Any]) -> None:
    table = Supplying({IDP: {**JAG, **change}})
    with pytest.raises(AuthError, match="instead of an ID-JAG") as caught:
        table.run(enterprise(WANT, MACHINE, PROVIDER))
    assert TOKEN not in table.urls
    assert "SECRET" not in str(caught.value)


# ------------------------------------------------------------------------ scopes


@pytest.mark.parametrize("grant", FLOWS)
@pytest.mark.parametrize(
    ("own", "challenged", "published", "held", "asked"),
    [
        (None, "", [], "", None),
        (None, "", ["a", "b"], "", "a b"),
        (None, "c", ["a", "b"], "", "c"),
        (["z"], "", ["a"], "", "z"),
        (["z"], "c", ["a"], "", "c z"),
        (None, "c", [], "h", "c h"),
        ([], "", ["a"], "", None),
    ],
)
def test_scopes_come_from_the_host_then_the_challenge_then_the_resource(
    grant: str,
    own: list[str] | None,
    challenged: str,
    published: list[str],
    held: str,
    asked: str | None,
) -> None:
    machine = ServiceClient.of("the-client", client_secret="cs-SECRET", scopes=own)
    page = {"resource": SERVER, "authorization_servers": [ISSUER], "scopes_supported": published}
    want = replace(
        WANT,
        challenge=Challenge("bearer", {"scope": challenged}),
        held=frozenset(held.split()),
    )
    table, login = run(FLOWS[grant](want, machine), {PRM: page})
    assert table.form(TOKEN).get("scope") == asked
    assert login.token.scope == frozenset((asked or "").split())
    if grant == "enterprise":
        assert table.form(IDP).get("scope") == asked


@pytest.mark.parametrize("grant", FLOWS)
def test_a_refresh_token_is_not_stored(grant: str) -> None:
    page = {"access_token": "at", "token_type": "Bearer", "refresh_token": "rt"}
    _, login = run(FLOWS[grant](WANT, MACHINE), {TOKEN: page})
    assert login.token.refresh_token is None


# --------------------------------------------------------------- whose the secret is

EVIL = "https://evil.example"
EVIL_PAGES = {
    PRM: {"resource": SERVER, "authorization_servers": [EVIL]},
    f"{EVIL}/.well-known/oauth-authorization-server": metadata(EVIL),
    f"{EVIL}/token": {"access_token": "at", "token_type": "Bearer"},
}


@pytest.mark.parametrize("grant", FLOWS)
@pytest.mark.parametrize("bound", ["given", "remembered"])
def test_credentials_of_one_issuer_are_not_sent_to_another(grant: str, bound: str) -> None:
    machine = replace(MACHINE, issuer=ISSUER if bound == "given" else None)
    last = Source(Key(ISSUER, SERVER, "the-client"), TOKEN)
    want = WANT if bound == "given" else replace(WANT, last=last)
    table = Supplying(EVIL_PAGES)
    with pytest.raises(AuthError, match=r"evil\.example.* belong to https://as\.example") as caught:
        table.run(FLOWS[grant](want, machine))
    assert table.urls == [PRM]
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("grant", FLOWS)
def test_of_several_issuers_the_one_that_has_the_credentials_is_asked(grant: str) -> None:
    page = {"resource": SERVER, "authorization_servers": [EVIL, ISSUER]}
    machine = replace(MACHINE, issuer=ISSUER)
    table, login = run(FLOWS[grant](WANT, machine), {**EVIL_PAGES, PRM: page})
    assert login.source.key.issuer == ISSUER
    assert not any(url.startswith(EVIL) for url in table.urls)


def test_an_issuer_that_was_given_counts_and_not_the_one_remembered() -> None:
    last = Source(Key(EVIL, SERVER, "the-client"), f"{EVIL}/token")
    machine = replace(MACHINE, issuer=ISSUER)
    _, login = run(client_credentials(replace(WANT, last=last), machine))
    assert login.source.key.issuer == ISSUER


def test_credentials_are_not_sent_to_a_server_without_metadata() -> None:
    table = Supplying({PRM: 404, "https://mcp.example/token": {"access_token": "at"}})
    machine = replace(MACHINE, issuer=ISSUER)
    with pytest.raises(AuthError, match="belong to https://as"):
        table.run(client_credentials(WANT, machine))
    assert not any(step.method == "POST" for step in table.fetched)


# ------------------------------------------------------------------ wrong options

WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "no id": (lambda: ClientCredentials("", client_secret="s"), "give client_id"),
    "a number": (lambda: ClientCredentials(7, client_secret="s"), "give the id"),  # type: ignore[arg-type]
    "nobody": (lambda: EnterpriseAuthorization(PROVIDER, ""), "give client_id"),
    "neither": (lambda: ClientCredentials("c"), "client_secret=... or private_key=..."),
    "both": (
        lambda: ClientCredentials("c", client_secret="s-SECRET", private_key=KEY_TEXT),
        "not both",
    ),
    "no key": (lambda: ClientCredentials("c", private_key="SECRET"), "cannot be read"),
    "another algorithm": (
        lambda: ClientCredentials("c", private_key=KEY_TEXT, algorithm="HS256"),
        "cannot sign with 'HS256'",
    ),
    "scopes as text": (
        lambda: ClientCredentials("c", client_secret="s-SECRET", scopes="a b"),
        "a list of scopes",
    ),
    "no assertion": (lambda: WorkloadIdentity("c", assertion=""), "give the JWT"),
    "no id token": (lambda: IdentityProvider(IDP, "c", None), "id_token"),  # type: ignore[arg-type]
    "plain http": (
        lambda: IdentityProvider("http://idp.example/token", "c", "id-SECRET"),
        "token_endpoint",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_invalid_options_are_refused_when_they_are_given(case: str) -> None:
    make, reason = WRONG[case]
    with pytest.raises(ConfigError) as caught:
        make()
    assert reason in str(caught.value)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("kind", [ClientCredentials, EnterpriseAuthorization])
def test_the_shared_options_are_named_in_the_signature_and_others_are_refused(kind: Any) -> None:
    parameters = inspect.signature(kind).parameters
    shared = [name for name in parameters if parameters[name].default is None]
    assert shared == list(ClientOptions.__annotations__)
    assert {parameters[name].kind for name in shared} == {inspect.Parameter.KEYWORD_ONLY}
    own = [PROVIDER, "the-client"] if "provider" in parameters else ["the-client"]
    with pytest.raises(TypeError, match="unexpected keyword argument 'secret'") as caught:
        kind(*own, secret="s-SECRET")
    assert "SECRET" not in str(caught.value)


def test_no_secret_is_in_a_repr() -> None:
    d = json.loads(KEY_TEXT)["d"]
    machine = ServiceClient.of("the-client", private_key=KEY_TEXT)
    displayed = [
        ClientCredentials("the-client", client_secret="cs-SECRET"),
        WorkloadIdentity("the-client", assertion="wl-SECRET"),
        EnterpriseAuthorization(PROVIDER, "the-client", client_secret="cs-SECRET"),
        PROVIDER,
        MACHINE,
        machine,
        HttpServer(SERVER, auth=ClientCredentials("the-client", client_secret="cs-SECRET")),
    ]
    for value in displayed:
        assert "SECRET" not in f"{value!r} {value}"
        assert d not in f"{value!r}"


# ---------------------------------------------------------------- over real HTTP


class Machines:
    """A token endpoint for machines: counts, and gives what the test wants."""

    def __init__(self) -> None:
        self.world: World
        self.forms: list[dict[str, str]] = []
        self.lifetime = 3600.0

    async def __call__(self, request: Request, reply: Reply) -> None:
        form = dict(parse_qsl(request.body.decode()))
        self.forms.append(form)
        token = f"machine-{len(self.forms)}"
        self.world.tokens[token] = Grant("the-client", form.get("scope", ""), form["resource"])
        response = {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime}
        await reply.json(response)


def auths(world: World) -> dict[str, Callable[..., httpx.Auth]]:
    return {
        "client credentials": lambda **options: ClientCredentials(
            "the-client", client_secret="cs-SECRET", **options
        ),
        "workload": lambda **options: WorkloadIdentity("the-client", assertion=_wl, **options),
    }


async def _wl() -> str:
    return "wl-SECRET"


async def echo(world: World, auth: httpx.Auth) -> str:
    async with connect(HttpServer(world.url, auth=auth), approval=allow_all) as session:
        return (await session.call_tool("echo", {"text": "hello"})).text


ECHOED = str({"text": "hello"})


@pytest.mark.parametrize("kind", ["client credentials", "workload"])
async def test_a_service_gets_one_token_for_a_session_without_a_person(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    machines = Machines()
    async with guarded(pages={"/token": machines}) as machines.world:
        auth = auths(machines.world)[kind](issuer=machines.world.issuer)
        assert await echo(machines.world, auth) == ECHOED
        assert await echo(machines.world, auth) == ECHOED
        assert len(machines.forms) == 1
        assert machines.world.consents == []
        assert machines.world.clients == {}
    assert "SECRET" not in caplog.text


@pytest.mark.parametrize("era", [Stateless, Handshake])
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("client credentials", {"io.modelcontextprotocol/oauth-client-credentials": {}}),
        ("workload", {}),
    ],
)
async def test_a_server_is_informed_of_the_extension_in_use(
    era: type[Stateless | Handshake], kind: str, expected: dict[str, Any]
) -> None:
    machines = Machines()
    async with guarded(era(), pages={"/token": machines}) as machines.world:
        assert await echo(machines.world, auths(machines.world)[kind]()) == ECHOED
        messages = [r.message for r in machines.world.server.requests if r.path == "/mcp"]
    if era is Stateless:
        prefix = "io.modelcontextprotocol/"
        reported = [each["params"]["_meta"][prefix + "clientCapabilities"] for each in messages]
    else:
        reported = [
            each["params"]["capabilities"]
            for each in messages
            if each.get("method") == "initialize"
        ]
    assert reported
    beside: dict[str, Any] = {TASKS: {}} if era is Stateless else {}
    assert [each.get("extensions", {}) for each in reported] == [expected | beside] * len(reported)


async def test_a_second_run_uses_what_the_first_has_stored(tmp_path: Path) -> None:
    machines = Machines()
    store = FileTokens(tmp_path / "own" / "tokens.json")
    async with guarded(pages={"/token": machines}) as machines.world:
        for _ in range(2):
            auth = auths(machines.world)["client credentials"](store=store)
            assert await echo(machines.world, auth) == ECHOED
        assert len(machines.forms) == 1
        assert "cs-SECRET" not in store.path.read_text()


async def test_a_token_that_expires_is_followed_by_another_before_it_is_refused() -> None:
    machines = Machines()
    machines.lifetime = 0
    async with guarded(pages={"/token": machines}) as machines.world:
        auth = auths(machines.world)["client credentials"]()
        async with connect(
            HttpServer(machines.world.url, auth=auth), approval=allow_all
        ) as session:
            before = len(machines.forms)
            assert (await session.call_tool("echo", {"text": "hello"})).text == ECHOED
        refused = [r for r in machines.world.server.requests if r.path == "/mcp"]
        assert len(machines.forms) > before
        tokens = [r.headers.get("authorization") for r in refused]
        assert tokens.count(None) == 1


@pytest.mark.both_backends
async def test_many_calls_at_once_ask_for_one_token() -> None:
    machines = Machines()
    async with guarded(pages={"/token": machines}) as machines.world:
        auth = auths(machines.world)["client credentials"]()
        async with connect(
            HttpServer(machines.world.url, auth=auth), approval=allow_all
        ) as session:
            machines.world.revoke()
            reported = []

            async def call() -> None:
                reported.append((await session.call_tool("echo", {"text": "hello"})).text)

            async with anyio.create_task_group() as tasks:
                for _ in range(10):
                    tasks.start_soon(call)
        assert reported == [ECHOED] * 10
        assert len(machines.forms) == 2


async def test_a_call_that_needs_a_scope_is_sent_again_with_it() -> None:
    machines = Machines()
    async with guarded(
        pages={"/token": machines}, scope="basic", needs={"echo": "write"}
    ) as machines.world:
        auth = auths(machines.world)["client credentials"]()
        assert await echo(machines.world, auth) == ECHOED
        assert [form.get("scope") for form in machines.forms] == ["basic", "basic write"]


async def test_a_secret_is_sent_only_to_the_first_server_that_received_it() -> None:
    machines = Machines()
    named: list[str] = []

    def move(document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "authorization_servers": named or document["authorization_servers"]}

    async with (
        guarded(pages={"/token": machines}, resource_metadata=move) as machines.world,
        guarded(pages={"/token": machines}) as other,
    ):
        auth = auths(machines.world)["client credentials"](store=MemoryTokens())
        assert await echo(machines.world, auth) == ECHOED
        named.append(other.issuer)
        machines.world.revoke()
        with pytest.raises(AuthError, match="nothing was sent"):
            await echo(machines.world, auth)
        assert other.authorization.requests == []
        assert len(machines.forms) == 1


async def test_an_error_of_the_assertion_function_is_reported_and_nothing_is_sent() -> None:
    def broken() -> str:
        raise RuntimeError("the file with SECRET is gone")

    def nothing() -> str:
        return ""

    machines = Machines()
    async with guarded(pages={"/token": machines}) as machines.world:
        for source, reason in ((broken, "raised RuntimeError"), (nothing, "did not return a str")):
            auth = WorkloadIdentity("the-client", assertion=source)
            with pytest.raises(AuthError, match=reason) as caught:
                await echo(machines.world, auth)
            assert "SECRET" not in str(caught.value)
        assert machines.forms == []


async def test_an_error_of_ours_that_the_assertion_function_raises_is_raised_as_it_is() -> None:
    locked = ConfigError("the vault is locked")

    def source() -> str:
        raise locked

    async with guarded(pages={"/token": Machines()}) as world:
        with pytest.raises(ConfigError, match="the vault is locked"):
            await echo(world, WorkloadIdentity("the-client", assertion=source))


async def test_an_enterprise_logs_in_through_its_provider_on_a_private_address() -> None:
    machines = Machines()
    asked: list[dict[str, str]] = []

    async def provider(request: Request, reply: Reply) -> None:
        asked.append(dict(parse_qsl(request.body.decode())))
        await reply.json(JAG)

    async with guarded(pages={"/token": machines, "/idp": provider}) as machines.world:
        issuer = machines.world.issuer
        auth = EnterpriseAuthorization(
            IdentityProvider(f"{issuer}/idp", "us-at-idp", "id-SECRET"),
            "the-client",
            client_secret="cs-SECRET",
        )
        assert await echo(machines.world, auth) == ECHOED
        assert asked[0]["audience"] == issuer
        assert machines.forms[0]["assertion"] == "jag-SECRET"
