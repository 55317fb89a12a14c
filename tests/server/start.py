"""Starting the servers of this folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mcp_client import StdioServer

__all__ = ["scripted"]


def scripted(*options: str, **rest: Any) -> StdioServer:
    """The server of ``scripted.py`` with ``options`` on its command line."""
    path = Path(__file__).with_name("scripted.py")
    return StdioServer(sys.executable, ["-IS", str(path), *options], **rest)
