# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from .page import ApprovalPage as ApprovalPage
from .serve import serve_desk as serve_desk
