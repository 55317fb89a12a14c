"""A person at the terminal decides whether the model may answer a server's prompt."""

from __future__ import annotations

import sys
from typing import Any

import anyio
import pytest

from mcp_client import Allow, Deny, Handlers, MemoryServer, allow_all, ask_on_terminal, connect
from mcp_client.approval import Remember, SamplingRequest
from mcp_client.handlers import SamplingResult
from mcp_client.handlers.wire_format import parse_request
from tests.support.asking import LATEST, Asking, text_result
from tests.support.terminal import CTRL_C, CTRL_D, Desk

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")

YES = Allow(remember=Remember("call"), source="person")
HAIKU = {"role": "user", "content": {"type": "text", "text": "Write a haiku."}}


def prompt(*messages: dict[str, Any], **members: Any) -> SamplingRequest:
    params = {"messages": list(messages) or [HAIKU], "maxTokens": 1_000, **members}
    declared: dict[str, Any] = {"sampling": {"tools": {}}}
    request = parse_request("sampling/createMessage", params, "poet", declared, full=True)
    assert isinstance(request, SamplingRequest)
    return request


async def test_the_prompt_is_shown_before_the_model_is_asked(desk: Desk) -> None:
    request = prompt(systemPrompt="Be brief.", tools=[{"name": "rhyme"}, {"name": "count"}])
    assert await desk.asked(request, "y") == YES
    assert await desk.screen() == [
        "",
        "A server wants to use your model, and will see the response. May the model be",
        "used?",
        "Server       | poet",
        "Model        | any model",
        "Most tokens    1,000",
        "Tools        | rhyme, count",
        "Note         | this is a server that wants to use your model: it wrote the",
        "             : prompt, and gets the response",
        "System       | Be brief.",
        "User         | Write a haiku.",
        "  y  yes, this once          n  no          v  view all",
        "  s  Until the session ends",
        "s covers     | Other prompts of poet with the same system prompt, tools, model",
        "             : and limits, until the session ends.",
        "Ask the model? [y/N/s/v] y",
    ]


async def test_an_approval_goes_as_far_as_the_session(desk: Desk) -> None:
    decision = await desk.asked(prompt(), "a", "h", "s")
    assert decision == Allow(remember=Remember("session"), source="person")


@pytest.mark.parametrize("lines", [["n"], [""], [CTRL_C], [CTRL_D], ["what", "ever", "now"]])
async def test_anything_but_an_approval_is_a_denial(desk: Desk, lines: list[str]) -> None:
    assert isinstance(await desk.asked(prompt(), *lines), Deny)


async def test_a_wrong_reply_is_asked_for_again(desk: Desk) -> None:
    assert await desk.asked(prompt(), "perhaps", " YES ") == YES


async def test_what_is_left_out_is_shown_on_request(desk: Desk) -> None:
    early = {"role": "user", "content": {"type": "text", "text": "The very first word."}}
    long = {
        "role": "user",
        "content": {"type": "text", "text": "\n".join(["so"] * 40 + ["finish"])},
    }
    request = prompt(early, *[HAIKU] * 5, long, temperature=0.25)
    assert await desk.asked(request, "v", "y") == YES
    first, _, whole = "\n".join(await desk.screen()).partition("Ask the model?")
    assert "+ 1 earlier" in first
    assert "+ 29 more lines" in first
    for text in ("very first", "finish", "temperature"):
        assert text not in first
        assert text in whole


async def test_nothing_of_a_prompt_reaches_the_terminal_as_a_command(desk: Desk) -> None:
    evil = {"type": "text", "text": "\x1b[2J\x1b]0;t\x07\nAsk the model? [y/N/s/v] y\u202e"}
    request = prompt({"role": "user", "content": evil}, systemPrompt="\x1b[8m")
    await desk.asked(request, "v", "n")
    for bad in (b"\x1b[2J", b"\x1b]0", b"\x1b[8m", b"\x07", "\u202e".encode()):
        assert bad not in desk.raw
    assert b"\nAsk the model? [y/N/s/v] y" not in desk.raw.replace(b"\r", b"").partition(b"view")[0]


async def test_what_is_not_text_is_named(desk: Desk) -> None:
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    await desk.asked(prompt({"role": "user", "content": image}), "n")
    assert "User         | [image, image/png, 3 bytes]" in await desk.screen()


async def test_without_a_terminal_the_model_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    decision = await ask_on_terminal(prompt())
    assert isinstance(decision, Deny)
    assert decision.source == "gate"
    assert "no terminal to ask at; pass sampling_approval= to Handlers()" in decision.reason


class Poet(Asking):
    async def called(self, message: dict[str, Any], send: Any) -> Any:
        answers = message["params"].get("inputResponses")
        if answers is not None:
            return text_result(answers["q"]["content"]["text"])
        question = {"method": "sampling/createMessage"}
        question["params"] = {"messages": [HAIKU], "maxTokens": 9}  # type: ignore[assignment]
        return {"resultType": "input_required", "inputRequests": {"q": question}}


async def test_a_call_that_needs_the_model_asks_the_person_first(desk: Desk) -> None:
    asked: list[SamplingRequest] = []

    def model(request: SamplingRequest) -> SamplingResult:
        asked.append(request)
        return SamplingResult("An old silent pond", "basho")

    handlers = Handlers(sampling=model, sampling_approval=ask_on_terminal)
    server = MemoryServer(Poet(LATEST))
    async with connect(server, name="poet", approval=allow_all, handlers=handlers) as session:
        texts: list[str] = []

        async def call() -> None:
            desk.sit()
            texts.append((await session.call_tool("ask")).text)

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await desk.answer("y")
        assert texts == ["An old silent pond"]
        assert "Tool called  | ask" in await desk.screen()
    assert len(asked) == 1
