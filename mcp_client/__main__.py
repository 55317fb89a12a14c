"""``python -m mcp_client``: the command ``mcp-client``."""

from .cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    raise SystemExit(main())
