"""Where the arguments that an approver gave differ from the caller's."""

from __future__ import annotations

from typing import Any

__all__ = ["differing_paths"]

_MAX_PATHS = 32


def differing_paths(before: Any, after: Any) -> list[str]:
    """JSON pointers to what differs, as far as both values have the same shape: at most 32."""
    paths: list[str] = []
    _collect(before, after, "", paths)
    return paths


def _collect(before: Any, after: Any, path: str, paths: list[str]) -> None:
    if len(paths) >= _MAX_PATHS or (type(before) is type(after) and before == after):
        return
    if type(before) is dict and type(after) is dict:
        for key in dict.fromkeys((*before, *after)):
            step = key.replace("~", "~0").replace("/", "~1")
            _collect(before.get(key, _ABSENT), after.get(key, _ABSENT), f"{path}/{step}", paths)
    elif type(before) is list and type(after) is list and len(before) == len(after):
        for index, pair in enumerate(zip(before, after, strict=True)):
            _collect(*pair, f"{path}/{index}", paths)
    else:
        paths.append(path)


_ABSENT = object()
