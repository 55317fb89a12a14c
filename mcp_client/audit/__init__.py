"""What is recorded of calls, and how to check that the record is whole.

``connect(audit=...)`` begins in ``record``, which says what is in it::

    record.py       of each call: opened before anybody is asked, closed on every way out
    redaction.py    what a record may show: no secrets, and not without end
    journal.py      the file, which lines are only ever added to
    chain.py        lines that vouch for one another, and how to check them
"""

from .hash_chain import OpenCall, Verified, verify_audit
from .log_file import AuditLog
from .record import Audit, AuditSink, AuditTo, Entry, OnAuditFailure
from .redaction import Redaction

__all__ = [
    "Audit",
    "AuditLog",
    "AuditSink",
    "AuditTo",
    "Entry",
    "OnAuditFailure",
    "OpenCall",
    "Redaction",
    "Verified",
    "verify_audit",
]
