"""The verification of an audit: in a file, in a log, or in a state.

``hash_chain`` and ``database_log`` document what it proves.
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..runtime.directory import given_path
from .hash_chain import Check, Verified, key_of, opened_files

if TYPE_CHECKING:
    from ..runtime.storage import Storage
    from .database_log import DatabaseLog
    from .log_file import AuditLog

__all__ = ["verify_audit"]


def verify_audit(
    log: str | os.PathLike[str] | AuditLog | DatabaseLog | Storage,
    *,
    key: bytes | None = None,
    noted: str | None = None,
) -> Verified:
    """Verify an audit log with all files it was rotated into, and find the open calls.

    It may be called while the log is written, and reads what is there when it begins.

    Args:
        log: The path of a file, a log, or a state with an audit; of a ``PostgresState`` all chains
            are verified.
        key: The key of the log, if it is not the log's own.
        noted: A ``last_hash`` of an earlier verification. Its line must still exist, else the log
            was cut before it.

    Returns:
        The content of the intact log.

    Raises:
        AuditError: With ``.path``, ``.line`` (in that file, from 1) and ``.reason``, for the first
            line that was changed, removed, inserted or moved, and for the first at which a host
            found its own last line gone.
        ConfigError: If the log is missing.
        StateError: If the database cannot be reached.
    """
    of: Any = getattr(log, "audit", log)
    if of is None:
        raise ConfigError(f"verify_audit({log!r}): this state has no audit")
    if hasattr(of, "verify"):
        found: Verified = of.verify(key, noted)
        return found
    key = getattr(of, "key", None) if key is None else key
    path = given_path(getattr(of, "path", of), f"verify_audit({log!r})")
    check = Check(key_of(key), noted)
    try:
        with closing(opened_files(Path(path))) as files:
            for file, name, size in files:
                with file:
                    check.file(name, file, size)
    except OSError as error:
        raise ConfigError(f"the audit log {path} cannot be read: {error.strerror}") from None
    return check.done(Path(path))
