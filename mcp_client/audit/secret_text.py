r"""Find the secrets in a text.

Two kinds of evidence count. **Looks**: ``PATTERNS``, regular expressions of what is a secret
in any place. **Names**: a name of a secret with a value next to it, in any notation:

    password = "a b"      password: x         {"password": "a b"}      {\"password\": \"a b\"}
    Cookie: a=b; c=d      --token X           Password=a b;Server=x    tokens: [a, b]
    name: X_TOKEN, value: x                   <password>x</password>   "Authorization", "Bearer x"

The names are judged by the same keys as the members of objects. Everything here is linear in the
text: each value is passed over once it has been found, and what is looked at around a name is
bounded. If the end of a value is in doubt, more is hidden rather than less.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from ..runtime.secret_names import SecretNames

__all__ = [
    "NAME_KEYS",
    "PATTERNS",
    "TRACES",
    "VALUE_KEYS",
    "find_named",
    "flag_of",
    "is_plain",
    "kind_of",
    "may_have_names",
    "plain_members",
]

Span = tuple[int, int]

_PEM = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PREFIX = (
    r"sk-|[srp]k_(?:live|test)_|whsec_|gh[opusr]_|github_pat_|gl(?:pat|ptt|dt|rt|cbt|soat|ft)-"
    r"|xox[a-z]-|xoxe\.|xapp-|pypi-|SG\.|shp(?:at|ca|pa|ss)_|do[opr]_v1_|ya29\.|AIza|GOCSPX-"
    r"|hv[bsr]\.|dp\.[a-z]{2}\.|sq0[a-z]{3}-|EAAA[A-Z]|lin_api_|ntn_|glsa_|glc_|gsk_|pplx-|xai-"
    r"|sbp_|pscale_(?:tkn|pw)_|PMAK-|NRAK-|sntry[su]_|ATATT3|ATBB|HRKU-|figd_|r8_|dapi"
    r"|AGE-SECRET-KEY-"
)
_QUOTED_OR_WORD = r"(?:(?<=\")[^\"]{1,999}+|(?<=')[^']{1,999}+|[^\s\"']{1,999}+)"
_PROGRAM_WITH_P = (
    r"\b(?:mysql\w{0,8}|mariadb[\w-]{0,8}|mongo\w{0,8}|sshpass|plink|"
    r"(?:docker|podman|buildah|helm registry|oras) login)\b[^\n|;&]{0,160}?\s-p\s?[\"']?"
)
PATTERNS: tuple[str, ...] = (
    rf"-----BEGIN {_PEM}(?s:.*?)(?:-----END {_PEM}|\Z)",
    r"(?i)(?P<keep>\bbearer\s{1,3})[a-z0-9._~+/=-]{16,}+",
    r"(?<![\w-])eyJ[\w-]{16,}+(?:\.[\w-]*+){0,4}",
    rf"(?<![A-Za-z0-9_-])(?:{_PREFIX})[\w.-]{{16,}}+",
    r"(?<![A-Za-z0-9_-])(?:npm_|hf_|SK|key-)[A-Za-z0-9]{30,}+",
    r"(?<![A-Za-z0-9])A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    r"(?<![\w-])[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}(?![\w-])",
    r"(?<!\d)\d{8,10}:[\w-]{35}(?![\w-])",
    r"(?<=://)[^\s/?#@:\[\"'<>]{0,256}:(?!\d{1,5}[/?#])[^\s\"'<>]{1,256}(?=@[\w\[])",
    r"(?i)(?P<keep>(?:https?|wss?)://)[^\s/?#@:\"'<>]{1,512}(?=@[\w\[])",
    r"(?<=://)[^\s/?#@:\"'<>]{16,512}(?=@[\w\[])",
    r"(?i)(?P<keep>[?&#;](?:code|sig|[\w-]{0,30}signature|key)=)[^&#\s\"'<>]++",
    r"(?i)(?P<keep>https?://hooks?\.[\w.-]{1,99}/)[^\s\"'<>]++",
    r"(?i)(?P<keep>https?://[^\s\"'<>]{1,200}?/[\w.-]{0,30}hooks?(?:b2)?/)[^\s\"'<>]++",
    r"(?i)(?P<keep>https?://[^\s\"'<>/]{1,99}/bot)\d[^\s\"'<>/]++",
    rf"(?P<keep>(?<![\w-])(?:-u|-U|--user|--proxy-user)(?:\s{{1,3}}|=)[\"']?)(?=[^\s/:\"']{{0,999}}:(?!//)){_QUOTED_OR_WORD}",
    rf"(?P<keep>\bcurl\b[^\n|;&]{{0,160}}?\s-u[\"']?)(?=[^\s/:\"']{{1,999}}:(?!//)){_QUOTED_OR_WORD}",
    rf"(?P<keep>{_PROGRAM_WITH_P}){_QUOTED_OR_WORD}",
    r"(?i)(?P<keep>\blogin\s{1,3}\S{1,99}\s{1,3}password\s{1,3})\S++",
)
"""The regular expressions of secrets. A match of a group called ``keep`` is shown."""

TRACES: tuple[tuple[str, ...], ...] = (
    ("private key",),
    ("bearer",),
    ("eyj",),
    (
        *("sk-", "k_live_", "k_test_", "whsec_", "gh", "github_", "gl", "xox", "xapp-", "pypi-"),
        *("sg.", "shp", "_v1_", "ya29.", "aiza", "gocspx-", "hv", "dp.", "sq0", "eaaa", "lin_"),
        *("ntn_", "gsk_", "pplx-", "xai-", "sbp_", "pscale_", "pmak-", "nrak-", "sntry", "atatt3"),
        *("atbb", "hrku-", "figd_", "r8_", "dapi", "age-"),
    ),
    ("npm_", "hf_", "sk", "key-"),
    ("akia", "asia", "abia", "acca"),
    (".",),
    (":",),
    ("://",),
    ("://",),
    ("://",),
    ("code=", "sig", "key="),
    ("://hook",),
    ("hook",),
    ("/bot",),
    ("-u",),
    ("curl",),
    (" -p",),
    ("login",),
)
"""The texts, in lower case, that exist if a pattern matches, for each of ``PATTERNS`` in turn."""

NAME_KEYS = frozenset(
    """
    name key field header label id element param parameter variable var property attribute attr
    selector locator env option setting placeholder target
    """.split()  # noqa: SIM905 - a list of words is read as words
)
"""The names of members that name a value next to them: ``{"name": "Password", "value": "x"}``."""
VALUE_KEYS = frozenset(
    """
    value values val v text content contents data default defaultvalue current new old string input
    plaintext body payload raw answer fill
    """.split()  # noqa: SIM905
)
"""Names of members that hold such a value."""

# Before Python 3.11.5, a possessive group matches what it must not. Without it, each word needs
# memory until the end.
_MORE = "*+" if sys.version_info >= (3, 11, 5) else "*"
_PLAIN = re.compile(rf"(?:[^\W_]{{1,15}}(?:[ ,!?()]|\.(?!\w)){{1,3}}){_MORE}[^\W_]{{0,15}}")
"""Ordinary words, in which no notation gives a name, and no pattern of ours finds anything without
one of ``_NAMES_IN_PROSE``. A dot is at the end of a word: within one it may join parts of a key."""
_NAMES_IN_PROSE = ("password", "bearer")
_FLAT = re.compile(
    rf'\{{(?:"\w{{1,40}}":(?:"{_PLAIN.pattern}"|-?\d{{1,15}}(?:\.\d{{1,15}})?|true|false|null)'
    r"(?:,(?!\})|(?=\})))+\}",
    re.ASCII,
)
"""The JSON text of an object of ordinary words and numbers, in ASCII."""
_MEMBER_NAME = re.compile(r'"(\w+)":')
_MIN_SECRET_CHARS = 5
_SEPARATOR = re.compile(r":=|=>|={1,3}|:(?![:/])|,(?=\s{0,3}\\{0,15}[\"'])")
_NAME_REVERSED = re.compile(
    r"\s{0,3}[\])]?(?P<quote>(?:[\"'`]\\{0,15})?)[\])]?(?P<name>[\w.$@-]{1,80})"
    r"(?P<more>(?:[ ][\w.-]{1,30}){0,2})"
)
_SPACE = re.compile(r"[ \t]{0,8}")
_OPENING = re.compile(r"(?:[bBfFrRuU@$]{1,2}(?=[\\\"']))?(\\{0,15})(\"\"\"|'''|[\"'`])")
_UNQUOTED = {
    sign: re.compile(
        r"(?:[^\s&,;\"'`<>)\]}|]"
        rf"|[&,;](?!\s|\Z|[\"']?[A-Za-z_][\w.\[\]-]{{0,64}}[\"']?\s{{0,2}}[{next}])"
        r"|[\"'`](?=\w)"
        r"|[<>)\]}|](?![<>)\]}|,;.:&\"'`]{0,9}(?:\s|\Z)))++"
    )
    for sign, next in (("=", "="), (":", "=:"))
}
"""A value without quotes: to the next space, unless another name with its value comes before."""
_WORD_VALUE = re.compile(r"\S++")
_LINE_VALUE = re.compile(r"[^\r\n]++")
_ELEMENT = re.compile(r"[^;\n\"'`]{0,512}(?=;|\n|\Z|[\"'`])")
_NEXT_ELEMENT = re.compile(r";\s{0,3}[\w -]{1,40}=")
_SCHEME = re.compile(
    r"(?i)(?:basic|bearer|digest|dpop|negotiate|ntlm|token|apikey|hawk|aws4-hmac-sha256)[ \t]{1,3}"
)
_FLAG = re.compile(r"(?<![\w-])--?(?P<name>[A-Za-z][\w-]{1,60})[ \t]{1,3}(?=[^\s-]|-[^\sA-Za-z-])")
_FLAG_WITH_VALUE = re.compile(r"--?[A-Za-z][\w-]{1,60}(?==.)")
_ELEMENT_TAG = re.compile(r"<(?P<name>[\w:.-]{1,60})(?:\s[^<>]{0,200})?>(?P<value>[^<]{1,4096})</")
_NAMED_TAG = re.compile(
    r"<(?:name|key)>\s{0,9}(?P<name>[^<]{1,80}?)\s{0,9}</(?:name|key)>\s{0,40}"
    r"<[\w:.-]{1,30}>(?P<value>[^<]{1,4096})</"
)
_VALUE_KEY = re.compile(
    rf"(?i)(?<!\w)(?:{'|'.join(sorted(VALUE_KEYS))})\\{{0,15}}[\"'`]?\s{{0,3}}(?::=|=>|=|:)\s{{0,5}}"
)
_HEADERS = frozenset({"authorization", "cookie"})
_ORDINARY_WORDS = frozenset(
    {"pass", "pin", "auth", "otp", "ssn", "cvv", "cvc", "secrets", "cookie", "cookies", "webhook"}
)
"""Keys that are ordinary words: before a colon in running text, only a value with a digit or in
quotes makes them a secret's name."""
_EMPTY_VALUES = frozenset({"", "null", "none", "nil", "true", "false", "undefined"})
_PAIR_CHARS = 400
_NAME_CHARS = 130
_HINT = re.compile(r"[=:<]|--?[A-Za-z]|[\"'],")


def is_plain(text: str) -> bool:
    """Whether ``text`` is ordinary words, without a secret in them."""
    words = len(text) >= _MIN_SECRET_CHARS and _PLAIN.fullmatch(text)
    return bool(words) and not _names_a_secret(text)


def _names_a_secret(text: str) -> bool:
    text = text.casefold()
    return any(name in text for name in _NAMES_IN_PROSE)


def plain_members(text: str) -> tuple[str, ...]:
    """Return the names in the JSON text of an object of plain words and numbers, else ()."""
    if _FLAT.fullmatch(text) is None or _names_a_secret(text):
        return ()
    return tuple(_MEMBER_NAME.findall(text))


def kind_of(names: SecretNames, name: str) -> str:
    """Return the kind of a member by its name: "secret", "plural", "value" or none of them."""
    if names.is_secret(name):
        return "secret"
    if names.is_plural(name):
        return "plural"
    return "value" if name.lower() in VALUE_KEYS else ""


def may_have_names(text: str) -> bool:
    """False where ``text`` has none of the notations that ``find_named`` knows."""
    return _HINT.search(text) is not None


def flag_of(item: str) -> str:
    """Return ``--token`` of ``--token=X``, whose value ends with the item."""
    match = _FLAG_WITH_VALUE.match(item)
    return match[0] if match else ""


def find_named(text: str, names: SecretNames) -> list[Span]:
    """Return the places in ``text`` of values that have the name of a secret."""
    found: list[Span] = []
    end = 0
    for match in _SEPARATOR.finditer(text):
        if match.start() >= end:
            span = _assigned(text, match, names)
            if span is None:
                span = _paired(text, match, names)
            if span is not None:
                found.append(span)
                end = max(end, span[1])
    if "-" in text:
        found += _flagged(text, names)
    if "</" in text:
        for pattern in (_ELEMENT_TAG, _NAMED_TAG):
            found += [
                match.span("value")
                for match in pattern.finditer(text)
                if names.is_secret(match["name"])
            ]
    return found


# ------------------------------------------------------------------ a name and its value


def _assigned(text: str, separator: re.Match[str], names: SecretNames) -> Span | None:
    """Return the value of the secret whose name precedes ``separator``, or None."""
    before = text[max(0, separator.start() - _NAME_CHARS) : separator.start()][::-1]
    match = _NAME_REVERSED.match(before)
    if match is None:
        return None
    sign, name, more = separator[0], match["name"][::-1], match["more"][::-1]
    start = _SPACE.match(text, separator.end()).end()  # type: ignore[union-attr]
    if match["quote"]:
        whole = f"{more}{name}"
        if sign == ",":
            return _quoted(text, start) if names.is_secret(whole) and " " not in whole else None
        if names.is_plural(whole):
            return _several(text, start)
        return _value(text, start) if names.is_secret(whole) else None
    if sign == ",":
        return None
    if not names.ends_as_secret(f"{more}{name}") and not _in_capitals(name, sign, names):
        return _several(text, start) if names.is_plural(name) else None
    begin = separator.start() - match.end("name")
    last = name.lower().rpartition("-")[2]
    if sign == ":":
        if name.lower().startswith("x-") or (last in _HEADERS and not more):
            return _header(text, begin, start)
        if name.lower() in _ORDINARY_WORDS and not _is_like_a_secret(text, start, name):
            return None
    return _value(text, start, begin=begin, sign=sign)


def _in_capitals(name: str, sign: str, names: SecretNames) -> bool:
    """Whether it is an environment variable (``PASSWORD_FOR_CI=x``), whose every word counts."""
    return sign == "=" and name.isupper() and names.is_secret(name)


def _is_like_a_secret(text: str, start: int, name: str) -> bool:
    if _OPENING.match(text, start):
        return True
    word = _WORD_VALUE.match(text, start)
    return word is not None and name.lower() != "pass" and any(map(str.isdigit, word[0]))


def _value(text: str, start: int, *, begin: int | None = None, sign: str = ":") -> Span | None:
    """Return the value that begins at ``start``; ``begin`` is where its unquoted name begins."""
    if _OPENING.match(text, start):
        return _quoted(text, start)
    if text[start : start + 1] in ("[", "{"):
        return start, _closing_bracket(text, start)
    match = None if begin is None or sign != "=" else _element(text, begin, start)
    if match is None:
        match = _UNQUOTED["=" if sign == "=" else ":"].match(text, start)
    if match is None or match[0].rstrip(".").lower() in _EMPTY_VALUES:
        return None
    return match.span()


def _element(text: str, begin: int, start: int) -> re.Match[str] | None:
    """Return a value that may have spaces: of a connection string, or of a form in quotes."""
    lead = text[max(0, begin - _NAME_CHARS) : begin]
    quote = re.search(r"[\"'`][^\s\"'`]*\Z", lead)
    if quote is not None:
        end = re.escape(quote[0][0])
        return re.compile(rf"[^{end}&\n]{{1,999}}").match(text, start)
    element = _ELEMENT.match(text, start)
    if element is None or not element[0]:
        return None
    follows = _NEXT_ELEMENT.match(text, element.end()) is not None
    return element if follows or lead.rstrip()[-1:] == ";" else None


def _several(text: str, start: int) -> Span | None:
    """Return the value of a plural, which is a count unless it is in quotes or brackets."""
    if text[start : start + 1] in ("[", "{") or _OPENING.match(text, start):
        span = _value(text, start)
        return span if span and re.search(r"[A-Za-z\"']", text[span[0] : span[1]]) else None
    return None


def _header(text: str, begin: int, start: int) -> Span | None:
    """Return the value of a header: the rest of its line, or of its quotes."""
    if _OPENING.match(text, start):
        return _quoted(text, start)
    line = _LINE_VALUE.match(text, start)
    if line is None:
        return None
    end = line.end()
    quote = re.search(r"\\{0,15}[\"'`]\Z", text[max(0, begin - 17) : begin])
    if quote is not None:
        end = min(end, _closing_quote(text, start, quote[0][:-1], quote[0][-1]))
    scheme = _SCHEME.match(text, start)
    if scheme is not None and scheme.end() < end:
        start = scheme.end()
    return (start, end) if text[start:end].strip().lower() not in _EMPTY_VALUES else None


def _quoted(text: str, start: int) -> Span | None:
    match = _OPENING.match(text, start)
    if match is None:
        return None
    end = _closing_quote(text, match.end(), match[1], match[2])
    return (match.end(), end) if text[match.end() : end] else None


def _closing_quote(text: str, start: int, escape: str, quote: str) -> int:
    """Return the end of a quoted text; quotes are escaped once for each level of nesting."""
    depth = len(escape)
    for match in re.compile(rf"(\\*){re.escape(quote)}").finditer(text, start):
        extra = len(match[1]) - depth
        if extra >= 0 and extra % (2 * (depth + 1)) == 0:
            return match.end() - len(quote) - depth
    return len(text)


_BRACKETS = re.compile(r"[\[\]{}]|(\\*)([\"'])")


def _closing_bracket(text: str, start: int) -> int:
    depth, at = 0, start
    while (match := _BRACKETS.search(text, at)) is not None:
        at = match.end()
        if match[2]:
            at = _closing_quote(text, at, match[1], match[2]) + len(match[0])
        else:
            depth += 1 if match[0] in "[{" else -1
            if depth == 0:
                return at
    return len(text)


# ------------------------------------------------------------------- other notations


def _paired(text: str, separator: re.Match[str], names: SecretNames) -> Span | None:
    """Return the value next to ``name: Password``: under another name, after it or before it."""
    before = text[max(0, separator.start() - 40) : separator.start()][::-1]
    match = _NAME_REVERSED.match(before)
    if match is None or match["name"][::-1].lower() not in NAME_KEYS:
        return None
    start = _SPACE.match(text, separator.end()).end()  # type: ignore[union-attr]
    span = _quoted(text, start)
    if span is None:
        word = _UNQUOTED[":"].match(text, start)
        span = None if word is None else word.span()
    if span is None or span[1] - span[0] > 80 or not names.is_secret(text[slice(*span)]):
        return None
    after = _VALUE_KEY.search(text, span[1], span[1] + _PAIR_CHARS)
    if after is not None:
        return _value(text, after.end())
    first = max(
        text.rfind(mark, max(0, separator.start() - _PAIR_CHARS), separator.start())
        for mark in "{<("
    )
    earlier = _VALUE_KEY.search(text, first + 1, separator.start()) if first >= 0 else None
    return None if earlier is None else _value(text, earlier.end())


def _flagged(text: str, names: SecretNames) -> Iterator[Span]:
    """Yield the values of ``--token X``."""
    for match in _FLAG.finditer(text):
        if names.ends_as_secret(match["name"]):
            span = _quoted(text, match.end()) or _unquoted_word(text, match.end())
            if span is not None:
                yield span


def _unquoted_word(text: str, start: int) -> Span | None:
    match = re.compile(r"(?:[^\s\"'`]|[\"'`](?=\w))++").match(text, start)
    return None if match is None else match.span()
