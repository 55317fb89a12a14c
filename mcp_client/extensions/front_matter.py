"""The front matter of a SKILL.md: the YAML between its first line, ``---``, and the next such line.

A skill may be loaded only if its front matter equals, field by field, the server's entry
(``io.modelcontextprotocol/skills``, frontmatter verification). So it matters that nothing is parsed
otherwise than by the server's YAML library, and not that everything is parsed.

PyYAML (extra ``skills``) divides the text into events; it makes no object of it. The meaning of
plain text is the core schema of YAML 1.2, and not PyYAML's 1.1: null, true and false, integers and
floats; everything else is text, also ``yes`` and ``2026-01-01``. These are refused:

- anchors, aliases, tags, directives, several documents
- merge keys, keys that are not text, duplicate keys
- indentation indicators, flow mappings and sequences over several lines
- numbers that JSON does not have, control characters and Unicode's line breaks

Tests compare it with the npm package ``yaml``:
both parse every accepted text alike. A text that PyYAML accepts is refused if ``yaml`` rejects it
or parses it otherwise.

It takes time in proportion to the text, and accepts up to 64 KiB, 16 levels deep.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from ..errors import ConfigError
from ..runtime.safe_text import safe_text

__all__ = ["BadYaml", "check_installed", "front_matter", "same"]

_MAX_BYTES = 64 * 1024
_MAX_LEVELS = 16
_MAX_KEY_CHARS = 1_000
_MAX_NUMBER_CHARS = 300
_EXACT = 2**53
_LINE_FEED = 10
_OPENING = re.compile(rb"---[ \t]*\r?\n")
_CLOSING = re.compile(rb"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_BLOCK_STYLES = ("|", ">")
_INDICATOR = re.compile("[+-]?[0-9]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = re.compile(r"[-+]?[0-9]+")
_OTHER_INT = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_JSON = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


class BadYaml(ValueError):
    """An error: the front matter cannot be parsed. The message is the end of a sentence."""


def check_installed() -> None:
    """Raise ``ConfigError`` where PyYAML is missing."""
    try:
        import yaml  # noqa: F401
    except ImportError:
        raise ConfigError(
            "loading a skill needs the package PyYAML: install mcp-client-host[skills]"
        ) from None


def front_matter(content: bytes) -> tuple[dict[str, Any], str]:
    """Return the fields of a SKILL.md, and the text after them.

    Raises ``BadYaml`` with the reason.
    """
    opening = _OPENING.match(content)
    if opening is None:
        raise BadYaml("it does not begin with a line '---'")
    end = opening.end() + _MAX_BYTES
    closing = _CLOSING.search(content, opening.end(), end)
    if closing is None or (closing.end() == end < len(content) and content[end - 1] != _LINE_FEED):
        raise BadYaml(f"no line '---' ends its front matter within {_MAX_BYTES:,} bytes")
    try:
        yaml = content[opening.end() : closing.start()].decode()
        text = content[closing.end() :].decode()
    except UnicodeDecodeError:
        raise BadYaml("it is not UTF-8") from None
    return _fields(yaml.replace("\r\n", "\n")), text


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: numbers by value, and ``1`` is not ``true``."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        # Beyond this, most readers of JSON have the nearest float.
        return one == other or (abs(one) > _EXACT and _float(one) == _float(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all([same(one[key], other[key]) for key in one])
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _fields(text: str) -> dict[str, Any]:
    import yaml

    found = _REFUSED.search(text)
    if found is not None:
        line = text.count("\n", 0, found.start())
        raise _refused(line, f"the character U+{ord(found[0]):04X}")
    try:
        value = _Reader(yaml, text).document()
    except BadYaml:
        raise
    except yaml.MarkedYAMLError as error:
        line = 0 if error.problem_mark is None else error.problem_mark.line
        what = safe_text(error.problem or "", 200)
        raise BadYaml(f"line {line + 2} of it is not YAML: {what}") from None
    except (ValueError, OverflowError):  # of chr(), for an escape beyond the last character
        raise BadYaml("it has an escape that is not a character") from None
    if type(value) is not dict:
        raise BadYaml("its front matter is not a mapping of names to values")
    return value


def _refused(line: int, what: str) -> BadYaml:
    return BadYaml(f"line {line + 2} of it has {what}, which is not supported")


class _Reader:
    def __init__(self, yaml: Any, text: str) -> None:
        self._yaml = yaml
        self._text = text
        self._events: Iterator[Any] = yaml.parse(text, Loader=yaml.SafeLoader)

    def document(self) -> Any:
        yaml = self._yaml
        next(self._events)  # the beginning of the stream
        start = next(self._events)
        if isinstance(start, yaml.StreamEndEvent):
            raise BadYaml("its front matter is empty")
        if start.explicit:
            raise _refused(start.start_mark.line, "a directive or the beginning of a document")
        value = self._value(next(self._events), 1)
        end, after = next(self._events), next(self._events)
        if end.explicit or not isinstance(after, yaml.StreamEndEvent):
            raise _refused(after.start_mark.line, "the beginning or end of another document")
        return value

    def _value(self, event: Any, level: int, indent: int = 0) -> Any:
        """Return the value; ``indent`` is the column of the block that contains it."""
        yaml, line = self._yaml, event.start_mark.line
        if isinstance(event, yaml.AliasEvent):
            raise _refused(line, "an alias")
        if event.anchor is not None:
            raise _refused(line, "an anchor")
        if event.tag is not None:
            raise _refused(line, "a tag")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, indent)
        if level > _MAX_LEVELS:
            raise _refused(line, f"more than {_MAX_LEVELS} levels")
        indent = event.start_mark.column
        is_list = isinstance(event, yaml.SequenceStartEvent)
        value, end = (self._items if is_list else self._fields)(level + 1, indent)
        if event.flow_style:
            self._check_end(end)
            if end.end_mark.line > line:
                raise _refused(line, "a [ or { that is not closed on its line")
        return value

    def _items(self, level: int, indent: int) -> tuple[list[Any], Any]:
        """Return the items, and the event that ends them."""
        items = []
        while not isinstance(event := next(self._events), self._yaml.SequenceEndEvent):
            items.append(self._value(event, level, indent))
        return items, event

    def _fields(self, level: int, indent: int) -> tuple[dict[str, Any], Any]:
        fields: dict[str, Any] = {}
        while not isinstance(event := next(self._events), self._yaml.MappingEndEvent):
            name, line = self._value(event, level, indent), event.start_mark.line
            if type(name) is not str or event.style in _BLOCK_STYLES:
                raise _refused(line, "a name that is not text")
            if event.style is None and name in ("<<", "="):
                raise _refused(line, "a merge key")
            if name in fields:
                raise _refused(line, "a duplicate name")
            if len(name) > _MAX_KEY_CHARS:
                raise _refused(line, f"a name of more than {_MAX_KEY_CHARS:,} characters")
            fields[name] = self._value(next(self._events), level, indent)
        return fields, event

    def _scalar(self, event: Any, indent: int) -> Any:
        start, style = event.start_mark, event.style
        if style is None:
            return _plain_value(event.value)
        if _SURROGATE.search(event.value):
            raise _refused(start.line, "an escape that is not a character")
        if style in _BLOCK_STYLES:
            if not self._text[start.index - start.column : start.index].strip(" "):
                raise _refused(
                    start.line, "a block of text that does not begin on the line of its name"
                )
            if _INDICATOR.match(self._text, start.index + 1):
                raise _refused(start.line, "an indentation indicator")
            return event.value
        self._check_end(event)
        for line in self._text[start.index : event.end_mark.index].split("\n")[1:]:
            if line.strip(" ") and not line.startswith(" " * (indent + 1)):
                raise _refused(start.line, "a quoted text that goes on without indentation")
        return event.value

    def _check_end(self, event: Any) -> None:
        """PyYAML takes a comment without a space before it, which YAML does not."""
        end = event.end_mark
        if self._text[end.index : end.index + 1] == "#":
            raise _refused(end.line, "something after a value")


def _plain_value(text: str) -> Any:
    """Return the value of text without quotation marks: null, a boolean, a number, or itself."""
    if text in _WORDS:
        return _WORDS[text]
    if _NOT_JSON.fullmatch(text):
        raise BadYaml("it has a number that JSON does not have")
    is_number = _FLOAT.fullmatch(text)
    if not is_number and not _OTHER_INT.fullmatch(text):
        return text
    if len(text) > _MAX_NUMBER_CHARS:
        raise BadYaml(f"it has a number of more than {_MAX_NUMBER_CHARS} characters")
    if _INT.fullmatch(text):
        return int(text)
    if not is_number:
        return int(text, 0)
    number = float(text)
    if math.isinf(number):
        raise BadYaml("it has a number that JSON does not have")
    return number
