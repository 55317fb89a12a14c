# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from .hash_chain import OpenCall as OpenCall
from .hash_chain import Verified as Verified
from .log_file import AuditLog as AuditLog
from .options import Audit as Audit
from .options import AuditTo as AuditTo
from .options import verify_audit as verify_audit
from .otel_log import OpenTelemetryLog as OpenTelemetryLog
from .redaction import Redaction as Redaction
from .sinks import AuditSink as AuditSink
