"""The stories' own assertions are shown in full, as those of tests are."""

import pytest

for story in ("asking_story", "library_story", "story"):
    pytest.register_assert_rewrite(f"tests.journeys.{story}")
