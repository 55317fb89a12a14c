"""What npx and uvx find of their caches: links to what they read, and a place to write."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from mcp_client.sandbox.program import _DEFINITIONS, program_of

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="there is no sandbox on Windows"),
    pytest.mark.one_backend,
]

REGISTRY = "https://packages.example"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    cache = tmp_path / "cache"
    for name in (
        *("_npx/a1/node_modules/x/index.js", "_npx/a1/package.json", "_cacache/content-v2/x"),
        *("archive-v0/x", "simple-v18/x", "interpreter-v4/x", "notes.txt", ".git", ".lock"),
    ):
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
        (cache / name).write_text(name)
    return cache


@pytest.fixture
def npx(tmp_path: Path) -> str:
    for name in ("npx", "uvx", "uv"):
        (tmp_path / name).write_bytes(b"\x7fELF")
        (tmp_path / name).chmod(0o755)
    return str(tmp_path / "npx")


def index_of(name: str) -> str:
    key = f"make-fetch-happen:request-cache:{REGISTRY}/{name}"
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f"_cacache/index-v5/{digest[:2]}/{digest[2:4]}/{digest[4:]}"


def test_npx_has_a_cache_that_it_can_write_with_links_to_what_is_installed(
    cache: Path, npx: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("@scope%2fserver", "other"):
        (cache / index_of(name)).parent.mkdir(parents=True)
        (cache / index_of(name)).write_text(name)
    monkeypatch.setenv("npm_config_cache", str(cache))
    monkeypatch.setenv("npm_config_registry", REGISTRY)
    program = program_of([npx, "-y", "@scope/server@1.2.0"], {}, "/", offline=True)
    assert program.env["npm_config_offline"] == "true"
    assert program.private is not None
    mine, private = program.private.env["npm_config_cache"], program.private
    assert private.files == {f"{mine}/{index_of('@scope%2fserver')}": b"@scope%2fserver"}
    assert f"{mine}/_npx/a1" not in private.links, "npm makes a lock in it"
    modules = private.links[f"{mine}/_npx/a1/node_modules"]
    assert (Path(modules) / "x" / "index.js").exists()
    assert program.caches == (str(cache / "_npx"), str(cache / "_cacache" / "content-v2"))


def test_the_registry_is_the_default_of_the_npm_at_hand(
    cache: Path, npx: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache / index_of("server")).parent.mkdir(parents=True)
    (cache / index_of("server")).write_text("of the default")
    mine = f".npm/{index_of('server')}"
    npm = tmp_path / "npm"
    (npm / "bin").mkdir(parents=True)
    (npm / "bin" / "npx-cli.js").write_text("#!/usr/bin/env node")
    (npm / "bin" / "npx-cli.js").chmod(0o755)
    Path(npx).unlink()
    Path(npx).symlink_to(npm / "bin" / "npx-cli.js")
    monkeypatch.setenv("npm_config_cache", str(cache))
    private = program_of([npx, "server"], {}, "/").private
    assert private is not None
    assert mine not in private.files  # no npm is known, and so no registry
    defined = npm / _DEFINITIONS
    defined.parent.mkdir(parents=True)
    defined.write_text(f"new Definition('registry', {{\n  default: '{REGISTRY}/',\n}})")
    private = program_of([npx, "server"], {}, "/").private
    assert private is not None
    assert private.files[mine] == b"of the default"


def test_uvx_has_links_to_what_is_installed_and_nothing_else_of_the_cache(
    cache: Path, npx: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", str(cache))
    program = program_of([str(tmp_path / "uvx"), "x"], {}, "/")
    assert program.private is not None
    assert set(program.private.links) == {".cache/uv/archive-v0", ".cache/uv/simple-v18"}
    assert sorted(program.caches) == [str(cache / "archive-v0"), str(cache / "simple-v18")]
    assert "UV_OFFLINE" not in program.env


@pytest.mark.parametrize("name", ["npx", "uvx"])
def test_a_cache_that_the_servers_own_variables_name_gives_nothing(
    cache: Path, npx: str, tmp_path: Path, name: str
) -> None:
    env = {"npm_config_cache": str(cache), "UV_CACHE_DIR": str(cache)}
    program = program_of([str(tmp_path / name), "x"], env, "/")
    assert [path for path in program.caches if path.startswith(str(cache))] == []
    assert program.private is not None
    assert not any(str(cache) in link for link in program.private.links.values())
    assert program.private.files == {}


def test_a_registry_with_a_password_reaches_no_server(
    cache: Path, npx: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_registry", "https://ana:pw@npm.example")
    assert "npm_config_registry" not in program_of([npx, "x"], {}, "/").env
