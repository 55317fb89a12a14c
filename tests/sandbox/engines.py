"""The engines that this machine has. In CI it has to have all of them."""

from __future__ import annotations

import os

import pytest

from mcp_client import ConnectError, Sandbox
from mcp_client.sandbox.engine import chosen_engine

__all__ = ["ENGINES", "needs_engine"]

ENGINES = ("bubblewrap", "landlock")


def needs_engine(name: str) -> None:
    """Skip the test where the engine cannot be had; in CI it fails."""
    try:
        chosen_engine(Sandbox(engine=name))  # type: ignore[arg-type]
    except ConnectError as error:
        sentence = f"this machine has no {name}: {error}"
        if os.environ.get("CI"):
            pytest.fail(sentence, pytrace=False)
        pytest.skip(sentence)
