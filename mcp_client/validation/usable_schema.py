"""The usable part of a schema, and the skipped parts.

Schemas of servers deviate from JSON Schema in harmless ways, and a client should not forbid parts
that it cannot check. ``usable_schema`` returns a schema that ``checker`` can use:

- Patterns of ECMA-262 are translated for Python (``ecma_patterns``).
- ``$schema`` is replaced by the official name of its dialect (``schema_shape``).
- A list of ``items`` and a boolean ``exclusiveMinimum`` have one meaning only in every dialect:
  they are written in the dialect of the schema. Draft-04 is written as draft-07, and a part that
  names an older dialect than the whole schema is written in that of the whole.
- These are skipped: a keyword with a value of the wrong shape, a pattern that cannot be translated,
  a reference without a target, and a part of an unknown dialect.

It has one invariant: every value that the original accepts is accepted. If a part within ``not``,
``if`` or ``oneOf`` is skipped, the whole construct is skipped, because the schema would accept less
without the part. ``unevaluatedProperties`` is removed wherever anything is skipped.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ..runtime.frozen import frozen_dataclass
from ..runtime.limits import Limits
from ..runtime.safe_text import safe_text
from .schema_shape import is_ordinary, shown, survey_schema

__all__ = ["UsableSchema", "usable_schema"]

_MAX_TEXT_CHARS = 80


@frozen_dataclass
class UsableSchema:
    """The usable part of one schema."""

    schema: Any
    """The schema for ``checker_for``; the original if there was nothing to change."""
    skipped: tuple[str, ...] = ()
    """The parts that cannot be checked, each with its place and the reason; safe to show."""
    is_broken: bool = False
    """Whether something other than a pattern was skipped: it is not a JSON Schema."""
    unknown_dialect: str = ""
    """The dialect that is not known, safe to show; then nothing can be judged."""
    mixed: tuple[str, ...] = ()
    """The parts written in another dialect than ``$schema`` names; safe to show."""
    slips: tuple[str, ...] = ()
    """The deviations from JSON Schema with a clear meaning; safe to show."""
    patterns: dict[str, str] = field(default_factory=dict, hash=False)
    """The patterns of the schema, by how they are written for Python."""


def usable_schema(schema: Any) -> UsableSchema:
    """Return the usable part of ``schema``, which may be any JSON value. Raises nothing."""
    if type(schema) is bool or is_ordinary(schema):
        return UsableSchema(schema)
    if type(schema) is not dict:
        return UsableSchema(True, (f"{shown(schema)} is not a schema",), is_broken=True)
    if survey_schema(schema, Limits()).over_limit:
        return UsableSchema(schema)
    from .schema_repair import Repair
    from .schema_shape import dialect_of

    dialect, is_named = dialect_of(schema)
    if dialect is None:
        named = safe_text(schema["$schema"], _MAX_TEXT_CHARS)
        text = f"its dialect '{named}' is not known"
        return UsableSchema(True, (text,), is_broken=True, unknown_dialect=named)
    repair = Repair(schema, dialect, is_named)
    repair.run()
    return UsableSchema(
        repair.root if repair.skipped or repair.root != schema else schema,
        tuple(repair.skipped),
        repair.is_broken,
        mixed=tuple(repair.mixed),
        slips=tuple(repair.slips),
        patterns=repair.patterns,
    )
