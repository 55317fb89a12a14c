# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from .apps import App as App
from .apps import Apps as Apps
from .extension import ClientInfo as ClientInfo
from .extension import Extension as Extension
from .skill import Skill as Skill
from .tasks import Task as Task
from .ui_resource import UiResource as UiResource
