# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from .handlers import Accept as Accept
from .handlers import Cancel as Cancel
from .handlers import Decline as Decline
from .handlers import ElicitRequest as ElicitRequest
from .handlers import Handlers as Handlers
from .handlers import LogMessage as LogMessage
from .handlers import Root as Root
from .handlers import RootsRequest as RootsRequest
from .handlers import SamplingResult as SamplingResult
from .handlers import ServerNotification as ServerNotification
from .terminal import elicit_on_terminal as elicit_on_terminal
