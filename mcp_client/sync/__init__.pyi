# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from .connecting import Connecting as Connecting
from .connecting import connect as connect
from .host import Host as Host
from .host import Watch as Watch
from .session import App as App
from .session import Session as Session
from .session import Skill as Skill
from .session import Task as Task
