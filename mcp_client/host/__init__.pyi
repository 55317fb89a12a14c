# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from ..config.server_config import ServerConfig as ServerConfig
from ..config.server_config import ServerLike as ServerLike
from .from_config import Reloaded as Reloaded
from .host import Host as Host
from .naming import Naming as Naming
from .status import ServerStatus as ServerStatus
