"""Many servers as one set of tools: the host, its naming, filters and configuration.

The names for config files are in ``mcp_client.config``.

::

    host.py             ``Host``: many servers as one set of tools
    options.py          the options of a host
    server.py           the life of one server: started, listed, lost, restarted, closed
    status.py           how each server is doing, and why its tools are missing
    offers.py           the tools, resources, prompts and skills of all servers
    listing.py          the tools of one server, up to date; whether they are the host's now
    naming.py           what each tool is called
    directory.py        the tools by their qualified names
    from_config.py      ``Host.from_config``, ``Host.reload`` and ``watch=True``
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "host": ["Host"],
        "..config.server_config": ["ServerConfig", "ServerLike"],
        "status": ["ServerStatus"],
        "naming": ["Naming"],
        "from_config": ["Reloaded"],
    },
)
