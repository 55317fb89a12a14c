"""The list of what waits: its rows, order and filters, and several decided with eyes open."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from mcp_client import Allow, ApprovalQueue, ApprovalRequest, Deny, Finding, ToolCall
from mcp_client.approval.queue import PendingApproval
from mcp_client.approval.script import Script
from mcp_client.desk.card import card
from mcp_client.desk.inbox import MAX_ROWS
from mcp_client.desk.subject import MANY, gist, is_destructive
from tests.desk_page.site import PEOPLE, Person, Seen, Site, a_site, sampling_of, start_of
from tests.support.skills import request_of

SCHEMA = {
    "type": "object",
    "properties": {
        "mode": {"type": "string"},
        "path": {"type": "string", "title": "Path of the file"},
        "force": {"type": "boolean"},
    },
    "required": ["path"],
}
DELETE = ToolCall.example(
    {"name": "delete_file", "inputSchema": SCHEMA},
    {"force": True, "mode": "all", "path": "/srv/a.txt"},
    server="files",
    destructive=True,
    context="ana",
)
ODD = ToolCall.example("send", {"to": "bo"}, server="mail", findings=[Finding("odd_name", "odd")])


def weather(n: int, **members: Any) -> ToolCall:
    return ToolCall.example("get_weather", {"location": f"town {n}"}, server="sky", **members)


def rows(page: str) -> list[str]:
    """The text of each row of the list."""
    found = re.findall(r'<li class="row.*?</li>', page, re.DOTALL)
    return [" ".join(Seen(one).text.split()) for one in found]


async def listed(person: Person, query: str = "") -> list[str]:
    return rows((await person.get(query)).text)


# -------------------------------------------------------------------------- the list


async def test_a_row_states_what_is_asked_of_whom_for_whom_since_when() -> None:
    async with a_site(show_context=True) as site, site.person() as ana:
        await site.ask(DELETE)
        (row,) = await listed(ana)
    assert re.fullmatch(
        r"Select delete_file files path: /srv/a.txt, mode: all, force: true destructive ana "
        r"(now|\d+s ago)",
        row,
    )


async def test_what_needs_a_look_comes_first_then_server_and_tool_then_the_oldest() -> None:
    calls = [weather(1), ToolCall.example("b", server="a"), DELETE, weather(2), ODD]
    async with a_site() as site, site.person() as ana:
        await site.ask(*calls)
        page = (await ana.get()).text
    displayed = [row.split()[1] for row in rows(page)]
    assert displayed == ["send", "delete_file", "b", "location:", "location:"], (
        "a group is named once"
    )
    assert "get_weather on sky (2)" in Seen(page).text
    assert "delete_file on files (1)" not in Seen(page).text, "a group has at least two"


async def test_rows_of_a_group_begin_with_what_distinguishes_them() -> None:
    calls = [
        ToolCall.example("merge", {"merge_method": "squash", "number": n, "repo": "a/b"})
        for n in range(3)
    ]
    async with a_site() as site, site.person() as ana:
        await site.ask(*calls)
        displayed = await listed(ana)
    for n, row in enumerate(displayed):
        assert row.startswith(f"Select number: {n}, merge_method: squash, repo: a/b"), row


async def test_two_groups_of_one_tool_show_why_they_are_two() -> None:
    noted = [replace(weather(n), findings=(Finding("odd_name", "odd"),)) for n in range(2)]
    async with a_site() as site, site.person() as ana:
        await site.ask(*noted, weather(5), weather(6))
        text = Seen((await ana.get()).text).text
    assert "get_weather on sky (2), with notes" in text
    assert "get_weather on sky (2), without notes" in text


async def test_starts_skills_and_uses_of_the_model_are_in_the_same_list() -> None:
    async with a_site() as site, site.person() as ana:
        await site.ask(start_of(), request_of(), sampling_of("Write a haiku."))
        displayed = " ".join(await listed(ana))
    for text in ("Start of sky", "npx -y", "Skill pdf docs skill://", "Model for poet Write a"):
        assert text in displayed, text


@pytest.mark.parametrize(
    ("call", "displayed"),
    [
        (DELETE, "path: /srv/a.txt, mode: all, force: true"),
        (ToolCall.example("t", {"n": 5, "deep": {"a": 1}}), 'deep: {"a": 1}, n: 5'),
        (ToolCall.example("t", {"n": 5, "text": "a\n b"}), 'text: "a\\n b", n: 5'),
        (ToolCall.example("t", {"n": [1, 2]}), "n: [1, 2]"),
        (ToolCall.example("t", {"n": "1", "m": "true"}), 'm: "true", n: "1"'),
        (ToolCall.example("t", {"n": "a, m: b"}), 'n: "a, m: b"'),
        (ToolCall.example("t", {"a: b, c": " "}), '"a: b, c": " "'),
        (ToolCall.example("t", {"n": {"deep": ["x" * 500]}}), f'n: {{"deep": ["{"x" * 386}…'),
        (ToolCall.example("t"), ""),
        (ToolCall.example({"name": "t", "inputSchema": {"required": "n"}}, {"n": True}), "n: true"),
        (
            ToolCall.example({"name": "t", "inputSchema": {"required": [[]]}}, {"n": "x" * 999}),
            f"n: {'x' * 397}…",
        ),
    ],
)
def test_a_row_shows_all_arguments_and_none_passes_for_another(
    call: ToolCall, displayed: str
) -> None:
    assert gist(call) == displayed


@pytest.mark.parametrize(
    ("hints", "known"),
    [
        ({}, False),
        ({"idempotent": True}, False),
        ({"destructive": True, "trusted": False}, False),
        ({"destructive": True}, True),
        ({"read_only": False}, True),
        ({"read_only": True}, False),
        ({"read_only": True, "destructive": True}, True),
    ],
)
def test_only_what_is_known_to_be_destructive_is_marked(hints: Any, known: bool) -> None:
    assert is_destructive(ToolCall.example("t", **hints)) is known


async def test_the_first_is_open_and_any_other_can_be_without_a_script() -> None:
    async with a_site() as site, site.person() as ana:
        one, two = await site.ask(weather(1), weather(2))
        for query, id in (("", one), (f"?open={two}", two), ("?open=unknown", one)):
            page = (await ana.get(query)).text
            assert re.findall(r'<article class="call" id="call-([^"]+)"', page) == [id]
            current = [line for line in Seen(page).tags("a") if line.get("aria-current")]
            assert [line["id"] for line in current] == [f"line-{id}"]
            assert ("It is not pending any more" in page) is (query == "?open=unknown")
        assert (await ana.decide(two)).status_code == 200
        assert "It was decided already, by Ana." in (await ana.get(f"?open={two}")).text


async def test_filters_choose_by_server_tool_person_and_word_and_last() -> None:
    calls = [DELETE, *(weather(n, context="bo") for n in range(3)), request_of()]
    async with a_site(show_context=True) as site, site.person() as ana:
        ids = await site.ask(*calls)
        for query, count in (
            *(("server=sky", 3), ("tool=delete_file", 1), ("tool=Skills", 1), ("person=bo", 3)),
            *(("q=TOWN+1", 1), ("q=nothing", 0), ("server=sky&tool=delete_file", 0)),
        ):
            assert len(await listed(ana, f"?{query}")) == count, query
        page = (await ana.get("?q=nothing")).text
        assert "No pending request matches this filter. Show all that waits" in Seen(page).text
        page = (await ana.get("?server=sky&q=town")).text
        links = [str(one["href"]) for one in Seen(page).tags("a") if one.get("class") == "line"]
        assert links[1] == f"?server=sky&q=town&open={ids[2]}#open"
        (form,) = [one for one in Seen(page).tags("form") if one.get("class") == "answer"]
        assert form["action"] == "decide?server=sky&q=town"
        done = await ana.client.post(
            "decide?server=sky&q=town&evil=x",
            data={"token": await ana.token(), "ids": ids[1], "answer": "deny"},
        )
        assert done.headers["location"] == "./?server=sky&q=town"


async def test_whose_calls_they_are_is_not_a_filter_where_it_is_not_shown() -> None:
    async with a_site() as site, site.person() as ana:
        await site.ask(DELETE, weather(1, context="bo"))
        assert await listed(ana, "?person=ana") == []
        assert await listed(ana, "?q=ana") == []
        assert "Person" not in (await ana.get()).text


async def test_a_hostile_name_can_be_filtered_by_and_is_text() -> None:
    name = '\u202e"><script>'
    async with a_site() as site, site.person() as ana:
        await site.ask(ToolCall.example({"name": name}, server="evil"), weather(1))
        page = (await ana.get()).text
        values = [str(one["value"]) for one in Seen(page).tags("option") if one.get("value")]
        (displayed,) = [value for value in values if "script" in value]
        assert displayed == '\\u{202e}"><script>'
        response = await ana.client.get("", params={"tool": displayed})
        assert len(rows(response.text)) == 1


async def test_a_page_of_the_list_is_bounded_and_leads_to_the_others() -> None:
    async with a_site() as site, site.person() as ana:
        ids = await site.ask(*(weather(n) for n in range(MAX_ROWS + 20)))
        first, second = (await ana.get()).text, (await ana.get(f"?skip={MAX_ROWS}")).text
        assert [len(rows(page)) for page in (first, second)] == [MAX_ROWS, 20]
        assert f'href="./?skip={MAX_ROWS}" id="others-next"' in first
        assert "These are 201 to 220 of 220 requests that wait." in Seen(second).text
        assert f'id="call-{ids[MAX_ROWS]}"' in second
        assert len(Seen((await ana.get(f"calls?ids={','.join(ids)}")).text).tags("article")) == 20
        assert "This page of the list is empty" in (await ana.get("?skip=999")).text
        assert (await ana.get("?skip=-1")).status_code == 400


@pytest.mark.slow
async def test_a_thousand_requests_take_a_bounded_page() -> None:
    text = "x" * 2_000
    async with a_site() as site, site.person() as ana:
        await site.ask(*(ToolCall.example(f"tool_{n}", {"t": text}) for n in range(1_000)))
        page = (await ana.get()).text
        assert len(page) < 350_000
        assert len(Seen(page).elements) < 4_500
        assert len(json.dumps([one.id for one in site.queue.pending])) < 40_000, "an event"


# ------------------------------------------------------------------------- the card


def displayed_of(call: ApprovalRequest) -> str:
    return Seen(card(PendingApproval("1", call, 0.0, None), "token")).text


def test_arguments_are_in_the_order_of_the_schema_with_its_titles() -> None:
    text = displayed_of(DELETE)
    places = [text.index(one) for one in ('"mode"', "Path of the file", '"path"', '"force"')]
    assert places == sorted(places)
    assert "Arguments, under the server's titles" in text
    assert "titles" not in displayed_of(weather(1))


@pytest.mark.parametrize("properties", [5, {"path": 5}, {"path": {"title": {}}}, {"path": None}])
def test_a_schema_without_usable_members_orders_nothing(properties: Any) -> None:
    call = ToolCall.example(
        {"name": "t", "inputSchema": {"type": "object", "properties": properties}}, {"path": "/a"}
    )
    assert '"path": "/a"' in displayed_of(call)
    assert gist(call) == "path: /a"


def test_no_text_passes_for_a_member_with_a_title() -> None:
    nested = {"mode": {"path": "x"}, "text": 'a\n  "path": ', "long": "y" * 5_000 + '\n  "path": 1'}
    call = ToolCall.example({"name": "t", "inputSchema": SCHEMA}, nested)
    assert "Path of the file" not in displayed_of(call)


def hints_of(markup: str) -> dict[str, str]:
    found = re.findall(r"<dt>([^<]*)</dt><dd>(?:<strong>)?(yes|no)<", markup)
    return dict(found)


@pytest.mark.parametrize(
    "hints",
    [{}, {"destructive": True}, {"read_only": True}, {"read_only": True, "destructive": True}],
)
def test_the_page_shows_the_fact_of_a_hint_and_why_it_is_assumed_once(hints: Any) -> None:
    call = ToolCall.example("t", **hints)
    facts = {fact.label: fact for fact in call.facts() if fact.source is not None}
    assert len(facts) == 4
    assert {fact.source for fact in facts.values()} <= {"server", "assumed", "contradiction"}
    assert all(fact.text.startswith(f"{fact.value} (") for fact in facts.values())
    markup = card(PendingApproval("1", call, 0.0, None), "token")
    assert hints_of(markup) == {label: fact.value for label, fact in facts.items()}
    assert markup.count("assumed, not stated by a trusted server") <= 1
    known = [fact for fact in facts.values() if fact.source != "assumed"]
    risks = {"read_only": "no", "destructive": "yes", "idempotent": "no", "open_world": "yes"}
    risky = [fact for fact in known if fact.value == risks[fact.kind]]
    assert markup.count('class="risky"') == len(risky)


def test_what_the_server_claims_is_reported_to_be_the_servers() -> None:
    call = ToolCall.example({"name": "t", "title": "Nice tool", "description": "It is safe."})
    text = displayed_of(call)
    assert "Its titleNice tool" in text
    assert "It saysIt is safe." in text


def test_prose_from_right_to_left_runs_so_and_is_noted_once() -> None:
    call = ToolCall.example(
        {"name": "t", "title": "דבר", "description": "דבר\nדבר"}, {"text": "דבר"}
    )
    markup = card(PendingApproval("1", call, 0.0, None), "token")
    assert markup.count("run right to left") == 1
    assert '<span class="l" dir="auto">דבר</span>' in markup
    assert "run right to left" not in displayed_of(weather(1))


def test_only_a_text_that_scrolls_is_a_stop_for_the_keyboard() -> None:
    assert 'tabindex="0"' not in card(PendingApproval("1", DELETE, 0.0, None), "token")
    long = ToolCall.example("t", {"text": "\n" * 60})
    assert card(PendingApproval("1", long, 0.0, None), "token").count('tabindex="0"') == 1


async def test_all_of_a_request_can_be_read_and_decided_there() -> None:
    async with a_site() as site, site.person() as ana:
        (id,) = await site.ask(ODD)
        page = (await ana.get(f"call/{id}")).text
        assert f'href="../?open={id}#open"' in page
        for button in ("Allow", "Deny"):
            assert re.search(rf"<button[^>]*>{button}</button>", page)
        (form,) = Seen(page).tags("form")
        assert form["action"] == "../decide"
        assert (await ana.get(f"call/{id}?part=arguments")).text.count("<form") == 1


# ---------------------------------------------------------------------- several at once


async def proof(person: Person, id: str) -> str:
    found = re.search(r'data-opened="(\w+)"', (await person.get(f"calls?ids={id}")).text)
    assert found
    return found[1]


async def in_rows(person: Person) -> list[str]:
    """What the rows of the list send along with the form for several."""
    inputs = Seen((await person.get()).text).tags("input")
    return [
        str(one["value"])
        for one in inputs
        if one.get("form") == "batch" and one["name"] == "opened"
    ]


LONG = {"database": "billing", "statement": "DROP TABLE invoices;" * 30}


@pytest.mark.parametrize(
    "call",
    [
        ODD,
        start_of(),
        ToolCall.example("sql", LONG),
        ToolCall.example("sql", LONG, read_only=True),
        ToolCall.example("t", {"to": "\u05d3\u05d1\u05e8, a"}),
    ],
    ids=["finding", "start", "long", "long of a trusted server", "right to left"],
)
async def test_what_no_row_shows_is_allowed_with_others_only_after_it_was_opened(
    call: ApprovalRequest,
) -> None:
    async with a_site() as site, site.person() as ana, site.person("bo-session") as bo:
        ordinary, other = await site.ask(weather(1), call)
        of_rows = await in_rows(ana)
        assert len(of_rows) == 1
        of_another, of_bo = await proof(ana, ordinary), await proof(bo, other)
        for opened in ("", of_another, of_bo, "é"):
            refused = await ana.decide(ordinary, other, opened=[*of_rows, opened])
            assert (refused.status_code, refused.json()["unopened"]) == (422, [other])
        assert len(site.queue.pending) == 2
        opened = await proof(ana, other)
        assert (await ana.decide(ordinary, other, opened=[*of_rows, opened])).is_success
    assert all(isinstance(response, Allow) for response in site.answers.values())


async def test_what_was_in_full_in_its_row_is_allowed_with_others_for_any_trust() -> None:
    async with a_site() as site, site.person() as ana, site.person("bo-session") as bo:
        drop = ToolCall.example("execute_sql", {"statement": "DROP TABLE a"}, trusted=False)
        ids = await site.ask(weather(1), DELETE, drop)
        for proofs in ([], await in_rows(bo)):
            refused = await ana.decide(*ids, opened=proofs)
            assert refused.json()["unopened"] == ids, "no one saw them in these rows"
        assert (await ana.decide(*ids, opened=await in_rows(ana))).is_success


async def test_the_token_of_a_crafted_name_is_not_proof_of_opening(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_site() as site, site.person() as ana, site.person("odd-session") as odd:
        ordinary, other = await site.ask(weather(1), DELETE)
        monkeypatch.setitem(PEOPLE, "odd-session", json.dumps(["opened", "Ana", other]))
        refused = await ana.decide(ordinary, other, opened=await odd.token())
        assert (refused.status_code, refused.json()["unopened"]) == (422, [ordinary, other])


async def test_the_form_for_several_takes_not_even_one_along_that_was_not_opened() -> None:
    async with a_site() as site, site.person() as ana:
        (id,) = await site.ask(DELETE)
        html = {"Accept": "text/html"}
        refused = await ana.decide(id, several="yes", headers=html)
        assert refused.status_code == 422
        assert "Nothing was decided." in refused.text
        assert f'<a href="./?open={id}#open">' in refused.text
        assert (await ana.decide(id, several="yes", answer="deny")).is_success
    assert isinstance(site.answers["delete_file"], Deny)


def fields_in(markup: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for one in Seen(markup).tags("input"):
        fields.setdefault(str(one["name"]), []).append(one["value"])
    return fields


async def many(site: Site, count: int = MANY + 2) -> list[str]:
    return await site.ask(*(weather(n) for n in range(count - 1)), ToolCall.example("t"))


@pytest.mark.parametrize("response", ["allow", "deny"])
async def test_more_than_ten_are_asked_about_once_with_a_summary(response: str) -> None:
    async with a_site() as site, site.person() as ana:
        ids = await many(site)
        asked = await ana.decide(
            *ids,
            answer=response,
            reason="so",
            opened=await in_rows(ana),
            headers={"Accept": "text/html"},
        )
        assert asked.status_code == 422
        assert len(site.queue.pending) == len(ids)
        text = Seen(asked.text).text
        assert f"{response.capitalize()} 12 requests?" in text
        assert "get_weather on sky: 11" in text
        assert "t on example: 1" in text
        fields = fields_in(asked.text)
        done = await ana.client.post("decide", data={**fields, "answer": response})
        assert done.status_code == 303
        assert site.queue.pending == ()
        assert {one.answer.reason for one in site.queue.decided} == {"so"}


async def test_a_script_gets_the_question_as_markup() -> None:
    async with a_site() as site, site.person() as ana:
        ids = await many(site)
        opened = await in_rows(ana)
        asked = (await ana.decide(*ids, opened=opened)).json()
        assert "Allow 12 requests" in asked["question"]
        confirmed = fields_in(asked["question"])["confirmed"][0]
        assert (await ana.decide(*ids, opened=opened, confirmed=confirmed)).is_success


async def test_an_approval_of_the_question_is_for_its_requests_decision_and_person() -> None:
    async with a_site() as site, site.person() as ana, site.person("bo-session") as bo:
        ids = await many(site, MANY + 3)
        opened = {ana: await in_rows(ana), bo: await in_rows(bo)}
        question = (await ana.decide(*ids[:-1], opened=opened[ana])).json()["question"]
        confirmed = fields_in(question)["confirmed"][0]
        for person, some, response in (
            (ana, ids, "allow"),
            (ana, ids[1:], "allow"),
            (ana, ids[:-1], "deny"),
            (bo, ids[:-1], "allow"),
        ):
            again = await person.decide(
                *some, answer=response, opened=opened[person], confirmed=confirmed
            )
            assert again.status_code == 422
            assert "question" in again.json()
        assert len(site.queue.pending) == len(ids)
        assert (await ana.decide(*ids[:MANY], opened=opened[ana])).is_success, (
            "ten need no question"
        )


async def test_of_many_an_unknown_one_means_that_none_is_decided() -> None:
    async with a_site() as site, site.person() as ana:
        ids = await many(site)
        opened = await in_rows(ana)
        asked = (await ana.decide(*ids, opened=opened)).json()["question"]
        confirmed = fields_in(asked)["confirmed"][0]
        await ana.decide(ids[0])
        late = await ana.decide(*ids, opened=opened, confirmed=confirmed)
        assert (late.status_code, late.json()["gone"]) == (409, [ids[0]])
        assert len(site.queue.pending) == len(ids) - 1


def test_a_summary_of_very_many_tools_is_bounded() -> None:
    from mcp_client.desk.subject import Signer, question

    pending = [PendingApproval(str(n), ToolCall.example(f"t{n}"), 0.0, None) for n in range(90)]
    displayed = question(Signer(b"x" * 32), "Ana", {"answer": ["allow"]}, pending)
    assert displayed is not None
    assert displayed.count("<li>") == 21
    assert "and 70 others" in displayed


# --------------------------------------------------------------------------- its states


async def test_refusals_have_the_face_of_the_page_and_state_where_to_go() -> None:
    async with a_site() as site, site.person() as ana, site.person(None) as stranger:
        await site.ask(replace(DELETE))
        for person, path, back in (
            (stranger, "", "./"),
            (stranger, "call/x", "../"),
            (ana, "call/gone", "../"),
            (ana, "nothing", "./"),
        ):
            page = (await person.get(path)).text
            assert f'<a href="{back}">Back to the list</a>' in page, path
            assert "static/desk.css" in page
        assert "load this page again" in (await stranger.get()).text


async def test_an_empty_page_reports_it() -> None:
    async with a_site(ApprovalQueue()) as site, site.person() as ana:
        page = Seen((await ana.get()).text)
        assert "Nothing waits for you." in page.text
        assert not page.tags("article")


# ------------------------------------------------------------------------------ scripts


def test_a_call_of_a_script_shows_the_line_that_makes_it() -> None:
    code = "".join(f"x{n} = {n}\n" for n in range(200)) + "await sky.get_weather('<b>')\nend"
    call = weather(1, script=Script("run-1", code, calls=4, line=201))
    markup = card(PendingApproval("1", call, 0.0, None), "token")
    (marked,) = re.findall(r'<span class="l code calls">(.*?)</span>', markup)
    assert "await sky.get_weather(&#x27;&lt;b&gt;&#x27;)" in marked
    text = Seen(markup).text
    assert "x199 = 199" in text
    assert "x100 = 100" not in text
    assert "192 lines above" in text
    assert "Show all of it" in text
    assert len(markup) < 30_000


@pytest.mark.parametrize("line", [None, 0, 9_999])
def test_a_script_whose_calling_line_is_not_known_is_shown_from_its_beginning(
    line: int | None,
) -> None:
    call = weather(1, script=Script("run-1", "first\nsecond", line=line))
    assert "code calls" not in card(PendingApproval("1", call, 0.0, None), "token")
    assert "first" in displayed_of(call)
