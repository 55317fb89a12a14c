"""The calls in a response: every form in which a provider or a program may hand them over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mcp_client import ConfigError
from tests.adapters.schemas import tool_of
from tests.adapters.shapes import ANTHROPIC, GEMINI, PROVIDERS, RESPONSES, Provider, every_provider

in_text = pytest.mark.parametrize("provider", [one for one in PROVIDERS if one.is_text], ids=str)

NAMES = ("weather__get_weather", "weather__set_alarm", "files__read_file")
TOOLS = [tool_of({"type": "object"}, name) for name in NAMES]


def as_objects(value: Any) -> Any:
    """The same with attributes, as the providers' own objects have them."""
    if isinstance(value, dict):
        plain = {"args", "input"}
        return SimpleNamespace(
            **{key: item if key in plain else as_objects(item) for key, item in value.items()}
        )
    return [as_objects(item) for item in value] if isinstance(value, list) else value


def snake_case(value: Any) -> Any:
    """As Python names the members of Gemini's JSON."""
    if isinstance(value, dict):
        return {key.replace("functionC", "function_c"): snake_case(v) for key, v in value.items()}
    return [snake_case(item) for item in value] if isinstance(value, list) else value


def inner_forms(provider: Provider, response: dict[str, Any]) -> list[Any]:
    """A response, and the parts of it that hold the same calls."""
    match provider.name:
        case "openai_chat":
            message = response["choices"][0]["message"]
            return [response, message, message["tool_calls"]]
        case "openai_responses":
            return [response, response["output"]]
        case "anthropic":
            return [response, response["content"]]
    content = response["candidates"][0]["content"]
    function_calls = [part["functionCall"] for part in content["parts"][1:]]
    return [response, content, content["parts"], function_calls, snake_case(response)]


@every_provider
def test_calls_are_read_from_dicts_and_objects_whole_or_in_part(provider: Provider) -> None:
    kit = provider.toolset(TOOLS)
    wanted = [("c1", NAMES[0], {"location": "Oslo"}), ("c2", NAMES[1], {"loud": [1, {"a": None}]})]
    for form in inner_forms(provider, provider.response(wanted)):
        for response in (form, as_objects(form)):
            if provider.name == "gemini":
                response = as_objects(snake_case(form)) if response is not form else form
            calls = kit.calls(response)
            assert [(call.id, call.name, call.arguments) for call in calls] == wanted
            assert all(call.problem is None for call in calls)


WITHOUT_CALLS: dict[str, list[Any]] = {
    "openai_chat": [
        *([], {"choices": []}, {"content": "hello"}, {"role": "assistant", "content": None}),
        {"choices": [{"message": {"role": "assistant", "content": "hello"}}]},
        {"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"},
        {"role": "assistant", "content": None, "refusal": "no", "tool_calls": None},
        {"role": "assistant", "content": [{"type": "text", "text": "hello"}]},
        {"role": "assistant", "content": "", "tool_calls": []},
        [{"id": "1", "type": "custom", "custom": {"name": "x", "input": "y"}}],
    ],
    "openai_responses": [
        *([], {"output": []}),
        {"output": [{"type": "message", "role": "assistant", "content": []}], "error": None},
        [{"type": "reasoning", "summary": []}],
        {"object": "response", "status": "failed", "error": {"code": "x"}, "output": []},
    ],
    "anthropic": [
        *([], {"content": []}, {"content": "hello"}),
        {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "hello"}]},
        [{"type": "thinking", "thinking": "well"}, {"type": "a_later_type"}],
    ],
    "gemini": [
        *([], {"candidates": []}, {"candidates": [{}]}, {"candidates": [{"content": {}}]}),
        *({"promptFeedback": {"blockReason": "SAFETY"}},),
        {"candidates": None, "prompt_feedback": {}},
        {"candidates": [{"finishReason": "SAFETY", "index": 0}]},
        {"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]},
        {"candidates": [{"content": {"role": "model", "parts": None}}]},
        {"content": {"role": "model", "parts": [{"text": "hello"}]}, "finishReason": "STOP"},
        {"role": "model", "parts": [{"text": "hello"}, {}]},
        [{"text": "hello", "thought": True}],
    ],
}


@every_provider
def test_a_response_without_calls_has_none(provider: Provider) -> None:
    for form in WITHOUT_CALLS[provider.name]:
        for response in (form, as_objects(form)):
            if response is form or provider.name != "gemini":
                assert provider.toolset(TOOLS).calls(response) == [], form


async def forgotten() -> None: ...


NOT_RESPONSES: list[Any] = [
    *(None, {}, "text", b"text", '{"choices": []}', 5, True, object(), SimpleNamespace(), ["a"]),
    *([None], [5], {"answer": 42}, [{"answer": 42, "type": "function", "role": "user"}]),
    *({"error": {"message": "overloaded"}}, {"type": "error", "error": {"type": "overloaded"}}),
    *({"error": {"code": 429}, "choices": None}, {"choices": [{"delta": {"content": "x"}}]}),
    *({"content": 5}, {"output": "text"}, {"output": None}, {"candidates": "text"}),
    *({"content": None}, {"choices": [{}]}, {"tool_calls": {"0": {}}}),
    *({"role": "user", "content": "hello"}, [{"role": "user", "content": "hello"}]),
    TOOLS,
]


@every_provider
@pytest.mark.parametrize("response", NOT_RESPONSES)
def test_what_is_not_a_response_is_the_programs_error(provider: Provider, response: Any) -> None:
    kit = provider.toolset(TOOLS)
    with pytest.raises(ConfigError, match=r": give a (completion|response|message) of "):
        kit.calls(response)


@every_provider
def test_a_response_of_another_provider_is_the_programs_error(provider: Provider) -> None:
    kit = provider.toolset(TOOLS)
    for other in PROVIDERS:
        response = other.response([("c1", NAMES[0], {"location": "Oslo"})])
        for form in inner_forms(other, response) if other is not provider else ():
            for given in (form, as_objects(form)):
                with pytest.raises(ConfigError, match="the response is"):
                    kit.calls(given)


@every_provider
def test_a_forgotten_await_is_named(provider: Provider) -> None:
    response = forgotten()
    with pytest.raises(ConfigError, match="did you forget 'await'"):
        provider.toolset(TOOLS).calls(response)
    response.close()


@every_provider
def test_a_stream_is_named(provider: Provider) -> None:
    class Stream:
        def __aiter__(self) -> Any: ...

    with pytest.raises(ConfigError, match="is a stream"):
        provider.toolset(TOOLS).calls(Stream())


@every_provider
def test_what_is_not_a_list_of_tools_is_refused(provider: Provider) -> None:
    tools = forgotten()
    with pytest.raises(ConfigError, match=r"toolset\(\).*not awaited: write 'await session"):
        provider.toolset(tools)
    tools.close()
    wrong: list[Any] = [None, 5, "a", ["a"], [None], {"a": 1}]
    for given in wrong:
        with pytest.raises(ConfigError, match=r"give the tools of list_tools\(\)"):
            provider.toolset(given)
        with pytest.raises(ConfigError, match=r"updated\(\) was given"):
            provider.toolset(TOOLS).updated(given)


@every_provider
def test_an_unknown_tool_is_a_problem_that_names_near_misses(provider: Provider) -> None:
    kit = provider.toolset(TOOLS)
    for written in ("get_weather", "weather__getWeather", "weather__get_wether"):
        (call,) = kit.calls(provider.response([("1", written, {"a": 1})]))
        assert call.name == written
        assert call.arguments == {}
        assert call.problem is not None
        assert "Did you mean weather__get_weather?" in call.problem
    (call,) = kit.calls(provider.response([("1", "x" * 5_000, {})]))
    assert call.problem is not None
    assert len(call.problem) < 1_000
    assert "The tools are: weather__get_weather" in call.problem


@in_text
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": ', "it is not JSON"),
        ("[1]", "it is not a JSON object"),
        ('"{}"', "it is not a JSON object"),
        ('{"a": NaN}', "NaN is not a value of JSON"),
        ('{"a": 1, "a": 2}', "appears twice"),
        ("[" * 100_000, "nested deeper"),
        ('{"a": ' + "9" * 5_000 + "}", ""),
    ],
    ids=["cut off", "a list", "a text", "not a number", "twice", "deep", "a long number"],
)
def test_arguments_that_are_not_a_json_object_are_a_problem(
    provider: Provider, text: str, reason: str
) -> None:
    (call,) = provider.toolset(TOOLS).calls(provider.response([("1", NAMES[0], text)]))
    assert call.name == NAMES[0]
    assert call.arguments == {}
    assert call.problem is not None
    assert reason in call.problem
    assert len(call.problem) < 500


@in_text
@pytest.mark.parametrize("text", ["", " \n", "{}"])
def test_empty_arguments_are_none_at_all(provider: Provider, text: str) -> None:
    (call,) = provider.toolset(TOOLS).calls(provider.response([("1", NAMES[0], text)]))
    assert (call.arguments, call.problem) == ({}, None)


@every_provider
def test_of_two_calls_with_one_id_the_first_counts(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = [("1", NAMES[0], {"n": 1}), ("1", NAMES[1], {"n": 2}), ("2", NAMES[1], {})]
    calls = provider.toolset(TOOLS).calls(provider.response(wanted))
    assert [(call.id, call.name) for call in calls] == [("1", NAMES[0]), ("2", NAMES[1])]
    assert "same id" in caplog.text


def test_a_call_of_gemini_without_arguments_is_found_in_the_list_of_calls() -> None:
    kit = GEMINI.toolset(TOOLS)
    for call in ({"name": NAMES[0]}, SimpleNamespace(name=NAMES[0], args=None, id=None)):
        assert [(one.name, one.arguments) for one in kit.calls([call])] == [(NAMES[0], {})]


def test_gemini_need_not_give_ids() -> None:
    parts = [{"functionCall": {"name": NAMES[0]}}, {"functionCall": {"name": NAMES[0], "args": {}}}]
    calls = GEMINI.toolset(TOOLS).calls({"candidates": [{"content": {"parts": parts}}]})
    assert [(call.id, call.arguments) for call in calls] == [("", {}), ("", {})]


def test_calls_that_the_provider_runs_itself_are_not_ours() -> None:
    blocks = [
        {"type": "server_tool_use", "id": "s", "name": NAMES[0], "input": {}},
        {"type": "mcp_tool_use", "id": "m", "name": NAMES[0], "input": {}},
    ]
    assert ANTHROPIC.toolset(TOOLS).calls({"content": blocks}) == []
    items = [
        {"type": "web_search_call", "id": "w"},
        {"type": "custom_tool_call", "call_id": "c", "name": NAMES[0], "input": "x"},
    ]
    assert RESPONSES.toolset(TOOLS).calls({"output": items}) == []
