"""The story of the library over each transport and revision."""

from __future__ import annotations

import pytest

from tests.journeys.library_story import PLAYS, play


@pytest.mark.parametrize(("transport", "revision"), PLAYS)
async def test_a_session_with_resources_and_prompts(transport: str, revision: str) -> None:
    await play(transport, revision)
