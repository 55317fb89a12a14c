"""The record of every call, and how to verify it.

``connect(audit=...)`` begins in ``options``; ``record`` documents what is recorded.

::

    options.py             what ``connect(audit=...)`` takes, and how to verify it
    record.py              the records of a session and their places
    entry.py               the two records of a call, a skill, a start, a read, a script's run
    entry_members.py       the members of the records of each kind
    sinks.py               a file, or a function of the host, as a place for records
    otel_log.py            the logs of OpenTelemetry as a place for records
    redacted_content.py    the content of calls as records, spans and recordings may show it
    redaction.py           the parts that a record may show: no secrets, within bounds
    secret_text.py         the places of secrets in a text
    schema_marks.py        the arguments that a tool's schema marks as secret
    log_file.py            the file, to which lines are only added
    opened_file.py         that file, open from one line to the next, and one thread at a time
    database_log.py        the same in a database: a chain of lines for each process
    database_chains.py     the chains in a database, and their verification
    hash_chain.py          lines that hold the hash of the line before, and how to check them
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "options": ["Audit", "AuditTo", "verify_audit"],
        "sinks": ["AuditSink"],
        "redaction": ["Redaction"],
        "log_file": ["AuditLog"],
        "otel_log": ["OpenTelemetryLog"],
        "hash_chain": ["OpenCall", "Verified"],
    },
)
