"""Config files of this program and of others: find them, load them, and list what is wrong.

The modules are in ``host/``.
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "..host.config": ["load_config", "Config"],
        "..host.config_programs": ["find_configs", "ConfigFile"],
        "..host.config_fields": ["ConfigProblem"],
    },
)
