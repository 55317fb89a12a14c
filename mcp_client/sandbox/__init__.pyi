# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from .sandbox import Sandbox as Sandbox
