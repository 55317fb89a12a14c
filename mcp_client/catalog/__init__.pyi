# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from .call_values import ToolResult as ToolResult
from .finding import Finding as Finding
from .finding import Rejected as Rejected
from .pins import Pins as Pins
from .tool import Tool as Tool
from .tool import ToolList as ToolList
from .tools import Trust as Trust
