"""Finding a tool among thousands: BM25 over what the servers say of their tools.

``ToolIndex`` holds the tools of one list and ranks them for a query with Okapi BM25 (k1 1.2,
b 0.75) over one text a tool, in which the words of the name count four times, those of the title,
of the parameters' names and of the server's name twice, and those of the description once.

The order is a function of what the index holds, whatever order it was added in: tools with equal
scores are in the order of their qualified names.

Reading 20,000 tools takes half a second. ``ToolSearch``, which searches the list of a session or a
host, does it in slices of a few milliseconds, between which other tasks run.

Texts are from servers. How much of each is read is limited, so that a server cannot make the index
large. A word that is repeated counts once for a name and at most four times for a description, and
all of it makes the text longer, so a server does not bring its tools to the front by repetition.

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
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice, pairwise
from typing import NamedTuple

from anyio.lowlevel import checkpoint

from ..errors import ConfigError
from .tool import Tool, ToolList

__all__ = ["ToolIndex", "ToolSearch", "words"]

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

_K1, _B = 1.2, 0.75
_NAME, _SERVER, _TITLE, _PARAMETER = 4, 2, 2, 2
"""How often a word counts that stands there; in a description it counts as often as it is there."""
_MAX_COUNTED = 4
"""How often a word of a description counts at most."""
_MAX_NAME_CHARS, _MAX_TITLE_CHARS, _MAX_DESCRIPTION_CHARS = 256, 256, 4_000
_MAX_PARAMETERS, _MAX_PARAMETER_CHARS = 100, 64
_MAX_WORDS = 400
"""Different words of one tool; those of a description come last."""
_MAX_QUERY_CHARS, _MAX_QUERY_WORDS = 1_000, 32
_MAX_MATCHES = 20_000
"""Of the words of a query, after which no other word is looked up: the rarest come first, which say
most, and it is a few milliseconds."""
_SLICE_WORDS = 2_000
"""Words that are read before other tasks may run: it takes one or two milliseconds."""
_WORDS_PER_TOOL = 4
"""What a tool counts besides its words, as one of them."""


class _Text(NamedTuple):
    """What is searched of a tool."""

    tool: Tool
    counts: Mapping[str, int]
    length: int


class ToolIndex:
    """The tools of one list, and which of them fit a query. Safe to use from threads."""

    def __init__(self, tools: Iterable[Tool], earlier: ToolIndex | None = None) -> None:
        """``tools`` are read by ``read``, without those that ``earlier`` has read."""
        self._left = iter(tools)
        self._reading = threading.Lock()  # a toolset may be used from several event loops
        self._earlier = {} if earlier is None else earlier._texts
        self._texts: dict[str, _Text] = {}
        """By qualified name. What stands at a place below is of the tool that is there in here."""
        self._names: list[str] = []
        self._lengths: list[int] = []
        self._having: dict[str, dict[int, int]] = {}
        """By word and by place: how often the word counts there."""

    def read(self) -> bool:
        """Read as many tools as take a millisecond or two. Returns whether there may be more."""
        words_read = 0
        with self._reading:
            for tool in self._left:
                words_read += _WORDS_PER_TOOL + self._add(tool)
                if words_read >= _SLICE_WORDS:
                    return True
            self._earlier = {}
        return False

    def _add(self, tool: Tool) -> int:
        """Returns the number of words that had to be read."""
        name = tool.qualified_name
        known = self._earlier.get(name)
        is_known = known is not None and (known.tool is tool or known.tool == tool)
        text = known if known is not None and is_known else _Text(tool, *_counts_of(name, tool))
        place = len(self._names)
        self._texts[name] = text
        self._names.append(name)
        self._lengths.append(text.length)
        having = self._having
        for word, count in text.counts.items():
            if word in having:
                having[word][place] = count
            else:
                having[word] = {place: count}
        return 0 if is_known else text.length

    def search(self, query: str, limit: int) -> list[Tool]:
        """At most ``limit`` tools that have a word of ``query``, the best first. Reads what is not
        read yet."""
        while self.read():
            pass
        found = [self._having[word] for word in _query_words(query) if word in self._having]
        if limit < 1 or not found:
            return []
        scores = self._scores(sorted(found, key=len))
        return [self._texts[name].tool for name in self._best(scores, limit)]

    def _scores(self, found: list[dict[int, int]]) -> list[float]:
        """By place; ``found`` has the rarest word first."""
        count_of_tools, matches = len(self._names), 0
        slope = _K1 * _B * count_of_tools / sum(self._lengths)
        norms = [_K1 * (1 - _B) + slope * length for length in self._lengths]
        scores = [0.0] * count_of_tools
        for having in found:
            rarity = math.log(1 + (count_of_tools - len(having) + 0.5) / (len(having) + 0.5))
            for place, count in having.items():
                scores[place] += rarity * count / (count + norms[place])
            matches += len(having)
            if matches >= _MAX_MATCHES:
                break
        return scores

    def _best(self, scores: list[float], limit: int) -> list[str]:
        names = self._names
        lowest = heapq.nlargest(limit, scores)[-1]
        above = [(-score, names[at]) for at, score in enumerate(scores) if score > lowest]
        tied = (names[at] for at, score in enumerate(scores) if score == lowest > 0)
        best = [name for _, name in sorted(above)]
        return best + heapq.nsmallest(limit - len(best), tied)


class ToolSearch:
    """Search in the tools that ``list_tools`` lists: those of a session, or of a host."""

    def __init__(self, list_tools: Callable[[], Awaitable[ToolList]]) -> None:
        self._list_tools = list_tools
        self._listed: ToolList | None = None
        self._index = ToolIndex(())

    async def search(self, query: str, limit: int) -> list[Tool]:
        """Those that a model may call and that fit ``query``, the best first. Raises
        ``ConfigError``, and what listing them raises."""
        if not isinstance(query, str):
            raise ConfigError(f"search_tools() was given a {type(query).__name__}: give words")
        if type(limit) is not int:
            raise ConfigError(f"search_tools(limit={limit!r}): give a whole number")
        listed = await self._list_tools()
        if self._listed is not listed:
            self._listed = listed
            self._index = ToolIndex((tool for tool in listed if tool.is_for_models), self._index)
        index = self._index
        while index.read():
            await checkpoint()
        return index.search(query, limit)


def _counts_of(name: str, tool: Tool) -> tuple[dict[str, int], int]:
    """How much each word counts, and how long all of the text is."""
    wholes = {joined(name), joined(tool.name)} - {None}
    properties = tool._listed_schema.get("properties")
    parameters = islice(properties if isinstance(properties, dict) else (), _MAX_PARAMETERS)
    said = list(words((tool.description or "")[:_MAX_DESCRIPTION_CHARS]))
    parts = (
        (_NAME, [*sorted(filter(None, wholes)), *words(tool.name[:_MAX_NAME_CHARS])]),
        (_SERVER, words(tool.server[:_MAX_NAME_CHARS])),
        (_TITLE, words((tool.title or "")[:_MAX_TITLE_CHARS])),
        (_PARAMETER, [word for each in parameters for word in words(each[:_MAX_PARAMETER_CHARS])]),
    )
    counts: dict[str, int] = {}
    length = len(said)
    for times, found in parts:
        for word in dict.fromkeys(found):
            length += times
            counts[word] = counts.get(word, 0) + times
    for word, often in Counter(said).items():
        counts[word] = counts.get(word, 0) + (often if often < _MAX_COUNTED else _MAX_COUNTED)
    if len(counts) > _MAX_WORDS:
        counts = dict(islice(counts.items(), _MAX_WORDS))
    return counts, length


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
