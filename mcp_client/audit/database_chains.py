"""The chains of an audit in a database: their tables, their queries and their verification.

``database_log`` defines a chain, and adds to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ..errors import AuditError, ConfigError
from ..runtime.atomic_file import own_directory
from .hash_chain import NOTHING, Check, Verified, key_of, unseal

__all__ = [
    "APPEND",
    "BEGIN",
    "FIRST_HASH",
    "FIRST_LINE",
    "HEAD",
    "LAST_HEADS",
    "Chain",
    "Chains",
    "Database",
    "export",
    "verify",
]

_PAGE_LINES = 200
_MAX_NAMED = 32
"""Chains that the first line of another names."""
_NAMED = ("number", "chain", "last_line", "last_hash")

# With the quoted names of the tables put in.
APPEND = """
with head as (
    update {chains} set line = %s, hash = %s where chain = %s and line = %s and hash = %s
    returning chain
)
insert into {lines} (chain, line, text)
select head.chain, new.line, new.text
from head, unnest(%s::bigint[], %s::text[]) as new (line, text)
"""
HEAD = "select line, hash from {chains} where chain = %s"
_HEADS = "select number, chain, line, hash from {chains} order by number"
LAST_HEADS = f"{_HEADS} desc limit {_MAX_NAMED}"
BEGIN = "insert into {chains} (chain, line, hash) values (%s, 1, '') returning number"
FIRST_HASH = "update {chains} set hash = %s where chain = %s"
FIRST_LINE = "insert into {lines} (chain, line, text) values (%s, 1, %s)"
_NEXT_NAME = "select chain from {lines} where chain > %s order by chain limit 1"
_OF_CHAIN = "select line, text from {lines} where chain = %s"
_FIRST = f"{_OF_CHAIN} order by line limit 1"
_PAGE = f"{_OF_CHAIN} order by line limit {_PAGE_LINES}"
_NEXT_PAGE = f"{_OF_CHAIN} and line > %s order by line limit {_PAGE_LINES}"


class Database(Protocol):
    """A protocol: the part of a state that the log needs."""

    @property
    def key(self) -> bytes | None:
        """The key of the state."""

    def _connection(self) -> AbstractContextManager[Any]:
        """Return a connection in autocommit mode.

        Raises ``StateError`` and ``ConfigError`` for the database's own errors.
        """

    def _table(self, name: str) -> str: ...


class Chain(NamedTuple):
    """A row of the table of chains."""

    number: int
    name: str
    line: int
    hash: str


class Chains:
    """The two tables, in statements."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tables = {
            "lines": database._table("audit_line"),
            "chains": database._table("audit_chain"),
        }

    def run(self, connection: Any, statement: str, *values: Any) -> Any:
        """Run a statement."""
        return connection.execute(statement.format_map(self._tables), values)

    @contextmanager
    def snapshot(self) -> Iterator[Any]:
        """Open a connection that sees the tables as they are at the beginning."""
        with self._database._connection() as connection, connection.transaction():
            connection.execute("set transaction isolation level repeatable read, read only")
            yield connection

    def all(self, connection: Any) -> list[Chain]:
        """Return all chains."""
        return [Chain(*row) for row in self.run(connection, _HEADS).fetchall()]

    def names_of_lines(self, connection: Any) -> Iterator[str]:
        """Yield the chains that there are lines of, without looking at each line."""
        name = ""
        while (row := self.run(connection, _NEXT_NAME, name).fetchone()) is not None:
            name = row[0]
            yield name

    def read(self, connection: Any, chain: str) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of a chain with their numbers."""
        rows = self.run(connection, _PAGE, chain).fetchall()
        while rows:
            for number, text in rows:
                yield number, text.encode("utf-8", "replace")
            rows = self.run(connection, _NEXT_PAGE, chain, number).fetchall()


def export(chains: Chains, directory: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Write each chain into a file in ``directory``."""
    path, made = Path(directory).expanduser().absolute(), []
    try:
        own_directory(path)
        with chains.snapshot() as connection:
            for chain in chains.all(connection):
                file = path / f"{chain.number:06d}-{chain.name}.jsonl"
                with open(file, "xb", opener=_own_file) as stream:
                    for _, line in chains.read(connection, chain.name):
                        stream.write(line + b"\n")
                made.append(file)
    except OSError as error:
        raise ConfigError(
            f"the audit cannot be exported to {path}: {error.strerror or error}"
        ) from None
    return tuple(made)


def _own_file(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def verify(chains: Chains, name: str, key: bytes | None, noted: str | None) -> Verified:
    """Verify all chains of the audit that errors call ``name``."""
    return _Verification(chains, name, key, noted).run()


class _Verification:
    """A run of ``verify_audit`` over all chains, of one moment."""

    def __init__(self, chains: Chains, name: str, key: bytes | None, noted: str | None) -> None:
        self._chains = chains
        self._name = name
        self._key = key_of(key)
        self._check = Check(self._key, None)
        self._noted = set() if noted is None else set(filter(None, noted.split(",")))
        self._named: dict[str, dict[int, str]] = {}
        """The hashes of lines that the first lines of others name, by chain."""
        self._numbers: dict[str, int] = {}
        self._missing = 0
        self._heads: list[str] = []

    def run(self) -> Verified:
        check = self._check
        with self._chains.snapshot() as connection:
            chains = self._chains.all(connection)
            known = {chain.name for chain in chains}
            for name in self._chains.names_of_lines(connection):
                if name not in known:
                    raise self._wrong(name, None, "its row in the table of chains is missing")
            for chain in chains:
                self._note_named(connection, chain)
            self._check_missing(chains)
            for chain in chains:
                self._verify(connection, chain)
        if self._noted:
            raise check.wrong(self._name, None, "a noted line is missing: a chain was cut off")
        found = check.done(self._name)
        return replace(found, earlier=self._missing, last_hash=",".join(self._heads) or NOTHING)

    def _note_named(self, connection: Any, chain: Chain) -> None:
        """Note the other chains that the first line of a chain names.

        Its own hash is compared later.
        """
        first = self._chains.run(connection, _FIRST, chain.name).fetchone()
        with suppress(ValueError):
            record, _ = unseal(b"" if first is None else first[1].encode(), self._key)
            lost = record.get("lost")
            if lost is not None:
                record["after"].append([lost[name] for name in _NAMED])
            for number, name, line, hash in record["after"]:
                self._numbers[name] = number
                self._named.setdefault(name, {})[line] = hash

    def _check_missing(self, chains: Sequence[Chain]) -> None:
        """Check that only the oldest chains are gone, as a whole."""
        there = {chain.name for chain in chains}
        oldest = min((chain.number for chain in chains), default=0)
        for name, lines in self._named.items():
            if name not in there:
                if self._numbers[name] > oldest:
                    raise self._wrong(
                        name, None, "all its lines are missing, but older chains exist"
                    )
                self._missing += max(lines)

    def _verify(self, connection: Any, chain: Chain) -> None:
        check, named = self._check, self._named.get(chain.name, {})
        is_named = named.get(chain.line) == chain.hash
        place, at = self._place(chain.name), None
        check.begin(place)
        for number, text in self._chains.read(connection, chain.name):
            try:
                record, position = unseal(text, self._key)
            except ValueError:
                raise check.changed(place, number, at is not None) from None
            whose = record.get("chain"), record.get("number"), position.line
            if at is None and whose != (chain.name, chain.number, 1):
                raise self._wrong(chain.name, number, "the chain does not begin with it")
            if number != position.line or named.pop(number, position.hash) != position.hash:
                raise self._wrong(chain.name, number, "it was inserted, moved or written again")
            check.line(place, number, record, position, at is not None)
            self._noted.discard(position.hash)
            at = position
        last = max([chain.line, *named])
        if at is None or (at.line, at.hash) != (chain.line, chain.hash) or named:
            reason = f"its end was cut off or changed: line {last} was there"
            raise self._wrong(chain.name, None, reason)
        if not is_named:
            self._heads.append(chain.hash)

    def _wrong(self, chain: str, number: int | None, reason: str) -> AuditError:
        return self._check.wrong(self._place(chain), number, reason)

    def _place(self, chain: str) -> str:
        return f"{self._name}, chain {chain}"
