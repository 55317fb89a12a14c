# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from .strictness import Strictness as Strictness
from .strictness import Validation as Validation
