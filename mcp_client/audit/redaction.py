"""What a record may show of arguments and texts: no secrets, and not without end.

A value is a secret by the name it goes by, by how it looks, or by the tool's own word:

- **By name.** Any member of an object whose name has one of ``KEYS`` among its words, however it
  is written (``api_key``, ``API-Key``, ``apiKey``, ``x-api-key``), or ends with one of at least
  five letters (``dbpassword``). The whole value is left out, whatever it is; ``true``, ``false``,
  ``null`` and what is empty are shown.
- **By look.** In every string, names of members included, what matches ``PATTERNS``: bearer
  tokens and ``Authorization`` headers, JSON Web Tokens and other base64 that begins an object,
  keys with a known prefix (``sk-``, ``ghp_``, ``github_pat_``, ``glpat-``, ``xoxb-``, ``AKIA``,
  ``AIza``, ...), PEM private keys, passwords in URLs, secrets in query strings, ``password=...``
  and ``--token ...``. Nothing is guessed from randomness alone: digests and ids would go with it.
- **By the tool's word.** What its input schema marks with ``writeOnly`` or with the format
  ``password``. Where the schema cannot be followed to the end, the value counts as marked.

What is shown is bounded: so many characters in all and in one string, so many levels. Whatever was
left out for that is said. The time it takes is linear in what is shown.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigError

__all__ = ["KEYS", "PATTERNS", "REDACTED", "Redaction", "Shown", "marked", "redaction_of"]

REDACTED = "[redacted]"

KEYS: frozenset[str] = frozenset(
    """
    password passwords passwd passphrase passcode pass pwd secret secrets token auth authorization
    authtokens accesstokens refreshtokens apitokens apikey apikeys accesskey accesskeys privatekey
    privatekeys signingkey encryptionkey sshkey credential credentials cookie cookies sessionid
    jwt bearer otp totp pin cvv cvc ssn csrf xsrf connectionstring seedphrase
    """.split()  # noqa: SIM905 - a list of words is read as words
)
"""Names of secrets: lower case, letters and digits alone."""

_NAMES = r"(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|credentials?)"
_PEM = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PREFIX = (
    r"sk-|[srp]k_(?:live|test)_|gh[opusr]_|github_pat_|glpat-|xox[abeoprs]-|xapp-|npm_|pypi-|hf_"
    r"|SG\.|shp(?:at|ca|pa|ss)_|dop_v1_|ya29\.|AIza|AGE-SECRET-KEY-"
)
_SCHEME = r"(?:(?:basic|bearer|digest|dpop|negotiate|token)\s{1,3})?"
PATTERNS: tuple[str, ...] = (
    rf"-----BEGIN {_PEM}(?s:.*?)(?:-----END {_PEM}|\Z)",
    rf"(?i)(?P<keep>\bauthorization[\"']?\s{{0,3}}[:=]\s{{0,3}}[\"']?{_SCHEME})[^\s\"']++",
    r"(?i)(?P<keep>\bbearer\s{1,3})[a-z0-9._~+/=-]{16,}+",
    r"(?<![\w-])eyJ[\w-]{16,}+(?:\.[\w-]*+){0,4}",
    rf"(?<![A-Za-z0-9_-])(?:{_PREFIX})[\w.-]{{16,}}+",
    r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    r"(?<=://)[^\s/?#@:]{0,256}:[^\s/?#@]{1,256}(?=@)",
    rf"(?i)(?P<keep>[?&](?:[\w-]{{0,30}}{_NAMES}|code|sig|[\w-]{{0,30}}signature|key)=)[^&#\s\"']++",
    rf"(?i)(?P<keep>{_NAMES}[\"']?\s{{0,3}}[:=]\s{{0,3}}[\"']?)[^\s\"'&,;]++",
    rf"(?i)(?P<keep>--(?:[a-z0-9]{{1,20}}-){{0,3}}{_NAMES}\s{{1,3}}[\"']?)[^\s\"']++",
)
"""Regular expressions of secrets. What a group called ``keep`` matched is shown."""

_NAMED = ("pass", "pwd", "secret", "token", "key", "credential")
_TRACES: tuple[tuple[str, ...], ...] = (
    ("private key",),
    ("authorization",),
    ("bearer",),
    ("eyj",),
    (
        *("sk-", "k_live_", "k_test_", "gh", "github_", "glpat-", "xox", "xapp-", "npm_", "pypi-"),
        *("hf_", "sg.", "shp", "dop_", "ya29.", "aiza", "age-"),
    ),
    ("akia", "asia"),
    ("://",),
    (*_NAMED, "code=", "sig"),
    _NAMED,
    _NAMED,
)
"""For each of ``PATTERNS`` in turn, what is there, in lower case, where it matches."""

_MOST = 8_192
_STRING = 1_000
_DEEPEST = 24
_BITS = 256
_WINDOW = 4_096
_EDGE = 1_024
_SHORT = 5
_SCHEMAS = 64
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NOT_LETTERS = re.compile(r"[^a-z0-9]+")


@dataclass(slots=True)
class Shown:
    """What may be shown of a value; ``hidden`` are the texts that were left out of it."""

    value: Any = None
    hidden: list[str] = field(default_factory=list, repr=False)
    left: int = _MOST


class Redaction:
    """What counts as a secret: names of members, and regular expressions.

    ``Redaction(keys={*KEYS, "iban"}, patterns=[*PATTERNS, r"\\bDE\\d{20}\\b"])``. A pattern of your
    own should need no more than linear time: arguments may be anything.
    """

    def __init__(
        self, *, keys: Iterable[str] = KEYS, patterns: Iterable[str | re.Pattern[str]] = PATTERNS
    ) -> None:
        """Raises ``ConfigError`` for a pattern that is none."""
        if isinstance(keys, str) or isinstance(patterns, str):
            raise ConfigError("Redaction(keys=..., patterns=...): give lists of strings")
        self._keys = frozenset(_NOT_LETTERS.sub("", str(key).lower()) for key in keys) - {""}
        self._endings = tuple(sorted(key for key in self._keys if len(key) >= 5))
        self._sources = tuple(patterns)
        known = dict(zip(PATTERNS, _TRACES, strict=True))
        self._traces = tuple(
            known.get(each, ()) if isinstance(each, str) else () for each in self._sources
        )
        if patterns is not PATTERNS:
            _ = self._patterns
        self._is_secret = functools.lru_cache(1_024)(self._judge)

    @functools.cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        try:
            return tuple(re.compile(source) for source in self._sources)
        except (re.error, TypeError, RecursionError, OverflowError) as error:
            raise ConfigError(f"Redaction(patterns=...): {error}") from None

    def show(self, value: Any, schema: Any = None) -> Shown:
        """What may be shown of ``value``; ``schema`` is the JSON Schema that marks secrets in it.

        ``value`` need not be JSON: what is not is named by its type.
        """
        shown = Shown()
        schemas, secret = ((), False) if schema is None else _applicable(schema, [schema])
        if secret:
            shown.value = self._hide(value, shown)
        else:
            shown.value = self._value(value, schemas, schema, 0, shown)
        return shown

    def text(self, text: str, limit: int = 500, hidden: Iterable[str] = ()) -> str:
        """At most ``limit`` characters of ``text``, without ``hidden`` and what looks secret."""
        window = text[: limit + _WINDOW]
        for secret in hidden:
            window = window.replace(secret, REDACTED)
        return self._cut(window, limit, len(text), len(text) > limit + _WINDOW)

    # ------------------------------------------------------------------ values

    def _value(
        self, value: Any, schemas: tuple[Any, ...], root: Any, depth: int, shown: Shown
    ) -> Any:
        shown.left -= 4
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return self._string(value, shown)
        if isinstance(value, int):
            bits = value.bit_length()
            return int(value) if bits <= _BITS else f"[a number of {bits} bits]"
        if isinstance(value, float):
            return float(value) if abs(value) < float("inf") else f"[{float(value)}]"
        if depth >= _DEEPEST:
            return "[left out: nested too deep]"
        if isinstance(value, Mapping):
            return self._object(value, schemas, root, depth, shown)
        if isinstance(value, list | tuple):
            return self._array(value, schemas, root, depth, shown)
        return f"[{type(value).__name__}]"

    def _object(
        self,
        value: Mapping[Any, Any],
        schemas: tuple[Any, ...],
        root: Any,
        depth: int,
        shown: Shown,
    ) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for count, (key, item) in enumerate(value.items()):
            if shown.left <= 0:
                result["…"] = f"{len(value) - count} more members"
                break
            name = self._string(str(key), shown)
            while name in result:  # two names may look alike once they are cut
                name += f" ({count})"
            inner, marked = _applicable(root, _members(schemas, key)) if schemas else ((), False)
            if marked or self._is_secret(str(key)[:_WINDOW]):
                result[name] = self._hide(item, shown)
            else:
                result[name] = self._value(item, inner, root, depth + 1, shown)
        return result

    def _array(
        self, value: Any, schemas: tuple[Any, ...], root: Any, depth: int, shown: Shown
    ) -> list[Any]:
        result: list[Any] = []
        for count, item in enumerate(value):
            if shown.left <= 0:
                result.append(f"… ({len(value) - count} more items)")
                break
            inner, marked = _applicable(root, _items(schemas, count)) if schemas else ((), False)
            if marked:
                result.append(self._hide(item, shown))
            else:
                result.append(self._value(item, inner, root, depth + 1, shown))
        return result

    def _hide(self, value: Any, shown: Shown) -> Any:
        if value is None or value is True or value is False or value in ("", [], {}):
            return value
        shown.left -= len(REDACTED)
        shown.hidden += _texts(value, 32 - len(shown.hidden))
        return REDACTED

    def _string(self, text: str, shown: Shown) -> str:
        limit = max(min(_STRING, shown.left), 0)
        window = text[: limit + _WINDOW]
        result = self._cut(window, limit, len(text), len(window) < len(text))
        shown.left -= len(result)
        return result

    def _cut(self, window: str, limit: int, whole: int, more: bool) -> str:
        clean = window
        if len(window) >= _SHORT:
            lower = window.lower()
            for pattern, traces in zip(self._patterns, self._traces, strict=True):
                if not traces or any([trace in lower for trace in traces]):
                    clean = pattern.sub(_kept, clean)
        # A secret that the window cuts in two may have lost what it is known by: not shown.
        clean = clean[: min(limit, max(len(clean) - _EDGE, 0) if more else limit)]
        return clean if whole <= limit else f"{clean}… ({whole} characters)"

    # ------------------------------------------------------------------- names

    def _judge(self, key: str) -> bool:
        if not key.isascii():
            key = unicodedata.normalize("NFKC", key)
        words = [word.lower() for word in _WORD.findall(key)]
        if "".join(words).endswith(self._endings):
            return True
        return any(
            "".join(words[start:end]) in self._keys
            for start in range(len(words))
            for end in range(start + 1, min(start + 3, len(words)) + 1)
        )


class _Custom(Redaction):
    """Somebody else's function decides; what it lets through is shown as it is, and bounded."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self._function = function
        self._bounds = Redaction(keys=(), patterns=())

    def show(self, value: Any, schema: Any = None) -> Shown:
        return self._bounds.show(self._function(value))


def redaction_of(redaction: Any) -> Redaction:
    """A ``Redaction``, or one made of a function from arguments to what may be shown of them."""
    if isinstance(redaction, Redaction):
        return redaction
    if callable(redaction):
        return _Custom(redaction)
    raise ConfigError(f"redaction={redaction!r}: give Redaction(keys=..., patterns=...)")


def _kept(match: re.Match[str]) -> str:
    return (match.groupdict().get("keep") or "") + REDACTED


def _texts(value: Any, most: int) -> list[str]:
    """The texts of a secret that may turn up elsewhere, in what somebody says of it."""
    found: list[str] = []
    rest = [value]
    while rest and len(found) < most:
        item = rest.pop()
        if isinstance(item, Mapping):
            rest += list(item.values())[:most]
        elif isinstance(item, list | tuple):
            rest += list(item)[:most]
        elif isinstance(item, str) and len(item) >= 4:
            found.append(item)
        elif isinstance(item, int | float) and abs(item) > 999:
            found += [str(item)] if abs(item) < 2**_BITS else []
    return found


# ------------------------------------------------------------------- the tool's own word


def marked(schema: Any) -> bool:
    """Whether anything in a schema may be a mark. Linear in the schema."""
    rest = [schema]
    while rest:
        part = rest.pop()
        if type(part) is dict:
            if part.get("writeOnly") is True or part.get("format") == "password":
                return True
            rest += part.values()
        elif type(part) is list:
            rest += part
    return False


def _applicable(root: Any, schemas: Iterable[Any]) -> tuple[tuple[Any, ...], bool]:
    """The schemas that hold for one place, references followed, and whether one marks it."""
    found: dict[int, Any] = {}
    rest = list(schemas)
    while rest:
        schema = rest.pop()
        if type(schema) is not dict or id(schema) in found:
            continue
        if schema.get("writeOnly") is True or schema.get("format") == "password":
            return (), True
        if len(found) >= _SCHEMAS:
            return (), True
        found[id(schema)] = schema
        for word in ("$ref", "$dynamicRef", "$recursiveRef"):
            if word in schema:
                target = _pointed_at(root, schema[word])
                if target is None:
                    return (), True
                rest.append(target)
        rest += _beside(schema)
    return tuple(found.values()), False


def _beside(schema: dict[str, Any]) -> Iterator[Any]:
    """Schemas inside ``schema`` that say something about the same value."""
    for word in ("allOf", "anyOf", "oneOf"):
        if type(schema.get(word)) is list:
            yield from schema[word]
    for word in ("if", "then", "else"):
        yield schema.get(word)
    for word in ("dependentSchemas", "dependencies"):
        if type(schema.get(word)) is dict:
            yield from schema[word].values()


def _members(schemas: tuple[Any, ...], key: Any) -> Iterator[Any]:
    for schema in schemas:
        properties = schema.get("properties")
        if type(properties) is dict and key in properties:
            yield properties[key]
        else:
            yield schema.get("additionalProperties")
            yield schema.get("unevaluatedProperties")
        if type(schema.get("patternProperties")) is dict:
            yield from schema["patternProperties"].values()


def _items(schemas: tuple[Any, ...], index: int) -> Iterator[Any]:
    for schema in schemas:
        for word in ("prefixItems", "items"):
            if type(schema.get(word)) is list and index < len(schema[word]):
                yield schema[word][index]
        for word in ("items", "additionalItems", "contains", "unevaluatedItems"):
            yield schema.get(word)


def _pointed_at(root: Any, reference: Any) -> Any:
    """What a reference within the schema points at; None where that is not to be found."""
    if type(reference) is not str or not reference.startswith("#"):
        return None
    if reference != "#" and not reference.startswith("#/"):
        return None
    from urllib.parse import unquote

    part = root
    for step in unquote(reference[1:]).split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if type(part) is dict:
            part = part.get(step)
        elif type(part) is list and step.isdecimal() and int(step[:9]) < len(part):
            part = part[int(step[:9])]
        else:
            return None
    return part if type(part) is dict or type(part) is bool else None
