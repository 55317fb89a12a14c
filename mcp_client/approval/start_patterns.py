"""Patterns of servers, by the words of their commands and by their URLs, as a policy names them.

A pattern with ``://`` matches URLs. Scheme, host and path are separate globs, so that
``https://*.example.com/*`` matches no path of another host. A pattern without a path matches any
path. Queries are ignored, and so is the default port of the scheme. Any other pattern is a glob
over the words of a command as one text: ``npx *``; ``*`` alone matches every server.

**Allow patterns** match a server exactly as it is written, including upper and lower case, with a
word that contains white space in quotes. **Deny patterns** match more, because a denied command may
be written in other ways:

- The pattern may match from any word on: ``env -i nice npx evil``, ``sh -c npx``.
- A first word is compared by its file name, without ``.exe`` and the like, and by the file that it
  resolves to through links. A name in the pattern that resolves to the same file matches, too.
- A command within a word counts, too: after a shell's ``-c``, after ``env -S``, in quotes, in
  parentheses, after ``;``. A URL counts in any place.
- Upper and lower case are equal. ``npx *`` also matches ``npx`` alone.

A shell command is refused if its commands cannot be determined. Examples are unbalanced quotes, a
variable or a wildcard in place of a command, and more than five nested shells. A command that is
too long to examine is refused as well. Not detected: programs that a script or another program
starts, the effect of variables, and a copy of a program under another name. To prevent these, list
the allowed commands by absolute paths, and confine them. A name alone is whatever the PATH of the
user resolves to.
"""

from __future__ import annotations

import ntpath
import os
import posixpath
import re
import shlex
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import IPv6Address
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from ..errors import ConfigError
from .constraints import glob

__all__ = ["LookUp", "ServerPatterns", "Unreadable"]

LookUp = Callable[[str], "str | None"]
"""The file that a command runs; None if it is not found."""
Match = Callable[[str], object]

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]*:[0-9a-f:.]*")
_MAX_CHARS, _MAX_WORDS = 50_000, 500
"""The limits for a command, with the commands within it: the time grows with their product."""
_MAX_LINKS = 40
_MAX_NESTED = 5
_ENDINGS = (".exe", ".cmd", ".bat", ".com", ".ps1")
_SHELLS = frozenset("sh ash bash csh dash fish ksh mksh rbash tcsh yash zsh env busybox".split())  # noqa: SIM905
_CODE = re.compile(r"(?:-[A-Za-z]*[cS]|--(?:split-string|command)=?)(.*)", re.DOTALL)
"""The option after which a word is read by a shell, or by ``env``; or that is in the same word."""
_URL = re.compile(r"([a-z][a-z0-9+.-]{0,20}):/+|(https?):", re.I)
_LENIENT = {ord("\\"): "/", **dict.fromkeys(map(ord, "\t\r\n"))}
_OF_MANY_NAMES = frozenset({"", "busybox", "toybox", "coreutils", "rustup"})
"""Programs that are another by the name they are started by."""
_PARTS = re.compile(r"(?:[\s;|&()<>`\"'=]|\\_)+")
_GLUED = re.compile(r"-[A-Za-z]*?[cS](?=.)")
_PREFIX = re.compile(
    r"[A-Za-z_]\w*\+?=.*|-.*|[0-9.]+[smhd]?|!|builtin|command|doas|do|elif|else|env|eval|exec|if"
    r"|nice|nohup|setsid|stdbuf|sudo|then|time|timeout|until|while|xargs|\{",
    re.DOTALL,
)
"""A prefix that may precede a command in a shell."""
_EXPANDED = re.compile(r"[$*?]|[\[{].")


class Unreadable(Exception):
    """The program that a command runs cannot be determined: ``args[0]`` is the reason."""


class _Url(NamedTuple):
    scheme: Match
    place: Match
    path: Match

    @classmethod
    def of(cls, pattern: str) -> _Url:
        scheme, _, rest = pattern.lower().partition("://")
        place = rest.partition("/")[0]
        path = pattern.partition("://")[2][len(place) :] or "*"
        if not scheme or not place:
            raise ConfigError(f"{pattern!r} is not a pattern of URLs: write https://HOST/PATH")
        if place.startswith("[") and ":" in place.partition("]")[0]:
            place = f"[[]{place[1:]}"  # an IPv6 address, and no set of characters
        return cls(glob(scheme), glob(place), glob(path))

    def matches(self, scheme: str, place: str, path: str) -> bool:
        return bool(self.scheme(scheme) and self.place(place) and self.path(path))


class ServerPatterns:
    """A set of patterns. Raises ``ConfigError`` for an invalid pattern."""

    def __init__(self, patterns: Iterable[str]) -> None:
        patterns = tuple(patterns)
        for each in patterns:
            if not isinstance(each, str) or not each.strip():
                raise ConfigError(
                    f"{each!r} is not a pattern: write the words of a command, 'npx *'"
                )
        self._urls = [(each, _Url.of(each)) for each in patterns if "://" in each]
        others = [each for each in patterns if "://" not in each]
        self._exact = [(each, glob(each)) for each in others]
        self._any_case = [(each, glob(each.lower())) for each in others]

    def allows_command(self, words: Sequence[str]) -> bool:
        """Return whether a pattern allows this command."""
        text = " ".join(map(_quoted, words))
        return any(match(text) for _, match in self._exact)

    def allows_url(self, url: str) -> bool:
        """Return whether a pattern allows this URL."""
        if any(pattern == "*" for pattern, _ in self._exact):
            return True
        try:
            parts, places = urlsplit(url), _places(url)
        except ValueError:
            return False
        if "\\" in url or not _HOST.fullmatch(parts.hostname or ""):
            return False  # which another reader may take for another host
        return any(
            all(pattern.matches(parts.scheme, places[0], path) for path in _paths(parts.path))
            for _, pattern in self._urls
        )

    def denies_url(self, url: str) -> str | None:
        """Return the pattern that denies this URL, or None. Raises ``Unreadable``."""
        found = next((text for text, match in self._any_case if match(url.lower())), None)
        return found or self._denies_place(url)

    def _denies_place(self, url: str) -> str | None:
        if not self._urls:
            return None
        try:
            parts, places = urlsplit(url), _places(url)
        except ValueError:
            raise Unreadable("the command has a URL that cannot be parsed") from None
        for text, pattern in self._urls:
            for place in places:
                if any(pattern.matches(parts.scheme, place, one) for one in _paths(parts.path)):
                    return text
        return None

    def denies_command(self, words: Sequence[str], look_up: LookUp) -> str | None:
        """Return the pattern that denies this command, or None. Raises ``Unreadable``."""
        if not self._any_case and not self._urls:
            return None
        names = _Names(look_up, [text.split()[0] for text, _ in self._any_case])
        for command in _Reader(names).commands(words):
            for at, first in enumerate(command):
                url = _url_in(first)
                found = None if url is None else self._denies_place(url)
                if found is not None:
                    return found
                called = names.of(first)
                rest = command[at + 1 :]
                tails = {" ".join(rest).lower(), " ".join(map(_quoted, rest)).lower()}
                # What begins with "*" has seen the later words at the first, but for their links.
                linked = called if at == 0 else called - {first.lower(), _file_name(first)}
                for text, match in self._any_case:
                    for name in linked if text.startswith("*") else called:
                        texts = [f"{name} {tail}" for tail in tails]
                        if any(map(match, texts if rest else [name, *texts])):
                            return text
        return None


def _file_name(path: str) -> str:
    return ntpath.basename(path).lower()


def _quoted(word: str) -> str:
    return shlex.quote(word) if not word or re.search(r"[\s\"']", word) else word


def _url_in(word: str) -> str | None:
    r"""Return the URL in a word, as a lenient program parses it: ``https:\\host``."""
    text = word.translate(_LENIENT)
    found = _URL.search(text)
    return None if found is None else f"{found[1] or found[2]}://{text[found.end() :]}"


def _places(url: str) -> tuple[str, ...]:
    """Host and port as a pattern has them, then in other spellings."""
    parts = urlsplit(url)
    hosts, port = [(parts.hostname or "").lower()], parts.port
    hosts.append(unquote(hosts[0]).rstrip("."))
    try:
        hosts.append(hosts[1].encode("idna").decode().rstrip("."))
    except UnicodeError:
        pass
    hosts += _address(hosts[-1])
    host_texts = [f"[{each}]" if ":" in each else each for each in hosts]
    own = port is None or port == _PORTS.get(parts.scheme)
    return tuple(
        dict.fromkeys(
            [*(host_texts if own else [f"{each}:{port}" for each in host_texts]), *host_texts]
        )
    )


def _address(host: str) -> list[str]:
    """An IP address as it is mostly written: ``127.0.0.1`` for ``2130706433`` and ``127.1``."""
    try:
        if ":" not in host:
            return [socket.inet_ntoa(socket.inet_aton(host))]
        address = IPv6Address(host.partition("%")[0])
    except (OSError, ValueError):
        return []
    mapped = address.ipv4_mapped
    return [str(address), *([] if mapped is None else [str(mapped)])]


def _paths(path: str) -> set[str]:
    """Return a path as it is written, and as a server parses it."""
    path = path or "/"
    plain = posixpath.normpath(unquote(path)).replace("//", "/")
    return {path, f"{plain}/" if path.endswith("/") and plain != "/" else plain}


# ------------------------------------------------------------ the commands in a command


class _Names:
    """The names that a word may have as a command."""

    def __init__(self, look_up: LookUp, denied: Iterable[str]) -> None:
        """Take ``denied``, first words of patterns, and the names of the files they lead to."""
        self._look_up = look_up
        self._known: dict[str, set[str]] = {}
        self._called: dict[str, set[str]] = {}
        for word in denied:
            file = os.path.realpath(look_up(word) or os.sep)
            if os.path.basename(file) not in _OF_MANY_NAMES:
                self._called.setdefault(file, set()).add(word.lower())

    def of(self, word: str) -> set[str]:
        """Return the names in lower case."""
        if word not in self._known:
            file = self._look_up(os.path.expanduser(word))
            found = set() if file is None else {*self._called.get(os.path.realpath(file), ())}
            for path in _links(word, file):
                for each in (path.lower(), _file_name(path)):
                    found |= (
                        {each, each.removesuffix(os.path.splitext(each)[1])}
                        if each.endswith(_ENDINGS)
                        else {each}
                    )
            self._known[word] = found
        return self._known[word]


def _links(word: str, file: str | None) -> Iterator[str]:
    """Yield ``word``, its ``file``, and each target of its links."""
    yield word
    for _ in range(_MAX_LINKS):
        if file is None:
            return
        yield file
        directory, name = os.path.split(file)
        directory = os.path.realpath(directory)
        yield os.path.join(directory, name)
        try:
            file = os.path.normpath(os.path.join(directory, os.readlink(file)))
        except OSError:
            return


class _Reader:
    """Finds the commands in one command."""

    def __init__(self, names: _Names) -> None:
        self._names = names
        self._words = self._chars = 0

    def commands(self, words: Sequence[str], depth: int = 0) -> Iterator[Sequence[str]]:
        """Yield ``words``, and the commands within them. Raises ``Unreadable``."""
        if depth > _MAX_NESTED:
            raise Unreadable("the command nests shells too deeply to be examined")
        yield self._counted(words)
        is_shell = is_code = False
        for word in words:
            option = _CODE.fullmatch(word) if is_shell else None
            code = word if is_code and word[:1] not in "-+" else option[1] if option else ""
            for command in _shell_commands(code):
                yield from self.commands(command, depth + 1)
            is_code = is_code or option is not None
            is_shell = is_shell or not _SHELLS.isdisjoint(self._names.of(word))
            for parts in _parts(word):
                yield self._counted(parts)

    def _counted(self, words: Sequence[str]) -> Sequence[str]:
        self._words += len(words)
        self._chars += sum(map(len, words))
        if self._words > _MAX_WORDS or self._chars > _MAX_CHARS:
            raise Unreadable("the command is too long to be examined")
        return words


def _parts(word: str) -> Iterator[list[str]]:
    """Return the ways in which a program may split a word into several."""
    glued = _GLUED.match(word)
    for text in {word, word[glued.end() :] if glued else word}:
        parts = [part for part in _PARTS.split(text) if part]
        if parts and parts != [word]:
            yield parts
    if "\\" in word or '"' in word or "'" in word:
        try:
            yield shlex.split(word)
        except ValueError:  # then it is not a line for a shell
            return


def _shell_commands(code: str) -> list[list[str]]:
    """The simple commands of a shell's ``code``. Raises ``Unreadable``."""
    text = code.replace("\\\n", "").replace("\n", ";").replace("`", "$(")
    reader = shlex.shlex(text, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    reader.commenters = ""
    commands: list[list[str]] = [[]]
    try:
        for token in reader:
            if not token.strip("();<>|&"):
                if not {"<", ">"} & set(token):
                    commands.append([])
            else:
                commands[-1].append(token)
    except ValueError:
        raise Unreadable("a shell command has unbalanced quotation marks") from None
    for command in commands:
        first = next((word for word in command if not _PREFIX.fullmatch(word)), "[")
        if first not in ("[", "[[") and _EXPANDED.search(first):
            raise Unreadable("a shell command has a variable or a wildcard in place of a command")
    return [command for command in commands if command]
