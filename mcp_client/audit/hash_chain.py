"""A file of lines that each hold the hash of the line before, and how to verify it.

A line is one JSON object, in ASCII. Its first members are ``line`` (counted from 1 through all
files of the log), ``file`` (likewise) and ``previous``, the hash of the line before, 64 zeros
where there was none. Its last member is ``hash``: SHA-256, in hexadecimal, of all bytes of the
line before ``,"hash"``; with a key, HMAC-SHA-256 under that key. So it can be verified with two
commands and without this package.

Three events are the file's own: ``begun`` is the first line of each file; ``repaired`` reports that
the bytes before it are a line that was cut off by a crash, how many they are, and their hash;
``lost`` reports that the last line a host wrote was gone when it wrote the next (see ``log_file``).

What a chain proves: no line was changed, removed, inserted or moved unless every line after it was
rewritten as well. Without a key, everybody who can write the file can rewrite it completely; with
one, only those who have the key. A chain cannot show that its end was cut off while no host was
writing to it: note ``Verified.last_hash`` somewhere else, and give it as ``noted=`` the next time.
A cut at the end also leaves a call open, or removes it without a trace.
"""

from __future__ import annotations

import functools
import json
import os
import re
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from ..errors import AuditError, ConfigError
from ..runtime.atomic_file import lock, unlock
from ..runtime.strict_json import read_json_object

__all__ = [
    "MAX_LINE_BYTES",
    "NOTHING",
    "Check",
    "NewRecord",
    "OpenCall",
    "Position",
    "Verified",
    "encoder_with",
    "key_of",
    "now",
    "opened_files",
    "rotated",
    "seal",
    "timestamp",
    "unseal",
]

NOTHING = "0" * 64
MAX_LINE_BYTES = 1024 * 1024
"""Bytes of a line, or of what a crash left of lines."""

_MAX_TRIES = 20
_LOCK_SECONDS = 2.0
_PLACE = frozenset({"line", "file", "previous", "hash"})
"""The members of a line that are not of its record."""
_SEAL = re.compile(rb'(?s)(\{.*),"hash":"([0-9a-f]{64})"\}')


def encoder_with(default: Callable[[Any], Any] | None = None) -> Callable[[Any], str]:
    """Return an encoder of JSON in ASCII, with ``default`` for objects that JSON does not have.

    CPython's C encoder is made once, not per line.
    """
    encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=default)
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    quote = json.encoder.encode_basestring_ascii
    # No look-out for cycles: its marks would stay behind after an error.
    chunks = make(None, encoder.default, quote, None, ":", ",", False, False, False)
    return lambda value: "".join(chunks(value, 0))


_dump = encoder_with()


NewRecord: TypeAlias = Mapping[str, Any] | str
"""A record, or the JSON text of its members: in ASCII, without braces and names of the chain."""


class Position(NamedTuple):
    """A line of a log, usually its last."""

    line: int
    file: int
    hash: str


_KINDS = ("tool", "skill", "start", "sampling", "resource", "prompt", "script")
"""The kinds of subjects of a record."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call whose entry was opened and not closed: it runs, or its process was killed."""

    call: str
    """The id of the call."""
    server: str
    """The name of the server that was called."""
    tool: str
    """The name of the tool."""
    time: str
    """The time at which the entry was opened, in UTC."""
    process: int
    """The id of the process that opened the entry."""
    file: str
    """The path of the file with the entry; of a database, the name of its chain."""
    line: int
    """The line of the entry in that file, from 1."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The content of an intact chain, which only ``verify_audit`` returns."""

    lines: int
    """Lines verified, in all files."""
    files: tuple[str, ...]
    """The paths of the files; of a database, the names of its chains."""
    calls: int
    """Calls opened."""
    open_calls: tuple[OpenCall, ...]
    """The calls that were opened and not closed."""
    earlier: int
    """The number of lines before the first: dropped by rotation (``keep=``), or in files or chains
    that were removed."""
    repaired: int
    """The number of reports in the log that a line was cut off by a crash."""
    lost: int
    """The number of reports that a host found its whole log gone (deleted, moved, emptied), and
    began another file, whose first line names the last line of the old one."""
    last_hash: str
    """The last hash. Note it in another place, and pass it as ``noted=`` next time, so that a cut
    at the end is found. Of a database it has, with commas between, the last hash of each chain that
    no later one names."""
    keyed: bool
    """Whether a key was used; without one, the file can be rewritten by all who can write it."""


def now() -> str:
    """Return the time in the form of RFC 3339: UTC, microseconds."""
    seconds, rest = divmod(time.time_ns(), 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1_000:06d}Z"


def timestamp(seconds: float) -> str:
    """Return a time given in seconds since 1970, in the same form without fractions."""
    return f"{_second(int(seconds))}Z"


@functools.lru_cache(4)  # many records are of the same second
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def key_of(key: bytes | None) -> bytes | None:
    """Raise ``ConfigError`` for what cannot be a key."""
    if key is not None and (not isinstance(key, bytes) or len(key) < 16):
        raise ConfigError("an audit log's key is at least 16 bytes, such as os.urandom(32)")
    return key


def seal(
    record: NewRecord, last: Position, key: bytes | None, file: int | None = None
) -> tuple[bytes, Position]:
    """Return the line that follows ``last``, without its newline, and the position it makes."""
    number, file = last.line + 1, last.file if file is None else file
    if not isinstance(record, str):
        # Members of the record cannot replace those of the chain, nor repeat them.
        own = {name: value for name, value in record.items() if name not in _PLACE}
        record = _dump(own)[1:-1]
    more = "," if record else ""
    head = f'{{"line":{number},"file":{file},"previous":"{last.hash}"{more}{record}'.encode("ascii")
    digest = _hash(head, key)
    return b'%b,"hash":"%b"}' % (head, digest.encode("ascii")), Position(number, file, digest)


def unseal(line: bytes, key: bytes | None) -> tuple[dict[str, Any], Position]:
    """Return a line's record and position. Raises ``ValueError`` if its hash does not match."""
    found = _SEAL.fullmatch(line)
    if found is None or _hash(found[1], key) != found[2].decode():
        raise ValueError("its hash does not match")
    try:
        record = read_json_object(line)
        return record, Position(int(record["line"]), int(record["file"]), record["hash"])
    except (KeyError, TypeError) as error:
        raise ValueError(str(error)) from None


def _hash(head: bytes, key: bytes | None) -> str:
    if key is None:
        digest: str = _sha256()(head).hexdigest()
        return digest
    import hmac

    return hmac.digest(key, head, "sha256").hex()


@functools.cache
def _sha256() -> Callable[[bytes], Any]:
    import hashlib  # only now: it loads a library that most hosts do not need

    return hashlib.sha256


def rotated(path: Path) -> list[tuple[int, Path]]:
    """Return the earlier files of a log, by number: ``calls.jsonl.000001`` and so on."""
    name = re.compile(re.escape(path.name) + r"\.(\d{6,12})")
    found = [(name.fullmatch(each), each) for each in os.listdir(path.parent)]
    return sorted((int(match[1]), path.parent / each) for match, each in found if match)


# --------------------------------------------------------------------- checking


def opened_files(path: Path) -> Generator[tuple[BinaryIO, Path, int]]:
    """Yield the files of a log from the oldest on, each with the bytes it had at the beginning.

    The caller closes each. Raises ``OSError``.
    """
    newest, size, older = _beginning(path)
    first = True
    with newest or nullcontext():
        for _, each in older:
            try:
                file = open(each, "rb")  # noqa: SIM115 - the caller closes it
            except FileNotFoundError:
                if not first:
                    raise
                continue  # rotation dropped it just now
            first = False
            yield file, each, os.fstat(file.fileno()).st_size
        if newest is not None:
            yield newest, path, size


def _beginning(path: Path) -> tuple[BinaryIO | None, int, list[tuple[int, Path]]]:
    """Return the newest file, its size, and the files before it, all of one moment."""
    missing = 0
    while True:
        try:
            newest = open(path, "rb")  # noqa: SIM115 - the caller closes it
        except FileNotFoundError:
            older = rotated(path)
            if not older:
                raise
            missing += 1
            if missing > _MAX_TRIES:  # it is not being rotated: there was a crash between two files
                return None, 0, older
            time.sleep(0.005)
            continue
        # While no other process has the lock, no line is being written and the name is the same.
        # A process that holds it for seconds is not a writer of this package: the file is read.
        locked = lock(newest.fileno(), _LOCK_SECONDS, shared=True)
        here, older = os.fstat(newest.fileno()), rotated(path)
        if path.exists() and os.path.samestat(here, path.stat()):
            if locked:
                unlock(newest.fileno())
            return newest, here.st_size, older
        newest.close()


class Check:
    """Verifies the lines of all files, or of the chains of a database, in order."""

    def __init__(self, key: bytes | None, noted: str | None) -> None:
        self._key = key
        self._noted = noted
        self._found = noted is None
        self._last: Position | None = None
        self._earlier = 0
        self._files: list[str] = []
        self._lines = self._calls = self._repaired = self._lost = 0
        self._open: dict[tuple[str, str], OpenCall] = {}
        self._closed: set[tuple[str, str]] = set()

    def file(self, path: Path, file: BinaryIO, size: int) -> None:
        """Check the lines of a file."""
        self._files.append(str(path))
        number, cut, first, begun = 0, b"", 0, False
        while size > 0:
            line = file.readline(min(size, MAX_LINE_BYTES))
            if not line:
                raise AuditError("the file was cut while it was read", path=path, line=number + 1)
            size -= len(line)
            number += 1
            try:
                record, position = unseal(line.removesuffix(b"\n"), self._key)
                if not line.endswith(b"\n"):
                    raise ValueError("it is cut off")
            except ValueError:
                cut, first = cut + line, first or number
                if len(cut) > MAX_LINE_BYTES:
                    break
                continue
            if cut:
                if not _describes(record, cut):
                    break
                cut, first = b"", 0
                self._repaired += 1
            elif record.get("event") == "repaired":
                raise self.wrong(path, number, "the bytes that it describes are not there")
            self.line(path, number, record, position, begun)
            begun = True
        if cut:
            raise self.changed(path, first, begun)

    def begin(self, place: str) -> None:
        """Begin another chain, to which the following lines belong."""
        self._files.append(place)
        self._last = None

    def line(
        self, path: Path | str, number: int, record: dict[str, Any], at: Position, begun: bool
    ) -> None:
        """Note the next line, whose hash matches. ``begun``: it is not the first of its place."""
        last = self._last
        if not begun and record.get("event") not in ("begun", "repaired"):
            raise self.wrong(
                path, number, "the lines before it, at the beginning of the file, are missing"
            )
        if last is None:
            self._earlier = at.line - 1
            if (at.line == 1) != (record.get("previous") == NOTHING):
                raise self.wrong(
                    path, number, "it is not the first line, and claims to be, or the reverse"
                )
        elif record.get("previous") != last.hash or at.line != last.line + 1:
            gap = at.line - last.line - 1
            what = f"{gap} lines before it are missing" if gap > 0 else "it was inserted or moved"
            raise self.wrong(path, number, what)
        if record.get("event") == "lost":
            last_line = record.get("last_line")
            raise self.wrong(
                path, number, f"the host found here that its last line, {last_line}, was missing"
            )
        self._lost += record.get("event") == "begun" and "lost" in record
        self._last = at
        self._lines += 1
        self._found = self._found or at.hash == self._noted
        self._count(path, number, record)

    def _count(self, path: Path | str, number: int, record: dict[str, Any]) -> None:
        process = record.get("process")
        key = str(record.get("opened_by", process)), str(record.get("call"))
        if record.get("event") == "opened":
            self._calls += 1
            self._open[key] = OpenCall(
                call=str(record.get("call")),
                server=str(record.get("server")),
                tool=str(next((record[kind] for kind in _KINDS if record.get(kind)), None)),
                time=str(record.get("time")),
                process=process if isinstance(process, int) else 0,
                file=str(path),
                line=number,
            )
        elif record.get("event") == "closed":
            opened = self._open.pop(key, None)
            if opened is None and "opened_by" in record:  # in another chain, which may come later
                self._closed.add(key)

    def done(self, path: Path | str) -> Verified:
        """Return the verified content."""
        if not self._found:
            raise self.wrong(
                path, None, "the noted line is missing: the end of the log was cut off"
            )
        return Verified(
            lines=self._lines,
            files=tuple(self._files),
            calls=self._calls,
            open_calls=tuple(call for key, call in self._open.items() if key not in self._closed),
            earlier=self._earlier,
            repaired=self._repaired,
            lost=self._lost,
            last_hash=self._last.hash if self._last else NOTHING,
            keyed=self._key is not None,
        )

    def changed(self, path: Path | str, number: int, begun: bool) -> AuditError:
        """Return the error for a line that was changed."""
        hint = "" if begun or self._last else ", or the key is not the one it was written with"
        return self.wrong(path, number, f"it was changed, or cut off by a crash{hint}")

    def wrong(self, path: Path | str, number: int | None, reason: str) -> AuditError:
        """Return the error for a line, with the reason."""
        return AuditError(
            f"the audit log {path} is not as it was written: "
            + (reason if number is None else f"line {number}: {reason}"),
            path=path,
            line=number,
            reason=reason,
        )


def _describes(record: dict[str, Any], cut: bytes) -> bool:
    """Whether this record describes the bytes ``cut``."""
    return (
        record.get("event") == "repaired"
        and record.get("bytes") == len(cut) - 1
        and record.get("sha256") == _hash(cut[:-1], None)
    )
