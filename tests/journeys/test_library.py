"""The story of the library over each transport and revision."""

from __future__ import annotations

import pytest

from tests.journeys.library_story import TELLINGS, tell


@pytest.mark.parametrize(("transport", "revision"), TELLINGS)
async def test_a_session_with_resources_and_prompts(transport: str, revision: str) -> None:
    await tell(transport, revision)
