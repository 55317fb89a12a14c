"""``login`` keeps tokens that later commands use, until ``logout``."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import ROOT, python, run


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server behind an authorization server that asks for no password."""
    folder = ROOT / "examples" / "servers"
    monkeypatch.syspath_prepend(str(folder))
    spec = importlib.util.spec_from_file_location("login_of_the_shell", folder / "login_http.py")
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


def test_a_login_is_kept_for_later_commands_until_the_logout(
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


def test_a_login_takes_a_url() -> None:
    assert run("login", "weather", "--json").json["error"]["type"] == "UsageError"
