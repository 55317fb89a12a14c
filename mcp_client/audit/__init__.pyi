# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from .hash_chain import OpenCall as OpenCall
from .hash_chain import Verified as Verified
from .log_file import AuditLog as AuditLog
from .otel_log import OpenTelemetryLog as OpenTelemetryLog
from .record import Audit as Audit
from .record import AuditSink as AuditSink
from .record import AuditTo as AuditTo
from .record import CallRecord as CallRecord
from .record import OnAuditFailure as OnAuditFailure
from .redaction import Redaction as Redaction
from .verification import verify_audit as verify_audit
