"""The story of the library over each transport and revision."""

from __future__ import annotations

import pytest

from tests.journeys.library_story import TELLINGS, tell


@pytest.mark.parametrize(("transport", "revision"), TELLINGS)
async def test_the_story_of_the_library(transport: str, revision: str) -> None:
    await tell(transport, revision)
