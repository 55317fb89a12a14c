"""The engines that this machine has. In CI it has to have all of them."""

from __future__ import annotations

from tests.programs import need

__all__ = ["ENGINES", "needs_engine"]

ENGINES = ("bubblewrap", "landlock")


def needs_engine(name: str) -> None:
    """Skip the test if this machine lacks the engine; in CI it fails."""
    need("Landlock" if name == "landlock" else name)
