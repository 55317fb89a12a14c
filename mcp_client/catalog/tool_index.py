"""Search for a tool among thousands: BM25 over the definitions of the tools.

``ToolIndex`` contains the tools of one list and ranks them for a query. It uses Okapi BM25 (k1 1.2,
b 0.75) over one text for each tool. The words of the name count four times, and those of the
description once. The words of the title, the parameters' names and the server's name count twice.

The order depends only on the tools in the index: tools with equal scores are in the order of their
qualified names.

Indexing 20,000 tools takes 0.4 seconds. ``ToolSearch``, which searches the list of a session or a
host, does it in slices of a millisecond or two, between which other tasks run.

Texts are from servers. The indexed length of each is limited, so that a server cannot make the
index large. A repeated word counts once for a name and at most four times for a description. The
text becomes longer as well, so repetition does not move a server's tools to the front.

Words are those of names in any style of writing, of prose, and of scripts without spaces:
``readFileV2``, ``read_file-v2`` and "Read files, v2" all contain *read*, *file*, *v* and *2*. A
word that is written in several parts is found by its parts and as a whole (``GitHub``: *git*,
*hub*, *github*). Plurals are reduced by a few rules for English; Chinese and Japanese, which are
written without spaces, are taken as pairs of characters.
"""

from __future__ import annotations

import heapq
import math
import re
import threading
import unicodedata
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice, pairwise

from anyio.lowlevel import checkpoint

from ..errors import ConfigError
from .tool import Tool, ToolList

__all__ = ["ToolIndex", "ToolSearch", "words"]

_RUN = re.compile(r"[^\W_]+")
_ASCII_RUNS = "".join(char if char.isalnum() else " " for char in map(chr, range(128)))
"""For ``str.translate``: between blanks is then what ``_RUN`` finds, in a third of the time."""
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_WITHOUT_SPACES = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+")
_ACCENTS = re.compile("[\u0300-\u036f]+")
_MAX_WORD_CHARS = 64
"""The rest of a longer word is dropped."""
_CACHED_RUNS, _MAX_CACHED_CHARS = 2_048, 32
"""The number and length of runs whose words are cached: most of a catalogue are the same."""
_CACHED_TEXTS = 512
"""The number of parameter and server names whose words are cached."""

COMMON = frozenset(
    """
    a an and any are as at be by can do for from how i in is it me my of on or please that the this
    to use want what when which with you your
    """.split()  # noqa: SIM905 - a list of words is read as words
)
"""Words that are ignored in a query that has others."""

_K1, _B = 1.2, 0.75
_NAME, _SERVER, _TITLE, _PARAMETER = 4, 2, 2, 2
"""The weight of a word by its place; in a description a word counts as often as it occurs."""
_MAX_COUNTED = 4
"""The maximum number of times that a word of a description counts."""
_COUNTS = 16
"""A word counts less often than this, all in all."""
_MAX_TITLE_CHARS, _MAX_DESCRIPTION_CHARS = 256, 4_000
_MAX_PARAMETERS, _MAX_PARAMETER_CHARS = 100, 64
_MAX_WORDS = 400
"""Different words of one tool; those of a description come last."""
_MAX_QUERY_CHARS, _MAX_QUERY_WORDS = 1_000, 32
_MAX_MATCHES = 20_000
"""The number of matches of a query's words, after which no other word is looked up.

The rarest words come first, and more would take more than a few milliseconds.
"""
_SLICE_WORDS = 2_000
"""Words that are read before other tasks may run: it takes one or two milliseconds."""
_WORDS_PER_TOOL = 4
"""The weight of a tool besides its words, as one of them."""


class ToolIndex:
    """The tools of one list, and which of them fit a query. Safe to use from threads."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        """Prepare for ``tools``, which ``read`` adds to the index."""
        self._left = iter(tools)
        self._lock = threading.Lock()  # a toolset may be used from several event loops
        self._tools: list[Tool] = []
        self._names: list[str] = []
        self._lengths = array("I")
        self._having: dict[str, int | array[int]] = {}
        """For each word, the tools that have it.

        Each is the tool's place times ``_COUNTS``, plus the number of occurrences. Most words occur
        in one tool only: with 20,000 arrays of one number each, the garbage collector would stop
        the event loop for 40 ms.
        """

    def read(self) -> bool:
        """Read as many tools as take a millisecond or two. Returns whether there may be more."""
        words_read = 0
        with self._lock:
            for tool in self._left:
                words_read += _WORDS_PER_TOOL + self._add(tool)
                if words_read >= _SLICE_WORDS:
                    return True
        return False

    def _add(self, tool: Tool) -> int:
        """Returns the number of words that had to be read."""
        name = tool.qualified_name
        counts, length = _counts_of(name, tool)
        first = len(self._tools) * _COUNTS
        self._tools.append(tool)
        self._names.append(name)
        self._lengths.append(length)
        having = self._having
        for word, count in counts.items():
            others = having.get(word)
            if others is None:
                having[word] = first + count
            elif isinstance(others, int):
                having[word] = array("I", (others, first + count))
            else:
                others.append(first + count)
        return length

    def search(self, query: str, limit: int) -> list[Tool]:
        """Return at most ``limit`` tools that have a word of ``query``, the best first.

        It indexes the tools that are not indexed yet.
        """
        while self.read():
            pass
        known = [self._having[word] for word in _query_words(query) if word in self._having]
        found = [(one,) if isinstance(one, int) else one for one in known]
        if limit < 1 or not found:
            return []
        scores = self._scores(sorted(found, key=len))
        return [self._tools[place] for place in self._best(scores, limit)]

    def _scores(self, found: list[Sequence[int]]) -> list[float]:
        """Return the scores by place; ``found`` has the rarest word first."""
        lengths = self._lengths
        count_of_tools, matches = len(lengths), 0
        slope = _K1 * _B * count_of_tools / sum(lengths)
        norms = [_K1 * (1 - _B) + slope * length for length in lengths]
        scores = [0.0] * count_of_tools
        for having in found:
            rarity = math.log(1 + (count_of_tools - len(having) + 0.5) / (len(having) + 0.5))
            for posting in having:
                place, count = divmod(posting, _COUNTS)
                scores[place] += rarity * count / (count + norms[place])
            matches += len(having)
            if matches >= _MAX_MATCHES:
                break
        return scores

    def _best(self, scores: list[float], limit: int) -> list[int]:
        lowest = heapq.nlargest(limit, scores)[-1]
        names = self._names
        above = [(-score, names[at], at) for at, score in enumerate(scores) if score > lowest]
        tied = ((names[at], at) for at, score in enumerate(scores) if score == lowest > 0)
        best = [at for _, _, at in sorted(above)]
        return best + [at for _, at in heapq.nsmallest(limit - len(best), tied)]


class ToolSearch:
    """Search in the tools that ``list_tools`` lists: those of a session, or of a host."""

    def __init__(self, list_tools: Callable[[], Awaitable[ToolList]]) -> None:
        self._list_tools = list_tools
        self._listed: ToolList | None = None
        self._index = ToolIndex(())

    async def search(self, query: str, limit: int) -> list[Tool]:
        """Return the tools that a model may call and that match ``query``, the best first.

        Raises ``ConfigError``, and the errors of the list.
        """
        if not isinstance(query, str):
            raise ConfigError(f"search_tools() was given a {type(query).__name__}: give words")
        if type(limit) is not int:
            raise ConfigError(f"search_tools(limit={limit!r}): give a whole number")
        listed = await self._list_tools()
        if self._listed is not listed:
            self._listed = listed
            self._index = ToolIndex(tool for tool in listed if tool.is_for_models)
        index = self._index
        while index.read():
            await checkpoint()
        return index.search(query, limit)


def _counts_of(name: str, tool: Tool) -> tuple[Mapping[str, int], int]:
    """Return the weight of each word, and the length of the text in words."""
    properties = tool._listed_schema.get("properties")
    parameters = islice(properties if isinstance(properties, dict) else (), _MAX_PARAMETERS)
    title = tool.title
    parts = (
        (_NAME, _name_words(name, tool.name)),
        (_SERVER, _words_of(tool.server)),
        (_TITLE, words(title[:_MAX_TITLE_CHARS]) if title else ()),
        (_PARAMETER, [w for each in parameters for w in _words_of(each[:_MAX_PARAMETER_CHARS])]),
    )
    counts: dict[str, int] = {}
    length = 0
    for times, found in parts:
        for word in dict.fromkeys(found):
            length += times
            counts[word] = counts.get(word, 0) + times
    description = words((tool.description or "")[:_MAX_DESCRIPTION_CHARS])
    for word, often in Counter(description).items():
        counts[word] = counts.get(word, 0) + (often if often < _MAX_COUNTED else _MAX_COUNTED)
    if len(counts) > _MAX_WORDS:
        counts = dict(islice(counts.items(), _MAX_WORDS))
    return counts, length + len(description)


def _name_words(qualified_name: str, name: str) -> list[str]:
    wholes = [joined(name), joined(qualified_name) if qualified_name != name else None]
    return [*filter(None, wholes), *words(name)]


def _query_words(query: str) -> list[str]:
    query = query[:_MAX_QUERY_CHARS]
    found = list(dict.fromkeys(words(query)))
    telling = [word for word in found if word not in COMMON] or found
    whole = joined(query)
    named = [] if whole is None or whole in telling else [whole]
    return telling[:_MAX_QUERY_WORDS] + named


# ------------------------------------------------------------------ words


def words(text: str) -> list[str]:
    """The words of ``text``, in lower case and reduced to stems."""
    if not text.isascii():
        text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
        text = unicodedata.normalize("NFKC", text)
    return list(chain.from_iterable(map(_words_of_run, _runs(text))))


@lru_cache(_CACHED_TEXTS)
def _words_of(text: str) -> tuple[str, ...]:
    return tuple(words(text))


def _runs(text: str) -> list[str]:
    if text.isascii():
        return text.translate(_ASCII_RUNS).split()
    return _RUN.findall(text)


class _WordsOfRuns(dict[str, tuple[str, ...]]):
    """A cache of ``_parts``.

    ``lru_cache`` also stores long runs and takes twice as long: a third of the time was spent in
    it.
    """

    def __missing__(self, run: str) -> tuple[str, ...]:
        parts = tuple(_parts(run))
        if len(run) <= _MAX_CACHED_CHARS:
            if len(self) >= _CACHED_RUNS:
                self.clear()
            self[run] = parts
        return parts


_words_of_run = _WordsOfRuns().__getitem__


def joined(text: str) -> str | None:
    """All words of a short text as one, for names that are written together or apart.

    None for a text of one word, or of too many characters to be a name.
    """
    if len(text) > _MAX_WORD_CHARS:
        return None
    runs = _runs(text)
    whole = "".join(runs).casefold()
    if len(runs) < 2 or not whole.isascii():
        return None
    return _singular(whole)


def _parts(run: str) -> Iterator[str] | list[str]:
    return _ascii_parts(run) if run.isascii() else _parts_of_scripts(run)


def _ascii_parts(run: str) -> list[str]:
    parts = _PART.findall(run)
    if len(parts) > 1:
        parts.append("".join(parts))
    return [_singular(part[:_MAX_WORD_CHARS].lower()) for part in parts]


def _parts_of_scripts(run: str) -> Iterator[str]:
    at = 0
    for match in _WITHOUT_SPACES.finditer(run):
        yield from _spaced(run[at : match.start()])
        yield from _pairs(match[0])
        at = match.end()
    yield from _spaced(run[at:])


def _spaced(run: str) -> Iterator[str]:
    if run.isascii():
        yield from _ascii_parts(run)
    else:
        yield run[:_MAX_WORD_CHARS].casefold()


def _pairs(run: str) -> Iterator[str]:
    yield from run if len(run) == 1 else map("".join, pairwise(run))


def _singular(word: str) -> str:
    """Return the stem that singular and plural share, by English rules; not always a word."""
    if len(word) < 4:
        return word
    if word[-1] == "s" and word[-2] != "s":
        word = word[:-2] if word.endswith(("sses", "xes", "shes")) else word[:-1]
    if word.endswith("ie"):
        return word[:-1]
    if word[-1] == "y" and len(word) > 3:
        return f"{word[:-1]}i"
    return word[:-1] if word[-1] == "e" and len(word) > 5 else word
