r"""Names and patterns that every provider accepts.

A changed name contains a digest of the original. So it does not depend on other tools, and no two
tools share one.

Providers compile the patterns of a schema, each with an engine of its own. One pattern that an
engine does not know makes the provider refuse the whole request, with the tools of all other
servers in it. The portable subset has literals, ``.``, sets, ``\d \w \s``, groups, alternatives,
repeats, ``^`` and ``$``. It has no look-around, no names, references, word boundaries or properties
of Unicode, and nothing on which the engines differ: ``[`` within a set, ``[^]``, ``\u{...}``,
``[\w-.]``, ``a++``, ``\<``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

from ..protocol.canonical_json import sha256
from ..validation.ecma_patterns import Untranslatable, check_syntax

__all__ = ["is_portable", "legal_members", "legal_names"]

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_NAME_CHARS = 64
_DIGEST_CHARS = 8
_ESCAPE = r"\\(?:[dDwWsStnrfv]|x[0-9A-Fa-f]{2}|u(?![Dd][89A-Fa-f])[0-9A-Fa-f]{4}|[!-/:;=?@\[-`{-~])"
_LITERAL = r"[^\\^$.*+?()\[\]{}|\ud800-\udfff]"
_IN_SET = rf"(?:{_ESCAPE}|[^\\\[\]&~|^-])"
_RANGE = r"(?:\\[xu][0-9A-Fa-f]{2,4}|[^\\\[\]&~|^-])"
_SET = (
    rf"\[\^?-?(?:{_RANGE}-{_RANGE}|{_IN_SET}|[&|~](?![&|~])|(?<!\[)\^|(?<!-)-(?=\]))+\]"
    rf"|\[\^?-\]"
)
_TOKEN = re.compile(
    rf"(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<repeat>(?:[*+?]|\{{\d{{1,4}}(?:,\d{{0,4}})?\}})\??)"
    rf"|(?P<edge>[\^$|])|(?P<one>\.|{_ESCAPE}|{_SET}|{_LITERAL})"
)
_MAX_GROUPS = 50
_MAX_PATTERN_CHARS = 1_000


def legal_names(
    names: Sequence[str], *, letter_first: bool = False, reserved: Collection[str] = ()
) -> dict[str, str]:
    """Return for each of the distinct ``names`` one of ``[a-zA-Z0-9_-]{1,64}``.

    A legal name is unchanged. With ``letter_first`` a name also begins with a letter or an
    underscore. No tool gets a ``reserved`` one.
    """
    legal = (name for name in names if name not in reserved and _is_legal(name, letter_first))
    found = {name: name for name in legal}
    if len(found) == len(names):
        return found
    taken = {*found, *reserved}
    for name in names:
        if name not in found:
            found[name] = _unlike(name, taken, letter_first)
            taken.add(found[name])
    return {name: found[name] for name in names}


def _is_legal(name: str, letter_first: bool) -> bool:
    return _LEGAL.fullmatch(name) is not None and not (letter_first and name[0] in "0123456789-")


def _unlike(name: str, taken: set[str], letter_first: bool) -> str:
    plain = _ILLEGAL.sub("_", name)
    if letter_first and plain[:1] in "0123456789-":
        plain = f"_{plain}"
    digest = sha256(name)
    for length in range(_DIGEST_CHARS, _MAX_NAME_CHARS):
        found = f"{plain[: _MAX_NAME_CHARS - 1 - length]}_{digest[:length]}"
        if found not in taken:  # by design another tool may have it: its name is a server's choice
            return found
    raise AssertionError("a server would have had to find a collision of SHA-256")


def legal_members(names: Iterable[str], legal: re.Pattern[str]) -> dict[str, str]:
    """New names for those of ``names`` that do not match ``legal``, and for no other."""
    distinct = list(dict.fromkeys(names))
    taken = {name for name in distinct if legal.fullmatch(name)}
    found: dict[str, str] = {}
    for name in distinct:
        if name in taken:
            continue
        digest = sha256(name)
        plain = re.sub(r"[^a-zA-Z0-9_]", "_", name)
        if plain in taken or not legal.fullmatch(plain) or not plain.strip("_"):
            plain = f"{plain[: _MAX_NAME_CHARS - 1 - _DIGEST_CHARS]}_{digest[:_DIGEST_CHARS]}"
            if not legal.fullmatch(plain):
                plain = f"_{plain[1 - _MAX_NAME_CHARS :]}"
        while plain in taken:
            digest = sha256(digest)
            plain = f"_{digest[:_DIGEST_CHARS]}"
        found[name] = plain
        taken.add(plain)
    return found


@lru_cache(maxsize=4096)
def is_portable(pattern: str) -> bool:
    """Whether every provider takes ``pattern``."""
    at = depth = 0
    may_repeat = False
    if len(pattern) > _MAX_PATTERN_CHARS:
        return False
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return False
        at = token.end()
        match token.lastgroup:
            case "open":
                depth += 1
            case "close":
                depth -= 1
            case "repeat" if not may_repeat:
                return False
        if not 0 <= depth <= _MAX_GROUPS:
            return False
        may_repeat = token.lastgroup in ("close", "one")
    if depth:
        return False
    try:
        check_syntax(pattern)
    except Untranslatable:
        return False
    return True
