# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from .host import Host as Host
from .naming import Naming as Naming
from .options import ServerConfig as ServerConfig
from .options import ServerLike as ServerLike
from .reload import Reloaded as Reloaded
from .status import ServerStatus as ServerStatus
