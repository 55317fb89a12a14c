"""What a program is made of, found from its command: what a sandbox lets it read unasked.

- Of a command, the file, and the libraries around the ``bin`` that it is in; of a script, what
  runs it, too.
- Of Python, a virtual environment, the interpreter that it was made from, and what ``.pth`` files
  say is installed beside it (modules only).
- Of Node, Bun and Deno, the package that the script is in, and each ``node_modules`` it looks in.
- Of a script, itself and the modules beside it: no other file of its folder, such as a ``.env``.
- Of npx and uvx, what they have installed.

No other argument grants anything, nor does a variable, but for those that name files of
certificates. A home folder, and what it is in, is never among what is found. Nor is what a symbolic
link leads to that lies in a project: its author would choose what is granted.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..runtime.executables import find_executable
from .program_caches import PrivateFiles, default_registry, npm_files, uv_files
from .visible_paths import inside

__all__ = ["Program", "home_folders", "program_of"]

_PYTHON = re.compile(r"(?:python|pypy)w?[\d.]*t?\Z")
_NODE = frozenset(("node", "nodejs", "bun", "deno", "tsx", "ts-node"))
_SUFFIXES = {
    "python": (".py", ".pyc", ".so"),
    "node": (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".json", ".node", ".wasm"),
}
"""Of modules."""
_WITH_VALUE = {
    "python": ("--check-hash-based-pycs",),
    "node": ("-r", "--require", "--import", "--loader", "--experimental-loader", "-C",
             "--conditions", "--env-file", "--tsconfig", "-c", "--config"),
}  # fmt: skip
_LETTERS = re.compile(r"-[bBdEhiIOPqRsSuvVx?]*([mcWX])(.*)")
"""The options of Python that take a value, which may be a part of the word."""
_INLINE = ("-c", "-e", "-p", "--eval", "--print", "-")
"""The program is in the arguments or the input."""
_BEFORE_SCRIPT = ("run", "x", "exec")
_CERTIFICATES = (
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("GIT_SSL_CAINFO", "PIP_CERT"),
)
_MAX_CERTIFICATE_BYTES = 4 * 1024 * 1024
_DEPTH = 5
_MAX_MODULES = 250
"""Modules beside a script that are granted one by one; of more, the first."""


class Program(NamedTuple):
    made_of: tuple[str, ...]
    """Absolute paths of files and folders."""
    listed: tuple[str, ...]
    """Folders in which it has to see the names of its modules."""
    env: Mapping[str, str]
    """What has to be added to its environment."""
    private: PrivateFiles | None = None
    """What has to be in its private folder."""


def program_of(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, *, offline: bool = False
) -> Program:
    """What ``argv``, which begins with an absolute path, needs to run. Reads the file system, and
    starts nothing."""
    search = _Search(env, cwd, offline)
    search.command(argv[0], argv[1:])
    search.certificates()
    made_of = [path for path in dict.fromkeys(search.found) if os.path.exists(path)]
    narrow = [path for path in made_of if not search.is_wide(path)]
    listed = tuple(dict.fromkeys(search.listed))
    return Program(tuple(narrow), listed, search.added, search.private)


class _Search:
    def __init__(self, env: Mapping[str, str], cwd: str, offline: bool) -> None:
        self._env = env
        self._cwd = cwd
        self._offline = offline
        self._homes = home_folders()
        self.found: list[str] = []
        self.listed: list[str] = []
        self.added: dict[str, str] = {}
        self.private: PrivateFiles | None = None

    def command(self, path: str, args: Sequence[str], depth: int = 0) -> None:
        """``path`` is started with ``args``."""
        if depth > _DEPTH:
            return
        name = os.path.basename(path)
        real = os.path.realpath(path)
        self.found += [path, real]
        if _PYTHON.match(name):
            self._python(path, real)
            self._script("python", args)
            if _interpreter(real) is not None:  # pyenv's, which chooses one
                self._program(path, real, depth)
        elif name in _NODE:
            self._prefix(real)
            self._script("node", args)
        elif name == "env":
            self._behind_env(args, depth)
        elif name in ("sh", "bash", "dash", "zsh"):
            script = next(iter(args), "-")
            path = self._absolute(script)
            shown = not os.path.islink(path) or os.path.realpath(path).endswith((".sh", ".bash"))
            if shown and not script.startswith("-"):
                self.found.append(path)
        else:
            self._program(path, real, depth)
            if name == "npx":
                self._npm_cache(real, args)
            elif name in ("uvx", "uv"):
                self.found.append(os.path.join(os.path.dirname(real), "uv"))
                self._uv_cache()

    def is_wide(self, path: str) -> bool:
        """Whether it is, or contains, somebody's home folder."""
        return any(inside(home, os.path.realpath(path)) for home in self._homes)

    def _program(self, path: str, real: str, depth: int) -> None:
        words = _interpreter(real)
        if words is None:
            self._prefix(real)
            return
        pyenv = os.path.dirname(os.path.dirname(path))
        if os.path.isfile(os.path.join(pyenv, "libexec", "pyenv")):
            self.found.append(pyenv)
        self.command(words[0], [*words[1:], real], depth + 1)

    def _behind_env(self, args: Sequence[str], depth: int) -> None:
        env = dict(self._env)
        for position, word in enumerate(args):
            if word == "-S":
                continue
            if word.startswith("-"):
                return
            name, equals, value = word.partition("=")
            if not equals:
                found = find_executable(word, self._cwd, env)
                if found is not None:
                    self.command(found, args[position + 1 :], depth + 1)
                return
            env[name] = value

    def _prefix(self, real: str) -> None:
        """What lies around the ``bin`` that a program is in."""
        around = os.path.dirname(os.path.dirname(real))
        if os.path.basename(os.path.dirname(real)) != "bin" or around == "/":
            return
        if os.path.dirname(around) == "/opt":
            self.found.append(around)
        elif not any(inside(around, home) for home in self._homes):
            self._own(around, ("lib", "lib64", "libexec", "share"))
        elif os.path.isdir(os.path.join(around, "lib", "node_modules", "npm")):
            self.found += [os.path.dirname(real), os.path.join(around, "lib", "node_modules")]

    def _own(self, folder: str, names: Iterable[str]) -> None:
        """What has these names in ``folder``, and is there."""
        for name in names:
            path = os.path.join(folder, name)
            real = os.path.realpath(path)
            if inside(real, os.path.realpath(folder)) or os.path.basename(real) == "node_modules":
                self.found.append(path)

    # ------------------------------------------------------------------ Python

    def _python(self, path: str, real: str) -> None:
        around = os.path.dirname(os.path.dirname(path))
        settings = os.path.join(around, "pyvenv.cfg")
        if os.path.isfile(settings):
            self.found.append(around)
            for folder in glob.glob(
                os.path.join(glob.escape(around), "lib*", "python*", "site-p*")
            ):
                self._installed_beside(folder)
            home = _setting(settings, "home")
            if home:
                self._base(os.path.join(home, os.path.basename(path)))
        self._base(path)
        self._base(real)

    def _base(self, path: str) -> None:
        """The interpreter itself, where its library lies."""
        around = os.path.dirname(os.path.dirname(path))
        libraries = glob.glob(os.path.join(glob.escape(around), "lib", "python3*", "os.py"))
        libraries += glob.glob(os.path.join(glob.escape(around), "lib", "pypy3*", "os.py"))
        if not libraries:
            return
        if os.path.basename(around) != ".local" and not self.is_wide(around):
            self.found.append(around)
        else:
            self.found += [path, *map(os.path.dirname, libraries)]
            self.found += glob.glob(os.path.join(glob.escape(around), "lib", "libpython*"))

    def _installed_beside(self, packages: str) -> None:
        """What is installed to be edited where it lies: its modules."""
        for file in sorted(glob.glob(os.path.join(glob.escape(packages), "*.pth"))):
            for line in map(str.strip, _text(file).splitlines()):
                if os.path.basename(line) in ("site-packages", "dist-packages"):
                    self.found.append(line)
                elif os.path.isabs(line):
                    self._modules_in(line, "python")
        for file in glob.glob(os.path.join(glob.escape(packages), "__editable__*_finder.py")):
            mapping = re.search(r"^MAPPING\b[^=]*=\s*\{(.*?)\}", _text(file), re.M | re.S)
            for path in re.findall(r":\s*'(/[^']+)'", mapping[1]) if mapping else ():
                folder, name = os.path.split(path)
                self._own(folder, [name] if _is_module(path, "python") else [])

    # ----------------------------------------------------------------- scripts

    def _script(self, kind: str, args: Sequence[str]) -> None:
        words = iter(args)
        for word in words:
            letter = _LETTERS.match(word) if kind == "python" else None
            if letter is not None and letter[1] == "m":
                self._module(letter[2] or next(words, ""))
                return
            if word in _INLINE or (letter is not None and letter[1] == "c"):
                return
            if word in _WITH_VALUE[kind] or (letter is not None and not letter[2]):
                next(words, None)
            elif not word.startswith("-") and not (kind == "node" and word in _BEFORE_SCRIPT):
                path = self._absolute(word)
                self._script_at(path, kind)
                self._behind_script(path, words)
                return

    def _behind_script(self, path: str, rest: Iterator[str]) -> None:
        """Of what runs other programs: npx, and runners of TypeScript."""
        name = os.path.basename(path)
        if name in ("npx", "npx-cli.js"):
            self._npm_cache(os.path.realpath(path), [*rest])
        elif name in _NODE or os.path.basename(os.path.realpath(path)) in ("cli.mjs", "tsx"):
            self._script("node", [*rest])

    def _script_at(self, path: str, kind: str) -> None:
        real = os.path.realpath(path)
        if os.path.islink(path) and not real.endswith(_SUFFIXES[kind]):
            return
        for each in dict.fromkeys((path, real)):
            self.found.append(each)
            if kind == "node":
                self._node_package(each)
            elif os.path.isdir(each):  # a folder with a __main__.py
                self._modules_in(each, kind)
            elif os.path.exists(each):
                self._modules_in(os.path.dirname(each), kind)

    def _module(self, name: str) -> None:
        """``python -m name`` looks in the folder that it runs in before its own."""
        top = name.partition(".")[0]
        path = os.path.join(self._cwd, top)
        if top and (os.path.isdir(path) or os.path.isfile(f"{path}.py")):
            self._own(self._cwd, [top])
            self._modules_in(self._cwd, "python")

    def _modules_in(self, folder: str, kind: str) -> None:
        names = _names(folder)
        self.listed += [folder] if names else []
        modules = [name for name in names if _is_module(os.path.join(folder, name), kind)]
        self._own(folder, modules[:_MAX_MODULES])

    def _node_package(self, script: str) -> None:
        folders = _folders_around(script)
        for folder in folders:
            self._own(folder, ["node_modules"])
            if os.path.basename(folder) == "node_modules":
                self.found.append(folder)
        for folder in folders:
            if self.is_wide(folder):
                break
            if os.path.isfile(os.path.join(folder, "package.json")):
                self._own(folder, _names(folder)[:_MAX_MODULES])
                return
        self._modules_in(os.path.dirname(script), "node")

    def _absolute(self, word: str) -> str:
        return os.path.normpath(os.path.join(self._cwd, word))

    # ------------------------------------------------------------------- caches

    def _npm_cache(self, npx: str, words: Sequence[str]) -> None:
        cache = self._env.get("npm_config_cache") or os.path.expanduser("~/.npm")
        settings = os.path.expanduser("~/.npmrc")
        registry = self._env.get("npm_config_registry") or _setting(settings, "registry")
        self.found += [os.path.join(cache, "_npx"), os.path.join(cache, "_cacache", "content-v2")]
        self.private = npm_files(cache, words, registry or default_registry(npx))
        self.added |= {"npm_config_update_notifier": "false"}
        self.added |= {
            "npm_config_offline" if self._offline else "npm_config_prefer_offline": "true"
        }
        if registry and "@" not in registry:  # it may have a password
            self.added["npm_config_registry"] = registry

    def _uv_cache(self) -> None:
        home = os.path.expanduser("~")
        cache = self._env.get("UV_CACHE_DIR") or os.path.join(home, ".cache", "uv")
        self.private = uv_files(cache, os.path.join(home, ".local", "share", "uv"))
        self.found += self.private.links.values()
        for name in ("python3", "python"):  # what it has made its environments with
            found = find_executable(name, self._cwd, self._env)
            if found is not None:
                self.command(found, _INLINE, _DEPTH - 1)
        self.added |= {"UV_OFFLINE": "1"} if self._offline else {}

    def certificates(self) -> None:
        """The files of certificates that variables name, if they are such files."""
        for name in _CERTIFICATES:
            path = self._env.get(name)
            if path and os.path.isabs(path) and _is_certificates(path):
                self.found += [path, os.path.realpath(path)]


def _folders_around(path: str) -> list[str]:
    folders = []
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        folders.append(path)
    return folders[:-1]


def _names(folder: str) -> list[str]:
    """What is not hidden in a folder."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return []


def _is_module(path: str, kind: str) -> bool:
    if kind == "python" and os.path.isfile(os.path.join(path, "__init__.py")):
        return True
    return path.endswith(_SUFFIXES[kind]) and os.path.isfile(path)


def home_folders() -> set[str]:
    """Home folders, as far as they are known here."""
    homes = {os.path.expanduser("~"), "/root", *glob.glob("/home/*"), *glob.glob("/Users/*")}
    if sys.platform != "win32":
        import pwd

        with contextlib.suppress(KeyError):
            homes.add(pwd.getpwuid(os.getuid()).pw_dir)
    return {os.path.realpath(home) for home in homes} - {"/"}


def _interpreter(path: str) -> list[str] | None:
    """What runs a script, and its argument; None of what is not a script."""
    try:
        with open(path, "rb") as file:
            first, second, *_ = (*file.read(4096).split(b"\n", 2), b"", b"")
    except OSError:
        return None
    words = os.fsdecode(first[2:]).split()
    if not first.startswith(b"#!") or not words or not os.path.isabs(words[0]):
        return None
    # What pip writes where the path of the interpreter is too long for the first line.
    behind = re.match(rb"'''exec' \"?(/[^\"]+?)\"? \"\$0\"", second)
    return [os.fsdecode(behind[1])] if behind else words


def _setting(path: str, name: str) -> str:
    found = re.search(rf"^\s*{name}\s*=\s*(.+?)\s*$", _text(path), re.M)
    return found[1] if found else ""


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1024 * 1024)
    except OSError:
        return ""


def _is_certificates(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_CERTIFICATE_BYTES + 1)
    except OSError:
        return False
    return (
        len(data) <= _MAX_CERTIFICATE_BYTES
        and b"-----BEGIN CERTIFICATE" in data
        and b"PRIVATE KEY" not in data
    )
