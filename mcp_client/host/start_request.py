"""What a person is asked before a server from a config file is started or connected to.

2026-07-28 and 2025-11-25 ``basic/security_best_practices`` (local server compromise), SEP-1024: the
exact command is shown, whole, before it first runs, with a warning where it looks dangerous.

The digest covers everything in the file that says what the server is: the command, the arguments,
the values of its environment and headers as they are written, what an environment file brings, the
folder and the file itself. So a yes holds until any of that changes. The values of variables are
not in it: a token that is renewed does not ask again.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from ..protocol.canonical_json import sha256
from ..protocol.consent_url import host_warnings
from ..runtime.loopback import is_loopback
from ..runtime.safe_text import invisible, safe_text
from ..transports.http_server import shown
from .config_launch import Launch
from .config_places import Scope

__all__ = ["StartRequest", "start_request"]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class StartRequest:
    """A server that would be started, or connected to. Values of variables, of the environment and
    of headers are not in it."""

    server: str
    """The name the file gives it."""
    command: str | None
    """What is run, without a shell; None for a server at a URL."""
    args: tuple[str, ...] = field(repr=False)
    """All of them, whole. What a variable of the environment brings is shown as in the file:
    ``--key=${KEY}``."""
    env_names: tuple[str, ...]
    """The variables the server gets besides HOME, PATH and the like."""
    cwd: str | None
    """The folder it runs in."""
    url: str | None
    """Without user, password and query."""
    header_names: tuple[str, ...]
    warnings: tuple[str, ...]
    """What looks dangerous, in sentences that are safe to show."""
    variables: Mapping[str, tuple[str, ...]] = field(hash=False)
    """What is put in from outside the file, by name, and where it goes:
    ``{"TOKEN": ("headers.Authorization",)}``. Inputs are ``input:ID``, files ``file:PATH``."""
    digest: str
    """Changes whenever what is asked about changes."""
    path: Path
    """The config file."""
    scope: Scope
    """"project" for a file that may have come with a repository, "user" for the person's own."""
    env_file: str | None = None
    """The file that some of ``env_names`` come from."""

    def __str__(self) -> str:
        """All of it in one line that is safe to show: the whole command, each word quoted where a
        shell would need that, then names, places and warnings."""
        return "; ".join(_parts(self))


def _parts(request: StartRequest) -> Iterator[str]:
    place = "a project's file" if request.scope == "project" else "a file of your own"
    yield f"server {_word(request.server)} from {_word(str(request.path))} ({place})"
    if request.command is not None:
        yield f"command: {_words([request.command, *request.args])}"
    if request.cwd is not None:
        yield f"in folder: {_word(request.cwd)}"
    if request.url is not None:
        yield f"url: {_word(request.url)}"
    if request.env_names:
        some = "" if request.env_file is None else f" (some from {_word(request.env_file)})"
        yield f"variables: {_words(request.env_names)}{some}"
    if request.header_names:
        yield f"headers: {_words(request.header_names)}"
    for name, places in request.variables.items():
        yield f"puts in: {_word(name)} -> {_words(places)}"
    for warning in request.warnings:
        yield f"warning: {safe_text(warning, sys.maxsize)}"


def _words(words: Iterable[str]) -> str:
    return " ".join(map(_word, words))


def _word(text: str) -> str:
    """Whole, and quoted so that it cannot be taken for anything else in the line."""
    return shlex.quote(safe_text(text, sys.maxsize))


def start_request(
    launch: Launch, path: Path, scope: Scope, folder: Path, inputs: Mapping[str, Any]
) -> StartRequest:
    """``folder`` is that of the project, ``inputs`` are those that the file defines."""
    command = None if launch.command is None else launch.command.shown
    args = tuple(each.shown for each in launch.args)
    brought = {} if launch.env_file is None else launch.env_file.values
    variables = _variables(launch)
    return StartRequest(
        server=launch.name,
        command=command,
        args=args,
        env_names=tuple(dict.fromkeys([*launch.env, *brought])),
        cwd=launch.cwd and launch.cwd.shown,
        url=None if launch.url is None else shown(launch.url.shown),
        header_names=tuple(launch.headers),
        warnings=tuple(dict.fromkeys(_warnings(launch, variables, scope, folder))),
        variables=MappingProxyType(variables),
        digest=_digest(launch, path, scope, inputs),
        path=path,
        scope=scope,
        env_file=None if launch.env_file is None else launch.env_file.path.shown,
    )


def _digest(launch: Launch, path: Path, scope: Scope, inputs: Mapping[str, Any]) -> str:
    texts = [launch.command, *launch.args, launch.url, launch.cwd]
    used = {name.partition(":")[2] for name in _variables(launch) if name.startswith("input:")}
    covered = {
        "version": _VERSION,
        "path": str(path),
        "scope": scope,
        "server": launch.name,
        "written": launch.written,
        "shown": [each and each.shown for each in texts],
        "env_file": launch.env_file and [launch.env_file.path.shown, dict(launch.env_file.values)],
        "inputs": {name: inputs[name] for name in sorted(used) if name in inputs},
    }
    text = json.dumps(covered, sort_keys=True, default=str, ensure_ascii=True)
    return f"sha256:{sha256(text)}"


def _variables(launch: Launch) -> dict[str, tuple[str, ...]]:
    places = [
        ("command", launch.command),
        *((f"args[{number}]", each) for number, each in enumerate(launch.args)),
        *((f"env.{name}", each) for name, each in launch.env.items()),
        ("envFile", None if launch.env_file is None else launch.env_file.path),
        ("cwd", launch.cwd),
        ("url", launch.url),
        *((f"headers.{name}", each) for name, each in launch.headers.items()),
    ]
    if launch.login is not None:
        places += [
            ("oauth.client_id", launch.login.client_id),
            ("oauth.client_secret", launch.login.client_secret),
        ]
    found: dict[str, tuple[str, ...]] = {}
    for place, each in places:
        for name in dict.fromkeys(() if each is None else each.used):
            found[name] = (*found.get(name, ()), place)
    return found


# -------------------------------------------------------------------- warnings

_OTHER_USERS = frozenset({"sudo", "doas", "su", "pkexec", "runas"})
_SHELLS = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "cmd", "powershell", "pwsh"}
)
_SHELL_CODE = re.compile(r"-[a-z]*c[a-z]*|/[ck]|-(enc|e|ec|encodedcommand|command)", re.I)
_INLINE = {
    "python": re.compile(r"-[a-zA-Z]*c"),
    "node": re.compile(r"-[ep]|-pe|--eval|--print|-r|--require|--import"),
    "bun": re.compile(r"-[ep]|--eval"),
    "deno": re.compile(r"eval"),
    "perl": re.compile(r"-[a-zA-Z]*[eE]"),
    "ruby": re.compile(r"-[a-zA-Z]*e"),
    "php": re.compile(r"-r"),
    "osascript": re.compile(r"-e"),
}
_GLUED = {
    "python": re.compile(r"-[bBdEhiIOPqsSuvVx]*c."),
    "node": re.compile(r"--(eval|print|require|import|loader|experimental-loader)="),
    "bun": re.compile(r"--(eval|print|preload|require|import)="),
    "perl": re.compile(r"-[a-zA-Z]*[eE]."),
    "ruby": re.compile(r"-[a-zA-Z]*e."),
    "php": re.compile(r"-r."),
}
"""Options with the code in the same word; sought up to the first word that is not an option."""
_PIPED = re.compile(
    r"\b(curl|wget|fetch|iwr|irm|invoke-webrequest)\b[^|;&]{0,2000}\|\s{0,9}(sudo\s{1,9})?"
    r"(\S{0,99}/)?\w{0,9}(sh|bash|python\d?|node|perl|ruby|iex|invoke-expression)\b"
    r"|(\$\(|`|<\()\s{0,9}(curl|wget)\b",
    re.I,
)
_DELETES = re.compile(
    r"\brm\s{1,9}(-\w{1,20}\s{1,9}){0,5}-(\w{0,20}[rR]\w{0,20}f|\w{0,20}f\w{0,20}[rR]|-recursive)"
)
_LONGEST = 50_000
"""Characters of a command that these patterns look through: they take time."""
_LONGEST_OPTION = 40
_LONGEST_PATH = 4_096
_SENSITIVE = re.compile(
    r"(^|[/\\=:~])(\.ssh|\.aws|\.gnupg|\.kube|\.netrc|\.docker|\.config/gcloud|id_(rsa|ed25519|ecdsa)"
    r"|etc/(shadow|passwd|sudoers))($|[/\\:.])"
)
_PRIVILEGED = re.compile(r"--privileged|--pid=host|--net(work)?=host|docker\.sock")
_LOADERS = re.compile(
    r"LD_(PRELOAD|LIBRARY_PATH|AUDIT)|DYLD_\w+|GCONV_PATH|OPENSSL_(CONF|MODULES)|PATH|HOME"
    r"|XDG_(CONFIG|DATA)_(HOME|DIRS)"
    r"|PYTHON(PATH|STARTUP|HOME|USERBASE|BREAKPOINT|WARNINGS|PLATLIBDIR|PYCACHEPREFIX|EXECUTABLE)"
    r"|NODE_(OPTIONS|PATH|REPL_EXTERNAL_MODULE|TLS_REJECT_UNAUTHORIZED|EXTRA_CA_CERTS)"
    r"|BASH_ENV|ENV|SHELL|PROMPT_COMMAND|IFS|SHELLOPTS|PERL5(OPT|LIB|DB)|RUBY(OPT|LIB)"
    r"|(JAVA_TOOL|_JAVA|JDK_JAVA)_OPTIONS|CLASSPATH|DOTNET_STARTUP_HOOKS|CORECLR_\w+"
    r"|GIT_(SSH(_COMMAND)?|CONFIG\w*|EXEC_PATH|PROXY_COMMAND|ASKPASS|EXTERNAL_DIFF|PAGER|EDITOR)"
    r"|BROWSER|EDITOR|VISUAL|PAGER|DOCKER_(HOST|CONFIG|CONTEXT)"
    r"|(npm|pnpm|uv|pip|pipx|bun)_config_\w+|yarn_\w*registry\w*|cargo_(home|registr\w+)"
    r"|(uv|pip|pipx)_(index|(extra_)?index_url|default_index|find_links|override|constraint|python)"
    r"|(HTTPS?|ALL)_PROXY|SSL_CERT_(FILE|DIR)|(REQUESTS|CURL)_CA_BUNDLE",
    re.I,
)
_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/opt/homebrew/", "/nix/store/", "/snap/")


def _warnings(
    launch: Launch, variables: Mapping[str, tuple[str, ...]], scope: Scope, folder: Path
) -> Iterator[str]:
    yield from launch.remarks
    if launch.command is not None:
        words = [launch.command.shown, *(each.shown for each in launch.args)]
        yield from _of_words(words)
        yield from _of_hosts(words)
        yield from _of_paths(launch, scope, folder)
        yield from _of_environment(launch)
    if launch.url is not None:
        yield from _of_url(launch.url.shown)
    yield from _of_variables(variables)


def _of_words(words: list[str]) -> Iterator[str]:
    words = _split(words)
    names = [_program(word) for word in words]
    for name in dict.fromkeys(name for name in names if name in _OTHER_USERS):
        yield f"it uses {name}, which runs commands with another user's rights"
    first: dict[str, int] = {}
    for at, name in enumerate(names):
        first.setdefault(name.rstrip("0123456789."), at)
    for base, at in first.items():
        inline = _SHELL_CODE if base in _SHELLS else _INLINE.get(base)
        options = (word for word in words[at + 1 :] if len(word) <= _LONGEST_OPTION)
        found = None if inline is None else next(filter(inline.fullmatch, options), None)
        found = found or _glued(base, words[at + 1 :])
        if found is not None and base in _SHELLS:
            yield f"a shell runs what stands in its arguments ({names[at]} {found})"
        elif found is not None:
            yield f"{names[at]} runs code that stands in its arguments ({found})"
    whole = " ".join(words)
    if len(whole) > _LONGEST:
        yield f"it has {len(whole):,} characters, and the end was not looked through for dangers"
    whole = whole[:_LONGEST]
    if _PIPED.search(whole):
        yield "it downloads something and runs it (curl | sh)"
    if _DELETES.search(whole):
        yield "it deletes files and folders (rm -rf)"
    if any(_PRIVILEGED.search(word) for word in words):
        yield "it asks for a container with rights over this machine"
    if any(invisible(word) for word in words):
        yield "it contains characters that cannot be seen"


def _split(words: list[str]) -> list[str]:
    """With what ``env -S`` takes apart taken apart."""
    if _program(words[0]) != "env":
        return words
    found: list[str] = []
    left = _LONGEST
    for word in words:
        left -= len(word)
        option, _, rest = word.partition("=") if word.startswith("--split") else ("", "", word)
        found += [option] if option else []
        try:
            found += shlex.split(rest) if left >= 0 else [rest]
        except ValueError:
            found.append(rest)
    return found


def _glued(program: str, words: list[str]) -> str | None:
    """The option of ``program`` that has code in its own word, without the code."""
    pattern = _GLUED.get(program)
    if pattern is None:
        return None
    for word in itertools.takewhile(lambda word: word.startswith("-"), words):
        match = pattern.match(word[:_LONGEST_OPTION])
        if match is not None:
            return match[0] if match[0].endswith("=") else match[0][:-1]
    return None


def _of_hosts(words: Iterable[str]) -> Iterator[str]:
    """What URLs in them hide of where they lead: many commands only connect to one."""
    for word in words:
        start = word.find("://")
        scheme = re.search(r"[A-Za-z][A-Za-z0-9+.-]{0,40}\Z", word[max(0, start - 41) : start])
        if start < 0 or scheme is None:
            continue
        url = scheme[0] + word[start : start + _LONGEST_PATH]
        if _is_international(url):
            yield from _of_host(url)


def _is_international(url: str) -> bool:
    host = url.partition("://")[2].partition("/")[0].lower()
    return not host.isascii() or any(part.startswith("xn--") for part in re.split(r"[.@]", host))


def _of_host(url: str) -> Iterator[str]:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    if not host or any(sign in host for sign in "${}%"):  # a variable, of which there is a warning
        if _is_international(url):
            yield f"{_short(shown(url))}: letters outside ASCII stand in its host"
        return
    for warning in host_warnings(host):
        yield f"{_short(shown(url))}: {_short(warning)}"


def _of_paths(launch: Launch, scope: Scope, folder: Path) -> Iterator[str]:
    """Judged by what they are, and named as they are written."""
    home = str(Path.home())
    env_file = None if launch.env_file is None else launch.env_file.path
    cwd = None if launch.cwd is None or launch.cwd.value == str(folder) else launch.cwd
    places = [launch.command, *launch.args, cwd, env_file]
    for number, each in enumerate(each for each in places if each is not None):
        word, name = each.value, _short(each.shown)
        if _SENSITIVE.search(word):
            yield f"it names a place where secrets are kept: {name}"
        path = word.rpartition("=")[2] if word.startswith("-") else word
        whole = path.rstrip("/\\") or path
        if whole in (home, "~", "$HOME", "${HOME}", "%USERPROFILE%", "/", "C:"):
            yield f"it names your whole home folder or disk: {name}"
        elif scope == "project" and _is_outside(path, folder, is_command=number == 0):
            yield f"it names a path outside the project: {name}"


def _is_outside(path: str, folder: Path, *, is_command: bool) -> bool:
    if path.startswith("~"):
        return True
    if not (os.path.isabs(path) or ".." in re.split(r"[/\\]", path)) or "://" in path:
        return False
    if is_command and path.startswith(_SYSTEM):
        return False
    if len(path) > _LONGEST_PATH:
        return True
    written, base = os.path.abspath(folder / path), os.path.abspath(folder)
    # Only a path that looks like one of the project's is looked up: it may be a link.
    return not _within(written, base) or not _within(
        os.path.realpath(written), os.path.realpath(base)
    )


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _of_environment(launch: Launch) -> Iterator[str]:
    names = [*launch.env, *(launch.env_file.values if launch.env_file else ())]
    for name in dict.fromkeys(names):
        if _LOADERS.fullmatch(name):
            yield f"the variable {_short(name)} can make programs load or run other code"


def _of_url(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return
    yield from _of_host(url)
    if parts.scheme.lower() == "http" and not is_loopback(host):
        yield "the connection is not encrypted (http)"
    if parts.username or parts.password:
        yield "the URL has a user name or password in it"


def _of_variables(variables: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for name, places in variables.items():
        shown_name = _short(name)
        if name.startswith("file:"):
            yield f"the content of a file is put in: {_short(name[5:])}"
        if "command" in places:
            yield f"the variable {shown_name} decides which program is run"
        if any(place.startswith("args[") for place in places):
            yield f"the variable {shown_name} is put into an argument, where other programs see it"
        if "url" in places:
            yield f"the variable {shown_name} is put into a URL, where it may be recorded"


def _program(word: str) -> str:
    name = re.split(r"[/\\]", word)[-1].lower()
    return name.removesuffix(".exe").removesuffix(".cmd")


def _short(text: str) -> str:
    return safe_text(text, 200)
