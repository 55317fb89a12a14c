import pytest

for story in ("asking_story", "library_story", "story"):
    pytest.register_assert_rewrite(f"tests.journeys.{story}")
