"""The file of remembered answers: what is in it, and how one is added without writing all again.

A file is one JSON object, an answer a line, and after it a line for each answer added since::

    {"version": 1, "key": "<64 hexadecimal digits>", "answers": [
    {"server": "files", "tool": "read", ...},
    {"server": "files", "tool": "list", ...}
    ]}
    {"server": "files", "tool": "write", ...}

A small file is replaced with every change, and so is every file from which something is forgotten.
In a larger one an answer is added as a line at the end, until those lines are as long as the object
before them: then the file is replaced by one object again. So adding costs the same however many
answers there are, and a file is at most twice as long as it has to be.

A line is on the disk before its answer counts as kept. A crash while it is written can leave a part
of a line at the end, and only there. It is not read, and the next change removes it: an answer is
lost that was not kept yet, and the call is asked about again. Anything else that is not an answer
makes the file unusable.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ConfigError
from ..runtime.atomic_file import OwnFile, Stamp

if TYPE_CHECKING:
    from hashlib import _Hash

__all__ = ["OPTIONAL", "TYPES", "AnswersFile", "Contents", "Entry"]

_log = logging.getLogger("mcp_client.approval")
_VERSION = 1
_REMEDY = "put back an older one, or delete it to be asked again"
_LATEST = 1e11
_END = b"\n]}\n"
"""Where the object ends that we wrote. It has no line break within a string."""
_KEY = re.compile(r"[0-9a-f]{64}")
_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=True).encode

OPTIONAL = {"exact", "context", "origin", "by", "expires", "kind"}
TYPES: dict[str, tuple[type, ...]] = {
    "server": (str,),
    "identity": (str,),
    "tool": (str,),
    "fingerprint": (str,),
    "trusted": (bool,),
    "scope": (str,),
    "where": (dict, type(None)),
    "exact": (str,),
    "context": (),
    "origin": (str,),
    "when": (int, float),
    "by": (str,),
    "expires": (int, float),
    "findings": (list,),
    "kind": (str,),
}
"""The members of an answer, and what JSON type each has; () for any."""


@dataclass(frozen=True, slots=True)
class Contents:
    """Which bytes a file was read from or written with."""

    stamp: Stamp
    digest: _Hash
    """Of the first ``size`` bytes. Never updated in place."""
    size: int
    """Bytes up to the end of the last whole line."""
    object_size: int
    """Bytes of the object at the beginning; 0 where nothing may be added after it."""
    is_cut: bool
    """Whether a part of a line stands at the end."""
    key: bytes | None
    count: int
    """Answers, those included that a later one replaces."""


class Entry(NamedTuple):
    """One answer of a file, with correct members."""

    number: int
    """From 1, for what is said of it."""
    members: dict[str, Any]


class AnswersFile:
    """Reads and writes answers as JSON objects. Raises ``ConfigError`` where it cannot be used."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = OwnFile(path, "answers", _REMEDY, private=True)

    @property
    def path(self) -> Path:
        return self._file.path

    def locked(self) -> AbstractContextManager[None]:
        """One writer at a time, across processes."""
        return self._file.locked()

    def stamp(self) -> Stamp | None:
        return self._file.stamp()

    def unusable(self, why: str) -> ConfigError:
        return self._file.unusable(why)

    def read(self, known: Contents | None) -> tuple[Contents, list[Entry], bool] | None:
        """What the file contains; None where it does not exist.

        Third: whether the answers are those that follow what is ``known``, which stands as it was;
        otherwise they are all of the file.
        """
        from hashlib import sha256

        found = self._file.read()
        if found is None:
            return None
        stamp, content = found
        if known is not None and known.object_size and len(content) >= known.size:
            digest = sha256(memoryview(content)[: known.size])
            if digest.digest() == known.digest.digest():
                return *self._continued(stamp, content, known, []), True
        return *self._continued(stamp, content, *self._object(stamp, content)), False

    def append(self, known: Contents, members: dict[str, Any]) -> Contents | None:
        """Add an answer to the file that was ``known`` to contain this; within ``locked``.

        None where it has to be replaced: it is small, has grown enough, has a part of a line at its
        end, or is not as it was known.
        """
        return None

    def replace(self, key: bytes, answers: Iterable[dict[str, Any]]) -> Contents:
        """Replace the file by these answers; within ``locked``."""
        from hashlib import sha256

        # One answer a line, by the encoder in C; indenting is done in Python and takes far longer.
        lines = [_encode(members) for members in answers]
        text = f'{{"version": {_VERSION}, "key": "{key.hex()}", "answers": [\n'
        text += ",\n".join(lines) + _END.decode()
        size, digest = len(text), sha256(text.encode("ascii"))
        return Contents(self._file.replace(text), digest, size, size, False, key, len(lines))

    # ------------------------------------------------------------------ the form

    def _object(self, stamp: Stamp, content: bytes) -> tuple[Contents, list[Entry]]:
        """The object at the beginning."""
        from hashlib import sha256

        # Where it was written by hand, its end may look otherwise. Then nothing follows it.
        end = content.find(_END)
        size, whole = 0, None
        if end >= 0:
            with suppress(ValueError, RecursionError):
                whole = json.loads(content[: end + len(_END)])
                size = end + len(_END)
        if not size:
            try:
                whole = json.loads(content)
            except (ValueError, RecursionError):
                raise self.unusable("it is not JSON") from None
        if type(whole) is not dict or whole.get("version") != _VERSION:
            raise self.unusable(f"it is not a file of answers of version {_VERSION}")
        if set(whole) - {"key"} != {"version", "answers"} or type(whole["answers"]) is not list:
            raise self.unusable("it has no list of answers, or other members beside it")
        key = whole.get("key")
        if key is not None and (type(key) is not str or not _KEY.fullmatch(key)):
            raise self.unusable("its key is not 64 hexadecimal digits")
        entries = [self._entry(number, one) for number, one in enumerate(whole["answers"], 1)]
        known = Contents(
            stamp=stamp,
            digest=sha256(content[: size or len(content)]),
            size=size or len(content),
            object_size=size,
            is_cut=False,
            key=None if key is None else bytes.fromhex(key),
            count=len(entries),
        )
        return known, entries

    def _continued(
        self, stamp: Stamp, content: bytes, known: Contents, entries: list[Entry]
    ) -> tuple[Contents, list[Entry]]:
        """With the lines after what is ``known``."""
        *lines, rest = content[known.size :].split(b"\n")
        size, count = known.size, known.count
        for number, line in enumerate(lines, 1):
            try:
                members = json.loads(line.decode())
            except (ValueError, RecursionError):
                # A disk that lost power may have a whole line's length, and not what was in it.
                if number < len(lines) or rest:
                    raise self.unusable(f"what follows its answer {count} is not JSON") from None
                break
            count += 1
            entries.append(self._entry(count, members))
            size += len(line) + 1
        is_cut = size < len(content)
        if is_cut:
            _log.warning(
                "the answers %s end with a part of a line, which is not read: a process is adding "
                "an answer just now, or was killed while it did",
                self.path,
            )
        digest = known.digest.copy()
        digest.update(memoryview(content)[known.size : size])
        found = Contents(stamp, digest, size, known.object_size, is_cut, known.key, count)
        return found, entries

    def _entry(self, number: int, members: Any) -> Entry:
        if type(members) is not dict or set(members) | OPTIONAL != set(TYPES):
            raise self.unusable(f"answer {number} does not have exactly the members of one")
        for name, value in members.items():
            if TYPES[name] and type(value) not in TYPES[name]:
                raise self.unusable(f"answer {number} has a {name} of the wrong type")
        for name in ("when", "expires"):
            if name in members and not 0 <= members[name] < _LATEST:
                raise self.unusable(f"answer {number} has a {name} that is not a time")
        kept = members["scope"] == "always" and members.get("origin", "host") in ("host", "app")
        if not kept or not all(map(_is_pair, members["findings"])):
            raise self.unusable(f"answer {number} is not one that is kept in a file")
        return Entry(number, members)


def _is_pair(one: Any) -> bool:
    return type(one) is list and len(one) == 2 and all(type(text) is str for text in one)
