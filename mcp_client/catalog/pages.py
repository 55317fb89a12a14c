"""Pages that do not indicate the end of their list, and entries that are listed twice.

A cursor is the only sign that a list continues (2026-07-28 ``server/utilities/pagination``). Some
servers return a page again, or an old cursor. Both mean that there are no more entries.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from ..runtime.safe_text import safe_text
from .finding import Finding

__all__ = ["NAMES", "Ends", "identity", "without_repeats"]

NAMES = ("uri", "uriTemplate", "name")
"""The members by which entries are known; each kind of list has one or two of them."""


class Ends:
    """The end of a list that does not indicate it, and other deviations of its pages."""

    def __init__(self, noun: str) -> None:
        self.findings: tuple[Finding, ...] = ()
        """How the pages deviate from the specification."""
        self._noun = noun
        self._cursors: set[str | float] = set()
        self._pages: dict[Any, list[Any]] = {}
        """By what their first entry goes by."""

    def note(self, what: str) -> None:
        """Add a finding, once."""
        finding = Finding("deviation", f"the list of {self._noun}: {what}", what)
        if finding not in self.findings:
            self.findings = (*self.findings, finding)

    def after(self, entries: list[Any], cursor: str | float, found: list[Any]) -> bool:
        """Whether the list is over after a page that has a cursor all the same.

        ``found`` has the entries of the pages before. Those that come again are removed from
        ``entries`` if the list is over.
        """
        first = identity(entries[0]) if entries else None
        is_same = first is not None and self._pages.setdefault(first, entries) is not entries
        is_same = is_same and self._pages[first] == entries
        is_loop = cursor in self._cursors
        self._cursors.add(cursor)
        if not is_same and not is_loop:
            return False
        known = {identity(entry) for entry in found}
        new = [entry for entry in entries if identity(entry) not in known]
        if new:
            self.note("its pages lead back to an earlier page: the entries until then are used")
        else:
            self.note("its last page comes again and again: the list is complete")
        entries[:] = new
        return True


def identity(entry: Any) -> tuple[Any, ...]:
    """Return the names by which an entry is known, whichever list it is of."""
    names = map(entry.get, NAMES) if type(entry) is dict else (str(entry),)
    return tuple(name for name in names if type(name) is str)


def without_repeats(
    found: list[Any], names: list[str], noun: str
) -> tuple[list[Any], list[Finding]]:
    """Return ``found`` without duplicates, and a finding for each name of such entries.

    Servers that page by offset list an entry twice if another one is added meanwhile.
    """
    counts = Counter(names)
    seen: set[tuple[str, str]] = set()
    repeated: dict[str, Finding] = {}
    entries: list[Any] = []
    for name, entry in zip(names, found, strict=True):
        if name and counts[name] > 1:
            mark = name, json.dumps(entry, sort_keys=True)
            if mark in seen:
                text = f"{noun} '{safe_text(name, 128)}' is listed more than once, each time alike"
                repeated[name] = Finding("deviation", text, name)
                continue
            seen.add(mark)
        entries.append(entry)
    return entries, list(repeated.values())
