"""The tables of a ``PostgresState``, which are made on first use and have a version."""

from __future__ import annotations

import hashlib
from typing import Any

from psycopg import Connection, errors

from ..errors import ConfigError

__all__ = ["lock_number", "quoted", "ready"]

_VERSION = 1
_MAX_NAME_BYTES = 63

# Keys are bytes, which every collation leaves alone, and objects are ASCII: both may then hold any
# text of Python's. A change is counted in the row of the connection that makes it, so that changes
# made at once do not wait for one another, and their sum shows a change in any order of their ends.
_TABLES = """
create table {layout} (version integer not null);
create table {object} (
  kind text collate "C" not null, key bytea not null, body text not null, due double precision,
  primary key (kind, key)
);
create index on {object} (kind, due) where due is not null;
create table {change} (
  kind text collate "C" not null, place integer not null, number bigint not null,
  primary key (kind, place)
);
create table {audit_chain} (
  number bigint generated always as identity, chain text collate "C" primary key,
  line bigint not null, hash text not null
);
create table {audit_line} (
  chain text collate "C" not null, line bigint not null, text text not null,
  primary key (chain, line)
);
insert into {layout} values (%s)
"""
# Not by to_regclass, which in an open transaction may not know of a table made by another.
_EXISTS = """
select from pg_class join pg_namespace on pg_namespace.oid = relnamespace
where nspname = %s and relname = 'layout'
"""
_FIND_VERSION = "select version from {layout}"
_NAMES = ("layout", "object", "change", "audit_chain", "audit_line")


def quoted(schema: Any) -> str:
    """Return the name of a schema for statements that have parameters.

    Raises ``ConfigError`` for what cannot be one.
    """
    name = schema if isinstance(schema, str) else ""
    size = len(name.encode("utf-8", "replace"))
    is_text = size == len(name.encode("utf-8", "surrogatepass"))
    if not 0 < size <= _MAX_NAME_BYTES or not is_text or "\0" in name:
        raise ConfigError(
            f"PostgresState(schema={schema!r:.100}): give a name of 1 to {_MAX_NAME_BYTES} bytes"
        )
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'


def lock_number(*names: str) -> int:
    """Return the number of these names in an advisory lock.

    Two names that share one only wait needlessly.
    """
    text = "\0".join(names).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], signed=True)


def ready(connection: Connection[Any], schema: str) -> None:
    """Make the tables if there are none yet.

    Raises ``ConfigError`` if they are of another release, or if they are missing and may not be
    made.
    """
    found = _version(connection, schema)
    if found is None:
        try:
            _make(connection, schema)
        except errors.InsufficientPrivilege:
            found = ""
        else:
            found = _version(connection, schema)
    if found == "":
        raise ConfigError(
            f"PostgresState: the schema {schema!r} has no tables, and this role cannot create "
            "them. Use the state once with a role that can. Then grant this role usage of the "
            "schema, and select, insert, update and delete on its tables"
        )
    if found != _VERSION:
        raise ConfigError(
            f"PostgresState: the tables in the schema {schema!r} have version {found}, and this "
            f"release needs version {_VERSION}: use one release everywhere, or another schema"
        )


def _version(connection: Connection[Any], schema: str) -> int | str | None:
    """Return the version of the tables.

    None without tables, a text for tables of another program.
    """
    if connection.execute(_EXISTS, [schema]).fetchone() is None:
        return None
    table = f"{quoted(schema)}.layout"
    rows = connection.execute(_FIND_VERSION.format(layout=table).encode(), ()).fetchall()
    return rows[0][0] if len(rows) == 1 else "unknown"


def _make(connection: Connection[Any], schema: str) -> None:
    name = quoted(schema)
    tables = {each: f"{name}.{each}" for each in _NAMES}
    with connection.transaction():
        connection.execute(
            "select pg_advisory_xact_lock(%s)", [lock_number("mcp_client tables", schema)]
        )
        if _version(connection, schema) is not None:
            return
        # Not "if not exists", which needs the right to make one even if there is one.
        known = connection.execute("select 1 from pg_namespace where nspname = %s", [schema])
        if known.fetchone() is None:
            connection.execute(f"create schema {name}".encode(), ())
        connection.execute(_TABLES.format(**tables).encode(), [_VERSION])
