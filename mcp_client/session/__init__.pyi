# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from ..runtime.watch import Watch as Watch
from .session import Session as Session
