"""No secret of a login comes out: not in logs, reprs, errors, the audit log or a command line.

Each secret is planted where the protocol has it, the servers repeat everything they were sent in
everything they answer, and then all that came out is searched.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import anyio
import anyio.to_thread
import pytest

from mcp_client import HttpServer, McpError, OAuth, allow_all, connect
from mcp_client.auth import (
    ClientCredentials,
    EnterpriseAuthorization,
    FileTokens,
    IdentityProvider,
    MemoryTokens,
    WorkloadIdentity,
)
from mcp_client.auth.signing import PrivateKey
from tests.support.authorization import Grant, World, guarded
from tests.support.http_server import Reply, Request

pytestmark = [pytest.mark.one_backend, pytest.mark.usefixtures("http_way")]

KEY = "query-secret-0123456789"
USER, PASSWORD = "user-secret-0123", "password-secret-0123456789"
COOKIE = "cookie-secret-0123456789"
CLIENT_SECRET = "client-secret-0123456789"
REGISTRATION_TOKEN = "registration-secret-0123456789"
ID_TOKEN, WORKLOAD, ID_JAG = (f"{name}-secret-0123456789" for name in ("id", "workload", "jag"))
FIELDS = (
    "assertion",
    "client_assertion",
    "client_secret",
    "code",
    "code_verifier",
    "refresh_token",
    "subject_token",
    "token",
)
"""What is secret in a form."""


class Leaks:
    """Collects what came out, and the secrets that must not be in it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.out: list[str] = []
        self.seen: set[str] = {KEY, PASSWORD, COOKIE, CLIENT_SECRET}
        self.seen |= {REGISTRATION_TOKEN, ID_TOKEN, WORKLOAD, ID_JAG}

    def auth(self, auth: Any) -> None:
        """The secrets that ``auth`` holds: tokens, and the private keys of DPoP tokens."""
        for secret in auth.secrets():
            self.seen.add(secret)
            if secret.startswith("{"):
                self.seen.add(json.loads(secret)["d"])

    def error(self, error: BaseException | None) -> None:
        if error is not None:
            self.out += traceback.format_exception(error)
        while error is not None:
            self.out += [str(error), repr(error), repr(vars(error)), repr(error.args)]
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)

    def found(self) -> list[str]:
        """The secrets that came out, with what they came out in."""
        secrets = set(self.seen) | set(self.world.tokens) | set(self.world.refresh_tokens)
        secrets |= set(self.world.codes)
        for request in (*self.world.authorization.requests, *self.world.server.requests):
            secrets.update(secrets_of(request))
        for params in self.world.consents:
            secrets.add(params["state"])
        return [
            f"{secret} in {text[:300]}"
            for secret in secrets
            for text in self.out
            if secret and secret[:_BEGINNING] in text
        ]


def secrets_of(request: Request) -> list[str]:
    """What is secret in the headers and in the form of a request."""
    names = ("authorization", "dpop", "cookie")
    found = [request.headers.get(name, "").rpartition(" ")[2] for name in names]
    if b"=" in request.body and not request.body.startswith(b"{"):
        form = dict(parse_qsl(request.body.decode()))
        found += [form.get(name, "") for name in FIELDS]
    return [secret for secret in found if secret]


_BEGINNING = 24
"""Characters of a secret that must not come out: texts are cut off."""


def echo_of(request: Request) -> str:
    """The beginning of each secret, and then the whole request."""
    beginnings = " ".join(secret[: _BEGINNING + 6] for secret in secrets_of(request))
    whole = f"{request.path} {json.dumps(request.headers)} {request.body.decode('latin-1')}"
    return f"{beginnings} {whole}"


async def repeat(request: Request, reply: Reply, status: int) -> None:
    """Refuse a request and repeat all of it, in every place where a text can be."""
    reported = echo_of(request)
    plain = reported.replace('"', "'").replace("\r", "").replace("\n", "")
    document = {
        "error": "invalid_grant",
        "error_description": reported,
        "jsonrpc": "2.0",
        "id": None,
    }
    challenge = f'Bearer error="invalid_token", error_description="{plain}", scope="{plain}"'
    await reply.json(document, status, {"WWW-Authenticate": challenge, "X-Echo": plain})


def bound(document: dict[str, Any]) -> dict[str, Any]:
    """A document of either server that declares that tokens are bound to keys."""
    if "token_endpoint" in document:
        return {**document, "dpop_signing_alg_values_supported": ["ES256"]}
    return {**document, "dpop_bound_access_tokens_required": True}


STAGES = ["/register", "/authorize", "/token", "refresh", "/mcp", "call", "redirect"]


@pytest.mark.parametrize(
    ("scheme", "status"),
    [("Bearer", 401), ("DPoP", 401), pytest.param("Bearer", 500, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("stage", STAGES)
async def test_secrets_that_a_server_repeats_are_not_in_errors_logs_or_reprs(
    stage: str, scheme: str, status: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "mcp_client")
    caplog.set_level(logging.INFO, "httpx")
    hostile = False

    async def token(request: Request, reply: Reply) -> None:
        refresh = b"grant_type=refresh_token" in request.body
        if hostile and stage == ("refresh" if refresh else "/token"):
            await repeat(request, reply, status)
        else:
            await reply.json({**world._token(request), "token_type": scheme})

    async def register(request: Request, reply: Reply) -> None:
        if stage == "/register":
            await repeat(request, reply, status)
        else:
            passed = {"registration_access_token": REGISTRATION_TOKEN}
            await reply.json({**world._registered(request), **passed}, 201)

    async def mcp(request: Request, reply: Reply) -> None:
        expected = request.message.get("method") if request.method == "POST" else None
        authorized = request.headers.get("authorization", "") != ""
        refuses = (stage == "/mcp" and authorized) or (stage == "call" and expected == "tools/call")
        if hostile and refuses:
            await repeat(request, reply, status)
        elif hostile and stage == "redirect" and authorized:
            place = f"https://elsewhere.example/{request.headers['authorization']}?{KEY}"
            await reply.send(307, headers={"Location": place})
        else:
            sent = request.headers.get("authorization", "")
            assert sent.startswith((scheme, "Basic")) or not sent
            request.headers["authorization"] = sent.replace(scheme, "Bearer")
            await world._guarded(request, reply)
            request.headers["authorization"] = sent

    async def agree(url: str) -> str:
        redirect = await world.agree(url)
        if hostile and stage == "/authorize":
            state = dict(parse_qsl(urlsplit(url).query))["state"]
            reported = urlencode({"error": "no", "error_description": url, "iss": world.issuer})
            return f"{redirect.partition('?')[0]}?{reported}&state={state}"
        return redirect

    pages = {"/token": token, "/register": register, "/mcp": mcp}
    options: dict[str, Any] = {}
    if scheme == "DPoP":
        options = {"resource_metadata": bound, "server_metadata": bound}
    async with guarded(pages=pages, lifetime=0, **options) as world:
        leaks, audit = Leaks(world), tmp_path / "calls.jsonl"
        url = world.url.replace("http://", f"http://{USER}:{PASSWORD}@") + f"?key={KEY}"
        for store in (FileTokens(tmp_path / "own" / "tokens.json"), MemoryTokens()):
            auth = OAuth(store=store, on_url=agree)
            server = HttpServer(url, headers={"Cookie": f"sid={COOKIE}"}, auth=auth)
            try:
                async with connect(server, approval=allow_all, audit=str(audit)) as session:
                    leaks.out += [repr(session), repr(session.server_info)]
                    hostile = True
                    await session.call_tool("echo", {"text": "hello"})
            except McpError as error:
                leaks.error(error)
            leaks.auth(auth)
            leaks.out += [repr(auth), repr(store), repr(server)]
            hostile = True
        leaks.out.append(caplog.text)
        leaks.out += [str(each.__dict__) for each in caplog.records if each.name == "mcp_client"]
        if audit.exists():
            leaks.out.append(audit.read_text())
        assert not leaks.found()
        assert leaks.out
        proofs = [each for each in world.server.requests if "dpop" in each.headers]
        assert bool(proofs) == (scheme == "DPoP" and stage != "/register")


async def test_the_url_of_a_server_is_logged_without_its_query(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    store = MemoryTokens()
    async with guarded(lifetime=0) as world:
        for _ in range(2):
            server = HttpServer(
                f"{world.url}?api_key={KEY}", auth=OAuth(store=store, on_url=world.agree)
            )
            async with connect(server, approval=allow_all) as session:
                await session.call_tool("echo", {"text": "hello"})
            world.refresh_tokens.clear()
            world.options.lifetime = 3600
    assert "cannot be refreshed any more" in caplog.text
    assert "HTTP Request" in caplog.text
    assert KEY not in caplog.text


async def test_a_client_secret_that_a_server_repeats_is_not_in_errors_or_logs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "mcp_client")

    async def token(request: Request, reply: Reply) -> None:
        await repeat(request, reply, 401)

    def methods(document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "token_endpoint_auth_methods_supported": ["client_secret_post"]}

    async with guarded(pages={"/token": token}, server_metadata=methods) as world:

        async def agree(url: str) -> str:
            params = dict(parse_qsl(urlsplit(url).query))
            world.clients[params["client_id"]] = {"redirect_uris": [params["redirect_uri"]]}
            return await world.agree(url)

        auth = OAuth(client_id="given", client_secret=CLIENT_SECRET, on_url=agree)
        leaks = Leaks(world)
        with pytest.raises(McpError) as caught:
            await connect(HttpServer(world.url, auth=auth), approval=allow_all)
        leaks.error(caught.value)
        leaks.out += [repr(auth), caplog.text]
        assert "invalid_grant" in str(caught.value)
        assert not leaks.found()


# ------------------------------------------------------------------- without a person


def services(issuer: str) -> dict[str, Any]:
    key = PrivateKey.generate()
    provider = IdentityProvider(f"{issuer}/idp", "idp-client", ID_TOKEN, CLIENT_SECRET)
    return {
        "secret": ClientCredentials("the-client", client_secret=CLIENT_SECRET),
        "key": ClientCredentials("the-client", private_key=key.text()),
        "workload": WorkloadIdentity("the-client", assertion=lambda: WORKLOAD),
        "enterprise": EnterpriseAuthorization(provider, "the-client", client_secret=CLIENT_SECRET),
    }


@pytest.mark.parametrize("stage", ["/idp", "/token", "/mcp", "call"])
@pytest.mark.parametrize("kind", ["secret", "key", "workload", "enterprise"])
async def test_secrets_of_a_service_that_a_server_repeats_are_not_in_errors_logs_or_reprs(
    kind: str, stage: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def idp(request: Request, reply: Reply) -> None:
        kind = "urn:ietf:params:oauth:token-type:id-jag"
        if stage == "/idp":
            await repeat(request, reply, 400)
        else:
            await reply.json({"access_token": ID_JAG, "issued_token_type": kind})

    async def token(request: Request, reply: Reply) -> None:
        form = dict(parse_qsl(request.body.decode()))
        if stage == "/token":
            await repeat(request, reply, 400)
        else:
            access = "access-secret-0123456789"
            world.tokens[access] = Grant("the-client", "", form["resource"])
            await reply.json({"access_token": access, "token_type": "Bearer", "expires_in": 3600})

    async def mcp(request: Request, reply: Reply) -> None:
        expected = request.message.get("method") if request.method == "POST" else None
        authorized = request.headers.get("authorization", "") != ""
        if (stage == "/mcp" and authorized) or (stage == "call" and expected == "tools/call"):
            await repeat(request, reply, 403)
        else:
            await world._guarded(request, reply)

    def methods(document: dict[str, Any]) -> dict[str, Any]:
        names = ["client_secret_basic", "client_secret_post", "private_key_jwt"]
        return {**document, "token_endpoint_auth_methods_supported": names}

    pages = {"/idp": idp, "/token": token, "/mcp": mcp}
    async with guarded(pages=pages, server_metadata=methods) as world:
        leaks, auth = Leaks(world), services(world.issuer)[kind]
        try:
            async with connect(HttpServer(world.url, auth=auth), approval=allow_all) as session:
                await session.call_tool("echo", {"text": "hello"})
        except McpError as error:
            leaks.error(error)
        assert leaks.out or stage == "/idp"
        leaks.auth(auth)
        leaks.out += [repr(auth), repr(vars(auth)["_grant"]), caplog.text]
        assert not leaks.found()


# ------------------------------------------------------------------- command lines

PROGRAM = """
import logging, sys
from pathlib import Path
import anyio
from mcp_client import HttpServer, OAuth, allow_all, connect
from mcp_client.auth import FileTokens
from tests.auth.test_secrets import CLIENT_SECRET

async def main(url, directory):
    logging.basicConfig(level=logging.DEBUG)
    auth = OAuth(client_id="given", client_secret=CLIENT_SECRET, store=FileTokens(f"{directory}/t"))
    async with connect(HttpServer(url, auth=auth), approval=allow_all) as session:
        print((await session.call_tool("echo", {"text": "hello"})).text)

anyio.run(main, *sys.argv[1:])
"""
BROWSER = """
import os, pathlib, sys, urllib.request
lines = [pathlib.Path(f"/proc/{each}/cmdline").read_text() for each in ("self", os.getppid())]
environment = pathlib.Path("/proc/self/environ").read_text()
pathlib.Path(sys.argv[1]).write_text("\\n".join([*lines, environment]))
urllib.request.urlopen(sys.argv[2]).read()
"""


@pytest.mark.slow
@pytest.mark.one_backend
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no /proc")
@pytest.mark.parametrize("scheme", ["Bearer", "DPoP"])
async def test_the_browser_and_the_output_of_a_program_get_no_secret(
    scheme: str, tmp_path: Path
) -> None:
    async def token(request: Request, reply: Reply) -> None:
        await reply.json({**world._token(request), "token_type": scheme})

    async def authorize(request: Request, reply: Reply) -> None:
        params = dict(parse_qsl(urlsplit(request.path).query))
        world.clients["given"] = {"redirect_uris": [params["redirect_uri"]]}
        await world._authorized(params, reply)

    async def mcp(request: Request, reply: Reply) -> None:
        sent = request.headers.get("authorization", "")
        request.headers["authorization"] = sent.replace(scheme, "Bearer")
        await world._guarded(request, reply)
        request.headers["authorization"] = sent

    def methods(document: dict[str, Any]) -> dict[str, Any]:
        document["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
        return bound(document) if scheme == "DPoP" else document

    seen, browser = tmp_path / "seen.txt", tmp_path / "browser.py"
    browser.write_text(BROWSER)
    opens = shlex.join([sys.executable, str(browser), str(seen)])
    env = {**os.environ, "BROWSER": f"{opens} %s", "no_proxy": "*"}
    env["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    changes: dict[str, Any] = {"server_metadata": methods}
    if scheme == "DPoP":
        changes["resource_metadata"] = bound
    pages = {"/token": token, "/authorize": authorize, "/mcp": mcp}
    async with guarded(pages=pages, **changes) as world:
        words = [sys.executable, "-c", PROGRAM, world.url, str(tmp_path / "own")]

        def run() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                words, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50
            )

        (tmp_path / "own").mkdir(mode=0o700)
        done = await anyio.to_thread.run_sync(run)
        assert done.returncode == 0, done.stderr
        leaks = Leaks(world)
        (stored_token,) = json.loads((tmp_path / "own" / "t").read_text())["tokens"].values()
        if scheme == "DPoP":
            leaks.seen.add(json.loads(stored_token["dpop_key"])["d"])
        leaks.out += [seen.read_text(), done.stdout, done.stderr]
        assert world.issuer in seen.read_text()
        # A browser is given the URL, and so its state, which is of use to this login only.
        state = {params["state"] for params in world.consents}
        assert not [each for each in leaks.found() if each.partition(" ")[0] not in state]
