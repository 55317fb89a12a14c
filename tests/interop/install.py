"""Install the real peers that the tests talk to, and the type checker Pyright: run by name.

``python tests/interop/install.py`` needs Python with venv, and npm. What it installs goes into the
git-ignored ``.interop/`` at the root of the repository; what is there already is left alone. With
names, such as ``environments``, it installs these parts alone.

Chromium with its driver, and GNOME Keyring with D-Bus, are Debian's. If they are not installed
they are unpacked beside the other peers, with the libraries that the system lacks, which takes no
rights and changes nothing else; that needs ``apt-get`` and ``dpkg``. Bubblewrap, which sandboxes
are made with, and PostgreSQL, which runs as another user than root, are looked for in the system
alone: root gets Debian's installed there.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

__all__ = [
    "AXE",
    "COMMAND",
    "EVERYTHING",
    "EXT_APPS",
    "FILESYSTEM",
    "FRAMEWORK_SOURCES",
    "MEMORY",
    "NATIVE",
    "NODE",
    "OIDC_PROVIDER",
    "PEERS",
    "PROVIDERS",
    "PYRIGHT",
    "RESTATE",
    "SDKS",
    "SERVER_SDK",
    "SUITE",
    "browser",
    "browser_env",
    "keyring",
    "keyring_env",
    "postgres",
    "shells",
    "shells_env",
]

COMMAND = "python tests/interop/install.py"
PEERS = Path(__file__).resolve().parents[2] / ".interop"

_OLD = "pydantic==2.10.6"  # what FastMCP of 1.x was written for: newer ones break it
SDKS: dict[str, tuple[str, ...]] = {
    "2.3.0": ("mcp==2.3.0",),
    "1.30.0": ("mcp==1.30.0",),
    "1.12.4": ("mcp==1.12.4", _OLD),
    "1.6.0": ("mcp==1.6.0", _OLD),
    "1.2.0": ("mcp==1.2.0", _OLD),
}
"""Versions of the official Python SDK, each with what is installed for it."""

SERVERS = ("mcp-server-time==2026.10.19", "mcp-server-git==2026.10.19")
"""Servers that people use, in one environment."""
PROVIDERS = (
    *("openai==3.54.0", "anthropic==2.12.0", "google-genai==3.4.0", "openai-agents==0.24.0"),
    *("pydantic-ai-slim==2.68.0", "langchain-core==1.7.2", "fastapi==0.165.0"),
    *("httpx>=0.27", "httpx-sse>=0.4", "jsonschema>=4.21"),  # what we need ourselves
)
"""The packages of LLM providers, and what agents are made with, in one environment."""
FASTMCP_TASKS = ("fastmcp==4.1.2", "fastmcp-tasks==4.1.2")
"""FastMCP with the extension for tasks of 2026-07-28, in one environment."""
DURABLE = (
    *("dbos==3.4.0", "restate-sdk==1.3.0", "hypercorn==0.18.0"),
    *("httpx>=0.27", "httpx-sse>=0.4", "jsonschema>=4.21", "psycopg[binary]>=3.3"),
)
"""Durable engines, and what we need ourselves, in one environment."""
ENVIRONMENTS = (
    *("fastapi==0.165.0", "uvicorn==0.54.0", "gunicorn==27.0.1", "celery==5.7.0"),
    *("nbclient==0.11.0", "ipykernel==7.4.0", "pytest==9.2.0", "pytest-asyncio==1.5.0"),
    "pyinstaller==6.22.3",
    *("httpx>=0.27", "httpx-sse>=0.4", "jsonschema>=4.21"),  # what we need ourselves
)
"""What programs run in, and PyInstaller, in one environment."""
FRAMEWORK_SOURCES = ("langchain-mcp-adapters==0.3.2", "mcpadapt==0.1.19")
"""Programs on the official SDK, whose source distributions have their tests."""
FRAMEWORKS = (
    *(*FRAMEWORK_SOURCES, "mcp==1.30.0", "langchain==1.5.2", "smolagents==1.26.0"),
    *("google-genai==3.6.1", "autogen-agentchat==0.7.5", "autogen-ext==0.7.5", "dspy==3.4.1"),
    *("strands-agents==1.62.0", "llama-index-tools-mcp==0.4.8"),
    *("pytest==9.2.0", "pytest-asyncio==1.5.0"),
    *("pytest-socket>=0.7", "pytest-datadir>=1.7", "pytest-timeout>=2.4", "dirty-equals>=0.9"),
    *("websockets>=15", "httpx>=0.27", "httpx-sse>=0.4", "jsonschema>=4.21"),
)
"""Frameworks that take a session of the official SDK, and what their tests need."""
UV = ("uv==0.13.9",)
"""It runs servers by ``uvx``."""
AUTHLIB = ("authlib==1.9.9", "flask==3.1.3")

_MACHINE = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(
    platform.machine().lower(), platform.machine().lower()
)
NODE = f"node-{sys.platform}-{_MACHINE}"
"""The npm package with the Node binary of this machine: the suite needs Node 22."""
EVERYTHING = "@modelcontextprotocol/server-everything"
FILESYSTEM = "@modelcontextprotocol/server-filesystem"
MEMORY = "@modelcontextprotocol/server-memory"
NATIVE = "kubernetes-mcp-server"
"""A server written in Go: one file without an interpreter, in a package for each machine."""
SUITE = "@modelcontextprotocol/conformance"
OIDC_PROVIDER = "oidc-provider"
PYRIGHT = "pyright"
AXE = "axe-core"
"""It looks for what a page in a browser keeps from people who see, hear or move in other ways."""
SERVER_SDK = "@modelcontextprotocol/server"
"""The official SDK for servers in TypeScript, with the extensions it knows."""
EXT_APPS = "@modelcontextprotocol/ext-apps"
"""The reference implementation of MCP Apps: servers, views and hosts."""
_LOGIN_PACKAGES = {OIDC_PROVIDER: "9.13.3"}
_SERVER_PACKAGES = {FILESYSTEM: "2026.8.31", MEMORY: "2026.8.31"}
_EXTENSION_PACKAGES = {SERVER_SDK: "2.4.0", EXT_APPS: "2.0.4", "zod": "4.6.7"}
_GO_MACHINE = {"x64": "amd64"}.get(_MACHINE, _MACHINE)
RESTATE = f"@restatedev/restate-server-{sys.platform}-{_MACHINE}"
"""Restate's server: one file, in a package for each machine."""
_RESTATE_PACKAGES = {RESTATE: "1.7.12"}
_NATIVE_PACKAGES = {f"{NATIVE}-{sys.platform}-{_GO_MACHINE}": "0.0.67"}
_TYPES_PACKAGES = {PYRIGHT: "1.1.414"}
_AXE_PACKAGES = {AXE: "4.14.1"}
_PACKAGES = {EVERYTHING: "2026.8.31", SUITE: "0.2.0-alpha.12", NODE: "22.23.3"}


_SYSTEM = ("/usr/bin", "/bin", "/usr/local/bin")
_BROWSER = PEERS / "chromium"
_KEYRING = PEERS / "gnome-keyring"
_SHELLS = PEERS / "shells"


def browser() -> tuple[Path, Path] | None:
    """Chromium and its driver: the system's, or the unpacked ones; None without them."""
    return _programs(_BROWSER, chromium="lib/chromium/chromium", chromedriver="bin/chromedriver")


def browser_env() -> dict[str, str]:
    """What those that were unpacked need to find their libraries and fonts."""
    root = _BROWSER / "root"
    env = _libraries(_BROWSER, root / "usr" / "lib" / "chromium")
    if env and not Path("/etc/fonts/fonts.conf").exists():
        env["FONTCONFIG_PATH"] = str(root / "etc" / "fonts")
    return env


def keyring() -> tuple[Path, Path] | None:
    """The D-Bus daemon and GNOME Keyring's: the system's, or the unpacked ones."""
    names = {name: f"bin/{name}" for name in ("dbus-daemon", "gnome-keyring-daemon")}
    return _programs(_KEYRING, **names)


def keyring_env() -> dict[str, str]:
    """What those that were unpacked need to find their libraries."""
    return _libraries(_KEYRING)


def shells() -> tuple[Path, Path] | None:
    """Zsh and fish: the system's, or the unpacked ones."""
    return _programs(_SHELLS, zsh="../bin/zsh", fish="bin/fish")


def shells_env() -> dict[str, str]:
    """What those that were unpacked need to find their libraries."""
    return _libraries(_SHELLS)


def postgres() -> Path | None:
    """The directory of the programs of PostgreSQL's newest server; None without it."""
    system = shutil.which("postgres")
    if system is not None:
        return Path(system).resolve().parent
    found = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    newest = max(found, key=lambda path: int(path.parts[-3]), default=None)
    return None if newest is None else newest.parent


def _programs(home: Path, **places: str) -> tuple[Path, Path] | None:
    """Two programs by name, each the system's or the one below ``home``."""
    found = [
        Path(system) if (system := shutil.which(name)) else home / "root" / "usr" / place
        for name, place in places.items()
    ]
    return (found[0], found[1]) if all(path.is_file() for path in found) else None


def _libraries(home: Path, *without: Path) -> dict[str, str]:
    places = {path.parent for path in (home / "root").rglob("*.so*")} - set(without)
    return {"LD_LIBRARY_PATH": ":".join(sorted(map(str, places)))} if places else {}


def main(*names: str) -> int:
    """Install the parts of these names, all without any. Returns the exit code."""
    packages = {
        "npm": _PACKAGES,
        "npm-login": _LOGIN_PACKAGES,
        "npm-types": _TYPES_PACKAGES,
        "npm-axe": _AXE_PACKAGES,
        "npm-servers": _SERVER_PACKAGES,
        "npm-extensions": _EXTENSION_PACKAGES,
        "npm-native": _NATIVE_PACKAGES,
        "npm-restate": _RESTATE_PACKAGES,
    }
    pythons = {
        **{f"sdk-{version}": wanted for version, wanted in SDKS.items()},
        "authlib": AUTHLIB,
        "servers": SERVERS,
        "fastmcp-tasks": FASTMCP_TASKS,
        "providers": PROVIDERS,
        "durable": DURABLE,
        "environments": ENVIRONMENTS,
        "frameworks": FRAMEWORKS,
    }
    parts: dict[str, Callable[[], None]] = {
        **{name: partial(_install_packages, name, wanted) for name, wanted in packages.items()},
        "programs": _unpack_programs,
        "system": _install_system_packages,
        "caches": _fill_caches,
        **{name: partial(_install_python, name, wanted) for name, wanted in pythons.items()},
        "framework-sources": _fetch_sources,
    }
    if unknown := {*names} - {*parts}:
        print(f"no part is called {min(unknown)}: {', '.join(parts)}", file=sys.stderr)
        return 2
    PEERS.mkdir(exist_ok=True)
    _install_python("uv", UV, by_uv=False)
    with ThreadPoolExecutor(3) as several:
        jobs = [several.submit(part) for name, part in parts.items() if name in (names or parts)]
    failures = [str(error) for job in jobs if (error := job.exception()) is not None]
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def _install_python(name: str, packages: Sequence[str], by_uv: bool = True) -> None:
    """By uv, which takes a third of the time; by pip where uv does not find all of them, as where
    only pip has an index."""
    home, wanted = PEERS / name, "\n".join(packages)
    if _is_there(home, wanted):
        return
    shutil.rmtree(home, ignore_errors=True)
    started = time.monotonic()
    _run([sys.executable, "-m", "venv", *(["--without-pip"] if by_uv else []), str(home)])
    python = str(home / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-input"]
    uv = [str(PEERS / "uv" / "bin" / "uv"), "pip", "install", "--quiet", "--python", python]
    try:
        if by_uv:
            _run([*uv, *packages])
        else:
            _fetch([*pip, *packages])
    except RuntimeError as error:
        if not by_uv:
            raise
        print(f"{name}: by pip, for {str(error).splitlines()[-1][:200]}", flush=True)
        _install_python(name, packages, by_uv=False)
    else:
        _mark(home, wanted, started)


def _install_packages(name: str, packages: Mapping[str, str]) -> None:
    home = PEERS / name
    wanted = json.dumps({"private": True, "dependencies": packages}, indent=2)
    if _is_there(home, wanted):
        return
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    started = time.monotonic()
    (home / "package.json").write_text(wanted)
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError(
            "npm is not on PATH, and the servers and the suite written in it need it"
        )
    _fetch([npm, "install", "--no-audit", "--no-fund", "--loglevel=error"], home)
    _mark(home, wanted, started)


def _fetch_sources() -> None:
    """Fetch the source distributions, without running what is in them more than pip has to."""
    home, wanted = PEERS / "framework-sources", "\n".join(FRAMEWORK_SOURCES)
    if _is_there(home, wanted):
        return
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    started = time.monotonic()
    pip = [str(PEERS / "uv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    download = [*pip, "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    _fetch([*download, "--dest", str(home), *FRAMEWORK_SOURCES], home)
    _mark(home, wanted, started)


def _unpack_programs() -> None:
    for found, home, packages in (
        (browser, _BROWSER, ("chromium", "chromium-driver")),
        (keyring, _KEYRING, ("gnome-keyring", "dbus-daemon")),
        (shells, _SHELLS, ("zsh", "fish")),
    ):
        if found() is None:
            _unpack(home, *packages)
            if home == _SHELLS:  # fish looks for its settings beside its programs
                (home / "root" / "usr" / "etc").symlink_to("../etc")
            if found() is None:
                raise RuntimeError(f"there is no {home.name} in the packages {packages}")


def _install_system_packages() -> None:
    if sys.platform != "linux":
        return
    missing = []
    if not any(Path(directory, "bwrap").exists() for directory in _SYSTEM):
        missing.append("bubblewrap")
    if postgres() is None:
        missing.append("postgresql")
    if not missing:
        return
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        packages = " and ".join(missing)
        raise RuntimeError(f"not installed; the Debian packages are called {packages}")
    quietly = ["env", "DEBIAN_FRONTEND=noninteractive", apt, "-qq", "-oDPkg::Lock::Timeout=120"]
    _fetch([*quietly, "update"])
    _fetch([*quietly, "install", "--yes", "--no-install-recommends", *missing])


def _fill_caches() -> None:
    """Let npx and uvx run a server once, so that both have it in a cache."""
    memory, clock = f"{MEMORY}@{_SERVER_PACKAGES[MEMORY]}", SERVERS[0]
    uvx = [str(PEERS / "uv" / "bin" / "uvx"), "--from", clock, clock.partition("=")[0]]
    for name, words, variable in (
        ("npx-cache", ["npx", "--yes", memory], "npm_config_cache"),
        ("uv-cache", uvx, "UV_CACHE_DIR"),
    ):
        home = PEERS / name
        if _is_there(home, words[-1]):
            continue
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        started = time.monotonic()
        _fetch(["env", f"{variable}={home / 'cache'}", *words], home)
        _mark(home, words[-1], started)


def _unpack(home: Path, *packages: str) -> None:
    """Unpack Debian packages into ``home``, with what they need and the system lacks."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise RuntimeError(f"{home.name} is not on PATH, nor apt-get to fetch it")
    shutil.rmtree(home, ignore_errors=True)
    lists, cache, root = (home / name for name in ("lists", "cache", "root"))
    for path in (lists / "partial", cache / "archives" / "partial", root):
        path.mkdir(parents=True)
    started = time.monotonic()
    options = {
        "Dir::State::Lists": lists,
        "Dir::Cache": cache,
        "Debug::NoLocking": "true",
        "APT::Sandbox::User": "",
        "APT::Install-Recommends": "false",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    _fetch([*apt, "update"])
    _fetch([*apt, "install", "--download-only", "--yes", *packages])
    for archive in sorted((cache / "archives").glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(archive), str(root)])
    shutil.rmtree(lists)
    shutil.rmtree(cache)
    _mark(home, "unpacked", started)


def _is_there(home: Path, wanted: str) -> bool:
    stamp = home / "complete"
    return stamp.is_file() and stamp.read_text() == wanted


def _mark(home: Path, wanted: str, started: float) -> None:
    (home / "complete").write_text(wanted)
    print(f"{home.name}: installed in {time.monotonic() - started:.0f} s", flush=True)


def _fetch(command: Sequence[str], where: Path = PEERS) -> None:
    """Run what asks a registry, which may have a bad moment."""
    for pause in (2, 10):
        try:
            _run(command, where)
            return
        except RuntimeError as error:
            print(f"again in {pause} s, for {str(error).splitlines()[-1][:200]}", flush=True)
            time.sleep(pause)
    _run(command, where)


def _run(command: Sequence[str], where: Path = PEERS) -> None:
    done = subprocess.run(
        command,
        cwd=where,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
