"""The parts of arguments and texts that a record may show: no secrets, within bounds.

A value is a secret by the name it goes by, by how it looks, or by the tool's own word:

- **By name.** Any member of an object whose name has one of ``KEYS`` among its words, however it
  is written (``api_key``, ``API-Key``, ``apiKey``, ``x-api-key``); see ``runtime.secret_names``.
  The whole value is left out, whatever it is; ``true``, ``false``, ``null`` and what is empty are
  shown. The same names count in pairs (``{"name": "Password", "value": ...}``,
  ``["Authorization", ...]``, ``["--token", ...]``) and in every string (``password=...``,
  ``Cookie: ...``): see ``secret_text``.
- **By look.** In every string, names of members included, what matches ``PATTERNS``: bearer
  tokens, JSON Web Tokens and other base64 that begins an object, keys with a known prefix
  (``sk-``, ``ghp_``, ``glpat-``, ``xoxb-``, ``AKIA``, ``AIza``, ...), PEM private keys, passwords
  in URLs, webhook URLs, ``curl -u``, ... Nothing is guessed from randomness alone: digests and ids
  would go with it.
- **By the tool's word.** What its input schema marks: see ``schema_marks``.

A string that holds JSON is looked through as what it holds, and so is text in percent, HTML or
base64 encoding. What was left out of the arguments is left out of the texts about them as well (an
error that quotes them), in any of the usual escapes.

What is shown is bounded: so many characters in all and in one string, so many levels. Whatever was
left out for that is stated. The time it takes is linear in what is shown.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..errors import ConfigError
from ..protocol.json_paths import pointer
from ..runtime.masking import decodings, echoes, texts_of
from ..runtime.option_names import with_option_names
from ..runtime.secret_names import KEYS, SecretNames, usual_names
from .schema_marks import applicable, items, marked, members
from .secret_text import (
    NAME_KEYS,
    PATTERNS,
    TRACES,
    find_named,
    flag_of,
    is_plain,
    kind_of,
    may_have_names,
    plain_members,
)

__all__ = ["KEYS", "PATTERNS", "REDACTED", "Redacted", "Redaction", "marked"]

REDACTED = "[redacted]"

_MAX_RECORD_CHARS = 8_192
"""Characters shown of all arguments together."""
_MAX_STRING_CHARS = 1_000
_MAX_DEPTH = 24
_MAX_DEPTH_WHOLE = 256
_UNBOUNDED = 1 << 62
_MAX_BITS = 256
_WINDOW_CHARS = 4_096
"""Characters looked at beyond those that are shown."""
_EDGE_CHARS = 1_024
"""Characters not shown at the end of a window: a secret cut in two may not look like one."""
_MIN_SECRET_CHARS = 5
_MAX_JSON_CHARS = 64 * 1024
_MAX_JSON_STARTS = 8
_MAX_SECRETS = 256
"""Secrets of one call that are looked for in texts about it."""
_MAX_NAME_CHARS = 80
"""The characters of a name that may announce a secret next to it."""
_MAX_PAIR_MEMBERS = 64
"""Members of an object that may be such a pair."""
_MAX_POINTERS = 32

_json = json.JSONDecoder()
_BRACKET = re.compile(r"[\[{]")
_Path: TypeAlias = "tuple[_Path, str] | None"
_Edit: TypeAlias = "tuple[int, int, str]"


@dataclass(slots=True)
class Redacted:
    """The part of a value that may be shown."""

    value: Any = None
    hidden: list[str] = field(default_factory=list, repr=False)
    """The texts that were left out."""
    pointers: list[str] = field(default_factory=list)
    """JSON pointers to the values that were left out in whole or in part, the first 32."""
    count: int = 0
    """The number of parts that were left out."""
    left: int = _MAX_RECORD_CHARS
    whole: bool = False
    """Whether all of it is shown, however much that is."""
    answer: bool = False
    """Whether a placeholder has the type of the secret."""

    def inner(self) -> Redacted:
        """Return one for a value within a text."""
        return Redacted(left=_UNBOUNDED, whole=True) if self.whole else Redacted()

    def hide(self, secret: Any, path: _Path) -> None:
        """Note that ``secret``, at ``path``, was left out."""
        self.count += 1
        self.hidden += texts_of(secret, _MAX_SECRETS - len(self.hidden))
        if len(self.pointers) < _MAX_POINTERS:
            self.pointers.append(_pointer(path))


@with_option_names()
class Redaction:
    r"""The definition of secrets: names of members, and regular expressions.

    ``Redaction(keys={*KEYS, "iban"}, patterns=[*PATTERNS, r"\bDE\d{20}\b"])``. The names count
    in strings as well (``iban=...``). A pattern of your own should need no more than linear time:
    arguments may be anything.
    """

    def __init__(
        self, *, keys: Iterable[str] = KEYS, patterns: Iterable[str | re.Pattern[str]] = PATTERNS
    ) -> None:
        """Raise ``ConfigError`` for a pattern that is not a regular expression."""
        if isinstance(keys, str) or isinstance(patterns, str):
            raise ConfigError("Redaction(keys=..., patterns=...): give lists of strings")
        self._names = usual_names() if keys is KEYS else SecretNames(keys)
        self._sources = tuple(patterns)
        known = dict(zip(PATTERNS, TRACES, strict=True))
        self._traces = tuple(
            known.get(each, ()) if isinstance(each, str) else () for each in self._sources
        )
        self._knows_all = all(self._traces)
        """Whether all patterns are ours, which find nothing in ordinary words."""
        self._judge = functools.lru_cache(1_024)(self._judge_name)  # names repeat, values do not
        self._are_ordinary = functools.lru_cache(1_024)(self._judge_names)
        if patterns is not PATTERNS:
            _ = self._patterns

    @functools.cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        try:
            return tuple(re.compile(source) for source in self._sources)
        except (re.error, TypeError, RecursionError, OverflowError) as error:
            raise ConfigError(f"Redaction(patterns=...): {error}") from None

    def show(self, value: Any, schema: Any = None) -> Redacted:
        """Return what may be shown of ``value``, by the marks of the JSON Schema ``schema``.

        ``value`` need not be JSON: any other object is named by its type.
        """
        return self._redacted(Redacted(), value, schema)

    def whole(self, value: Any, schema: Any = None, *, answer: bool = False) -> Redacted:
        """Return ``value`` (JSON, 256 levels) without secrets; with ``answer``, in its shape."""
        out = Redacted(left=_UNBOUNDED, whole=True, answer=answer)
        return self._redacted(out, value, schema)

    def _redacted(self, out: Redacted, value: Any, schema: Any) -> Redacted:
        schemas, secret = ((), False) if schema is None else applicable(schema, [schema])
        if secret:
            out.value = self._hide(value, None, out)
        else:
            out.value = _Walk(self, schema, out).value(value, schemas, None, 0)
        return out

    def text(self, text: str, limit: int = 500, hidden: Iterable[str] = ()) -> str:
        """Return ``text`` (at most ``limit`` characters) without ``hidden`` and secrets."""
        window = text[: limit + _WINDOW_CHARS]
        secrets = dict.fromkeys(secret for secret in hidden if secret)
        edits = [(*span, REDACTED) for secret in secrets for span in echoes(window, secret)]
        return self._cut(window, limit, len(text), edits)[0]

    def about(self, text: str, limit: int, hidden: Iterable[str]) -> str:
        """Return ``text`` about a call: an error, a reason, a finding."""
        return self.text(text, limit, hidden)

    def shows(self, text: str) -> bool:
        """Whether ``show`` leaves nothing out of the JSON ``text``: false if that is not clear."""
        names = plain_members(text) if self._knows_all and len(text) <= _MAX_STRING_CHARS else ()
        return bool(names) and self._are_ordinary(names)

    # ------------------------------------------------------------------ strings

    def _judge_names(self, names: tuple[str, ...]) -> bool:
        """Whether members with these names are shown, if their values are."""
        judged = list(map(self._judge, names))
        kinds = {kind for _, kind in judged}
        if not kinds.isdisjoint(("secret", "plural")) or [name for name, _ in judged] != [*names]:
            return False
        return "value" not in kinds or NAME_KEYS.isdisjoint(map(str.lower, names))

    def _judge_name(self, name: str) -> tuple[str, str]:
        """Return a member's name as it may be shown, and the kind of the member."""
        return self._clean(name)[0], kind_of(self._names, name)

    def _hide(self, value: Any, path: _Path, out: Redacted) -> Any:
        if value is None or value is True or value is False or value in ("", [], {}):
            return value
        out.left -= len(REDACTED)
        out.hide(value, path)
        return _placeholder(value) if out.answer else REDACTED

    def _string(self, text: str, path: _Path, out: Redacted, depth: int) -> str:
        limit = len(text) if out.whole else max(min(_MAX_STRING_CHARS, out.left), 0)
        if len(text) <= limit and self._knows_all and is_plain(text):
            out.left -= len(text)
            return text
        if 2 <= len(text) <= max(_MAX_JSON_CHARS, limit) and text.lstrip()[:1] in ("{", "["):
            clean = self._json(text, 0, out, path, depth)
            if clean is not None:
                return self._charged(clean[2], limit, len(text), out)
        window = text[: limit + _WINDOW_CHARS]
        if out.whole:
            result, secrets = self._clean(text, (), depth, out)
        else:
            result, secrets = self._cut(window, limit, len(text), (), depth)
        if secrets:
            out.hide([secret for secret in secrets if len(secret) > _MIN_SECRET_CHARS], path)
        out.left -= len(result)
        return result

    def _charged(self, clean: str, limit: int, whole: int, out: Redacted) -> str:
        result = clean if len(clean) <= limit else f"{clean[:limit]}… ({whole} characters)"
        out.left -= len(result)
        return result

    def _cut(
        self, window: str, limit: int, whole: int, edits: Iterable[_Edit] = (), depth: int = 0
    ) -> tuple[str, list[str]]:
        """Return what may be shown of a text that begins with ``window``, and what was hidden."""
        clean, secrets = self._clean(window, edits, depth)
        # A secret that the window cuts in two may have lost what it is known by: not shown.
        more = whole > len(window)
        clean = clean[: min(limit, max(len(clean) - _EDGE_CHARS, 0) if more else limit)]
        return clean if whole <= limit else f"{clean}… ({whole} characters)", secrets

    def _clean(
        self, text: str, edits: Iterable[_Edit] = (), depth: int = 0, about: Redacted | None = None
    ) -> tuple[str, list[str]]:
        """Return ``text`` without its secrets, and those."""
        edits, secrets = list(edits), list[str]()
        if is_plain(text):
            edits += self._by_look(text, plain=True)
            return _edited(text, edits) if edits else (text, secrets)
        if len(text) >= _MIN_SECRET_CHARS:
            edits += self._by_look(text)
            if self._names.keys and may_have_names(text):
                edits += ((*span, REDACTED) for span in find_named(text, self._names))
                inside = Redacted() if about is None else about.inner()
                edits += self._embedded(text, depth, inside)
                secrets += inside.hidden
        clean, found = _edited(text, edits)
        secrets += found
        if depth < _MAX_DEPTH:
            for start, end, decoded in decodings(clean):
                inner, found = self._clean(decoded, (), depth + 8, about)
                if found:
                    whole = start == 0 and end == len(clean)
                    clean = inner if whole else _edited(clean, [(start, end, REDACTED)])[0]
                    secrets += found if whole else [*found, text[start:end]]
                    break
        return clean, secrets

    def _by_look(self, text: str, *, plain: bool = False) -> Iterator[_Edit]:
        if plain and self._knows_all:
            return
        lower = text.lower()
        for pattern, traces in zip(self._patterns, self._traces, strict=True):
            if traces and (plain or not any([trace in lower for trace in traces])):
                continue
            for match in pattern.finditer(text):
                if "keep" not in pattern.groupindex or match["keep"] is None:
                    yield *match.span(), REDACTED
                else:
                    start, end = match.span("keep")
                    yield match.start(), start, REDACTED
                    yield end, match.end(), REDACTED

    def _embedded(self, text: str, depth: int, out: Redacted) -> Iterator[_Edit]:
        """Yield the JSON values within a text that have secrets in them."""
        at = 0
        for _ in range(_MAX_JSON_STARTS):
            match = _BRACKET.search(text, at)
            if match is None:
                return
            edit = self._json(text, match.start(), out, None, depth + 1, whole=False)
            at = match.start() + 1 if edit is None else edit[1]
            if edit is not None and edit[2]:
                yield edit

    def _json(
        self, text: str, start: int, out: Redacted, path: _Path, depth: int, *, whole: bool = True
    ) -> _Edit | None:
        """Return the JSON array or object that begins at ``start``, as it may be shown.

        None where the value is missing. The text is empty where a part of ``text`` has no secret in
        it and stays as it is.
        """
        if depth >= _MAX_DEPTH:
            return None
        try:
            value, end = _json.raw_decode(
                text, start if not whole else len(text) - len(text.lstrip())
            )
        except (ValueError, RecursionError):
            return None
        if whole and text[end:].strip():
            return None
        inner = out.inner()
        clean = _Walk(self, None, inner).value(value, (), path, depth + 1)
        if not inner.count:
            return None if whole else (start, end, "")
        out.count += inner.count
        out.hidden += inner.hidden
        out.pointers += inner.pointers[: _MAX_POINTERS - len(out.pointers)]
        return start, end, json.dumps(clean, ensure_ascii=False)


class _Walk:
    """Goes through one value."""

    __slots__ = ("_names", "_out", "_redaction", "_root")

    def __init__(self, redaction: Redaction, root: Any, out: Redacted) -> None:
        self._redaction = redaction
        self._names = redaction._names
        self._root = root
        self._out = out

    def value(self, value: Any, schemas: tuple[Any, ...], path: _Path, depth: int) -> Any:
        out = self._out
        out.left -= 4
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return self._redaction._string(value, path, out, depth)
        if isinstance(value, int):
            bits = value.bit_length()
            return int(value) if bits <= _MAX_BITS or out.whole else f"[a number of {bits} bits]"
        if isinstance(value, float):
            return float(value) if abs(value) < float("inf") else f"[{float(value)}]"
        if depth >= (_MAX_DEPTH_WHOLE if out.whole else _MAX_DEPTH):
            return "[left out: nested too deep]"
        if type(value) is dict or isinstance(value, Mapping):  # the second is slow
            return self._object(value, schemas, path, depth)
        if isinstance(value, list | tuple):
            return self._array(value, schemas, path, depth)
        return f"[{type(value).__name__}]"

    def _object(
        self, value: Mapping[Any, Any], schemas: tuple[Any, ...], path: _Path, depth: int
    ) -> dict[str, Any]:
        result: dict[str, Any] = {}
        out, judge = self._out, self._redaction._judge
        is_pair = len(value) <= _MAX_PAIR_MEMBERS and self._is_pair(value)
        for count, (key, item) in enumerate(value.items()):
            if out.left <= 0:
                result["…"] = f"{len(value) - count} more members"
                break
            key = str(key)
            if len(key) <= _MAX_NAME_CHARS:
                name, kind = judge(key)
                out.left -= len(name)
            else:
                name, kind = (
                    self._redaction._string(key, path, out, depth),
                    kind_of(self._names, key),
                )
            while name in result:  # two names may look alike once they are cut
                name += f" ({count})"
            inner, secret = (
                applicable(self._root, members(schemas, key)) if schemas else ((), False)
            )
            here = (path, name)
            if (
                secret
                or kind == "secret"
                or (is_pair and kind == "value")
                or (kind == "plural" and _has_text(key, item))
            ):
                result[name] = self._redaction._hide(item, here, out)
            else:
                result[name] = self.value(item, inner, here, depth + 1)
        return result

    def _is_pair(self, value: Mapping[Any, Any]) -> bool:
        """Whether one member names the secret that another one is."""
        for key, item in value.items():
            if (
                isinstance(item, str)
                and isinstance(key, str)
                and len(item) <= _MAX_NAME_CHARS
                and key.lower() in NAME_KEYS
                and self._names.is_secret(item)
            ):
                return True
        return False

    def _array(self, value: Any, schemas: tuple[Any, ...], path: _Path, depth: int) -> list[Any]:
        result: list[Any] = []
        before: Any = None
        for count, item in enumerate(value):
            if self._out.left <= 0:
                result.append(f"… ({len(value) - count} more items)")
                break
            inner, secret = (
                applicable(self._root, items(schemas, count)) if schemas else ((), False)
            )
            here = (path, str(count))
            if secret or (type(before) is str and self._announces(before, item, count, len(value))):
                result.append(self._redaction._hide(item, here, self._out))
            elif type(item) is str and (flag := flag_of(item)) and self._names.is_secret(flag):
                self._redaction._hide(item[len(flag) + 1 :], here, self._out)
                result.append(f"{flag}={REDACTED}")
            else:
                result.append(self.value(item, inner, here, depth + 1))
            before = item
        return result

    def _announces(self, before: str, item: Any, index: int, size: int) -> bool:
        """Whether ``item`` is a secret by the item ``before`` it: a flag, or the name of a pair."""
        if len(before) > _MAX_NAME_CHARS or not isinstance(item, str | int | float | list | tuple):
            return False
        if before[:1] == "-":
            if before in ("-u", "-U", "--user", "--proxy-user"):
                return isinstance(item, str) and ":" in item
            is_flag = isinstance(item, str) and re.match(r"--?[A-Za-z]", item) is not None
            return "=" not in before and not is_flag and self._names.is_secret(before)
        if index % 2 == 0 or (size > 2 and size % 2) or re.search(r"[\s=:]", before.strip(" :")):
            return False
        return self._names.is_secret(before)


# ------------------------------------------------------------------------ parts


def _edited(text: str, edits: Iterable[_Edit]) -> tuple[str, list[str]]:
    """Return ``text`` with parts of it replaced, and those parts. Overlaps are left out as one."""
    merged: list[_Edit] = []
    for start, end, new in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
        if start >= end:
            continue
        if merged and start < merged[-1][1]:
            first, last, old = merged[-1]
            if end > last or (old != REDACTED and new != REDACTED and old != new):
                merged[-1] = (first, max(last, end), REDACTED)
        else:
            merged.append((start, end, new))
    if not merged:
        return text, []
    parts: list[str] = []
    at = 0
    for start, end, new in merged:
        parts += (text[at:start], new)
        at = end
    return "".join((*parts, text[at:])), [
        text[start:end] for start, end, new in merged if new == REDACTED
    ]


def _placeholder(value: Any) -> Any:
    """Return the placeholder of a secret, of the same type."""
    if isinstance(value, Mapping):
        return {
            f"{REDACTED} {count}": _placeholder(each) for count, each in enumerate(value.values())
        }
    if isinstance(value, list | tuple):
        return [_placeholder(each) for each in value]
    if isinstance(value, bool | None) or not isinstance(value, int | float):
        return value if isinstance(value, bool | None) else REDACTED
    return type(value)(0)


def _has_text(name: str, value: Any) -> bool:
    """Whether what is called by the plural ``name`` holds secrets, and not a count of them."""
    if isinstance(value, list | tuple):
        return any(isinstance(item, str | list | Mapping) for item in value[:_MAX_SECRETS])
    if isinstance(value, Mapping):
        return any(isinstance(item, str) for item in list(value.values())[:_MAX_SECRETS])
    # ``tokens: x`` and not ``maxTokens: x``, which is a number written as text.
    return (
        isinstance(value, str)
        and name.isalpha()
        and name[1:] in (name[1:].lower(), name[1:].upper())
    )


def _pointer(path: _Path) -> str:
    steps = []
    while path is not None:
        path, step = path
        steps.append(step)
    return pointer(reversed(steps))
