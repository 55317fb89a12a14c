"""The front matter of a SKILL.md: the YAML between its first line, ``---``, and the next such line.

A skill may be loaded only where its front matter equals, field by field, what the server's entry
says (``io.modelcontextprotocol/skills``, frontmatter verification). So what counts is that nothing
is read otherwise than the server's YAML library reads it, and not that everything is read. This
reader takes the part of YAML 1.2 that such front matter is written in and refuses the rest by name:

- block mappings and sequences; plain, quoted and block scalars, over several lines too; flow
  mappings and sequences on one line;
- the core schema: null, true and false, integers, floats; everything else is text, also ``yes``
  and ``2026-01-01``, which YAML 1.1 reads otherwise;
- refused: anchors, aliases, tags, merge keys, complex keys, keys that are not text, a key that
  comes twice, several documents, directives, tabs as white space of the structure, indentation
  indicators, numbers that JSON does not have, control characters and Unicode's line breaks.

Why a reader of our own: a YAML library is a fifth package to trust with hostile input, the common
ones read YAML 1.1, and they expand aliases. Tests compare it with the npm package ``yaml``, which
reads YAML 1.2: what this reader takes, that one reads alike.

It takes time in proportion to the text, of which it takes 64 KiB, 16 levels deep.
"""

from __future__ import annotations

import math
import re
from typing import Any, NoReturn

from .yaml_scalars import BadYaml, double_quoted, plain_value, single_quoted

__all__ = ["BadYaml", "front_matter", "same"]

_LARGEST = 64 * 1024
_DEEPEST = 16
_LONGEST_KEY = 1_000
_EXACT = 2**53
_LINE_FEED = 10
_OPENING = re.compile(rb"---[ \t]*\r?\n")
_CLOSING = re.compile(rb"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_INDICATORS = {
    "&": "an anchor",
    "*": "an alias",
    "!": "a tag",
    "%": "a directive or a plain text that begins with %",
    "@": "a plain text that begins with @",
    "`": "a plain text that begins with `",
    ",": "a plain text that begins with a comma",
    "]": "a ] that closes nothing",
    "}": "a } that closes nothing",
    "#": "a comment where a value is expected",
    "|": "a | where plain text is expected",
    ">": "a > where plain text is expected",
}
_MISPLACED = "a line that is indented otherwise than the lines above"
_COMMENT = re.compile(r"(?<! ) +#.*\Z")
_KEY_END = re.compile(r":(?= |\Z)")
_FLOW_PLAIN = re.compile(r"(?:[^,\[\]{}: #\t]|:(?=[^,\[\]{} ])|(?<=[^ ])#| +(?=[^,\[\]{}:# ]))+")
_BLOCK = re.compile(r"([|>])([+-]?)(?: +#.*)?\Z")


def front_matter(content: bytes) -> tuple[dict[str, Any], str]:
    """The fields of a SKILL.md, and the text after them. Raises ``BadYaml``, which says why not."""
    opening = _OPENING.match(content)
    if opening is None:
        raise BadYaml("it does not begin with a line '---'")
    end = opening.end() + _LARGEST
    closing = _CLOSING.search(content, opening.end(), end)
    if closing is None or (closing.end() == end < len(content) and content[end - 1] != _LINE_FEED):
        raise BadYaml(f"no line '---' ends its front matter within {_LARGEST:,} bytes")
    try:
        yaml = content[opening.end() : closing.start()].decode()
        text = content[closing.end() :].decode()
    except UnicodeDecodeError:
        raise BadYaml("it is not UTF-8") from None
    return _Reader(yaml.replace("\r\n", "\n")).document(), text


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


class _Reader:
    """Reads lines from top to bottom. ``_at`` is the line that is read next.

    A block within a line, as the mapping in ``- name: x``, is read as if it stood alone: the dash
    is replaced by a space.
    """

    def __init__(self, text: str) -> None:
        found = _REFUSED.search(text)
        self._lines = text.removesuffix("\n").split("\n")
        self._at = 0
        if found is not None:
            self._at = text.count("\n", 0, found.start())
            self._fail(f"the character U+{ord(found[0]):04X}")

    def document(self) -> dict[str, Any]:
        if not self._skip():
            raise BadYaml("its front matter is empty")
        if self._key(self._lines[self._at], self._indent()) is None:
            raise BadYaml("its front matter is not a mapping of names to values")
        value = self._mapping(self._indent(), 1)
        if self._skip():
            self._fail(_MISPLACED)
        return value

    # ------------------------------------------------------------------- lines

    def _fail(self, what: str) -> NoReturn:
        raise BadYaml(f"line {self._at + 2} of it has {what}, which is not supported")

    def _skip(self) -> bool:
        """Go to the next line that is neither empty nor a comment. False at the end."""
        while self._at < len(self._lines):
            stripped = self._lines[self._at].lstrip(" ")
            if stripped.startswith("\t"):
                self._fail("a tab as indentation")
            if stripped and not stripped.startswith("#"):
                if re.match(r"(?:---|\.\.\.)(?: |\t|\Z)", self._lines[self._at]):
                    self._fail("the beginning or end of another document")
                return True
            self._at += 1
        return False

    def _indent(self) -> int:
        line = self._lines[self._at]
        return len(line) - len(line.lstrip(" "))

    # ------------------------------------------------------------------ blocks

    def _block(self, indent: int, depth: int) -> Any:
        """The mapping or sequence whose entries begin at column ``indent``."""
        if _is_entry(self._lines[self._at][indent:]):
            return self._sequence(indent, depth)
        return self._mapping(indent, depth)

    def _is_block(self, text: str, column: int) -> bool:
        """Whether ``text``, the rest of a line from ``column`` on, begins a block."""
        if not text or text.startswith("#"):
            return False
        return _is_entry(text) or self._key(" " * column + text, column) is not None

    def _mapping(self, indent: int, depth: int) -> dict[str, Any]:
        self._check_depth(depth)
        found: dict[str, Any] = {}
        while self._skip() and self._indent() == indent:
            line = self._lines[self._at]
            if _is_entry(line[indent:]):
                self._fail("an entry of a sequence among those of a mapping")
            split = self._key(line, indent)
            if split is None:
                self._fail("a line that is not 'name: value'")
            key, rest = split
            if key in found:
                self._fail("a name that comes twice")
            found[key] = (
                self._scalar(rest, indent, depth)
                if rest and not rest.startswith("#")
                else self._value_below(indent, depth, in_mapping=True)
            )
        self._check_dedent(indent)
        return found

    def _sequence(self, indent: int, depth: int) -> list[Any]:
        self._check_depth(depth)
        found: list[Any] = []
        while self._skip() and self._indent() == indent:
            line = self._lines[self._at]
            if not _is_entry(line[indent:]):
                break
            rest = line[indent + 1 :].lstrip(" ")
            column = len(line) - len(rest)
            if self._is_block(rest, column):
                self._lines[self._at] = " " * column + rest
                found.append(self._block(column, depth + 1))
            elif rest and not rest.startswith("#"):
                found.append(self._scalar(rest, indent, depth))
            else:
                found.append(self._value_below(indent, depth, in_mapping=False))
        self._check_dedent(indent)
        return found

    def _check_depth(self, depth: int) -> None:
        if depth > _DEEPEST:
            self._fail(f"more than {_DEEPEST} levels")

    def _check_dedent(self, indent: int) -> None:
        if self._at < len(self._lines) and self._indent() > indent:
            self._fail(_MISPLACED)

    def _value_below(self, indent: int, depth: int, *, in_mapping: bool) -> Any:
        """The value after a line that ends with ``name:`` or ``-``, if there is one."""
        self._at += 1
        if not self._skip():
            return None
        inner = self._indent()
        if inner == indent and in_mapping and _is_entry(self._lines[self._at][indent:]):
            return self._sequence(indent, depth + 1)
        if inner <= indent:
            return None
        rest = self._lines[self._at][inner:]
        if self._is_block(rest, inner):
            return self._block(inner, depth + 1)
        if rest[0] in "|>":
            self._fail("a block of text that does not begin beside its name")
        return self._scalar(rest, indent, depth)

    def _key(self, line: str, indent: int) -> tuple[str, str] | None:
        """Name and rest of ``name: rest`` at ``indent``; None where the line is not such a one."""
        text = line[indent:]
        if text[0] in "\"'":
            end = _end_of_quoted(text)
            after = text[end:].lstrip(" ")
            if end == 0 or not _KEY_END.match(after):
                return None
            raw = text[1 : end - 1]
            key: Any = double_quoted(raw) if text[0] == '"' else single_quoted(raw)
            rest = after[1:]
        else:
            if text[0] in "[{":
                return None
            found = _KEY_END.search(_COMMENT.sub("", text) if " #" in text else text)
            if found is None:
                return None
            raw, rest = text[: found.start()].rstrip(" "), text[found.end() :]
            self._check_plain(raw or ":")
            key = plain_value(raw)
            if key in ("<<", "="):
                self._fail("a merge key")
        if type(key) is not str:
            self._fail("a name that is not text")
        if len(key) > _LONGEST_KEY:
            self._fail(f"a name of more than {_LONGEST_KEY:,} characters")
        return key, rest.lstrip(" ")

    # ----------------------------------------------------------------- scalars

    def _scalar(self, rest: str, indent: int, depth: int) -> Any:
        """The value that begins with ``rest``, within a block at ``indent``."""
        if rest[0] in "|>":
            return self._block_scalar(rest, indent)
        if rest[0] in "\"'":
            return self._quoted(rest, indent)
        if rest[0] in "[{":
            return self._flow_line(rest, depth)
        return self._plain(rest, indent)

    def _check_plain(self, text: str) -> None:
        """That ``text`` may begin a text without quotation marks."""
        if text[0] in _INDICATORS:
            self._fail(_INDICATORS[text[0]])
        if text[0] in "-?:" and text[1:2] in ("", " "):
            self._fail(f"a '{text[0]}' where a value is expected")
        if "\t" in text:
            self._fail("a tab in text without quotation marks")

    def _plain(self, rest: str, indent: int) -> Any:
        """Text without quotation marks, which goes on in the lines that are indented more."""
        self._check_plain(rest)
        text = self._plain_line(rest)
        while True:
            has_comment = " #" in rest
            self._at += 1
            breaks = self._blank_lines()
            if not self._goes_on(indent):
                break
            rest = self._lines[self._at].lstrip(" ")
            if has_comment or rest.startswith("#"):
                if self._skip() and self._indent() > indent:
                    self._fail("text that goes on after a comment")
                break
            text += ("\n" * breaks or " ") + self._plain_line(rest)
        return plain_value(text)

    def _plain_line(self, rest: str) -> str:
        text = _COMMENT.sub("", rest).rstrip(" ")
        if "\t" in text:
            self._fail("a tab in text without quotation marks")
        if _KEY_END.search(text):
            self._fail("': ' in text without quotation marks")
        return text

    def _blank_lines(self) -> int:
        """Skip empty lines, and say how many there were."""
        first = self._at
        while self._at < len(self._lines) and not self._lines[self._at].strip(" "):
            self._at += 1
        return self._at - first

    def _goes_on(self, indent: int) -> bool:
        """Whether the next line is indented more than ``indent``."""
        if self._at >= len(self._lines):
            return False
        line = self._lines[self._at]
        if line.lstrip(" ").startswith("\t"):
            self._fail("a tab as indentation")
        return self._indent() > indent

    def _quoted(self, rest: str, indent: int) -> Any:
        quote, lines = rest[0], [rest]
        end = _end_of_quoted(rest)
        while end == 0:
            self._at += 1
            if self._at >= len(self._lines):
                self._at -= 1
                self._fail("a quotation mark that is not closed")
            line = self._lines[self._at]
            if line.strip(" ") and not self._goes_on(indent):
                self._fail("a quoted text that goes on in a line that is not indented")
            lines.append(line)
            # Only the new line is searched: quotation marks before it are all escaped.
            end = _end_of_quoted(line, quote)
        after = lines[-1][end:]
        lines[-1] = lines[-1][:end]
        self._check_end(after)
        raw = "\n".join(lines)[1:-1]
        return double_quoted(raw) if quote == '"' else single_quoted(raw)

    def _check_end(self, after: str) -> None:
        """``after`` is what stands behind a value, at the end of its line."""
        if after.strip(" ") and not _COMMENT.fullmatch(after):
            self._fail("something behind a value")
        self._at += 1

    def _block_scalar(self, rest: str, indent: int) -> str:
        header = _BLOCK.match(rest)
        if header is None:
            self._fail("an indentation indicator, or something behind a | or >")
        self._at += 1
        lines = self._block_lines(indent)
        if not lines:
            return ""
        kept = len(lines)
        while kept and not lines[kept - 1]:
            kept -= 1
        body = lines[:kept]
        ends = {"-": "", "+": "\n" * (len(lines) - kept + bool(body)), "": "\n" if body else ""}
        text = "\n".join(body) if header[1] == "|" else _folded(body)
        return text + ends[header[2]]

    def _block_lines(self, indent: int) -> list[str]:
        """The lines of a block of text, without their indentation."""
        inner, longest, lines = 0, 0, list[str]()
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not line.strip(" "):
                longest = max(longest, len(line)) if inner == 0 else 0
                lines.append(line[inner:] if inner else "")
            else:
                column = self._indent()
                if inner == 0:
                    if column <= indent:
                        break
                    if line[column] == "\t":
                        self._fail("a tab as indentation")
                    if longest > column:
                        self._fail("an empty line that is indented more than the text below")
                    inner = column
                elif column < inner:
                    break
                lines.append(line[inner:])
            self._at += 1
        if inner == 0 and longest:
            self._fail("a block of text that has only white space")
        return lines

    # -------------------------------------------------------------------- flow

    def _flow_line(self, rest: str, depth: int) -> Any:
        value, end = self._flow(rest, 0, depth + 1)
        self._check_end(rest[end:])
        return value

    def _flow(self, text: str, at: int, depth: int) -> tuple[Any, int]:
        """The value at ``at``, and where it ends."""
        if depth > _DEEPEST:
            self._fail(f"more than {_DEEPEST} levels")
        if at >= len(text):
            self._fail("a [ or { that is not closed on its line")
        if text[at] in "\"'":
            end = _end_of_quoted(text[at:])
            if end == 0:
                self._fail("a quotation mark that is not closed on its line")
            raw = text[at + 1 : at + end - 1]
            return (double_quoted(raw) if text[at] == '"' else single_quoted(raw)), at + end
        if text[at] not in "[{":
            return self._flow_plain(text, at)
        close = "]" if text[at] == "[" else "}"
        items: list[Any] = []
        pairs: dict[str, Any] = {}
        at = _blanks(text, at + 1)
        while text[at : at + 1] != close:
            if items or pairs:
                if text[at : at + 1] != ",":
                    self._fail("a [ or { that is not closed on its line")
                at = _blanks(text, at + 1)
            quoted = text[at : at + 1] in ('"', "'")
            value, at = self._flow(text, at, depth + 1)
            at = _blanks(text, at)
            is_pair = text[at : at + 1] == ":"
            if is_pair == (close == "]"):
                self._fail("a pair within [ ], or a name without ': value' within { }")
            if close == "]":
                items.append(value)
                continue
            if not quoted and text[at + 1 : at + 2] not in (" ", ""):
                self._fail("a name without ': ' within { }")
            if type(value) is not str or value in pairs or value in ("<<", "="):
                self._fail("a name that is not text, or comes twice, within { }")
            pairs[value], at = self._flow(text, _blanks(text, at + 1), depth + 1)
            at = _blanks(text, at)
        return (items if close == "]" else pairs), at + 1

    def _flow_plain(self, text: str, at: int) -> tuple[Any, int]:
        found = _FLOW_PLAIN.match(text, at)
        if found is None:
            self._fail("nothing where a value is expected within [ ] or { }")
        self._check_plain(found[0])
        return plain_value(found[0]), found.end()


def _is_entry(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _blanks(text: str, at: int) -> int:
    while text[at : at + 1] == " ":
        at += 1
    return at


def _end_of_quoted(text: str, quote: str = "") -> int:
    """Where the quoted text ends that begins ``text``, or goes on in it; 0 where it does not."""
    at = 0 if quote else 1
    quote = quote or text[0]
    while at < len(text):
        if text[at] == "\\" and quote == '"':
            at += 2
        elif text[at] != quote:
            at += 1
        elif quote == "'" and text[at + 1 : at + 2] == "'":
            at += 2
        else:
            return at + 1
    return 0


def _folded(lines: list[str]) -> str:
    """Lines of a ``>`` block: a break between two lines that begin with text is a space."""
    parts: list[str] = []
    last, breaks = "", 0
    for line in lines:
        if not line:
            breaks += 1
            continue
        if not parts:
            parts.append("\n" * breaks)
        elif line[0] in " \t" or last[0] in " \t":
            parts.append("\n" * (breaks + 1))
        else:
            parts.append("\n" * breaks or " ")
        parts.append(line)
        last, breaks = line, 0
    return "".join(parts)
