"""Tokens in a database that are encrypted under a key of the host's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

from mcp_client import ConfigError
from mcp_client.auth.tokens import Key, Registration, Token
from mcp_client.state import PostgresState
from mcp_client.state.postgres import Seal

KEY, OTHER_KEY = b"0123456789abcdef", b"fedcba9876543210"
PLACE = Key("https://issuer.example", "https://mcp.example/", "client")
TOKEN = Token("the access token", refresh_token="the refresh token")
REGISTRATION = Registration("client", "the client's secret", issuer="https://issuer.example")


@pytest.fixture
def opened(database: str) -> Iterator[Callable[[bytes | None], PostgresState]]:
    states: list[PostgresState] = []

    def open_one(key: bytes | None) -> PostgresState:
        states.append(PostgresState(database, key=key))
        return states[-1]

    yield open_one
    for state in states:
        state.close()


def keep(state: PostgresState) -> None:
    anyio.run(state.tokens.save, PLACE, TOKEN)
    anyio.run(state.tokens.save_registration, REGISTRATION)


def bodies(state: PostgresState) -> str:
    with state._connection() as connection:
        query = f"select body from {state._table('object')}".encode()
        return "\n".join(body for (body,) in connection.execute(query, ()).fetchall())


def refused(state: PostgresState) -> str:
    uses: list[Callable[[], object]] = [
        lambda: anyio.run(state.tokens.load, PLACE),
        lambda: keep(state),
    ]
    for use in uses:
        with pytest.raises(ConfigError) as caught:
            use()
        assert KEY.decode() not in str(caught.value)
    return str(caught.value)


def test_with_a_key_nothing_secret_is_in_the_database_and_it_is_found_again(
    opened: Callable[[bytes | None], PostgresState],
) -> None:
    keep(opened(KEY))
    stored = bodies(opened(KEY))
    assert "sealed" in stored
    assert not [word for word in ("access", "refresh", "secret") if f"the {word}" in stored]
    again = opened(KEY)
    assert anyio.run(again.tokens.load, PLACE) == TOKEN
    assert anyio.run(again.tokens.load_registration, "https://issuer.example") == REGISTRATION
    assert KEY.decode() not in repr(again)


def test_a_wrong_or_missing_key_is_one_clear_error_and_changes_nothing(
    opened: Callable[[bytes | None], PostgresState],
) -> None:
    keep(opened(KEY))
    before = bodies(opened(None))
    assert "give PostgresState(key=...)" in refused(opened(None))
    assert "give the key they were written with" in refused(opened(OTHER_KEY))
    assert bodies(opened(None)) == before


def test_what_was_written_without_a_key_is_not_taken_for_what_was_encrypted(
    opened: Callable[[bytes | None], PostgresState],
) -> None:
    keep(opened(None))
    assert "were not encrypted with this key=" in refused(opened(KEY))


def test_a_row_that_is_moved_or_changed_cannot_be_read(
    opened: Callable[[bytes | None], PostgresState],
) -> None:
    state = opened(KEY)
    keep(state)
    table = state._table("object")
    for change in ("key = key || 'x'", "body = replace(body, 'sealed\": \"', 'sealed\": \"AAAA')"):
        with state._connection() as connection:
            connection.execute(f"update {table} set {change} where kind = 'tokens'".encode(), ())
        with pytest.raises(ConfigError, match="under this name"):
            state.list("tokens")


def test_without_the_package_a_key_is_a_config_error(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules: dict[str, Any] = {"cryptography.hazmat.primitives.ciphers.aead": None}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    PostgresState(database).close()
    with pytest.raises(ConfigError, match=r"needs the package cryptography: install mcp-client"):
        PostgresState(database, key=KEY)


def test_without_psycopg_the_state_is_a_config_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match=r"needs the package psycopg: install mcp-client-host\[p"):
        PostgresState("postgresql:///agents")


def test_what_json_does_not_have_is_not_encrypted() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        Seal(KEY, frozenset({"tokens"})).sealed("tokens", "k", {"expires": float("nan")})
