"""Where the real peers are. One that is missing skips its test; in CI it fails it: see
``tests.programs``."""

from __future__ import annotations

import json
import secrets
import subprocess
from pathlib import Path

from mcp_client import StdioServer
from tests.interop.install import (
    AXE,
    EVERYTHING,
    EXT_APPS,
    FILESYSTEM,
    MEMORY,
    NATIVE,
    NODE,
    OIDC_PROVIDER,
    PEERS,
    PYRIGHT,
    RESTATE,
    SERVER_SDK,
    SERVERS,
    SUITE,
    browser,
    browser_env,
    keyring,
    keyring_env,
    postgres,
    shells,
    shells_env,
)
from tests.programs import missing, need

__all__ = [
    "apps",
    "apps_fastmcp",
    "apps_python",
    "asking",
    "authlib",
    "axe",
    "chromium",
    "conformance",
    "core_tasks",
    "durable",
    "environments",
    "everything",
    "fastmcp",
    "filesystem",
    "frameworks",
    "git",
    "gnome_keyring",
    "growing",
    "guarded",
    "library",
    "memory",
    "native",
    "node",
    "npx",
    "official",
    "official_python",
    "oidc_provider",
    "postgresql",
    "providers",
    "pyright",
    "repository",
    "restate_server",
    "skills",
    "skills_fastmcp",
    "tasks",
    "time",
    "uvx",
    "yaml_reader",
]

_SERVERS = Path(__file__).parent / "servers"
_MODULES = PEERS / "npm" / "node_modules"


def official_python(version: str) -> Path:
    """The Python that has that version of the official SDK."""
    return _found(PEERS / f"sdk-{version}" / "bin" / "python", f"the official SDK {version}")


def official(version: str) -> StdioServer:
    """The server in ``servers/`` for that version of the official SDK."""
    python = official_python(version)
    script = "official_1.py" if version.startswith("1.") else "official_2.py"
    return StdioServer(str(python), [str(_SERVERS / script)], env=_new_identity())


def apps(*domains: str) -> StdioServer:
    """A server on the official SDK in TypeScript and ext-apps. Its view asks ``domains``, of which
    it declares the first."""
    modules = PEERS / "npm-extensions" / "node_modules"
    _found(modules / EXT_APPS / "package.json", EXT_APPS)
    script = _SERVERS / "apps.mjs"
    return StdioServer(str(node()), [str(script), str(modules), *domains], env=_new_identity())


def apps_fastmcp() -> StdioServer:
    """A server on FastMCP whose tools have a view."""
    python = _found(PEERS / "fastmcp-tasks" / "bin" / "python", "FastMCP")
    return StdioServer(str(python), [str(_SERVERS / "apps_fastmcp.py")], env=_new_identity())


def apps_python() -> StdioServer:
    """A server on the official SDK in Python whose tools have a view."""
    python = _found(PEERS / "sdk-2.3.0" / "bin" / "python", "the official SDK 2.3.0")
    return StdioServer(str(python), [str(_SERVERS / "apps_2.py")], env=_new_identity())


def skills(directory: Path) -> StdioServer:
    """A server on the official SDK in TypeScript with the skills of ``directory``."""
    modules = PEERS / "npm-extensions" / "node_modules"
    _found(modules / SERVER_SDK / "package.json", SERVER_SDK)
    words = [str(_SERVERS / "skills.mjs"), str(modules), str(directory)]
    return StdioServer(str(node()), words, env=_new_identity())


def skills_fastmcp(directory: Path) -> StdioServer:
    """The same on FastMCP."""
    python = _found(PEERS / "fastmcp-tasks" / "bin" / "python", "FastMCP")
    words = [str(_SERVERS / "skills_fastmcp.py"), str(directory)]
    return StdioServer(str(python), words, env=_new_identity())


def fastmcp() -> StdioServer:
    """The server in ``servers/`` on FastMCP."""
    python = _found(PEERS / "fastmcp-tasks" / "bin" / "python", "FastMCP")
    return StdioServer(str(python), [str(_SERVERS / "fastmcp_4.py")])


def growing() -> StdioServer:
    """A server on the official SDK whose tools come and go while it runs."""
    python = _found(PEERS / "sdk-2.3.0" / "bin" / "python", "the official SDK 2.3.0")
    return StdioServer(str(python), [str(_SERVERS / "growing_2.py")], env=_new_identity())


def guarded(port: int) -> list[str]:
    """The words that run a server on the official SDK behind the SDK's authorization server."""
    python = _found(PEERS / "sdk-2.3.0" / "bin" / "python", "the official SDK 2.3.0")
    return [str(python), str(_SERVERS / "login_2.py"), str(port)]


def oidc_provider(port: int, requires: str) -> list[str]:
    """The words that run the authorization server oidc-provider."""
    modules = PEERS / "npm-login" / "node_modules"
    _found(modules / OIDC_PROVIDER / "package.json", OIDC_PROVIDER)
    return [str(node()), str(_SERVERS / "login_oidc.mjs"), str(port), str(modules), requires]


def authlib(port: int, grant: str) -> list[str]:
    """The words that run an authorization server on Authlib."""
    python = _found(PEERS / "authlib" / "bin" / "python", "Authlib")
    return [str(python), str(_SERVERS / "login_authlib.py"), str(port), grant]


def chromium() -> tuple[Path, Path, dict[str, str]]:
    """Chromium, its driver, and what they need in their environment."""
    found = browser() or missing("Chromium")
    return *found, browser_env()


def axe() -> str:
    """The script that looks for what a page keeps from some people."""
    path = PEERS / "npm-axe" / "node_modules" / AXE / "axe.min.js"
    return _found(path, AXE).read_text(encoding="utf-8")


def shell(name: str) -> tuple[Path, dict[str, str]]:
    """Zsh or fish, and what it needs in its environment."""
    zsh, fish = shells() or missing("zsh and fish")
    return {"zsh": zsh, "fish": fish}[name], shells_env()


def gnome_keyring() -> tuple[Path, Path, dict[str, str]]:
    """The daemons of D-Bus and GNOME Keyring, and what they need in their environment."""
    found = keyring() or missing("GNOME Keyring")
    return *found, keyring_env()


def asking() -> StdioServer:
    """A server on the official SDK that asks back."""
    python = _found(PEERS / "sdk-2.3.0" / "bin" / "python", "the official SDK 2.3.0")
    return StdioServer(str(python), [str(_SERVERS / "asking_2.py")], env=_new_identity())


def core_tasks() -> StdioServer:
    """A server on the official SDK 1.x with the tasks of 2025-11-25."""
    python = _found(PEERS / "sdk-1.30.0" / "bin" / "python", "the official SDK 1.30.0")
    return StdioServer(str(python), [str(_SERVERS / "tasks_1.py")], env=_new_identity())


def tasks() -> StdioServer:
    """A server on FastMCP that makes tasks of calls."""
    python = _found(PEERS / "fastmcp-tasks" / "bin" / "python", "FastMCP with its tasks")
    return StdioServer(str(python), [str(_SERVERS / "tasks_fastmcp.py")], env=_new_identity())


def library(version: str) -> StdioServer:
    """A server on that version of the official SDK with resources and prompts."""
    python = _found(PEERS / f"sdk-{version}" / "bin" / "python", f"the official SDK {version}")
    script = "library_1.py" if version.startswith("1.") else "library_2.py"
    return StdioServer(str(python), [str(_SERVERS / script)], env=_new_identity())


def everything() -> StdioServer:
    """The reference server of the project itself, written in TypeScript."""
    script = _found(_MODULES / EVERYTHING / "dist" / "index.js", EVERYTHING)
    return StdioServer(str(node()), [str(script), "stdio"], env=_new_identity())


def filesystem(directory: Path) -> StdioServer:
    """The reference server for files, of those in ``directory``."""
    return StdioServer(str(node()), [str(_server(FILESYSTEM)), str(directory)])


def memory(file: Path) -> StdioServer:
    """The reference server for notes, which it keeps in ``file``."""
    env = {"MEMORY_FILE_PATH": str(file)}
    return StdioServer(str(node()), [str(_server(MEMORY))], env=env)


def native(kubeconfig: Path) -> StdioServer:
    """A server written in Go, for the clusters that ``kubeconfig`` names."""
    modules = PEERS / "npm-native" / "node_modules"
    program = next(modules.glob(f"{NATIVE}-*/bin/*"), modules / NATIVE)
    return StdioServer(str(_found(program, NATIVE)), [f"--kubeconfig={kubeconfig}"])


def npx() -> StdioServer:
    """The reference server for notes, run by npx from its cache."""
    need("Node")
    cache = _found(PEERS / "npx-cache" / "cache", "the cache of npx")
    (run,) = (cache / "_npx").iterdir()
    words = ["--yes", *json.loads((run / "package.json").read_text())["_npx"]["packages"]]
    return StdioServer("npx", words, env={"npm_config_cache": str(cache)})


def uvx() -> StdioServer:
    """The reference server for the time, run by uvx from its cache."""
    cache = _found(PEERS / "uv-cache" / "cache", "the cache of uvx")
    words = ["--from", SERVERS[0], "mcp-server-time", "--local-timezone", "UTC"]
    env = {"UV_CACHE_DIR": str(cache)}
    return StdioServer(str(PEERS / "uv" / "bin" / "uvx"), words, env=env)


def time() -> StdioServer:
    """The reference server for the time."""
    return _reference("mcp_server_time", "--local-timezone", "UTC")


def git(repository: Path) -> StdioServer:
    """The reference server for a git repository."""
    return _reference("mcp_server_git", "--repository", str(repository))


def repository(directory: Path) -> Path:
    """Make ``directory`` a git repository without a commit, for the server ``git``."""
    need("git")
    subprocess.run(["git", "init", "--quiet", str(directory)], check=True)
    return directory


def providers() -> Path:
    """The Python that has the packages of LLM providers."""
    return _found(PEERS / "providers" / "bin" / "python", "the packages of LLM providers")


def frameworks() -> Path:
    """The Python that has frameworks on the official SDK."""
    return _found(PEERS / "frameworks" / "bin" / "python", "frameworks on the official SDK")


def environments() -> Path:
    """The Python that has what programs run in: FastAPI, gunicorn, Celery and the like."""
    return _found(PEERS / "environments" / "bin" / "python", "the packages of environments")


def postgresql() -> Path:
    """The directory with the programs of PostgreSQL's server, which root cannot run."""
    return postgres() or missing("PostgreSQL")


def durable() -> Path:
    """The Python that has durable engines: DBOS, and Restate's package."""
    return _found(PEERS / "durable" / "bin" / "python", "the packages of durable engines")


def restate_server() -> Path:
    """Restate's server, which stores what its services do."""
    modules = PEERS / "npm-restate" / "node_modules"
    return _found(modules / RESTATE / "bin" / "restate-server", RESTATE)


def _server(package: str) -> Path:
    return _found(PEERS / "npm-servers" / "node_modules" / package / "dist" / "index.js", package)


def _reference(module: str, *options: str) -> StdioServer:
    python = _found(PEERS / "servers" / "bin" / "python", module)
    return StdioServer(str(python), ["-m", module, *options])


def conformance() -> list[str]:
    """The words that run the official conformance suite."""
    return [str(node()), str(_found(_MODULES / SUITE / "dist" / "index.js", SUITE))]


def pyright() -> list[str]:
    """The words that run the type checker Pyright."""
    modules = PEERS / "npm-types" / "node_modules"
    return [str(node()), str(_found(modules / PYRIGHT / "index.js", PYRIGHT))]


def node() -> Path:
    return _found(_MODULES / NODE / "bin" / "node", NODE)


def _new_identity() -> dict[str, str]:
    """Makes a server unlike any met before, so that nothing remembered of it spares the probe."""
    return {"JOURNEY": secrets.token_hex(8)}


def _found(path: Path, what: str) -> Path:
    return path if path.exists() else missing("the real servers and suites", what)


def yaml_reader() -> list[str]:
    """The words that run a reader of YAML 1.2: the npm package ``yaml``, which the suite needs."""
    _found(_MODULES / "yaml" / "package.json", "yaml")
    return [str(node()), str(_SERVERS / "yaml_reader.mjs"), str(_MODULES)]
