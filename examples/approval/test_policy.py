"""Test the policy in ``policy.toml``. Run this with pytest or as a program."""

from datetime import UTC, datetime
from pathlib import Path

from mcp_client import Rules, ToolCall

RULES = Rules.from_file(Path(__file__).parent / "policy.toml")


def alarm(location: str) -> ToolCall:
    return ToolCall.example("set_alarm", {"location": location}, server="weather")


def test_schools_are_never_alarmed() -> None:
    for place in ("Boston School", "the old school"):
        decided = RULES.explain(alarm(place))
        assert (decided.outcome, decided.number) == ("deny", 1)
        assert "by phone" in decided.text


def test_other_alarms_are_asked_about() -> None:
    assert RULES.explain(alarm("Boston")).outcome == "ask"


def test_reading_the_weather_is_allowed_until_the_rule_ends() -> None:
    look = ToolCall.example("get_weather", {"location": "Oslo"}, server="weather", read_only=True)
    assert RULES.explain(look).outcome == "allow"
    assert RULES.explain(look, at=datetime(2100, 1, 1, tzinfo=UTC)).outcome == "ask"


def test_no_hint_of_a_server_that_is_not_trusted_counts() -> None:
    call = ToolCall.example("get_weather", server="weather", read_only=True, trusted=False)
    assert RULES.explain(call).outcome == "ask"


if __name__ == "__main__":
    tests = [value for name, value in list(globals().items()) if name.startswith("test_")]
    for test in tests:
        test()
    print(f"{len(tests)} tests of the policy passed")
