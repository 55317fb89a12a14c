# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from .file_state import FileState as FileState
from .postgres import PostgresState as PostgresState
from .state import MemoryState as MemoryState
from .state import State as State
