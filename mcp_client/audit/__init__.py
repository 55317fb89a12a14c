"""The record of every call, and how to verify it.

``connect(audit=...)`` begins in ``options``; ``record`` documents what is recorded.

::

    options.py             what ``connect(audit=...)`` takes
    record.py              where the records of a session go
    entry.py               the two records of a call, a skill, a start, a read, a script's run
    entry_members.py       what the records of each kind have
    sinks.py               a file, or a function of the host, as a place for records
    otel_log.py            the logs of OpenTelemetry as a place for records
    shown_arguments.py     the arguments as records may show them, and what spans show
    redaction.py           what a record may show: no secrets, within bounds
    redaction_function.py  the same by a function of the host
    recording_redaction.py what the record of a whole session shows
    secret_text.py         where in a text secrets are
    schema_marks.py        which arguments a tool's schema marks as secret
    log_file.py            the file, to which lines are only ever added
    opened_file.py         that file, open from one line to the next, and one thread at a time
    database_log.py        the same in a database: a chain of lines for each process
    database_chains.py     the chains in a database, and their verification
    hash_chain.py          lines that hold the hash of the line before, and how to check them
    verification.py        the verification of a file, a log or a state
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "options": ["Audit", "AuditTo"],
        "sinks": ["AuditSink"],
        "redaction": ["Redaction"],
        "log_file": ["AuditLog"],
        "otel_log": ["OpenTelemetryLog"],
        "hash_chain": ["OpenCall", "Verified"],
        "verification": ["verify_audit"],
    },
)
