"""``login`` keeps tokens that later commands use, until ``logout``."""

from __future__ import annotations

import importlib.util
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from tests.cli.shell import ROOT, Done, python, run
from tests.support.authorization import Document, guarded


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server behind an authorization server that asks for no password."""
    directory = ROOT / "examples" / "servers"
    monkeypatch.syspath_prepend(str(directory))
    spec = importlib.util.spec_from_file_location("login_of_the_shell", directory / "login_http.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.serving() as served:
        yield served


@pytest.fixture
def browser(tmp_path: Path) -> dict[str, str]:
    """The environment in which a browser opens pages without a person."""
    program = tmp_path / "browser"
    program.write_text(
        "import sys, urllib.request as u\n"
        "u.build_opener(u.ProxyHandler({})).open(sys.argv[1], timeout=30).read()\n"
    )
    data = tmp_path / "data"
    return {"BROWSER": f"{python(program)} %s", "XDG_DATA_HOME": str(data), "DISPLAY": ":0"}


@pytest.fixture
def shell(browser: dict[str, str], tmp_path: Path) -> Callable[..., Awaitable[Done]]:
    env: dict[str, Any] = {**browser, "home": tmp_path}

    async def shell(*words: str) -> Done:
        return await to_thread.run_sync(lambda: run(*words, **env))

    return shell


def test_a_login_is_stored_for_later_commands_until_the_logout(
    url: str, browser: dict[str, str], tmp_path: Path
) -> None:
    env: dict[str, Any] = {**browser, "home": tmp_path}
    assert run("tools", url, **env).code == 6
    done = run("login", url, **env)
    assert (done.code, done.out.startswith("logged in")) == (0, True), done
    done = run("call", url, "get_weather", "location=Oslo", "--allow", "*", **env)
    assert done.code == 0, done
    assert run("logout", url, "--json", **env).json["loggedOut"] is True
    assert run("tools", url, **env).code == 6
    assert run("logout", url, **env).code == 4


@pytest.mark.one_backend
async def test_doctor_lists_what_a_token_endpoint_does_otherwise(
    shell: Callable[..., Awaitable[Done]],
) -> None:
    def odd(document: Document) -> Document:
        return {**document, "status": 201, "token_type": "bot"}

    async with guarded(token=odd) as world:
        assert (await shell("login", world.url)).code == 0
        world.revoke()  # so that doctor refreshes the token
        report = (await shell("doctor", world.url)).out
        assert "accepted: its token endpoint reports success with another status" in report
        assert "accepted: its token_type is not Bearer" in report
        for secret in (*world.tokens, *world.refresh_tokens):
            assert secret not in report


@pytest.mark.one_backend
async def test_a_server_that_is_refused_as_a_mix_up_is_trusted_with_issuer(
    shell: Callable[..., Awaitable[Done]],
) -> None:
    async with guarded() as pages:

        def two_hosts(document: Document) -> Document:
            document |= {"authorization_endpoint": f"{pages.issuer}/authorize"}
            del document["authorization_response_iss_parameter_supported"]
            return document

        def known_to_both(document: Document) -> Document:
            pages.clients[document["client_id"]] = document
            return document

        def no_iss(response: Document) -> Document:
            return {name: each for name, each in response.items() if name != "iss"}

        pages.options.redirect = no_iss
        async with guarded(server_metadata=two_hosts, registration=known_to_both) as world:
            world.codes = pages.codes

            refused = await shell("login", world.url)
            assert refused.code == 6
            assert "log in with --issuer and its address" in refused.err
            assert not pages.consents
            done = await shell("login", world.url, "--issuer", world.issuer)
            assert done.code == 0, done


def test_a_login_takes_a_url() -> None:
    assert run("login", "weather", "--json").json["error"]["type"] == "UsageError"
