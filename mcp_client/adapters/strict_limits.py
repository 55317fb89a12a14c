"""The limits of a provider's strict mode: in one schema, and in one request.

OpenAI limits each schema (its guide to structured outputs, "Supported schemas"). Anthropic limits
the sums over the strict tools of a request (its page on structured outputs, "Schema complexity
limits"), and refuses the request that exceeds them. It may also refuse a grammar that is too large
to compile, for which it documents no measure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ..protocol.schema_walk import Role, walk

__all__ = ["RequestLimits", "exceeded"]

_MAX_MEMBERS = 5_000
_MAX_LEVELS = 10
_MAX_VALUES = 1_000
_MAX_CHARS = 120_000
_MANY_VALUES, _MAX_VALUES_CHARS = 250, 15_000
"""The number of values of one ``enum``, above which the characters of its strings are limited."""


def exceeded(schema: dict[str, Any]) -> str | None:
    """Return the limit of OpenAI that the strict ``schema`` exceeds, as a clause; None for none."""
    members = values = chars = deepest = longest = 0
    waiting = [(schema, 1)]
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        properties = node.get("properties", {})
        members += len(properties)
        enum = node.get("enum", ())
        values += len(enum)
        in_enum = sum(len(item) for item in enum if type(item) is str)
        chars += sum(map(len, properties)) + in_enum
        if len(enum) > _MANY_VALUES:
            longest = max(longest, in_enum)
        waiting += [(member, depth + 1) for member in properties.values()]
        waiting += [(option, depth) for option in node.get("anyOf", ())]
        if "items" in node:
            waiting.append((node["items"], depth + 1))
    if deepest > _MAX_LEVELS:
        return f"it is nested {deepest} levels deep, and strict mode takes {_MAX_LEVELS}"
    if longest > _MAX_VALUES_CHARS:
        return (
            f"the values of one 'enum' have {longest:,} characters, and strict mode takes "
            f"{_MAX_VALUES_CHARS:,} of more than {_MANY_VALUES} values"
        )
    if members > _MAX_MEMBERS or values > _MAX_VALUES or chars > _MAX_CHARS:
        return "it has more members or values than strict mode takes"
    return None


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The limits for all strict tools of one request."""

    tools: int
    optional: int
    """Members that are not required, at any depth."""
    unions: int
    """Schemas with ``anyOf``, or of several types."""

    def chosen(
        self, schemas: Mapping[str, dict[str, Any]], before: Collection[str], taken: int
    ) -> set[str]:
        """Return the names of the strict tools.

        Those that were strict ``before`` remain strict, then as many as possible are added, those
        with the lowest cost first. ``taken`` is the number of other strict tools.
        """
        counts = {name: _counts(schema) for name, schema in schemas.items()}

        def cost(name: str) -> tuple[bool, float]:
            optional, unions = counts[name]
            return name not in before, optional / self.optional + unions / self.unions

        found: set[str] = set()
        optional = unions = 0
        for name in sorted(counts, key=cost):
            more_optional, more_unions = optional + counts[name][0], unions + counts[name][1]
            if len(found) + taken == self.tools:
                break
            if more_optional <= self.optional and more_unions <= self.unions:
                optional, unions = more_optional, more_unions
                found.add(name)
        return found

    def refusal(self, provider: str, schema: dict[str, Any]) -> str:
        """Return why a tool is not among the ``chosen``, as a clause."""
        optional, unions = _counts(schema)
        return (
            f"{provider} takes {self.tools} strict tools in one request, with {self.optional} "
            f"optional members and {self.unions} unions in all of them, and those of other tools "
            f"come first; it has {optional} and {unions}"
        )


def _counts(schema: dict[str, Any]) -> tuple[int, int]:
    """The optional members and the unions of ``schema``."""
    optional = unions = 0
    for part, role, _, _, _ in walk(schema):
        if role is Role.SCHEMA and type(part) is dict:
            optional += len(part.get("properties", {}).keys() - set(part.get("required", ())))
            is_mixed = "type" not in part and "enum" in part
            unions += "anyOf" in part or type(part.get("type")) is list or is_mixed
    return optional, unions
