"""Words of a text, for search: names in any style of writing, prose, and scripts without spaces.

``readFileV2``, ``read_file-v2`` and "Read files, v2" all contain *read*, *file*, *v* and *2*. A
word that is written in several parts is found by its parts and as a whole (``GitHub``: *git*,
*hub*, *github*). Plurals are reduced by a few rules for English; Chinese and Japanese, which are
written without spaces, are taken as pairs of characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

__all__ = ["COMMON", "joined", "words"]

_RUN = re.compile(r"[^\W_]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_WITHOUT_SPACES = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+")
_ACCENTS = re.compile("[\u0300-\u036f]+")
_MAX_WORD_CHARS = 64
"""The rest of a longer word is dropped."""
_KEPT_RUNS, _MAX_KEPT_CHARS = 2_048, 32
"""The words of so many runs are kept, if they are so short: most of a catalogue are the same."""

COMMON = frozenset(
    """
    a an and any are as at be by can do for from how i in is it me my of on or please that the this
    to use want what when which with you your
    """.split()  # noqa: SIM905 - a list of words is read as words
)
"""Words that say nothing in a question that has others."""


def words(text: str) -> list[str]:
    """The words of ``text``, in lower case and reduced to stems."""
    if not text.isascii():
        text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
        text = unicodedata.normalize("NFKC", text)
    found: list[str] = []
    for run in _RUN.findall(text):
        found += _kept_parts(run) if len(run) <= _MAX_KEPT_CHARS else _parts(run)
    return found


def joined(text: str) -> str | None:
    """All words of a short text as one, for names that are written together or apart.

    None for a text of one word, or of too many characters to be a name.
    """
    if len(text) > _MAX_WORD_CHARS:
        return None
    runs = _RUN.findall(text)
    whole = "".join(runs).casefold()
    if len(runs) < 2 or not whole.isascii():
        return None
    return _singular(whole)


@lru_cache(_KEPT_RUNS)
def _kept_parts(run: str) -> tuple[str, ...]:
    return tuple(_parts(run))


def _parts(run: str) -> Iterator[str]:
    if run.isascii():
        yield from _ascii_parts(run)
        return
    at = 0
    for match in _WITHOUT_SPACES.finditer(run):
        yield from _spaced(run[at : match.start()])
        yield from _pairs(match[0])
        at = match.end()
    yield from _spaced(run[at:])


def _ascii_parts(run: str) -> Iterator[str]:
    parts = _PART.findall(run)
    for part in parts:
        yield _singular(part[:_MAX_WORD_CHARS].lower())
    if len(parts) > 1:
        yield _singular("".join(parts)[:_MAX_WORD_CHARS].lower())


def _spaced(run: str) -> Iterator[str]:
    if run.isascii():
        yield from _ascii_parts(run)
    else:
        yield run[:_MAX_WORD_CHARS].casefold()


def _pairs(run: str) -> Iterator[str]:
    yield from run if len(run) == 1 else map("".join, pairwise(run))


def _singular(word: str) -> str:
    """A stem that singular and plural share, by rules for English; not always a word."""
    if len(word) < 4:
        return word
    if word[-1] == "s" and word[-2] != "s":
        word = word[:-2] if word.endswith(("sses", "xes", "shes")) else word[:-1]
    if word.endswith("ie"):
        return word[:-1]
    if word[-1] == "y" and len(word) > 3:
        return f"{word[:-1]}i"
    return word[:-1] if word[-1] == "e" and len(word) > 5 else word
