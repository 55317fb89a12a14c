"""The record of every call, and how to verify it.

``connect(audit=...)`` begins in ``record``, which documents what is recorded::

    record.py        where the records of a session go
    call_record.py   the two records of one call
    edit_paths.py    where an approver's arguments differ
    request_record.py  those of a skill, a start, a use of the model, and a read
    run_record.py    those of the run of a script
    sinks.py         a file, or a function of the host's
    otel_log.py      a place for records: the logs of OpenTelemetry
    shown_arguments.py  the arguments as they may be shown, here and on spans
    span_content.py  what spans show of a call, where the host asks for it
    redaction.py     what a record may show, without secrets and bounded
    redaction_function.py  the same by a function of the host's
    session_record.py      what the record of a whole session shows
    secret_text.py   where in a text secrets are
    schema_marks.py  which arguments a tool's schema marks as secret
    log_file.py      the file, to which lines are only ever added
    opened_file.py   that file, open from one line to the next
    database_log.py  the same in a database, a chain of lines for each process
    database_chains.py  the chains there, and their verification
    group_commit.py  threads that wait to write, written for together
    hash_chain.py    lines that hold the hash of the line before, and how to check them
    verification.py  the verification of a file, a log or a state
"""

from .hash_chain import OpenCall, Verified
from .log_file import AuditLog
from .record import Audit, AuditSink, AuditTo, CallRecord, OnAuditFailure
from .redaction import Redaction
from .verification import verify_audit

__all__ = [
    "Audit",
    "AuditLog",
    "AuditSink",
    "AuditTo",
    "CallRecord",
    "OnAuditFailure",
    "OpenCall",
    "Redaction",
    "Verified",
    "verify_audit",
]
