"""The shape of a JSON Schema, checked without ``jsonschema``.

One walk over the schema finds the limits of ``Limits`` it exceeds, its certain errors, whether it
is certainly valid, and the texts in it that a model would read. For lists there is a short cut
through ordinary schemas, which takes a few microseconds. No pattern is compiled here. Undecided
parts (the rarer keywords, older dialects, patterns that are not simple) are left to ``jsonschema``
when the tool is called: see ``checker``.

2026-07-28 ``basic/index`` (JSON Schema usage): 2020-12 unless ``$schema`` names another dialect.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from typing import Any

from ..protocol.json_paths import Role, parse, resolve, walk
from ..runtime.limits import Limits
from ..runtime.safe_text import safe_text
from .keyword_shapes import SHAPES, TYPES, is_names, is_schema_list, is_type
from .known_cost import simple_pattern

__all__ = [
    "DIALECTS",
    "DRAFT4",
    "DRAFT7",
    "LATEST",
    "NO_LIMITS",
    "OLD",
    "SchemaSurvey",
    "add_schema_texts",
    "dialect_of",
    "is_known_dialect",
    "is_ordinary",
    "listed_schema_fault",
    "shown",
    "survey_schema",
]

LATEST = "https://json-schema.org/draft/2020-12/schema"
DRAFT7 = "http://json-schema.org/draft-07/schema"
COMMON_DIALECTS = frozenset({LATEST, DRAFT7})
DRAFT4 = "http://json-schema.org/draft-04/schema"
_DRAFT3 = "http://json-schema.org/draft-03/schema"
_DRAFT6 = "http://json-schema.org/draft-06/schema"
_DRAFT2019 = "https://json-schema.org/draft/2019-09/schema"
DIALECTS = (DRAFT4, _DRAFT6, DRAFT7, _DRAFT2019, LATEST)
"""The dialects from draft-04 on, in their order. Draft-03 differs too much from them."""
OLD = frozenset({_DRAFT3, DRAFT4, _DRAFT6, DRAFT7})
"""The dialects in which keywords beside ``$ref`` do not count."""
_NAMED = {
    "3": _DRAFT3,
    "4": DRAFT4,
    "5": DRAFT4,
    "6": _DRAFT6,
    "7": DRAFT7,
    "8": _DRAFT2019,
    "2019-09": _DRAFT2019,
    "2020-12": LATEST,
}
_DRAFT_URI = re.compile(
    r"\s*(?:(?:https?:)?(?://)?(?:www\.)?json-schema\.org/)?"
    r"(?:draft[-/]?)?(?:v?0?([3-8])|(2019-09|2020-12))"
    r"(?:/(?:hyper-)?schema(?:\.json)?)?/?#?/?\s*",
    re.IGNORECASE,
)
_NEWEST = re.compile(
    r"\s*(?:https?:)?//(?:www\.)?json-schema\.org(?:/draft)?(?:/schema)?/?#?\s*", re.IGNORECASE
)
"""Spellings that name JSON Schema and no dialect."""
_KNOWN = frozenset(_NAMED.values())
_PLAIN_REFERENCE = re.compile(r"#(?:/[A-Za-z0-9_$.~-]*)*\Z")
_PLAIN_ID = re.compile(r"https?://(?!json-schema\.org)[A-Za-z0-9.-]+(?:/[A-Za-z0-9._~-]*)*#?\Z")
NO_LIMITS = Limits(
    **dict.fromkeys(
        [
            *("schema_bytes", "schema_depth", "subschemas", "references", "pattern_chars"),
            "enum_values",
        ],
        sys.maxsize,
    )
)
_MAX_TEXT_CHARS = 60
_ORDINARY_DEPTH = 16
_MAX_PATTERN_CHARS = 1_000
_ORDINARY = frozenset(
    {"title", "enum", "default", "const", "format", "pattern", "minLength", "maxLength"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"}
    | {"uniqueItems", "$comment"}
)


def is_known_dialect(schema: Any) -> bool:
    """Whether values can be checked in the dialect that ``$schema`` names; absent means 2020-12."""
    return _dialect(schema) is not None


def _dialect(schema: Any) -> str | None:
    named = schema.get("$schema", LATEST) if type(schema) is dict else LATEST
    dialect = named.removesuffix("#") if type(named) is str else ""
    return dialect if dialect in _KNOWN else None


@dataclass(slots=True, eq=False, repr=False)
class SchemaSurvey:
    """The result of ``survey_schema``."""

    schema: Any
    over_limit: str = ""
    """The cap that it exceeds, in a sentence. The walk stopped there."""
    fault: str = ""
    """The certain error, which makes it an invalid JSON Schema of its dialect."""
    is_doubtful: bool = False
    """Whether only ``jsonschema`` can decide that it is a JSON Schema."""
    texts: list[str] = field(default_factory=list)
    """The names and texts that a model would read."""
    chars: int = 0
    """The size: characters of its texts, and one for each other value."""
    references: list[str] = field(default_factory=list)
    patterns: list[str] = field(default_factory=list)

    def is_sound(self) -> bool:
        """Whether it certainly is a JSON Schema with no reference that leads elsewhere.

        Looks at references and patterns, which may take some milliseconds.
        """
        return (
            not (self.over_limit or self.fault or self.is_doubtful)
            and sum(map(len, self.patterns)) <= _MAX_PATTERN_CHARS
            and all([simple_pattern(pattern) is not None for pattern in self.patterns])
            and _all_resolve(self.schema, self.references)
        )


def survey_schema(schema: Any, limits: Limits) -> SchemaSurvey:
    """Look through ``schema``, which may be any JSON value. Raises nothing."""
    found = SchemaSurvey(schema)
    if type(schema) is bool:
        return found
    if type(schema) is not dict:
        found.fault = "a schema is a JSON object, true or false"
        return found
    try:
        _Survey(found, limits, _dialect(schema)).look_through(schema)
    except _OverLimit as error:
        found.over_limit = str(error)
        found.fault = ""
    return found


def listed_schema_fault(schema: Any, limits: Limits, texts: list[str]) -> str:
    """Return the certain error of a schema in a list; empty if there is none.

    It is ``survey_schema`` with a short cut: the limits for an ordinary schema, and checks that
    need ``jsonschema``, are left to the first call. Texts for a model are added to ``texts``.
    """
    before = len(texts)
    if type(schema) is dict and _is_ordinary(schema, texts, 0):
        return ""
    del texts[before:]
    survey = survey_schema(schema, limits)
    texts += survey.texts
    return survey.fault


def add_schema_texts(schema: Any, texts: list[str]) -> None:
    """Add the names and texts in ``schema`` that a model would read to ``texts``."""
    listed_schema_fault(schema, NO_LIMITS, texts)


def is_ordinary(schema: Any) -> bool:
    """Whether ``schema`` is sound, and has but a few common keywords and no pattern."""
    return type(schema) is dict and _is_ordinary(schema, [], 0, has_patterns=False)


def _is_ordinary(schema: Any, texts: list[str], depth: int, *, has_patterns: bool = True) -> bool:
    """Whether ``schema`` is sound and has but a few common keywords; adds what a model reads.

    A sixth of what the survey takes, for the row "list 10,000 tools" of PERFORMANCE.
    """
    if type(schema) is not dict:
        return type(schema) is bool
    if depth > _ORDINARY_DEPTH:
        return False
    for keyword, item in schema.items():
        if keyword == "type":
            if (type(item) is not str or item not in TYPES) and not is_type(item):
                return False
        elif keyword == "description":
            if type(item) is not str:
                return False
            texts.append(item)
        elif keyword == "properties":
            if type(item) is not dict:
                return False
            for name, subschema in item.items():
                texts.append(name)
                if not _is_ordinary(subschema, texts, depth + 1, has_patterns=has_patterns):
                    return False
        elif keyword == "required":
            if not is_names(item):
                return False
            named = schema.get("properties")
            if type(named) is not dict:
                return False
            texts += [name for name in item if name not in named]
        elif keyword == "items" or keyword == "additionalProperties":
            if not _is_ordinary(item, texts, depth + 1, has_patterns=has_patterns):
                return False
        elif keyword == "anyOf":
            if not is_schema_list(item):
                return False
            for subschema in item:
                if not _is_ordinary(subschema, texts, depth + 1, has_patterns=has_patterns):
                    return False
        elif keyword == "$schema":
            if depth or _dialect(schema) not in COMMON_DIALECTS:
                return False
        elif keyword not in _ORDINARY or not SHAPES[keyword].check(item):
            return False
        elif keyword == "enum":
            for value in item:
                if type(value) is str:
                    texts.append(value)
                elif type(value) is dict or type(value) is list:
                    return False
        elif type(item) is str:
            if keyword == "pattern" and not has_patterns:
                return False
            texts.append(item)
        elif type(item) is dict or type(item) is list:
            return False
    return True


_COUNTED = frozenset({"pattern", "patternProperties", "$ref", "$dynamicRef", "$recursiveRef"})
_NOT_KNOWN_HERE = frozenset(
    {"$id", "id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"}
    | {"$vocabulary", "additionalItems", "disallow", "divisibleBy", "extends"}
)
"""Keywords that change what a schema means, or differ from draft to draft."""

_NOT_READ = frozenset({"type", "$schema", "$ref"})
"""Keywords whose text has no meaning for a model."""


class _OverLimit(Exception):
    pass


class _Survey:
    def __init__(self, found: SchemaSurvey, limits: Limits, dialect: str | None) -> None:
        self.found = found
        self._limits = limits
        self._dialect = dialect
        self._is_common = dialect in COMMON_DIALECTS
        self._newer = False
        """Whether a keyword of 2020-12 occurs that the other common dialect does not have."""
        self._objects = 0
        found.is_doubtful = not self._is_common

    def look_through(self, schema: dict[str, Any]) -> None:
        limits, found = self._limits, self.found
        if self._dialect is None:
            self._fault("$schema", None, "a dialect that is supported", schema["$schema"])
        for part, role, depth, path, known in walk(schema):
            if depth > limits.schema_depth:
                raise _OverLimit(_exceeded(limits.schema_depth, "levels", "schema_depth"))
            if type(part) is list:
                self._array(part, role)
            else:
                self._objects += 1
                found.chars += sum(map(len, part))
                if role is Role.SCHEMA:
                    self._schema(part, depth, path, known)
                else:
                    self._other(part, role)
            if found.chars > limits.schema_bytes:
                raise _OverLimit(_exceeded(limits.schema_bytes, "characters", "schema_bytes"))
            if self._objects > limits.subschemas:
                raise _OverLimit(_exceeded(limits.subschemas, "objects", "subschemas"))
            if len(found.references) > limits.references:
                raise _OverLimit(_exceeded(limits.references, "references", "references"))
        if found.fault and self._newer and self._dialect == DRAFT7:
            found.fault = ""  # it may be under a keyword that draft-07 does not know
            self.found.is_doubtful = True

    def _array(self, part: list[Any], role: Role) -> None:
        limit = self._limits.enum_values
        if len(part) > limit:
            raise _OverLimit(_exceeded(limit, "items in one array", "enum_values"))
        texts = [item for item in part if type(item) is str]
        self.found.chars += len(part) + sum(map(len, texts))
        if role is not Role.NAMES:
            self.found.texts += texts

    def _other(self, part: dict[str, Any], role: Role) -> None:
        """Names of schemas, or an object in a value: whatever a reference may lead to counts."""
        found = self.found
        found.texts += part
        for name, item in part.items():
            if type(item) is str:
                found.chars += len(item)
                found.texts.append(item)
                if name in _COUNTED:
                    self._count(name, item)

    def _schema(
        self, part: dict[str, Any], depth: int, path: tuple[str, ...] | None, known: bool
    ) -> None:
        found = self.found
        for keyword, item in part.items():
            kind = type(item)
            if kind is str:
                found.chars += len(item)
                if keyword not in _NOT_READ:
                    found.texts.append(item)
            if keyword == "type" and kind is str and item in TYPES:
                continue
            if keyword in _COUNTED:
                self._count(keyword, item)
            shape = SHAPES.get(keyword)
            if shape is None:
                if keyword == "$schema":
                    self._nested_dialect(item, depth)
                elif keyword == "$id" and depth == 1 and kind is str and _PLAIN_ID.match(item):
                    pass
                elif keyword in _NOT_KNOWN_HERE:
                    found.is_doubtful = True
                else:
                    found.texts.append(keyword)
                continue
            if not known:
                continue
            self._newer = self._newer or shape.is_newer
            is_tuple = keyword == "items" and kind is list and self._dialect == DRAFT7
            if is_tuple or not self._is_common:
                found.is_doubtful = True
            elif not shape.check(item):
                if not found.fault:
                    self._fault(keyword, path, shape.expected, item)
            elif keyword == "required":
                named = part.get("properties")
                if type(named) is not dict or not named.keys() >= set(item):
                    found.texts += item  # names that occur nowhere else

    def _nested_dialect(self, item: Any, depth: int) -> None:
        if depth == 1:
            return
        if not is_known_dialect({"$schema": item}):
            self._fault("$schema", None, "a dialect that is supported", item)
        self.found.is_doubtful = True  # ``jsonschema`` changes dialect there

    def _count(self, keyword: str, item: Any) -> None:
        limit = self._limits.pattern_chars
        patterns: Any = ()
        if keyword == "pattern" and type(item) is str:
            patterns = (item,)
        elif keyword == "patternProperties" and type(item) is dict:
            patterns = item
        elif type(item) is str:
            self.found.references.append(item)
        for pattern in patterns:
            if len(pattern) > limit:
                raise _OverLimit(_exceeded(limit, "characters in one pattern", "pattern_chars"))
            self.found.patterns.append(pattern)

    def _fault(self, keyword: str, path: tuple[str, ...] | None, expected: str, came: Any) -> None:
        where = f" of {safe_text('.'.join(path), _MAX_TEXT_CHARS)}" if path else ""
        self.found.fault = f"{keyword}{where}: expected {expected}, got {shown(came)}"


def _exceeded(limit: int, what: str, knob: str) -> str:
    return f"the schema has more than {limit} {what} (Limits.{knob})"


def shown(value: Any) -> str:
    """Return what ``value`` is, in a few words that are safe to show."""
    match value:
        case str():
            return f"'{safe_text(value, _MAX_TEXT_CHARS)}'"
        case dict():
            return "an object"
        case list():
            return "an array"
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case int() if value.bit_length() > 200:
            return "a long number"
    return str(value)


def _all_resolve(schema: dict[str, Any], references: list[str]) -> bool:
    """Whether each of ``references`` leads to a schema within ``schema`` that was looked at."""
    if not references:
        return True
    looked_at = {
        id(part) for part, role, _, _, known in walk(schema) if known and role is Role.SCHEMA
    }
    for reference in set(references):
        if _PLAIN_REFERENCE.match(reference) is None:
            return False
        try:
            target = resolve(schema, parse(reference[1:]))
        except (LookupError, ValueError):
            return False
        if type(target) is not bool and (type(target) is not dict or id(target) not in looked_at):
            return False
    return True


def dialect_of(schema: Any) -> tuple[str | None, bool]:
    """Return the dialect that ``$schema`` means, and whether it names one.

    Without a name it is 2020-12. None for a dialect that is not known.
    """
    named = schema.get("$schema") if type(schema) is dict else None
    if named is None or (type(named) is str and not named.strip("# \t\r\n")):
        return LATEST, False
    if type(named) is not str or len(named) > 200:
        return None, True
    if _NEWEST.fullmatch(named):
        return LATEST, False
    spelled = _DRAFT_URI.fullmatch(named)
    return (_NAMED[spelled[1] or spelled[2]], True) if spelled else (None, True)
