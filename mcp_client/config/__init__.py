"""Config files of this program and of others: find them, load them, and list what is wrong.

``Host.from_config`` makes a host of one.

::

    config.py           config files: their servers and their problems
    programs.py         the config files of each program, and their places
    text.py             JSON, JSON with comments, and TOML, with line numbers
    fields.py           the fields of a server, and their problems
    server.py           one server, from the fields of any program
    security.py         the sandbox, the login and the secrets of a server
    values.py           variables, inputs and other files in values
    server_config.py    ``ServerConfig``: a server with its own options
    starting.py         a server on its way to be started, and the request for it
    start_warnings.py   warnings about such a server
    start_gate.py       the decision whether it may be started
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "config": ["load_config", "Config"],
        "programs": ["find_configs", "ConfigFile"],
        "fields": ["ConfigProblem"],
    },
)
