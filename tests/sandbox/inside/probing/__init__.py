"""Everything that a server inside of a sandbox tries."""

from . import files, kernel, network, processes
from .catalogue import PROBES, World

__all__ = ["PROBES", "World", "files", "kernel", "network", "processes"]
