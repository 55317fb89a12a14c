"""One process that has loaded the command, for all tests of this directory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli import shell


@pytest.fixture(autouse=True, scope="session")
def forked() -> Iterator[None]:
    with shell.loaded_once():
        yield
