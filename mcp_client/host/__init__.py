"""Many servers as one set of tools: the host, its naming, filters and configuration.

The names for config files are in ``mcp_client.config``.

::

    host.py             ``Host``: many servers as one set of tools
    options.py          the options of a host and of each of its servers
    server.py           the life of one server: started, listed, lost, restarted, closed
    status.py           how each server is doing
    availability.py     why a server's tools are missing
    tools.py            the tools of all servers
    listing.py          the tools of one server, kept up to date
    naming.py           what each tool is called
    directory.py        the tools by their qualified names
    library.py          the resources, prompts and skills of all servers
    scripts.py          the calls of scripts (code mode)
    from_config.py      ``Host.from_config``: each server is started after an approval
    start_request.py    a server of a config file, and what a person is asked about it
    start_warnings.py   what looks dangerous in such a server
    reload.py           ``Host.reload`` and ``watch=True``
    config.py           config files: which servers there are, and what is wrong
    config_programs.py  the config files of each program, and where they are
    config_text.py      JSON, JSON with comments, and TOML, with line numbers
    config_fields.py    the fields of a server, and their problems
    config_server.py    one server, from the fields of any program
    config_sandbox.py   the sandbox of a server
    config_login.py     the login at a server
    config_values.py    variables, inputs and other files in values
    secret_source.py    secrets named by where they are stored
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "host": ["Host"],
        "options": ["ServerConfig", "ServerLike"],
        "status": ["ServerStatus"],
        "naming": ["Naming"],
        "reload": ["Reloaded"],
    },
)
