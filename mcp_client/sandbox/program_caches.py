"""The caches of npx and uvx in a sandbox.

Both write where they read: npm a lock and the index of its cache, uv a lock and temporary files. So
each gets a cache in the private directory of its server, made of links into the real one, which can
be read. Packages that are not installed yet cannot be fetched without the network.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .visible_paths import beginning

__all__ = ["PrivateFiles", "default_registry", "npm_files", "uv_files"]

_MAX_ENTRIES = 1000
_MAX_INDEX_BYTES = 8 * 1024 * 1024
_DEFINITIONS = "node_modules/@npmcli/config/lib/definitions/definitions.js"
"""The file of npm's options with their defaults, in its own package."""
_DEFAULT = re.compile(rb"""new Definition\('registry', \{\s*default: ['"`](https?://[^'"`\s]+)""")
_PACKAGE = re.compile(r"(?:--package=)?((?:@[\w.-]+/)?[\w.-]+)(?:@[^@]*)?\Z")
_OF_UV = re.compile(r"(?:archive|environments|flat-index|simple|wheels)-v\d+\Z")
"""The parts of its cache that uv reads. Its data about interpreters is written again."""


class PrivateFiles(NamedTuple):
    """The files in the private directory of a server from its start. Names are relative to it."""

    links: Mapping[str, str]
    """The target of each link, which the server can read."""
    files: Mapping[str, bytes]
    env: Mapping[str, str]
    """Variables that name a place in it."""


def npm_files(cache: str, words: Sequence[str], registry: str | None) -> PrivateFiles:
    """``words`` are those after ``npx``: the packages that they name are looked up."""
    mine = ".npm"
    links = {f"{mine}/_cacache/content-v2": os.path.join(cache, "_cacache", "content-v2")}
    for run in _names(os.path.join(cache, "_npx")):
        for name in ("node_modules", "package.json", "package-lock.json"):
            links[f"{mine}/_npx/{run}/{name}"] = os.path.join(cache, "_npx", run, name)
    files = {}
    for package in filter(None, map(_PACKAGE.match, words if registry else ())):
        name = package[1].replace("/", "%2f")
        key = f"make-fetch-happen:request-cache:{(registry or '').rstrip('/')}/{name}"
        digest = hashlib.sha256(key.encode()).hexdigest()
        place = f"_cacache/index-v5/{digest[:2]}/{digest[2:4]}/{digest[4:]}"
        known = _content(os.path.join(cache, place))
        if known is not None:
            files[f"{mine}/{place}"] = known
    return PrivateFiles(_existing(links), files, {"npm_config_cache": mine})


def default_registry(npx: str) -> str | None:
    """Return the registry of the npm that has this ``npx``, unless it is configured."""
    found = _DEFAULT.search(
        _content(os.path.join(os.path.dirname(os.path.dirname(npx)), _DEFINITIONS)) or b""
    )
    return None if found is None else found[1].decode(errors="replace")


def uv_files(cache: str, data: str) -> PrivateFiles:
    """``data`` has the tools that uv has installed, and its interpreters."""
    mine, my_data = ".cache/uv", ".local/share/uv"
    places = [name for name in _names(cache) if _OF_UV.match(name)]
    links = {f"{mine}/{name}": os.path.join(cache, name) for name in places}
    for kind in ("tools", "python"):
        for name in _names(os.path.join(data, kind)):
            links[f"{my_data}/{kind}/{name}"] = os.path.join(data, kind, name)
    return PrivateFiles(_existing(links), {}, {"UV_CACHE_DIR": mine})


def _names(directory: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(directory) if name[0] != ".")[:_MAX_ENTRIES]
    except OSError:
        return []


def _existing(links: Mapping[str, str]) -> dict[str, str]:
    return {name: target for name, target in links.items() if os.path.exists(target)}


def _content(path: str) -> bytes | None:
    content = beginning(path, _MAX_INDEX_BYTES + 1)
    return content if 0 < len(content) <= _MAX_INDEX_BYTES else None
