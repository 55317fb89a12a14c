"""Hiding what is secret in texts that a server wrote."""

from __future__ import annotations

import html
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from mcp_client.runtime.masking import mask, mask_json, secrets_sent
from tests.support.timing import grows_linearly

TOKEN = 'k9/"x+y=<z>&0123456789abcdef'


@pytest.mark.parametrize(
    "form",
    [TOKEN, quote(TOKEN, safe=""), json.dumps(TOKEN)[1:-1], html.escape(TOKEN)],
)
def test_a_secret_is_hidden_in_each_form_a_server_may_write_it_in(form: str) -> None:
    assert mask(f"denied for {form}!", [TOKEN]) == "denied for ***!"


def test_the_beginning_of_a_secret_that_was_cut_off_is_hidden_too() -> None:
    assert mask(f"denied for {TOKEN[:17]}", [TOKEN]) == "denied for ***"
    assert mask(f"denied for {TOKEN[:17]} and more", [TOKEN]) == "denied for *** and more"


def test_masking_costs_time_linear_in_the_text_whatever_it_repeats() -> None:
    def masking(count: int) -> Callable[[], Any]:
        text = f"{TOKEN[:12]}!" * count
        return lambda: mask_json(text, [TOKEN])

    assert grows_linearly(masking, 1_000, 64)


@pytest.mark.slow
def test_many_strings_are_masked_in_little_more_time_than_one_as_long() -> None:
    def seconds(value: Any) -> float:
        best = 1e9
        for _ in range(3):
            started = time.process_time()
            mask_json(value, [TOKEN, *(f"{n}{TOKEN}" for n in range(9))])
            best = min(best, time.process_time() - started)
        return best

    one = "an ordinary text"
    assert seconds([one] * 4_000) < 60 * seconds(one * 4_000)


def test_a_short_value_is_not_taken_for_a_secret() -> None:
    assert mask("a cat", ["a", "cat"]) == "a cat"
    assert secrets_sent("https://a.example/mcp?page=2&key=secret-value", []) == {
        "page=2&key=secret-value",
        "secret-value",
    }


def test_strings_and_names_of_a_json_value_are_masked_at_every_depth() -> None:
    data = {"a": [{"b": f"x{TOKEN}"}, 1, None], TOKEN: True}
    assert mask_json(data, [TOKEN]) == {"a": [{"b": "x***"}, 1, None], "***": True}


@pytest.mark.parametrize(
    ("header", "value", "secret"),
    [
        ("Authorization", "Bearer abcd1234", "abcd1234"),
        ("Authorization", "Basic dXNlcjpodW50ZXIy", "hunter2"),
        ("Proxy-Authorization", "Basic dXNlcjpodW50ZXIy", "dXNlcjpodW50ZXIy"),
        ("Cookie", "a=first-value; b=second-value", "second-value"),
        ("DPoP", "aaaa.bbbb.cccc", "aaaa.bbbb.cccc"),
        ("X-Api-Key", "0123456789", "0123456789"),
        ("Mcp-Session-Id", "session-0123", "session-0123"),
    ],
)
def test_the_secrets_of_a_request_are_known_by_its_headers(
    header: str, value: str, secret: str
) -> None:
    assert secret in secrets_sent("https://a.example/mcp", [(header, value)])


def test_headers_of_the_protocol_are_not_secrets() -> None:
    headers = [("Content-Type", "application/json"), ("Mcp-Param-Region", "eu-west-1")]
    assert secrets_sent("https://a.example/mcp", headers) == set()


def test_user_and_password_of_a_url_are_secrets() -> None:
    found = secrets_sent("https://user:p%40ssword@a.example/mcp", [])
    assert {"p%40ssword", "p@ssword", "user"} <= found
