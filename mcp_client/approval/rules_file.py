"""Rules from a TOML or JSON file: a list ``rules`` of tables, whose keys are those of ``Rule``."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Any

from ..catalog.call_values import context_from_json
from ..errors import ConfigError
from ..runtime.atomic_file import access_problem
from ..runtime.safe_text import near, safe_text
from ..runtime.strict_json import read_json

__all__ = ["read_rules", "rule_entries"]


def read_rules(
    path: str | os.PathLike[str], keys: Collection[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the place of each rule and its ``keys``, including ``outcome``."""
    where = os.fspath(path)
    whole = _parsed(path)
    if type(whole) is not dict or set(whole) != {"rules"} or type(whole["rules"]) is not list:
        found = ", ".join(safe_text(key, 40) for key in whole) if type(whole) is dict else ""
        found = found or "nothing"
        raise ConfigError(f"{where}: give one list 'rules' and nothing else; it has {found}")
    return rule_entries(f"{where}: ", whole["rules"], keys)


def rule_entries(
    where: str, entries: Sequence[Any], keys: Collection[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the same for a list of tables.

    Args:
        where: The beginning of each place.
        entries: The tables.
        keys: The keys that a table may have.

    Raises:
        ConfigError: A table is not a rule.
    """
    for number, entry in enumerate(entries, 1):
        place = f"{where}rule {number}"
        if type(entry) is not dict:
            raise ConfigError(f"{place} is a {type(entry).__name__}: give a table of keys")
        for key in entry:
            if key not in keys:
                raise ConfigError(f"{place}: unknown key {safe_text(key, 40)!r}{near(key, keys)}")
        if "outcome" not in entry:
            raise ConfigError(f"{place}: outcome is missing: give 'allow', 'ask' or 'deny'")
        if any(value is None for value in entry.values()):
            raise ConfigError(f"{place}: a key is null: give it a value or leave it out")
        if "context" in entry:
            entry["context"] = _context(entry["context"], place)
        yield place, entry


def _context(value: Any, place: str) -> Hashable:
    try:
        return context_from_json(value)
    except ValueError as error:
        raise ConfigError(f"{place}: {error}") from None


def _parsed(path: str | os.PathLike[str]) -> Any:
    where = os.fspath(path)
    extension = os.path.splitext(where)[1].lower()
    if extension not in (".toml", ".json"):
        raise ConfigError(f"{where}: rules must be in a .toml or a .json file")
    try:
        with open(where, "rb") as file:
            problem = access_problem(os.fstat(file.fileno()), private=False)
            if problem is not None:
                raise ConfigError(f"{where}: the rules cannot be used: {problem}")
            text = file.read().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{where}: cannot read the rules ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{where}: the rules are not UTF-8 text") from None
    try:
        return tomllib.loads(text) if extension == ".toml" else read_json(text, max_depth=None)
    except (ValueError, RecursionError) as error:
        kind = extension[1:].upper()
        raise ConfigError(f"{where}: the rules are not {kind}: {safe_text(error, 200)}") from None
