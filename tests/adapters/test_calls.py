"""The calls in a response: every form in which a provider or a program may hand them over."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar

import pytest

from mcp_client import ConfigError
from mcp_client.adapters.calls import arguments_of, listed, unknown_tool, unusable
from tests.support.provider_shapes import (
    ANTHROPIC,
    GEMINI,
    PROVIDERS,
    RESPONSES,
    Provider,
    every_provider,
)
from tests.support.schemas import tool_of

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
            for passed in (form, as_objects(form)):
                with pytest.raises(ConfigError, match="the response is"):
                    kit.calls(passed)


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


class Model:
    """As the providers' own objects, which are pydantic's, and iterate over their members."""

    model_fields: ClassVar[dict[str, Any]] = {}

    def __init__(self, kind: str = "") -> None:
        self.type = kind

    def __iter__(self) -> Iterator[Any]:
        return iter([("type", self.type)])


def stream(*names: str) -> Any:
    return type("Stream", (), dict.fromkeys(names, lambda self: self))()


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (None, "the response is None (so is a message's list of calls without a call)"),
        (
            type("S", (), {"call_tool": print})(),
            "the response is a S; run() takes the session or host first, then the response",
        ),
        ("text", "the response is a str, not what the provider's client returned"),
        (b"", "the response is a bytes, not what the provider's client returned"),
        (stream("__aiter__"), "the response is a stream (Stream); put its events together first"),
        (
            stream("__iter__", "__next__"),
            "the response is a stream (Stream); put its events together first",
        ),
        ({"error": 0}, "the response is an error of the provider"),
        ({"type": "error"}, "the response is an error of the provider"),
        (Model("error"), "the response is an error of the provider"),
        ({}, "an empty dict"),
        ({"a": 1, 2: 3}, "the response is a dict of 'a', '2'"),
        (dict.fromkeys("abcdef"), "the response is a dict of 'a', 'b', 'c', 'd', 'e', 'f'"),
        (
            dict.fromkeys("abcdefg"),
            "the response is a dict of 'a', 'b', 'c', 'd', 'e', 'f', ...",
        ),
        ({"k" * 41: 1}, f"the response is a dict of '{'k' * 40}'"),
        ([5], "the response is a list of int, which this provider does not return"),
        ([], "the response is a list, which this provider does not return"),
        (Model(), "the response is a Model, which this provider does not return"),
    ],
)
def test_the_error_names_what_was_given_in_place_of_a_response(
    response: Any, expected: str
) -> None:
    assert str(unusable(response, "that")) == f"{expected}: give that"


def test_what_iterates_over_entries_is_a_list_of_them() -> None:
    for value in ([1], (1,), {1}, iter([1]), opened_list()):
        assert listed(value) == [1]
    for other in ("1", b"1", bytearray(b"1"), {1: 1}, 5, None, Model()):
        assert listed(other) is None
    assert listed(stream("__iter__", "__next__", "__enter__")) is None


def opened_list() -> Any:
    """Has to be closed, and is not its own iterator."""
    members = {"__iter__": lambda self: iter([1]), "__enter__": lambda self: self}
    return type("Opened", (), members)()


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, ({}, None)),
        ("", ({}, None)),
        (" \n", ({}, None)),
        (MappingProxyType({"a": 1}), ({"a": 1}, None)),
        ('{"a": 1}', ({"a": 1}, None)),
        ([1], ({}, "they are a list")),
        (b"{}", ({}, "they are a bytes")),
        (0, ({}, "they are a int")),
    ],
)
def test_arguments_are_an_object_or_its_text(value: Any, wanted: Any) -> None:
    arguments, problem = wanted
    if problem is not None:
        problem = (
            f"Nothing was sent. The arguments are not a JSON object ({problem}). Give one complete "
            "JSON object and call again."
        )
    assert arguments_of(value) == (arguments, problem)


def test_arguments_may_have_128_levels() -> None:
    for levels, wrong in ((127, False), (128, True)):
        _, problem = arguments_of('{"a": ' + "[" * levels + "]" * levels + "}")
        assert (problem is not None) is wrong


@pytest.mark.parametrize(
    ("name", "names", "expected"),
    [
        # The same letters, before all else.
        ("get-Weather", ["get_weather", "get_weathers"], "Did you mean get_weather?"),
        # The name of a tool without its server's, or of a server without its tool's.
        ("read", ["files__read", "reader"], "Did you mean files__read?"),
        ("files", ["files_read", "filed"], "Did you mean files_read?"),
        ("xyz", [f"s{n}__xyz" for n in range(4)], "Did you mean s0__xyz or s1__xyz or s2__xyz?"),
        # Two letters are in too many names.
        ("ab", ["x_ab", "y"], "The tools are: x_ab, y."),
        ("abc", ["x_abc", "y"], "Did you mean x_abc?"),
        # Close ones; less close ones only where there are none.
        ("read_file", ["read_files", "road_fill"], "Did you mean read_files?"),
        ("read_file", ["road_fill"], "Did you mean road_fill?"),
        ("abcdefghij", [f"abcdefghi{n}" for n in range(4)], "abcdefghi3 or abcdefghi2 or"),
        # All, where they are few and nothing else is advised.
        ("none", [f"T{n}" for n in range(20)], "The tools are: T0, T1,"),
        ("none", [f"T{n}" for n in range(21)], ""),
        ("none", [], ""),
    ],
)
def test_a_model_that_asks_for_an_unknown_tool_is_informed_of_the_nearest(
    name: str, names: list[str], expected: str
) -> None:
    start = f"Nothing was sent. Unknown tool '{name}'."
    found = unknown_tool(name, names)
    if not expected:
        assert found == start
    elif expected.endswith((".", "?")):
        assert found == f"{start} {expected}"
    else:
        assert expected in found
        assert found.count(" or ") in (0, 2)
    advised = unknown_tool(name, names, "Search.")
    assert advised == (f"{found} Search." if "Did you mean" in found else f"{start} Search.")


def test_only_the_first_thousand_names_are_compared() -> None:
    names = [f"{n}" for n in range(1_000)]
    assert "Did you mean wanted_tool?" in unknown_tool("wantedtool", [*names[:999], "wanted_tool"])
    assert "Did you mean" not in unknown_tool("wantedtool", [*names, "wanted_tool"])


@every_provider
def test_what_is_not_a_list_of_tools_is_refused(provider: Provider) -> None:
    tools = forgotten()
    with pytest.raises(ConfigError, match=r"toolset\(\).*not awaited: write 'await session"):
        provider.toolset(tools)
    tools.close()
    wrong: list[Any] = [None, 5, "a", ["a"], [None], {"a": 1}]
    for passed in wrong:
        with pytest.raises(ConfigError, match=r"give the tools of list_tools\(\)"):
            provider.toolset(passed)
        with pytest.raises(ConfigError, match=r"updated\(\) was given"):
            provider.toolset(TOOLS).updated(passed)


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
