# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from ..protocol.capabilities import Implementation as Implementation
from ..runtime.limits import Limits as Limits
from ..runtime.limits import Timeouts as Timeouts
from .call_options import CallProgress as CallProgress
from .call_options import CancelToken as CancelToken
from .call_options import OnProgress as OnProgress
from .call_options import Retry as Retry
