# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from ..host.config import Config as Config
from ..host.config import load_config as load_config
from ..host.config_fields import ConfigProblem as ConfigProblem
from ..host.config_programs import ConfigFile as ConfigFile
from ..host.config_programs import find_configs as find_configs
