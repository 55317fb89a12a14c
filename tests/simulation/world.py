"""The world of one simulated life: what the seed decides, and the record of what happened.

Everything that chance decides is drawn here by a name, such as "c3 hook". A draw depends on the
seed, the name and how often the name was drawn, and on nothing else: a call that is left out of a
life changes no draw of another, so that a failing life can be shrunk.

Each seed chooses which kinds of faults there are in its life, and how often each happens: some
lives have one kind, some nearly all. ``calm`` ends the faults of a life permanently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import TypeVar

__all__ = ["FAULTS", "MOMENT", "SHORT", "World", "faults"]

T = TypeVar("T")
MOMENT = 1 / 1024
LATENCIES = (0.0, 0.0, 0.0, 0.0, MOMENT, MOMENT, 1.0, 60.0)
"""Few values, and sums of them that are exact, so that two things often happen at the same time."""
SHORT = (0.0, 0.0, MOMENT)
_RATES = (0.03, 0.1, 0.3, 0.6)
_FOCI: tuple[tuple[str, ...], ...] = (
    (),
    (),
    ("change", "change behind a list", "change under the call"),
    ("question", "person is late"),
    ("question", "handler never answers"),
    ("task", "hook swallows the cancellation"),
    ("token", "scope", "hook swallows the cancellation"),
    ("hook allows for the session", "hook allows always", "change", "change behind a list"),
    ("no answer", "short timeout"),
    ("client is killed", "storage fails after"),
    ("idle cut", "keep-alive limit", "response is lost"),
)
"""Kinds of faults that happen often together: what some lives are about."""
_RARE_FOCI: tuple[tuple[str, ...], ...] = (
    *[()] * 10,
    ("hook edits again and again",),
    ("hook edits again and again", "arguments are strict"),
    ("hook edits", "policy denies"),
    ("hook allows what is no call", "hook calls a tool", "context cannot be stored"),
    ("context cannot be stored", "stub", "change"),
    ("stores no results", "client is killed", "broken schema"),
    ("asks to visit a URL", "handler declines", "handler raises"),
    ("hook allows always", "storage cannot be used"),
)
"""Kinds that without these few lives would see."""
_NEWER_FOCI: tuple[tuple[str, ...], ...] = (
    *[()] * 12,
    ("call becomes a task", "task asks"),
    ("call becomes a task", "token", "task", "cancellation of a task is ignored"),
    ("call becomes a task", "task is forgotten", "task fails"),
    ("call becomes a task", "task is returned", "poll is refused"),
    ("tools require tasks", "task asks", "task is returned"),
    ("tools require tasks", "token", "task is cancelled by its server"),
    ("asks a model", "handler declines", "person is late"),
    ("a script calls", "hook denies", "person is late"),
    ("a script calls", "change", "client is killed"),
    ("host reloads its config file", "start is denied"),
    ("one call at a time", "change", "change under the call"),
)
_RAREST_FOCI: tuple[tuple[str, ...], ...] = (
    *[()] * 20,
    ("hook allows what is no call", "hook breaks the arguments"),
    ("call becomes a task", "token", "task", "cancellation of a task is ignored"),
    ("call becomes a task", "task is returned"),
    ("broken schema", "stores no results"),
    ("hook allows always", "hook edits"),
)
_DENSITIES = (0.04, 0.1, 0.2, 0.4)
"""Of all kinds of faults, how many there are in a life."""

FAULTS: tuple[str, ...] = ()
"""The kinds of faults; each module of the simulation adds its own with ``faults``."""


def faults(*kinds: str) -> tuple[str, ...]:
    """Declare kinds of faults."""
    global FAULTS
    FAULTS = (*FAULTS, *kinds)
    return kinds


class World:
    """One life's chance, clock, record and verdict."""

    def __init__(self, seed: int, dropped: Iterable[str] = (), *, messages: bool = False) -> None:
        """``dropped`` are the kinds of faults and the parts that are left out of the life;
        ``messages`` are noted, too."""
        self.seed = seed
        self.dropped = frozenset(dropped)
        self.now: Callable[[], float] = lambda: 0.0
        self.messages = messages
        self.parts: set[str] = set()
        """The parts of the life that may be left out, such as calls."""
        self.trace: list[str] = []
        self.happened: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.calm = False
        self.dead: set[str] = set()
        """The clients that were killed: nothing that they do has an effect any more."""
        self.ends: list[Callable[[], object]] = []
        """Called at the end of the life: they end what the world itself has running."""
        self.checks: list[Callable[[], object]] = []
        """Called when nothing may be left of it."""
        self._drawn: dict[str, int] = {}
        self._key = f"{seed}/".encode()
        most = self.draw("density", _DENSITIES) * 2**64
        self.rates = {
            kind: self.draw(f"rate of {kind}", _RATES)
            for kind in FAULTS
            if self.number(f"has {kind}") < most and kind not in self.dropped
        }
        self.focus = self.draw("focus", _FOCI)
        if self.has("rare focus"):
            self.focus += self.draw("rare focus", _RARE_FOCI)
        if self.has("newer focus"):
            self.focus += self.draw("newer focus", _NEWER_FOCI)
        if self.has("rarest focus"):
            self.focus += self.draw("rarest focus", _RAREST_FOCI)
        self.rates |= {kind: 0.5 for kind in self.focus if kind not in self.dropped}

    def number(self, name: str) -> int:
        """Return the next number drawn under this name, of 64 bits."""
        count = self._drawn.get(name, 0)
        self._drawn[name] = count + 1
        text = self._key + f"{name}/{count}".encode()
        return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")

    def draw(self, name: str, choices: Sequence[T]) -> T:
        """Return one of ``choices``."""
        return choices[self.number(name) % len(choices)]

    def fixed(self, name: str, choices: Sequence[T]) -> T:
        """Return the one of ``choices`` that is drawn under this name in all of the life."""
        text = self._key + name.encode()
        number = int.from_bytes(blake2b(text, digest_size=8).digest(), "big")
        return choices[number % len(choices)]

    def has(self, part: str) -> bool:
        """Whether this part of the life is not left out."""
        self.parts.add(part)
        return part not in self.dropped

    def fault(self, kind: str, where: str) -> bool:
        """Whether a fault of this kind happens now, at ``where``."""
        rate = 0.0 if self.calm else self.rates.get(kind, 0.0)
        if not rate or self.number(f"{kind} {where}") >= rate * 2**64:
            return False
        self.note(where, f"fault: {kind}")
        self.happened[f"fault: {kind}"] += 1
        return True

    def latency(self, where: str) -> float:
        return self.draw(f"latency {where}", SHORT if self.calm else LATENCIES)

    def note(self, who: str, what: str) -> None:
        """Add a line to the timeline."""
        self.trace.append(f"{self.now():12.6f}  {who:<12} {what}")

    def fail(self, what: str) -> None:
        """Record that a promise was broken."""
        if what not in self.wrong:
            self.wrong.append(what)
            self.note("OBSERVER", what)
