"""Find the files that a sandboxed program may read without ``read=``, by its command.

- The file of the command, and its installation, unless that lies in a home directory or in the
  directory that the server runs in. Of ``/srv/x/bin/server`` that is ``lib``, ``lib64``,
  ``libexec`` and ``share`` in ``/srv/x``; of what lies in ``/opt/x``, all of it.
- Of Python, the virtual environment (``pyvenv.cfg``), and the installation that its key ``home``
  names.
- Of a script that the command names, the directory it is in; of one for Node, Bun or Deno, the
  package that holds it. Nothing in it whose name begins with a dot, such as ``.env``; deeper
  directories are granted whole. The first line of a script grants its interpreter alone.
- Of npx and uvx, their caches of the user's own environment. Both write where they read: npm a lock
  and the index of its cache, uv a lock and temporary files. So each gets a cache in the private
  directory of its server, made of links into the real one, which can be read. Packages that are not
  installed yet cannot be fetched without the network.

Nothing else: no ``.pth`` file, no variable, and no argument behind an option that is not known
here. A link in the directory that the server runs in, or in one that it can write, is not followed
if it leads out of there. A home directory, or a directory that contains one, is never granted.
Other files that a program seems to need are in ``missing``: an error names them, to be granted by
``read=``.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..processes.commands import find_executable
from .visible_paths import VisiblePaths, beginning, inside

__all__ = ["PrivateFiles", "Program", "home_directories", "modules_elsewhere", "program_of"]

_PYTHON = re.compile(r"(?:python|pypy)w?[\d.]*t?\Z")
_NODE = frozenset(("node", "nodejs", "bun", "deno", "tsx", "ts-node"))
_SHELLS = frozenset(("sh", "bash", "dash", "zsh"))
_FLAGS = {
    "python": re.compile(r"(?:-[bBdEhiIOPqRsSuvVx?]+|-[WX].+)\Z"),
    "node": re.compile(
        r"--(?:(?!eval=|print=|run=)[\w-]+=.*|no-warnings|no-deprecation|enable-source-maps|"
        r"trace-warnings|experimental-[\w-]+|inspect|inspect-brk)\Z",
        re.S,
    ),
    "sh": re.compile(r"-[eux]+\Z"),
}
"""Options that take no further word. Behind any other, no script is looked for."""
_WITH_VALUE = {
    "python": frozenset(("-W", "-X", "--check-hash-based-pycs")),
    "node": frozenset(
        "-r --require --import --loader --experimental-loader -C --conditions".split()  # noqa: SIM905
    ),
    "sh": frozenset(("-o",)),
}
_BEHIND_SHELL = re.compile(r"""'''exec' (["']?)(/[^"']+)\1 "\$0" "\$@"\r?""")
_PROGRAMS = (b"\x7fELF", b"#!")
"""The beginnings of files that the system starts."""
_NO_MODULE = re.compile(r"No module named ['\"]?(\w{1,100})")
_MAX_MISSED = 5
_ABSOLUTE = re.compile(r"/[^'\"\n]{1,1000}")
_DEPTH = 5
_MAX_ENVIRONMENTS = 100
_NPM_CACHE, _NPM_REGISTRY = "npm_config_cache", "npm_config_registry"
_MAX_ENTRIES = 1000
_MAX_INDEX_BYTES = 8 * 1024 * 1024
_DEFINITIONS = "node_modules/@npmcli/config/lib/definitions/definitions.js"
"""The file of npm's options with their defaults, in its own package."""
_DEFAULT = re.compile(rb"""new Definition\('registry', \{\s*default: ['"`](https?://[^'"`\s]+)""")
_PACKAGE = re.compile(r"(?:--package=)?((?:@[\w.-]+/)?[\w.-]+)(?:@[^@]*)?\Z")
_OF_UV = re.compile(r"(?:archive|environments|flat-index|simple|wheels)-v\d+\Z")
"""The parts of its cache that uv reads. Its data about interpreters is written again."""


class Program(NamedTuple):
    """A program's files and its environment."""

    paths: tuple[str, ...]
    """Real paths of files and directories that it is made of."""
    scripts: tuple[str, ...]
    """Likewise, of the directories that its scripts are in."""
    caches: tuple[str, ...]
    """Likewise, of its caches."""
    names: tuple[str, ...]
    """Paths under which they are used, which may be links."""
    missing: tuple[str, ...]
    """Real paths that it may need, and that only ``read=`` grants."""
    env: Mapping[str, str]
    """The variables to add to its environment."""
    private: PrivateFiles | None
    """The files that have to be in its private directory."""


def program_of(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    *,
    writable: Sequence[str] = (),
    offline: bool = False,
) -> Program:
    """Return what ``argv``, which begins with an absolute path, needs to run in ``cwd``.

    ``writable`` are the real paths that it can write. Looks at the file system, and starts nothing.
    """
    search = _Search(env, cwd, writable, offline)
    search.command(argv[0], argv[1:])
    missing = tuple(path for path in dict.fromkeys(search.missing) if os.path.exists(path))
    return Program(
        tuple(dict.fromkeys(search.paths)),
        tuple(dict.fromkeys(search.scripts)),
        tuple(dict.fromkeys(search.caches)),
        tuple(dict.fromkeys(search.names)),
        missing,
        search.added,
        search.private,
    )


class _Search:
    def __init__(
        self, env: Mapping[str, str], cwd: str, writable: Sequence[str], offline: bool
    ) -> None:
        self._env = env
        self._cwd = cwd
        self._project = os.path.realpath(cwd)
        self._untrusted = (self._project, *writable)
        self._offline = offline
        self._homes = home_directories()
        self.paths: list[str] = []
        self.scripts: list[str] = []
        self.caches: list[str] = []
        self.names: list[str] = []
        self.missing: list[str] = []
        self.added: dict[str, str] = {}
        self.private: PrivateFiles | None = None

    def command(
        self, path: str, args: Sequence[str], depth: int = 0, of_script: bool = False
    ) -> None:
        """Note that ``path`` is started with ``args``.

        ``of_script``: a script names them, whose author may be anyone. So they grant no script, and
        what the system would not start grants nothing.
        """
        name, real = os.path.basename(path), os.path.realpath(path)
        if depth > _DEPTH or (of_script and not beginning(real, 4).startswith(_PROGRAMS)):
            return
        self.names.append(path)
        interpreter = _interpreter(real)
        if _PYTHON.match(name) and interpreter is None:
            self._python(path, real)
            self._script("python", args, of_script)
            return
        self._grant(path, real)
        if name == "env":
            self._behind_env(args, depth, of_script)
        elif name in _SHELLS:
            self._script("sh", args, of_script)
        elif interpreter is not None:
            self._script_at(path, "node" if "node" in interpreter[-1] else "sh", of_script)
            self.command(interpreter[0], [*interpreter[1:], path], depth + 1, True)
            manager, kind = os.path.split(os.path.dirname(real))
            if kind == "shims" and not self._is_wide(manager):  # pyenv starts a version in there
                self.missing.append(manager)
                self._script("python", args if _PYTHON.match(name) else (), of_script)
        else:
            self._installation(real)
        if name in _NODE:
            is_run = args[:1] == ["run"] and name in ("bun", "deno")
            self._script("node", args[1:] if is_run else args, of_script)
        elif name == "npx":
            self._npm_cache(real, args)
        elif name in ("uvx", "uv"):
            beside = os.path.join(os.path.dirname(real), "uv")
            at = os.path.realpath(beside)  # a link may be of a project
            self._grant(beside, at, None if at == beside else self.missing)
            self._uv_cache()

    # ------------------------------------------------------------ what is granted

    def _grant(self, path: str, real: str, to: list[str] | None = None) -> None:
        """Grant ``real``, to which ``path`` leads, unless a link of the project leads out of it."""
        if os.path.exists(real) and not self._is_wide(real):
            granted = self.paths if to is None else to
            (self.missing if self._leads_out(path) else granted).append(real)

    def _leads_out(self, path: str) -> bool:
        """Whether a link to ``path`` in the project, or in what can be written, leads out of it."""
        way = VisiblePaths()
        way.follow(os.path.abspath(path))
        return any(
            inside(link, place) and not inside(os.path.realpath(link), place)
            for link, _ in way.links()
            for place in self._untrusted
        )

    def _is_wide(self, path: str) -> bool:
        """Whether it is, or contains, a home directory."""
        return path == "/" or any(inside(home, path) for home in self._homes)

    def _is_elsewhere(self, path: str) -> bool:
        """Whether it has nothing to do with a home directory or the project."""
        return not (
            self._is_wide(path)
            or any(inside(path, home) for home in self._homes)
            or inside(path, self._project)
            or inside(self._project, path)
        )

    def _installation(self, real: str) -> None:
        """Grant what lies around the ``bin`` that a program is in."""
        directory = os.path.dirname(real)
        around = os.path.dirname(directory)
        if os.path.basename(directory) != "bin" or around == "/":
            return
        libraries = [os.path.join(around, name) for name in ("lib", "lib64", "libexec", "share")]
        wanted = [around] if os.path.dirname(around) == "/opt" else libraries
        there = [path for path in wanted if os.path.realpath(path) == path and os.path.exists(path)]
        if self._is_elsewhere(around):
            self.paths += there
        else:
            self.missing += [path for path in there if path in libraries[:2]]

    def _behind_env(self, args: Sequence[str], depth: int, of_script: bool) -> None:
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
                    self.command(found, args[position + 1 :], depth + 1, of_script)
                return
            env[name] = value

    # ------------------------------------------------------------------ Python

    def _python(self, path: str, real: str) -> None:
        around = os.path.dirname(os.path.dirname(os.path.abspath(path)))
        home = _setting(os.path.join(around, "pyvenv.cfg"), "home")
        if not home:
            self._grant(path, real)
            self._python_at(real, self._is_elsewhere(os.path.dirname(os.path.dirname(real))))
            return
        real_around = os.path.realpath(around)
        is_project = inside(self._project, real_around)  # its ".env" is not of its Python
        self._grant(around, real_around, self.scripts if is_project else None)
        if os.path.isabs(home):
            self._python_at(os.path.realpath(os.path.join(home, os.path.basename(real))), True)

    def _python_at(self, executable: str, is_granted: bool) -> None:
        """Grant the installation of Python that this executable is of."""
        prefix = os.path.dirname(os.path.dirname(executable))
        libraries = [
            path
            for name in ("python3*", "pypy3*")
            for path in glob.glob(os.path.join(glob.escape(prefix), "lib", name, "os.py"))
        ]
        is_one = libraries and not self._is_wide(prefix) and os.path.basename(prefix) != ".local"
        if is_one:
            (self.paths if is_granted else self.missing).append(prefix)

    # ----------------------------------------------------------------- scripts

    def _script(self, kind: str, args: Sequence[str], of_script: bool) -> None:
        words = iter(() if of_script else args)
        for word in words:
            if kind == "python" and word == "-m":
                module = os.path.join(self._project, next(words, "").partition(".")[0])
                self.missing += [module, f"{module}.py"]
                return
            if word in _WITH_VALUE[kind]:
                next(words, None)
            elif not word.startswith("-"):
                self._script_at(os.path.normpath(os.path.join(self._cwd, word)), kind)
                return
            elif not _FLAGS[kind].match(word):
                return

    def _script_at(self, path: str, kind: str, of_script: bool = False) -> None:
        real = os.path.realpath(path)
        self.names.append(path)
        directory = real if os.path.isdir(real) else os.path.dirname(real)
        if kind == "node":
            directory = self._package(directory)
        if self._is_wide(directory):
            self._grant(path, real)
        else:
            self._grant(path, directory, self.missing if of_script else self.scripts)

    def _package(self, directory: str) -> str:
        """Return the nearest directory with a ``package.json``, else ``directory``."""
        around = directory
        for _ in range(_DEPTH):
            if os.path.isfile(os.path.join(around, "package.json")):
                break
            around = os.path.dirname(around)
            if self._is_wide(around) or os.path.basename(around) == "node_modules":
                return directory
        else:
            return directory
        modules = around
        while os.path.basename(modules) not in ("node_modules", ""):
            modules = os.path.dirname(modules)
        self.missing.append(modules if os.path.basename(modules) else around)
        return around

    # ------------------------------------------------------------------- caches

    def _npm_cache(self, npx: str, words: Sequence[str]) -> None:
        cache = os.environ.get(_NPM_CACHE) or os.path.expanduser("~/.npm")
        settings = os.path.expanduser("~/.npmrc")
        registry = os.environ.get(_NPM_REGISTRY) or _setting(settings, "registry")
        self._cache(os.path.join(cache, "_npx"), os.path.join(cache, "_cacache", "content-v2"))
        self.private = _npm_files(cache, words, registry or _default_registry(npx))
        self.added |= {"npm_config_update_notifier": "false"}
        self.added |= {
            "npm_config_offline" if self._offline else "npm_config_prefer_offline": "true"
        }
        if registry and "@" not in registry:  # it may have a password
            self.added["npm_config_registry"] = registry

    def _uv_cache(self) -> None:
        home = os.path.expanduser("~")
        cache = os.environ.get("UV_CACHE_DIR") or os.path.join(home, ".cache", "uv")
        self.private = _uv_files(cache, os.path.join(home, ".local", "share", "uv"))
        self._cache(*self.private.links.values())
        of_environments = os.path.join(glob.escape(cache), "archive-v*", "*", "pyvenv.cfg")
        for settings in glob.glob(of_environments)[:_MAX_ENVIRONMENTS]:
            home = _setting(settings, "home")
            if os.path.isabs(home):
                python = os.path.join(os.path.realpath(home), "python3")
                self._python_at(python, True)
                self.added.setdefault("UV_PYTHON", python)  # which its environments are for
        self.added |= {"UV_OFFLINE": "1"} if self._offline else {}

    def _cache(self, *paths: str) -> None:
        real = map(os.path.realpath, filter(os.path.exists, paths))
        self.caches += [path for path in real if not self._is_wide(path)]


def modules_elsewhere(text: str, environments: Sequence[str]) -> Iterator[str]:
    """Yield where modules are that ``text``, an error of Python, misses in its environments.

    An editable installation names them in a file that a project can write. So they are not granted,
    and only named.
    """
    names = {name.partition(".")[0] for name in _NO_MODULE.findall(text)[:_MAX_MISSED]}
    packages = [
        os.path.join(glob.escape(one), "lib", "python3*", "site-packages") for one in environments
    ]
    for pattern in ("*.pth", "__editable__*.py") if names else ():
        files = [path for one in packages for path in glob.glob(os.path.join(one, pattern))]
        for file in files[:_MAX_ENVIRONMENTS]:
            for path in _ABSOLUTE.findall(os.fsdecode(beginning(file, 64 * 1024))):
                for name in sorted(names):
                    places = (os.path.join(path, name), os.path.join(path, f"{name}.py"))
                    yield from (
                        (path,) if os.path.basename(path).partition(".")[0] == name else places
                    )


def home_directories() -> set[str]:
    """Home directories, as far as they are known here."""
    homes = {os.path.expanduser("~"), "/root", *glob.glob("/home/*"), *glob.glob("/Users/*")}
    if sys.platform != "win32":
        import pwd

        with contextlib.suppress(KeyError):
            homes.add(pwd.getpwuid(os.getuid()).pw_dir)
    return {os.path.realpath(home) for home in homes} - {"/"}


def _interpreter(path: str) -> list[str] | None:
    """Return the interpreter of a script, and its argument; None for any other file."""
    first, second, *_ = (*beginning(path, 4096).split(b"\n", 2), b"", b"")
    words = os.fsdecode(first[2:]).split()
    if not first.startswith(b"#!") or not words or not os.path.isabs(words[0]):
        return None
    # What pip writes if the path of the interpreter is too long for the first line.
    behind = _BEHIND_SHELL.fullmatch(os.fsdecode(second)) if words == ["/bin/sh"] else None
    is_python = behind is not None and _PYTHON.match(os.path.basename(behind[2]))
    return [behind[2]] if behind and is_python else words


def _setting(path: str, name: str) -> str:
    text = beginning(path, 1024 * 1024).decode(errors="replace")
    found = re.search(rf"^\s*{name}\s*=\s*(.+?)\s*$", text, re.M)
    return found[1] if found else ""


class PrivateFiles(NamedTuple):
    """The files in the private directory of a server from its start. Names are relative to it."""

    links: Mapping[str, str]
    """The target of each link, which the server can read."""
    files: Mapping[str, bytes]
    env: Mapping[str, str]
    """Variables that name a place in it."""


def _npm_files(cache: str, words: Sequence[str], registry: str | None) -> PrivateFiles:
    """``words`` are those after ``npx``: the packages that they name are looked up."""
    mine = ".npm"
    links = {f"{mine}/_cacache/content-v2": os.path.join(cache, "_cacache", "content-v2")}
    for run in _names(os.path.join(cache, "_npx")):
        for name in ("node_modules", "package.json", "package-lock.json"):
            links[f"{mine}/_npx/{run}/{name}"] = os.path.join(cache, "_npx", run, name)
    files = {}
    for package in filter(None, map(_PACKAGE.match, words if registry else ())):
        name = package[1].replace("/", "%2f")
        key = f"make-fetch-happen:request-cache:{(registry or '').rstrip('/')}/{name}"
        digest = hashlib.sha256(key.encode()).hexdigest()
        place = f"_cacache/index-v5/{digest[:2]}/{digest[2:4]}/{digest[4:]}"
        known = _content(os.path.join(cache, place))
        if known is not None:
            files[f"{mine}/{place}"] = known
    return PrivateFiles(_existing(links), files, {"npm_config_cache": mine})


def _default_registry(npx: str) -> str | None:
    """Return the registry of the npm that has this ``npx``, unless it is configured."""
    found = _DEFAULT.search(
        _content(os.path.join(os.path.dirname(os.path.dirname(npx)), _DEFINITIONS)) or b""
    )
    return None if found is None else found[1].decode(errors="replace")


def _uv_files(cache: str, data: str) -> PrivateFiles:
    """``data`` has the tools that uv has installed, and its interpreters."""
    mine, my_data = ".cache/uv", ".local/share/uv"
    places = [name for name in _names(cache) if _OF_UV.match(name)]
    links = {f"{mine}/{name}": os.path.join(cache, name) for name in places}
    for kind in ("tools", "python"):
        for name in _names(os.path.join(data, kind)):
            links[f"{my_data}/{kind}/{name}"] = os.path.join(data, kind, name)
    return PrivateFiles(_existing(links), {}, {"UV_CACHE_DIR": mine})


def _names(directory: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(directory) if name[0] != ".")[:_MAX_ENTRIES]
    except OSError:
        return []


def _existing(links: Mapping[str, str]) -> dict[str, str]:
    return {name: target for name, target in links.items() if os.path.exists(target)}


def _content(path: str) -> bytes | None:
    content = beginning(path, _MAX_INDEX_BYTES + 1)
    return content if 0 < len(content) <= _MAX_INDEX_BYTES else None
