"""Requests that wait for approval: four kinds, one shape."""

from __future__ import annotations

import copy
import dataclasses
import json
import unicodedata
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest

from mcp_client import ApprovalRequest, ConfigError, ToolCall
from mcp_client.approval import Remember, SamplingRequest, SkillRequest, StartRequest
from mcp_client.approval.decision import CHOICES
from mcp_client.approval.request import Fact
from mcp_client.approval.skill_request import SKILL_FINDING, SkillFile, digest_of
from mcp_client.approval.start_request import STARTS
from mcp_client.catalog.definition import Hints

PROMPT = {"role": "user", "content": {"type": "text", "text": "What is the capital of Norway?"}}


def call(**options: Any) -> ToolCall:
    return ToolCall.example(
        {"name": "delete", "title": "Delete", "description": "Deletes a file"},
        {"path": "/tmp/x", "force": True},
        server="files",
        meta={"trace": "1"},
        findings=("hidden_text",),
        **{"context": ("ana", 3), **options},
    )


def skill(**options: Any) -> SkillRequest:
    files = (SkillFile("skill://pdf/SKILL.md", f"sha256:{'0' * 64}", 10, "SKILL.md"),)
    members: dict[str, Any] = {
        "id": "s-1",
        "server": "files",
        "name": "pdf",
        "description": "Reads PDF",
        "uri": "skill://pdf/SKILL.md",
        "files": files,
        "size": 10,
        "ignored": ("allowed-tools",),
        "digest": digest_of(files),
        "findings": (SKILL_FINDING,),
        "context": ("ana", 3),
    }
    return SkillRequest(**{**members, **options})


def start(**options: Any) -> StartRequest:
    members: dict[str, Any] = {
        "server": "files",
        "command": "npx",
        "args": ("-y", "a b"),
        "env_names": ("KEY",),
        "cwd": "/srv/app",
        "url": None,
        "header_names": (),
        "findings": (STARTS,),
        "variables": {"TOKEN": ("env.KEY",)},
        "fingerprint": f"sha256:{'1' * 64}",
        "path": Path("/srv/app/.mcp.json"),
        "scope": "project",
    }
    return StartRequest(**{**members, **options})


def sampling(**options: Any) -> SamplingRequest:
    params = {
        "messages": [PROMPT],
        "maxTokens": 100,
        "systemPrompt": "Be brief",
        "modelPreferences": {"hints": [{"name": "opus"}, {"name": "haiku"}]},
    }
    return SamplingRequest.of(params, "files", **{"call": call(), **options})


MAKERS: list[Callable[..., ApprovalRequest]] = [call, skill, start, sampling]
REQUESTS = [make() for make in MAKERS]
each = pytest.mark.parametrize("request_", REQUESTS, ids=[one.kind for one in REQUESTS])


@each
def test_each_kind_has_what_a_hook_looks_at(request_: ApprovalRequest) -> None:
    assert request_.server == "files"
    assert request_.subject
    assert request_.id
    assert request_.hints == Hints()
    assert request_.trusted is False
    assert request_.findings
    assert request_.origin == "host"
    assert request_.fingerprint
    assert request_.fingerprint.startswith("sha256:")
    assert request_.key.startswith("sha256:")
    assert isinstance(hash(request_), int)
    with pytest.raises(FrozenInstanceError):
        request_.server = "other"  # type: ignore[misc]


def test_the_subject_is_what_it_is_about() -> None:
    subjects = [one.subject for one in REQUESTS]
    assert subjects == ["delete", "skill://pdf/SKILL.md", "npx -y 'a b'", "opus, haiku"]


@each
def test_a_request_comes_back_from_its_json(request_: ApprovalRequest) -> None:
    text = json.dumps(request_.to_json())
    again = ApprovalRequest.from_json(json.loads(text))
    assert type(again) is type(request_)
    assert again == request_
    assert again.id == request_.id
    assert again.key == request_.key
    assert again.facts() == request_.facts()
    assert again.choices() == request_.choices()


@each
def test_a_request_is_data_that_can_be_copied(request_: ApprovalRequest) -> None:
    one: Any = ApprovalRequest.from_json(request_.to_json())
    assert copy.deepcopy(one) == one
    assert json.loads(json.dumps(dataclasses.asdict(one), default=str))["server"] == "files"


TEAM = ("team", ("ana", 1))


@pytest.mark.parametrize(
    "made", [call(context=TEAM), skill(context=TEAM), sampling(call=call(context=TEAM))]
)
def test_the_json_of_a_request_is_plain_whatever_its_context_is(made: ApprovalRequest) -> None:
    as_json = made.to_json()
    assert as_json["context"] == ["team", ["ana", 1]]
    assert json.loads(json.dumps(as_json)) == as_json
    assert ApprovalRequest.from_json(as_json) == made


@each
@pytest.mark.parametrize(
    "change",
    [
        {"kind": "other"},
        {"kind": None},
        {"server": "bank"},
        {"server": 3},
        {"key": "sha256:0"},
        {"findings": None},
        {"id": None},
        {"context": {"a": 1}},
    ],
)
def test_what_is_not_a_request_is_one_error(
    request_: ApprovalRequest, change: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"request|member|context|key"):
        ApprovalRequest.from_json({**request_.to_json(), **change})
    junk: Any
    for junk in (None, [], "x", {}, {"kind": "call"}):
        with pytest.raises(ValueError, match="not a request"):
            ApprovalRequest.from_json(junk)


def test_a_context_that_cannot_be_stored_has_no_json() -> None:
    with pytest.raises(ConfigError, match="text, a number"):
        call(context=object()).to_json()


def test_no_two_kinds_have_one_key() -> None:
    keys = {one.key for one in REQUESTS}
    assert len(keys) == len(REQUESTS)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (call(), call(context="bo")),
        (call(), call(origin="app")),
        (skill(), skill(context=None)),
        (skill(), skill(server="bank")),
        (skill(), skill(digest=f"sha256:{'2' * 64}")),
        (start(), start(fingerprint="sha256:2")),
        (start(), start(path=Path("/srv/other/.mcp.json"))),
        (start(), start(server="bank")),
        (sampling(), sampling(call=None)),
        (sampling(), sampling(call=call(context="bo"))),
        (sampling(), replace(sampling(), raw={"messages": [PROMPT], "maxTokens": 1})),
    ],
)
def test_another_request_has_another_key(one: ApprovalRequest, other: ApprovalRequest) -> None:
    assert one.key != other.key


@each
def test_the_same_request_made_again_has_the_same_key(request_: ApprovalRequest) -> None:
    make = MAKERS[REQUESTS.index(request_)]
    assert make().key == request_.key


@each
def test_the_facts_state_what_decides_it_and_not_the_context(request_: ApprovalRequest) -> None:
    facts = request_.facts()
    kinds = [fact.kind for fact in facts]
    assert facts[0].text == "files"
    assert kinds[0] == "server"
    assert "subject" in kinds
    displayed = [fact.text for fact in facts if fact.kind == "finding"]
    assert displayed == list(map(str, request_.findings))
    assert not any("ana" in fact.text for fact in facts)
    for fact in facts:
        assert not fact.is_json or json.loads(fact.text)


def test_the_facts_of_a_call_are_all_that_a_person_must_see() -> None:
    reported = {fact.kind: fact.text for fact in call(origin="app").facts()}
    assert reported["subject"] == "delete"
    assert "view" in reported["origin"]
    assert reported["title"] == "Delete"
    assert reported["description"] == "Deletes a file"
    assert reported["destructive"] == "yes (assumed, not stated by a trusted server)"
    assert reported["meta"] == '{"trace":"1"}'
    assert reported["arguments"] == '{"force":true,"path":"/tmp/x"}'


def test_the_command_of_a_start_is_the_last_fact() -> None:
    request = start(env_names=tuple(f"NAME_{number}" for number in range(60)))
    assert request.facts()[-1].text == "npx -y 'a b'"
    assert start(command=None, url="https://e.com/mcp").facts()[-1].text == "https://e.com/mcp"


def test_the_facts_of_sampling_have_every_message_and_the_whole_request() -> None:
    reported = {fact.kind: fact.text for fact in sampling().facts()}
    assert reported["message"] == "What is the capital of Norway?"
    assert reported["system_prompt"] == "Be brief"
    assert reported["call"] == "delete"
    assert json.loads(reported["request"])["maxTokens"] == 100


def test_how_far_an_approval_goes_depends_on_the_kind() -> None:
    assert call().choices() == ("once", "session", "hour", "always", "exact")
    assert skill().choices() == ("once", "session", "hour", "always")
    assert skill(digest=None, files=(), size=None).choices() == ("once",)
    assert start().choices() == ("once", "always")
    assert sampling().choices() == ("once", "session")
    for one in REQUESTS:
        for name in one.choices():
            assert one.coverage(CHOICES[name].remember)


@each
def test_what_only_calls_have_is_an_error_that_names_where_to_look(
    request_: ApprovalRequest,
) -> None:
    if request_.kind == "call":
        return
    for name in ("tool", "arguments"):
        with pytest.raises(AttributeError, match=r"use request\.kind"):
            getattr(request_, name)


@pytest.mark.parametrize("request_", REQUESTS[1:], ids=[one.kind for one in REQUESTS[1:]])
def test_an_approval_that_goes_further_than_the_kind_allows_is_not_stored(
    request_: ApprovalRequest,
) -> None:
    assert request_.why_not_remembered(Remember("call")) is None
    assert request_.why_not_remembered(Remember("script")) == (
        f"an approval of a {request_.kind} is not for 'script'"
    )
    where = request_.why_not_remembered(Remember("session", where={"/a": {"equals": 1}}))
    assert where is not None
    assert "has no arguments" in where


def test_an_approval_of_dynamic_content_is_for_once() -> None:
    dynamic = skill(digest=None, files=(), size=None)
    assert dynamic.why_not_remembered(Remember("session")) == "its content is dynamic"
    assert dynamic.why_not_remembered(Remember("call")) is None
    assert skill().why_not_remembered(Remember("session")) is None


def test_what_is_asked_about_a_start_states_what_happens() -> None:
    assert "program" in start().asks
    assert start(command=None, url="https://e.com/mcp").asks == "May this server be connected to?"
    assert "sandbox" in start(confined=("reads /srv",)).asks


def test_the_prompt_of_each_kind_names_what_an_approval_does() -> None:
    prompts = [one.prompt for one in REQUESTS]
    assert prompts == ["Run it?", "Load it?", "Start it?", "Ask the model?"]
    assert start(command=None, url="https://e.com/mcp").prompt == "Connect?"


def test_sampling_that_was_made_by_hand_comes_back_as_it_was() -> None:
    made = replace(sampling(), raw={})
    reported = {fact.kind: fact.text for fact in made.facts()}
    assert json.loads(reported["request"]) == {
        "messages": [PROMPT],
        "maxTokens": 100,
        "systemPrompt": "Be brief",
        "modelPreferences": {"hints": [{"name": "opus"}, {"name": "haiku"}]},
    }
    again = ApprovalRequest.from_json(json.loads(json.dumps(made.to_json())))
    assert (again.key, again.facts()) == (made.key, made.facts())


def test_sampling_for_anything_but_a_call_is_not_read() -> None:
    with pytest.raises(ValueError, match="not a tool call"):
        ApprovalRequest.from_json({**sampling().to_json(), "call": start().to_json()})


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        ("<!channel> <@U1> @everyone", "<>@"),
        ("<https://evil.example|Click> [good](https://evil.example)", "<>|["),
        ("see www.evil or WWW.EVIL/x", "."),
        ("*bold* _odd_ ~gone~ `code` ||hidden|| # big &lt; \\*", "*~`|#&\\"),
    ],
)
def test_a_fact_is_plain_text_in_any_chat(text: str, signs: str) -> None:
    fact = Fact("It says", text, "description")
    displayed = fact.safe()
    assert not set(signs) & set(displayed)
    assert "://" not in displayed
    assert "_odd_" not in displayed
    assert unicodedata.normalize("NFKC", displayed) == fact.text


def test_a_fact_in_a_chat_is_one_bounded_line_without_what_no_one_sees() -> None:
    fact = Fact("It says", "get_weather\nServer: mine\u202e" + "x" * 50, "description")
    displayed = "get_weather Server: mine\\u{202e}"
    assert fact.safe(25) == f"{displayed}… (50 more characters)"
    assert fact.safe() == f"{displayed}{'x' * 50}"
