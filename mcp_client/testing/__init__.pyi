# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from ..transports.memory import JsonRpcError as JsonRpcError
from ..transports.memory import MemoryServer as MemoryServer
from ..transports.replay import ReplayServer as ReplayServer
from ..transports.servers import Recording as Recording
from .fake_server import FakeServer as FakeServer
from .fake_server import FakeTool as FakeTool
