"""Runs a flow from a table of outcomes, without I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from mcp_client.auth.redirect import read_redirect
from mcp_client.auth.steps import (
    Accepted,
    Consent,
    DeviceLogin,
    Fetch,
    Fetched,
    Flow,
    InStore,
    Listen,
    Redirected,
    Remember,
    ShowCode,
    TakeTurn,
    Unreachable,
    Wait,
)
from mcp_client.auth.tokens import Key, Registration, Source, Token
from mcp_client.errors import AuthError

__all__ = ["ISSUER", "REDIRECT", "SERVER", "World", "metadata"]

SERVER = "https://mcp.example/mcp"
ISSUER = "https://as.example"
REDIRECT = "http://127.0.0.1:4711/callback"


def metadata(issuer: str = ISSUER, **changes: Any) -> dict[str, Any]:
    document = {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "registration_endpoint": f"{issuer}/register",
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        **changes,
    }
    return {name: value for name, value in document.items() if value is not None}


class World:
    """The outcome of every step, and the store.

    ``pages`` maps a URL to a document, a status or a list of them.
    """

    def __init__(self, pages: Mapping[str, Any] | None = None, **redirect: str) -> None:
        place = "https://mcp.example/.well-known/oauth-protected-resource/mcp"
        self.pages: dict[str, Any] = {
            place: {"resource": SERVER, "authorization_servers": [ISSUER]},
            f"{ISSUER}/.well-known/oauth-authorization-server": metadata(),
            f"{ISSUER}/register": {"client_id": "registered"},
            f"{ISSUER}/token": {"access_token": "at", "token_type": "Bearer", "expires_in": 60},
            **(pages or {}),
        }
        self.redirect = {"code": "c0de", **redirect}
        self.redirect_uri = REDIRECT
        self.stored: dict[str, Registration] = {}
        self.tokens: dict[Key, Token] = {}
        self.turns: list[str] = []
        self.fetched: list[Fetch] = []
        self.consents: list[dict[str, str]] = []
        self.displayed: list[DeviceLogin] = []
        self.waits: list[float] = []
        self.accepted: list[str] = []
        self.remembered: list[Source] = []
        self.time = 1_000.0

    @property
    def urls(self) -> list[str]:
        return [step.url for step in self.fetched]

    def form(self, url: str) -> dict[str, str]:
        """What was last posted there."""
        step = [step for step in self.fetched if step.url == url][-1]
        return dict(parse_qsl((step.body or b"").decode()))

    def run(self, flow: Flow[Any]) -> Any:
        outcome: Any = None
        try:
            while True:
                outcome = self.answer(flow.send(outcome))
        except StopIteration as done:
            return done.value

    def answer(self, step: Any) -> Any:
        match step:
            case Fetch():
                self.fetched.append(step)
                return self._page(step.url)
            case Listen():
                return self.redirect_uri
            case Consent():
                self.consents.append(dict(parse_qsl(urlsplit(step.url).query)))
                return self._redirected(step)
            case InStore(use=use):
                with pytest.raises(StopIteration) as done:  # it waits for nothing
                    use(self).send(None)  # type: ignore[arg-type, attr-defined]
                return done.value.value
            case TakeTurn(issuer=issuer):
                self.turns.append(issuer)
            case ShowCode(login=login):
                self.displayed.append(login)
            case Wait(seconds=seconds):
                self.waits.append(seconds)
                self.time += seconds
            case Accepted(deviation=deviation):
                self.accepted.append(deviation)
            case Remember(source=source):
                self.remembered.append(source)
        return None

    def now(self) -> float:
        return self.time

    async def load(self, key: Key) -> Token | None:
        return self.tokens.get(key)

    async def load_registration(
        self, issuer: str, client_id: str | None = None
    ) -> Registration | None:
        stored = self.stored.get(issuer)
        return stored if stored is not None and client_id in (None, stored.client_id) else None

    async def save_registration(self, registration: Registration) -> None:
        self.stored[registration.issuer] = registration

    async def delete_registration(self, issuer: str, client_id: str) -> None:
        self.stored.pop(issuer, None)

    def _redirected(self, step: Consent) -> Redirected:
        params = {"state": step.state, **self.redirect}
        if "error" in params:
            del params["code"]
        found = read_redirect(urlencode(params), step.state)
        if isinstance(found, str):  # a redirect of something else: the login goes on waiting
            raise AuthError(f"the login was not finished: {found}")
        return Redirected(found)

    def _page(self, url: str) -> Fetched | Unreachable:
        page = self.pages.get(url, 404)
        if isinstance(page, list):
            page = page.pop(0) if len(page) > 1 else page[0]
        match page:
            case int():
                return Fetched(page, url=url)
            case Fetched():
                return page
            case str():
                return Unreachable(page)
            case bytes():
                return Fetched(200, body=page, url=url)
            case _:
                status = 400 if "error" in page else 200
                return Fetched(status, body=json.dumps(page).encode(), url=url)
