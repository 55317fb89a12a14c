r"""Patterns that every provider's engine for regular expressions accepts.

Providers compile the patterns of a schema, each with an engine of its own, and refuse the whole
request for one that they do not know: with the tools of all other servers in it. The portable
subset has literals, ``.``, sets, ``\d \w \s``, groups, alternatives, repeats, ``^`` and ``$``.
It has no look-around, no names, references, word boundaries or properties of Unicode, and nothing
on which the engines differ: ``[`` within a set, ``[^]``, ``\u{...}``, ``[\w-.]``, ``a++``.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ..validation.ecma_patterns import Untranslatable, check_syntax

__all__ = ["is_portable"]

_ESCAPE = r"\\(?:[dDwWsStnrfv]|x[0-9A-Fa-f]{2}|u(?![Dd][89A-Fa-f])[0-9A-Fa-f]{4}|[!-/:-@\[-`{-~])"
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
_MAX_CHARS = 1_000


@lru_cache(maxsize=4096)
def is_portable(pattern: str) -> bool:
    """Whether every provider takes ``pattern``."""
    at = depth = 0
    may_repeat = False
    if len(pattern) > _MAX_CHARS:
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
