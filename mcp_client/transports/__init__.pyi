# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from .base import Transport as Transport
from .http import HttpServer as HttpServer
from .stdio import StdioServer as StdioServer
from .stream import StreamServer as StreamServer
