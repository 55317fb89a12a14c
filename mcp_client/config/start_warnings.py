"""Warnings about a server that a config file names, as findings.

The first finding for a server of a project's file is that it can do anything. The others are about
the structure of its words: code in arguments, sources of downloads, paths that leave the project,
places of secrets. The words are judged as they will be run, with all references replaced; values of
the host's environment are named as they are written.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from ..catalog.finding import Finding
from ..protocol.uris import host_warnings
from ..runtime.safe_text import invisible, safe_text
from ..runtime.urls import is_loopback
from ..transports.http_options import shown
from .server import Launch
from .values import LOADERS, Expanded, followed, is_within

__all__ = ["ANYTHING", "warnings_of"]

ANYTHING = Finding(
    "start",
    "it can do anything that its words, its variables and the files of its directory make it "
    "do: approve it only if you know this project and what every word below does",
    "anything",
)
"""The finding for each program that a project's file names."""
_ANY_SERVER = Finding(
    "start",
    "it can do anything with what it is sent, and offer any tool: approve it only if you know "
    "this project and where every address below leads",
    "anything",
)
"""The finding for each server that a project's file names by its URL."""

_OTHER_USERS = frozenset({"sudo", "doas", "su", "pkexec", "runas"})
_SHELLS = frozenset(
    """
    sh ash bash csh dash elvish fish hush ion ksh mksh nu pdksh rbash tcsh xonsh yash zsh
    cmd powershell pwsh
    """.split()  # noqa: SIM905 - a list of words is read as words
)
_SHELL_CODE = re.compile(r"-(?=[abd-z]*c)[a-z]+|/[ck]|-(enc|e|ec|encodedcommand|command)", re.I)
_TAKES_CODE = re.compile(
    r"-[a-zA-Z]{0,9}[ceE]"
    r"|(?i:--?(eval|exec|execdir|execute|call|command|print|import|require|loader|preload)(=.*|\Z)"
    r"|(-o)?\w{0,20}command[= ].*)",
    re.DOTALL,
)
"""Options whose value is code or a command, in most programs that have them."""
_NO_CODE = re.compile(r"[A-Z][A-Z0-9_]*(=.*)?|[^\s;|&`(]*([/\\]|\.\w{1,5}\Z)[^\s;|&`(]*", re.DOTALL)
"""The pattern of a word after such an option that is the name of a variable or of a file."""
_CODE = re.compile(r"[;`]|\$\(|<\(|&&|\|\||\w\(|\w\{[^,\d{}]*\}|\s\|\s")
"""The pattern of text that a shell or an interpreter runs."""
_SUBCOMMANDS = frozenset({"run", "tool", "exec", "x", "dlx", "install", "add", "create", "serve"})
_DOWNLOADED = re.compile(
    r"(git|github|gitlab|bitbucket|https?|ssh)\+\w+:|(git|github|gitlab|bitbucket|data|blob):"
    r"|(https?|file)://\S{1,2000}\.(m?[jt]s|py|rb|sh|lua|tgz|tar\.gz|zip|whl|git)([?#@].*)?\Z",
    re.I | re.DOTALL,
)
"""The pattern of sources of a program or package, other than a registry."""
_PIPED = re.compile(
    r"\b(curl|wget|fetch|iwr|irm|invoke-webrequest)\b[^|;&]{0,2000}\|\s{0,9}(sudo\s{1,9})?"
    r"(\S{0,99}/)?\w{0,9}(sh|bash|python\d?|node|perl|ruby|iex|invoke-expression)\b"
    r"|(\$\(|`|<\()\s{0,9}(curl|wget)\b",
    re.I,
)
_DELETES = re.compile(
    r"\brm\s{1,9}(-\w{1,20}\s{1,9}){0,5}-(\w{0,20}[rR]\w{0,20}f|\w{0,20}f\w{0,20}[rR]|-recursive)"
)
_MAX_CHARS = 50_000
"""Characters of a command that these patterns look through: they take time."""
_MAX_OPTION_CHARS = 40
_MAX_PATH_CHARS = 4_096
_MAX_PIECES = 64
_BETWEEN_PATHS = re.compile(r"""[=:,;|&@"'(){}\[\]<>\s]+""")
_SENSITIVE = re.compile(
    r"(^|[/\\=:~])(\.ssh|\.aws|\.gnupg|\.kube|\.netrc|\.docker|\.config/gcloud|id_(rsa|ed25519|ecdsa)"
    r"|etc/(shadow|passwd|sudoers))($|[/\\:.])"
)
_PRIVILEGED = re.compile(r"--privileged|--pid=host|--net(work)?=host|docker\.sock")
_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/opt/homebrew/", "/nix/store/", "/snap/")


class _Word(NamedTuple):
    """A word of a command."""

    value: str
    """The word as it will be run."""
    shown: str
    """The word as it may be shown."""
    program: str
    """The name of the program, if it is one: without directory and ending."""

    @classmethod
    def of(cls, value: str, shown: str) -> _Word:
        name = re.split(r"[/\\]", value)[-1].lower()
        return cls(value, shown, name.removesuffix(".exe").removesuffix(".cmd"))

    @property
    def name(self) -> str:
        """The program, to be named in a warning."""
        return self.program if self.value == self.shown else _short(self.shown)

    def named(self, option: str) -> str:
        """Return the ``option`` that it is, or begins with."""
        return safe_text(option if self.value == self.shown else self.shown, _MAX_OPTION_CHARS)


def warnings_of(
    launch: Launch, variables: Mapping[str, tuple[str, ...]], program: str | None
) -> Iterator[Finding]:
    """Yield the warnings; ``program`` is the file of the command, if that is known."""
    is_project, directory = launch.parsed.scope == "project", str(launch.parsed.base)
    if is_project:
        yield _ANY_SERVER if launch.command is None else ANYTHING
    if launch.command is not None:
        words = [launch.command, *launch.args]
        yield from _of_words(_split(words), program)
        yield from _of_hosts(word.shown for word in words)
        yield from _of_paths(launch, is_project, directory)
        yield from _of_environment(launch, is_project, directory)
    if launch.url is not None:
        yield from _of_url(launch.url.shown)
    yield from _of_secrets(launch, is_project, directory)
    yield from _of_variables(variables)


def _of_words(words: list[_Word], program: str | None) -> Iterator[Finding]:
    names = [word.program for word in words]
    if program is not None:
        names.insert(0, _Word.of(program, program).program)
    for name in dict.fromkeys(name for name in names if name in _OTHER_USERS):
        text = f"it uses {name}, which runs commands with another user's rights"
        yield Finding("other_user", text, name)
    yield from _of_code(words, names)
    whole = " ".join(word.value for word in words)
    if len(whole) > _MAX_CHARS:
        text = f"it has {len(whole):,} characters, and the end was not searched for dangers"
        yield Finding("long_text", text)
    whole = whole[:_MAX_CHARS]
    if _PIPED.search(whole):
        yield Finding("runs_code", "it downloads something and runs it (curl | sh)", "download")
    if _DELETES.search(whole):
        yield Finding("deletes_files", "it deletes files and directories (rm -rf)")
    if any(_PRIVILEGED.search(word.value) for word in words):
        text = "it asks for a container with rights over this machine"
        yield Finding("other_user", text, "container")
    if not words[0].shown.isascii():
        text = "the command has letters outside ASCII, which may look like others"
        command = words[0].shown
        yield Finding("look_alike", f"{text}: {_short(ascii(command))}", command)
    if any(invisible(word.value) for word in words):
        yield Finding("hidden_text", "it contains characters that cannot be seen")


def _of_code(words: list[_Word], names: list[str]) -> Iterator[Finding]:
    """Yield findings about code in arguments, and about code that is downloaded to be run."""
    for at, name in enumerate((names[0], *(word.program for word in words[1:]))):
        if name in _SHELLS:
            matches = ((word, _SHELL_CODE.fullmatch(word.value)) for word in words[at + 1 :])
            found = next((word.named(match[0]) for word, match in matches if match), None)
            if found is not None:
                what = f"{words[at].name} {found}"
                text = f"a shell runs the code in its arguments ({what})"
                yield Finding("runs_code", text, what)
            break
    start = _start(words)
    program, rest = words[start], words[start + 1 :]
    found = _option_with_code(rest)
    is_code = any(_is_code(word.value) for word in rest if not word.value.startswith("--"))
    if program.program not in _SHELLS and (is_code or found is not None):
        text, what = f"{program.name} runs the code in its arguments", program.name
        if found is not None:
            text, what = f"{text} ({found})", f"{what} {found}"
        yield Finding("runs_code", text, what)
    is_run = False
    for word in rest:
        is_option = word.value.startswith("-")
        value = word.value.partition("=")[2] if is_option else word.value
        if _DOWNLOADED.match(value) or (is_run and re.match("https?:", value)):
            name = _short(word.shown)
            yield Finding("runs_code", f"{program.name} downloads code and runs it: {name}", name)
            break
        is_run = is_run if is_option else value in _SUBCOMMANDS


def _start(words: list[_Word]) -> int:
    """Return the index of the program that ``env`` starts, or of the first word."""
    at = 0
    if words[0].program == "env":
        while at + 1 < len(words) and (at == 0 or re.match(r"-|\w+=", words[at].value)):
            at += 1
    return at


def _option_with_code(rest: list[_Word]) -> str | None:
    """Return the option among the first words that has code as its value, without the code."""
    is_value = False
    for at, word in enumerate(rest):
        value = word.value
        if not value.startswith("-"):
            if is_value and "=" in value and _TAKES_CODE.fullmatch(value):
                return word.named(value)
            if not is_value and value not in _SUBCOMMANDS:
                return None
        elif match := _TAKES_CODE.fullmatch(value):
            after = rest[at + 1].value if at + 1 < len(rest) else ""
            if "=" in value or (after and not _NO_CODE.fullmatch(after[:_MAX_PATH_CHARS])):
                return word.named(re.match(r"[^=]*=?", match[0])[0])  # type: ignore[index]
        elif not value.startswith("--") and (_is_code(value) or re.search(r"\s", value)):
            return word.named(value[:2])
        is_value = re.fullmatch("-[A-Zo]", value) is not None
    return None


def _is_code(word: str) -> bool:
    if _CODE.search(word) is None or ("://" in word and not re.search(r"\s", word)):
        return False
    try:
        json.loads(word)
    except (ValueError, RecursionError):
        return True
    return False


def _split(words: list[Expanded]) -> list[_Word]:
    """Return the words, with those of ``env -S`` taken apart."""
    whole = [_Word.of(word.value, word.shown) for word in words]
    if whole[0].program != "env":
        return whole
    found: list[_Word] = []
    left = _MAX_CHARS
    for word in whole:
        left -= len(word.value)
        is_split = word.value.startswith("--split")
        option, _, rest = word.value.partition("=") if is_split else ("", "", word.value)
        try:
            parts = shlex.split(rest) if left >= 0 else [rest]
        except ValueError:
            parts = [rest]
        is_shown = word.value == word.shown
        parts = [*([option] if option else []), *parts]
        found += (_Word.of(part, part if is_shown else word.shown) for part in parts)
    return found


def _of_hosts(words: Iterable[str]) -> Iterator[Finding]:
    """Yield findings about URLs that hide their target: many commands only connect to one."""
    for word in words:
        start = word.find("://")
        scheme = re.search(r"[A-Za-z][A-Za-z0-9+.-]{0,40}\Z", word[max(0, start - 41) : start])
        if start < 0 or scheme is None:
            continue
        url = scheme[0] + word[start : start + _MAX_PATH_CHARS]
        if _is_international(url):
            yield from _of_host(url)


def _is_international(url: str) -> bool:
    host = url.partition("://")[2].partition("/")[0].lower()
    return not host.isascii() or any(part.startswith("xn--") for part in re.split(r"[.@]", host))


def _of_host(url: str) -> Iterator[Finding]:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    if not host or any(sign in host for sign in "${}%"):  # a variable, which has a warning
        if _is_international(url):
            name = _short(shown(url))
            text = f"{name}: its host has letters outside ASCII"
            yield Finding("suspicious_address", text, name)
        return
    for warning in host_warnings(host):
        text = f"{_short(shown(url))}: {_short(warning)}"
        yield Finding("suspicious_address", text, text)


def _of_paths(launch: Launch, is_project: bool, directory: str) -> Iterator[Finding]:
    """Judged by what they are, and named as they are written."""
    whole_disks = (str(Path.home()), "~", "$HOME", "${HOME}", "%USERPROFILE%", "/", "C:")
    cwd = None if launch.cwd is None or launch.cwd.value == directory else launch.cwd
    sandbox = launch.sandbox
    grants = [] if sandbox is None or isinstance(sandbox, bool) else [*sandbox.read, *sandbox.write]
    places = [launch.command, *launch.args, cwd, launch.env_file, *grants]
    base = directory if launch.cwd is None else launch.cwd.value
    for each in grants:
        yield from _of_grant(each, is_project, directory)
    for number, each in enumerate(each for each in places if each is not None):
        word, name = each.value, _short(each.shown)
        if _SENSITIVE.search(word):
            text = f"it names a place where secrets are stored: {name}"
            yield Finding("sensitive_place", text, name)
        path = word.rpartition("=")[2] if word.startswith("-") else word
        if (path.rstrip("/\\") or path) in whole_disks:
            text = f"it names your whole home directory or disk: {name}"
            yield Finding("sensitive_place", text, name)
        elif is_project and _is_outside(path, base, directory, is_command=number == 0):
            yield Finding("outside_project", f"it names a path outside the project: {name}", name)
        elif is_project and _leads_out(word, base, directory):
            text = f"it names a path outside the project, by a link: {name}"
            yield Finding("outside_project", text, name)


def _of_grant(grant: Expanded, is_project: bool, directory: str) -> Iterator[Finding]:
    """Yield a path that its sandbox grants: also by where its links lead."""
    real, name = os.path.realpath(grant.value), _short(grant.shown)
    if real == "/etc" or real.startswith("/etc/"):
        text = f"its sandbox grants settings of the system: {name}"
        yield Finding("sensitive_place", text, f"sandbox {name}")
    leads = real != os.path.abspath(grant.value)
    shown = name if grant.used else f"{name} -> {_short(real)}"
    if leads and _SENSITIVE.search(real):
        text = f"its sandbox grants a place where secrets are stored: {shown}"
        yield Finding("sensitive_place", text, f"sandbox {shown}")
    if leads and real == os.path.realpath(Path.home()):
        text = f"its sandbox grants your whole home directory: {shown}"
        yield Finding("sensitive_place", text, f"sandbox {shown}")
    is_inside = is_project and is_within(grant.value, directory)
    if is_inside and not is_within(real, os.path.realpath(directory)):
        text = f"its sandbox grants a path outside the project, by a link: {shown}"
        yield Finding("outside_project", text, f"sandbox {shown}")


def _is_outside(path: str, base: str, directory: str, *, is_command: bool) -> bool:
    if path.startswith("~"):
        return True
    if not (os.path.isabs(path) or ".." in re.split(r"[/\\]", path)) or "://" in path:
        return False
    if is_command and path.startswith(_SYSTEM):
        return False
    whole = os.path.abspath(os.path.join(base, path))
    return len(path) > _MAX_PATH_CHARS or not is_within(whole, directory)


def _leads_out(word: str, base: str, directory: str) -> bool:
    """Whether a path that is or is in ``word`` is in the project and leads out of it."""
    word = word[:_MAX_PATH_CHARS]
    pieces = [word, *_BETWEEN_PATHS.split(word)[:_MAX_PIECES]]
    if word.startswith("-"):  # -Idocs, -C./docs
        pieces.append(word[2:])
    for piece in dict.fromkeys(pieces):
        path = os.path.abspath(os.path.join(base, piece))
        if is_within(path, directory) and not followed(path, [directory])[1]:
            return True
    return False


def _of_environment(launch: Launch, is_project: bool, directory: str) -> Iterator[Finding]:
    for name in dict.fromkeys([*launch.env, *launch.env_of_file]):
        if LOADERS.fullmatch(name):
            text = f"the variable {_short(name)} can make programs load or run other code"
            yield Finding("loads_code", text, name)
    base = directory if launch.cwd is None else launch.cwd.value
    for name, each in launch.env.items():
        # Its value is not shown here: it may be a secret, and findings are.
        if is_project and _leads_out(each.value, base, directory):
            text = f"the variable {_short(name)} names a path outside the project, by a link"
            yield Finding("outside_project", text, f"variable {name}")


def _of_url(url: str) -> Iterator[Finding]:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return
    yield from _of_host(url)
    if parts.scheme.lower() == "http" and not is_loopback(host):
        yield Finding("unencrypted", "the connection is not encrypted (http)")
    if parts.username or parts.password:
        yield Finding("suspicious_address", "the URL has a user name or password in it", "password")


_PUT_INTO = {
    "command": ("command", "decides which program is run"),
    "argument": ("args[", "is put into an argument, where other programs see it"),
    "url": ("url", "is put into a URL, which may be recorded"),
    "sandbox": ("sandbox.", "decides what its sandbox grants"),
}
"""The beginning of a place's name, the place, and the effect of a variable there."""


def _of_variables(variables: Mapping[str, tuple[str, ...]]) -> Iterator[Finding]:
    for name, places in variables.items():
        for kind, (start, does) in _PUT_INTO.items():
            if any(place.startswith(start) for place in places):
                text = f"the variable {_short(name)} {does}"
                yield Finding("from_variable", text, f"{kind} {name}")


def _of_secrets(launch: Launch, is_project: bool, directory: str) -> Iterator[Finding]:
    """Yield findings about the files and secrets that are read after an approval."""
    to = "given to the program"
    if launch.url is not None:
        to = f"sent to {_short(shown(launch.url.shown))}"
    for place, each in launch.places.items():
        for secret in each.secrets:
            name = _short(f"{secret.kind}:{secret.name}")
            destination = "sent to where you log in" if place.startswith("oauth.") else to
            text = f"what {name} holds is read from this machine and {destination}"
            yield Finding("from_variable", text, f"{name} {place}")
            if secret.kind == "file" and _SENSITIVE.search(secret.place):
                text = f"it reads a place where secrets are stored: {_short(secret.place)}"
                yield Finding("sensitive_place", text, secret.place)
            elif secret.kind == "file" and is_project and not is_within(secret.place, directory):
                text = f"it reads a file outside the project: {_short(secret.place)}"
                yield Finding("outside_project", text, secret.place)


def _short(text: str) -> str:
    return safe_text(text, 200)
