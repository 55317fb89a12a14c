"""What a server is called where the host gives no name: after what is run, or where it is.

Only words that name a program, a file, a package or an image get into a name, never an option or
an argument of the server's own, which may be a secret; nor does a part of a URL that may be one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from ..protocol.canonical_json import sha256

__all__ = ["name_of_command", "name_of_url"]

_PYTHON = ("-W", "-X", "--check-hash-based-pycs")
_NODE = ("-r", "--require", "--import", "--loader", "--env-file", "--conditions", "-C")
_NPX = ("-p", "--package", "--registry")
_UV = (
    *("--directory", "--project", "--python", "-p", "--with", "--with-editable", "--env-file"),
    *("--with-requirements", "--from", "--index", "--index-url", "--extra", "--group", "--config"),
)
_DOCKER = (
    *("-e", "--env", "--env-file", "-v", "--volume", "--mount", "--name", "--network", "-p"),
    *("--publish", "-w", "--workdir", "-u", "--user", "--platform", "--entrypoint", "--add-host"),
    *("-l", "--label", "-h", "--hostname", "-m", "--memory", "--cpus", "--pull", "--runtime"),
)
_JAVA = ("-cp", "-classpath", "--class-path")
_LAUNCHERS: Mapping[str, tuple[str, ...]] = {
    "python": _PYTHON,
    "pythonw": _PYTHON,
    "pypy": _PYTHON,
    "py": _PYTHON,
    "node": _NODE,
    "tsx": _NODE,
    "ts-node": _NODE,
    "npx": _NPX,
    "npm": _NPX,
    "pnpm": _NPX,
    "yarn": _NPX,
    "bun": _NODE,
    "bunx": _NPX,
    "deno": ("--config", "-c", "--import-map", "--env-file"),
    "uv": _UV,
    "uvx": _UV,
    "pipx": ("--spec", "--python"),
    "poetry": ("-C", "--directory", "-P", "--project"),
    "docker": _DOCKER,
    "podman": _DOCKER,
    "java": _JAVA,
    "dotnet": ("--project",),
    "go": (),
    "ruby": (),
    "php": (),
    "env": ("-u", "--unset", "-C", "--chdir"),
    "sh": (),
    "bash": (),
    "zsh": (),
    "cmd": (),
}
"""What runs a program that is named after it, with the options that take a word of their own."""
_SUBCOMMANDS = frozenset({"run", "exec", "dlx", "x", "tool", "container"})
_SUBCOMMANDS_OF = frozenset(
    {"uv", "npm", "pnpm", "yarn", "bun", "deno", "pipx", "poetry", "docker", "podman"}
    | {"dotnet", "go"}
)
_FOLDERS = ("--directory", "--project", "--chdir", "-C")
_TEXTS = frozenset({"-c", "-e", "-p", "--eval", "--print", "/c"})
"""After these the program itself follows."""
_EVALUATES = frozenset({"python", "pythonw", "pypy", "py", "node", "sh", "bash", "zsh", "cmd"})
_GENERIC = frozenset(
    {"server", "main", "index", "app", "__main__", "run", "start", "cli", "mcp", "stdio", "program"}
    | {"src", "dist", "build", "lib", "bin", "out", "target", "scripts", "mcp_server", "mcp-server"}
)
"""What says nothing about a server: its folder does."""
_READABLE = re.compile(r"[\w@.-]{1,40}")
_EXTENSION = re.compile(r"\.(?:py|pyz|js|mjs|cjs|ts|mts|jar|dll|exe|cmd|bat|sh|rb|php|go)\Z", re.I)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_VERSION = re.compile(r"(?<=.)(?:@[\w.^~-]*|[=<>~!]=?.*|\[.*)\Z")
_IMAGE_TAG = re.compile(r"(?:@sha256:.*|:[\w.-]+)\Z")
_PLAIN_SEGMENT = re.compile(r"[a-z]{1,16}(?:-[a-z]{1,16}){0,2}")
_ENDPOINTS = frozenset({"", "mcp", "sse"})
_PORTS = {"http": 80, "https": 443}


def name_of_command(
    command: str, args: Sequence[str], cwd: str | os.PathLike[str] | None = None
) -> str:
    """What is run, rather than what runs it: ``uv run weather.py`` is "weather".

    A file that is called as many are (``server.py``) is called after its folder, where the words or
    ``cwd`` name one.
    """
    words = [command, *args]
    folder = None if cwd is None else os.fspath(cwd)
    name = ""
    while words:
        runner = _stem(words[0])
        launcher = runner.rstrip("0123456789.") or runner
        if launcher not in _LAUNCHERS:
            return _named(words[0], folder) or name or "server"
        name = name or runner
        words, folder = _after_launcher(launcher, words[1:], folder)
    return name or "server"


def _after_launcher(
    launcher: str, words: list[str], folder: str | None
) -> tuple[list[str], str | None]:
    """From the word that names what is run, or empty; and its folder."""
    takes_a_word = _LAUNCHERS[launcher]
    at = 0
    while at < len(words):
        word = words[at]
        option, _, value = word.partition("=")
        if word in ("-m", "--module") and launcher not in ("docker", "podman"):
            module = words[at + 1].replace(".", "/") if at + 1 < len(words) else ""
            return ([module] if module else []), None
        if launcher in _EVALUATES and word in _TEXTS:
            return [], folder
        if option in takes_a_word:
            if not value:
                at += 1
                value = words[at] if at < len(words) else ""
            if option in _FOLDERS:
                folder = value
        elif not (word.startswith("-") or _is_before(launcher, word)):
            rest = [_IMAGE_TAG.sub("", word)] if launcher in ("docker", "podman") else words[at:]
            return rest, folder
        at += 1
    return [], folder


def _is_before(launcher: str, word: str) -> bool:
    """Whether ``word`` belongs to the launcher and comes before what it runs."""
    if launcher == "env":
        return _ASSIGNMENT.match(word) is not None
    return launcher in _SUBCOMMANDS_OF and word in _SUBCOMMANDS


def _named(word: str, folder: str | None) -> str:
    """A name for a program, a file, a package or an image; empty where none fits."""
    word = word.replace("\\", "/").removesuffix(".git")
    parts = [part for part in word.split("/") if part not in ("", ".", "..")]
    if folder is not None and not word.startswith(("/", "@")):
        parts = [part for part in folder.replace("\\", "/").split("/") if part] + parts
    names = [_stem(part).lstrip("@") if part.startswith("@") else _stem(part) for part in parts]
    for name in reversed(names):
        if name.lower() not in _GENERIC and _READABLE.fullmatch(name):
            return name
    return names[-1] if names and _READABLE.fullmatch(names[-1]) else ""


def _stem(word: str) -> str:
    last = word.replace("\\", "/").rsplit("/", 1)[-1]
    return _EXTENSION.sub("", _VERSION.sub("", last) or last)


def name_of_url(url: str) -> str:
    """The URL's host, with its port if it is another than usual, and the words of its path; instead
    of what may be secret, four digits of a hash, so that two URLs of one host are told apart."""
    from urllib.parse import urlsplit  # only now: a server over stdio has no URL

    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return "server"
    scheme = parts.scheme.lower()
    name = host if port in (None, _PORTS.get(scheme)) else f"{host}:{port}"
    segments = parts.path.split("/")
    while segments and segments[-1] in _ENDPOINTS:
        segments.pop()
    segments = [segment for segment in segments if segment]
    shown = [one for one in segments[:3] if _PLAIN_SEGMENT.fullmatch(one)]
    if len(shown) < len(segments) or parts.query:
        shown.append(sha256(f"{parts.path}?{parts.query}")[:4])
    return "/".join([name, *shown]) if host else "server"
