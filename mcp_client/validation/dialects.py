"""The dialects of JSON Schema, and the ways in which ``$schema`` is spelled in the world.

It imports nothing but the standard library.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["DRAFT3", "DRAFT4", "DRAFT7", "LATEST", "OLD", "dialect_of"]

LATEST = "https://json-schema.org/draft/2020-12/schema"
DRAFT7 = "http://json-schema.org/draft-07/schema"
DRAFT4 = "http://json-schema.org/draft-04/schema"
DRAFT3 = "http://json-schema.org/draft-03/schema"
_DRAFT6 = "http://json-schema.org/draft-06/schema"
_DRAFT2019 = "https://json-schema.org/draft/2019-09/schema"
OLD = frozenset({DRAFT3, DRAFT4, _DRAFT6, DRAFT7})
"""Those in which what stands beside ``$ref`` does not count."""
_NAMED = {
    "3": DRAFT3,
    "4": DRAFT4,
    "5": DRAFT4,
    "6": _DRAFT6,
    "7": DRAFT7,
    "8": _DRAFT2019,
    "2019-09": _DRAFT2019,
    "2020-12": LATEST,
}
_SPELLING = re.compile(
    r"\s*(?:(?:https?:)?(?://)?(?:www\.)?json-schema\.org/)?"
    r"(?:draft[-/]?)?(?:v?0?([3-8])|(2019-09|2020-12))"
    r"(?:/(?:hyper-)?schema(?:\.json)?)?/?#?/?\s*",
    re.IGNORECASE,
)
_NEWEST = re.compile(
    r"\s*(?:https?:)?//(?:www\.)?json-schema\.org(?:/draft)?(?:/schema)?/?#?\s*", re.IGNORECASE
)
"""Spellings that name JSON Schema and no dialect."""


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
    spelled = _SPELLING.fullmatch(named)
    return (_NAMED[spelled[1] or spelled[2]], True) if spelled else (None, True)
