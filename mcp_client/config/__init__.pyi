# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from .config import Config as Config
from .config import load_config as load_config
from .fields import ConfigProblem as ConfigProblem
from .programs import ConfigFile as ConfigFile
from .programs import find_configs as find_configs
