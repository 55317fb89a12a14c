"""Finding a tool among thousands: BM25 over what the servers say of their tools.

``ToolIndex`` holds tools by their qualified names and ranks them for a query with Okapi BM25
(k1 1.2, b 0.75) over one text a tool, in which the words of the name count four times, those of the
title, of the parameters' names and of the server's name twice, and those of the description once.

The order is a function of what the index holds, whatever order it was added in: weights are whole
numbers, and tools with equal scores are in the order of their qualified names. The mean length that
BM25 compares with is taken in steps of a half, so that adding a tool seldom touches the others.

A word that few tools have costs a step for each of them. The weights of a word that many tools have
are one Python integer of 64 bits a tool: multiplying by the word's rarity and adding up words is
done for all tools at once, in C. It is made when it is first needed and kept until a tool with that
word comes or goes.

Texts are from servers. How much of each is read is limited, so that a server cannot make the index
large. A word that is repeated counts once for a name and at most four times for a description, and
all of it makes the text longer, so a server does not bring its tools to the front by repetition.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from .words import COMMON, joined, words

if TYPE_CHECKING:
    from ..catalog.tool import Tool

__all__ = ["ToolIndex"]

_K1, _B = 1.2, 0.75
_NAME, _SERVER, _TITLE, _PARAMETER, _DESCRIPTION = 4, 2, 2, 2, 1
"""How often a word counts that stands there."""
_REPEATED = 4
"""How often a word of a description counts at most."""
_NAME_CHARS, _TITLE_CHARS, _DESCRIPTION_CHARS = 256, 256, 4_000
_PARAMETERS, _PARAMETER_CHARS = 100, 64
_WORDS = 400
"""Different words of one tool; those of a description come last."""
_QUERY_CHARS, _QUERY_WORDS = 1_000, 32
_LANE = 8
"""Bytes a tool in the integer of a word: a sum of ``_QUERY_WORDS`` products fits with room."""
_WEIGHT_STEPS, _RARITY_STEPS = 4_096, 1_024
_FREQUENT = 256
"""Tools that have a word, from which on it is worth an integer."""
_KEPT_LANES = 256
"""Integers that are kept; each takes eight bytes a tool."""


class _Entry(NamedTuple):
    tool: Tool
    slot: int
    counts: dict[str, int]
    length: int


class ToolIndex:
    """Tools by qualified name, and which of them fit a query. Pure: nothing here waits."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._names: list[str | None] = []  # by slot; None where it is free
        self._free: list[int] = []
        self._weights: dict[str, dict[int, int]] = {}
        self._lanes: dict[str, int] = {}
        self._total = 0
        self._pivot = 0.0  # the mean length that the weights are made with

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def add(self, name: str, tool: Tool) -> None:
        """Index ``tool`` under the qualified name ``name``, in place of what was there."""
        kept = self._entries.get(name)
        if kept is not None:
            if kept.tool is tool or kept.tool == tool:
                return
            self.remove(name)
        counts, length = _counts_of(name, tool)
        slot = self._free.pop() if self._free else len(self._names)
        if slot == len(self._names):
            self._names.append(None)
        self._names[slot] = name
        entry = _Entry(tool, slot, counts, length)
        self._entries[name] = entry
        self._total += entry.length
        for word, weight in _weights(entry, self._pivot):
            self._weights.setdefault(word, {})[slot] = weight
            self._lanes.pop(word, None)

    def remove(self, name: str) -> None:
        """Forget the tool of that name, if there is one."""
        entry = self._entries.pop(name, None)
        if entry is None:
            return
        self._names[entry.slot] = None
        self._free.append(entry.slot)
        self._total -= entry.length
        for word in entry.counts:
            weights = self._weights[word]
            del weights[entry.slot]
            self._lanes.pop(word, None)
            if not weights:
                del self._weights[word]

    def update(self, tools: Mapping[str, Tool]) -> None:
        """Hold exactly ``tools``, by qualified name; what is unchanged is not read again."""
        for name in [name for name in self._entries if name not in tools]:
            self.remove(name)
        for name, tool in tools.items():
            self.add(name, tool)
        self._follow_mean_length()

    def search(self, query: str, *, limit: int = 8) -> list[Tool]:
        """At most ``limit`` tools that have a word of ``query``, the best first."""
        if limit < 1 or not self._entries:
            return []
        self._follow_mean_length()  # after add() and remove()
        found = [word for word in _query_words(query) if word in self._weights]
        if not found:
            return []
        return [self._entries[name].tool for name in self._best(self._scores(found), limit)]

    def _scores(self, found: list[str]) -> array[int]:
        """By slot. The order of the words makes no difference to a sum of whole numbers."""
        total = 0
        rare = []
        for word in found:
            if len(self._weights[word]) < max(_FREQUENT, len(self._names) // 16):
                rare.append(word)
            else:
                total += self._lane(word) * self._rarity(word)
        scores = array("Q", total.to_bytes(_LANE * len(self._names), "little"))
        if not _LITTLE_ENDIAN:  # pragma: no cover
            scores.byteswap()
        for word in rare:
            rarity = self._rarity(word)
            for slot, weight in self._weights[word].items():
                scores[slot] += weight * rarity
        return scores

    def _best(self, scores: array[int], limit: int) -> Iterator[str]:
        names = self._names
        lowest = heapq.nlargest(limit, scores)[-1] or 1
        above: list[int] = []
        tied: list[int] = []
        for slot, score in enumerate(scores):
            if score >= lowest:
                (above if score > lowest else tied).append(slot)
        # Names of free slots cannot come up: their scores are 0.
        ranked = sorted((-scores[slot], names[slot] or "") for slot in above)
        yield from (name for _, name in ranked)
        yield from heapq.nsmallest(limit - len(ranked), (names[slot] or "" for slot in tied))

    def _rarity(self, word: str) -> int:
        """The inverse document frequency; at least 1, so that whatever fits is found."""
        having = len(self._weights[word])
        rarity = math.log(1 + (len(self._entries) - having + 0.5) / (having + 0.5))
        return round(rarity * _RARITY_STEPS) or 1

    def _lane(self, word: str) -> int:
        lane = self._lanes.get(word)
        if lane is None:
            if len(self._lanes) >= _KEPT_LANES:
                del self._lanes[next(iter(self._lanes))]
            weights = array("Q", bytes(_LANE * len(self._names)))
            for slot, weight in self._weights[word].items():
                weights[slot] = weight
            if not _LITTLE_ENDIAN:  # pragma: no cover
                weights.byteswap()
            lane = self._lanes[word] = int.from_bytes(weights.tobytes(), "little")
        return lane

    def _follow_mean_length(self) -> None:
        mean = self._total / max(len(self._entries), 1)
        pivot = 1.5 ** round(math.log(max(mean, 1.0), 1.5))
        if pivot == self._pivot:
            return
        self._pivot = pivot
        self._lanes.clear()
        for entry in self._entries.values():
            for word, weight in _weights(entry, pivot):
                self._weights[word][entry.slot] = weight


_LITTLE_ENDIAN = array("H", b"\1\0")[0] == 1


def _weights(entry: _Entry, pivot: float) -> Iterator[tuple[str, int]]:
    """What each word counts in this tool: the part of BM25 without the word's rarity."""
    slowly = _K1 * (1 - _B + _B * entry.length / (pivot or 1.0))
    for word, count in entry.counts.items():
        yield word, round(count * (_K1 + 1) / (count + slowly) * _WEIGHT_STEPS) or 1


def _counts_of(name: str, tool: Tool) -> tuple[dict[str, int], int]:
    """How much each word counts, and how long all of the text is."""
    wholes = {joined(name), joined(tool.name)} - {None}
    properties = tool._definition["inputSchema"].get("properties")
    parameters = islice(properties if isinstance(properties, dict) else (), _PARAMETERS)
    said = list(words((tool.description or "")[:_DESCRIPTION_CHARS]))
    parts = (
        (_NAME, [*sorted(filter(None, wholes)), *words(tool.name[:_NAME_CHARS])]),
        (_SERVER, words(tool.server[:_NAME_CHARS])),
        (_TITLE, words((tool.title or "")[:_TITLE_CHARS])),
        (_PARAMETER, [word for each in parameters for word in words(each[:_PARAMETER_CHARS])]),
    )
    counts: dict[str, int] = {}
    length = len(said)
    for times, found in parts:
        for word in dict.fromkeys(found):
            length += times
            if word in counts or len(counts) < _WORDS:
                counts[word] = counts.get(word, 0) + times
    for word, often in Counter(said).items():
        if word in counts or len(counts) < _WORDS:
            counts[word] = counts.get(word, 0) + min(often, _REPEATED)
    return counts, length


def _query_words(query: str) -> list[str]:
    query = query[:_QUERY_CHARS]
    found = list(dict.fromkeys(words(query)))
    telling = [word for word in found if word not in COMMON] or found
    whole = joined(query)
    named = [] if whole is None or whole in telling else [whole]
    return telling[:_QUERY_WORDS] + named
