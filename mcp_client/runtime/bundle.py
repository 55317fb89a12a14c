"""Bundle a program that uses this package: a hook for PyInstaller, in a file beside this one.

``mcp_client`` loads its names when they are first used, from strings that PyInstaller cannot
follow. PyInstaller finds the hook through the entry point ``pyinstaller40``. Other bundlers have an
option for it: ``nuitka --include-package=mcp_client --include-package-data=mcp_client``, and
``build_exe_options = {"packages": ["mcp_client"]}`` for cx_Freeze.
"""

from __future__ import annotations

import os

__all__ = ["get_hook_dirs"]


def get_hook_dirs() -> list[str]:
    """Return the directory of the hook, for the entry point ``pyinstaller40``."""
    return [os.path.dirname(__file__)]
