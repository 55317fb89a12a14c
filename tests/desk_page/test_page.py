"""The approval page over HTTP, mounted in an application: who sees and decides what, and how."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import (
    Allow,
    ApprovalQueue,
    ApprovalRequest,
    ConfigError,
    Deny,
    Finding,
    MemoryServer,
    ToolCall,
    connect,
)
from mcp_client.approval import Remember, SamplingRequest
from mcp_client.approval.queue import PendingApproval
from mcp_client.catalog.drift import Drift
from mcp_client.desk import ApprovalPage
from mcp_client.desk.card import card, part, whole
from mcp_client.runtime.safe_text import invisible
from tests.desk_page.site import Seen, Site, a_site, authorize, sampling_of, start_of
from tests.support.properties import examples
from tests.support.skills import PDF, SkillServer, request_of

DELETE = ToolCall.example(
    {"name": "delete_file", "title": "Delete a file", "description": "Deletes it.\nFor good."},
    {"path": "/srv/a.txt", "force": True},
    server="files",
    read_only=False,
)
READ = ToolCall.example("read_file", {"path": "/srv/a.txt"}, server="files", context="bo")


async def until_answered(site: Site, *tools: str) -> None:
    with anyio.fail_after(30):
        while not set(tools) <= set(site.answers):
            await checkpoint()


# ------------------------------------------------------------------ what a person sees


async def test_a_person_sees_who_asks_for_what_and_what_is_known_of_it() -> None:
    async with a_site() as site, site.person() as ana:
        await site.ask(DELETE)
        seen = Seen((await ana.get()).text)
        for text in (
            "delete_file",
            "files",
            "Delete a file",
            "Deletes it.",
            "Ana",
            '"force": true',
        ):
            assert text in seen.text, text
        assert "the server's word, which you trust" in seen.text
        assert "assumed, not stated by a trusted server" in seen.text
        assert len(seen.tags("article")) == 1


async def test_controls_have_the_names_that_people_and_programs_look_for() -> None:
    async with a_site() as site, site.person() as ana:
        (id,) = await site.ask(DELETE)
        page = (await ana.get()).text
    for button in ("Allow", "Deny", "Edit", "Allow selected", "Deny selected"):
        assert re.search(rf"<button[^>]*>{button}</button>", page), button
    assert f'<label for="reason-{id}">Reason</label>' in page
    assert f'<label for="remember-{id}">If allowed, remember</label>' in page
    assert re.search(rf'<select id="remember-{id}"[^>]* aria-label="Remember"', page)
    assert re.search(
        rf'<label class="select" for="tick-{id}"><input[^>]*><span>Select</span>', page
    )


async def test_drift_is_shown_as_a_difference_from_the_pin() -> None:
    tool = replace(DELETE.tool, trusted=False)
    old = {"name": "delete_file", "description": "Reads it."}
    drift = Drift.of(tool, "changed", old)
    call = replace(DELETE, tool=tool, drift=drift, findings=drift.findings("mcp.lock"))
    async with a_site() as site, site.person() as ana:
        await site.ask(call)
        seen = Seen((await ana.get()).text)
    assert "this tool is not what it was when mcp.lock was written" in seen.text
    assert '-  "description": "Reads it.",' in seen.text
    assert '+  "description": "Deletes it.\\n' in seen.text


@pytest.mark.parametrize(
    ("text", "note"),
    [("ab\n" * 100_000, "lines further down are not compared"), ("ab " * 100_000, "characters)")],
    ids=["many-lines", "a-long-line"],
)
def test_a_definition_that_changed_takes_a_bounded_card_however_large_it_is(
    text: str, note: str
) -> None:
    old = {"name": "t", "description": f"{text}then", "inputSchema": {"type": "object"}}
    tool = ToolCall.example({**old, "description": f"now{text}"}).tool
    drift = Drift.of(tool, "changed", old)
    call = replace(DELETE, tool=tool, drift=drift, findings=drift.findings("mcp.lock"))
    displayed = card(PendingApproval("1", call, 0.0, None), "token")
    assert note in displayed
    assert len(displayed) < 60_000


async def test_whose_call_it_is_is_shown_only_if_the_host_sets_it() -> None:
    call = replace(READ, context=("tenant-7", "ana"))
    for show in (False, True):
        async with a_site(show_context=show) as site, site.person() as ana:
            (id,) = await site.ask(call)
            for path in ("", f"call/{id}", f"calls?ids={id}"):
                assert ("tenant-7" in (await ana.get(path)).text) is show


async def test_a_call_that_a_view_makes_is_shown_as_one() -> None:
    async with a_site() as site, site.person() as ana:
        for call, displayed in ((READ, False), (replace(READ, origin="app"), True)):
            (id,) = await site.ask(call)
            for path in (f"call/{id}", f"calls?ids={id}"):
                assert (
                    "own view (MCP App), not the host" in (await ana.get(path)).text
                ) is displayed
            card = (await ana.get(f"calls?ids={id}")).text
            assert ("made by its view, until the session ends" in card) is displayed


async def test_arguments_are_shown_in_full_however_large_they_are() -> None:
    text = "start" + "x" * 40_000 + "MIDDLE" + "y" * 40_000 + "end"
    call = ToolCall.example("write", {"text": text, "path": "/srv"})
    async with a_site() as site, site.person() as ana:
        (id,) = await site.ask(call)
        page = await ana.get()
        assert "Not all of it is shown here: 80," in page.text
        assert "MIDDLE" not in page.text
        assert len(page.text) < 40_000
        everything = Seen((await ana.get(f"call/{id}")).text)
        assert text in everything.text
        assert call.key in everything.text
        assert (await ana.get(f"draft/{id}")).json() == {"text": text, "path": "/srv"}


HUGE: dict[str, Any] = {
    "line-feeds": {"text": "\n" * 10_000},
    "backslashes-before-them": {"text": "\\\n" * 10_000},
    "hidden-characters": {"text": "\u202e" * 130_000},
    "quotes": {"text": "'<" * 120_000},
    "members": {"list": [0] * 10_000},
    "keys": {f"{n}\n{n}": "" for n in range(4_000)},
    "long-keys": {"\n" * 2_000 + str(n): 0 for n in range(10)},
    "depth": {"deep": json.loads("[" * 120 + "0" + ",0" * 10_000 + "]" * 120)},
}


@pytest.mark.parametrize("arguments", HUGE.values(), ids=HUGE)
def test_a_card_is_bounded_and_states_what_it_leaves_out(arguments: dict[str, Any]) -> None:
    pending = PendingApproval("1", ToolCall.example("write", arguments), 0.0, None)
    displayed = card(pending, "token")
    assert len(displayed) < 50_000
    assert "Not all of it is shown here" in displayed
    assert 'href="call/1"' in displayed


@pytest.mark.slow
def test_a_card_of_the_servers_text_is_bounded_too() -> None:
    definition = {"name": "t", "title": "\n" * 700, "description": "\u202e\n" * 50_000}
    findings = [Finding("odd_name", f"finding {n}") for n in range(10_000)]
    call = ToolCall.example(definition, findings=findings)
    displayed = card(PendingApproval("1", call, 0.0, None), "token")
    assert len(displayed) < 50_000
    assert f"{len(call.findings) - 30:,} more: show all of it" in displayed
    assert "more lines and 99,300 more characters" in displayed
    assert "finding 9999" in str(part(PendingApproval("1", call, 0.0, None), "finding", 8_000))


@pytest.mark.slow
@pytest.mark.parametrize("arguments", HUGE.values(), ids=HUGE)
async def test_all_of_a_large_call_can_be_read_in_parts_that_are_bounded(
    arguments: dict[str, Any],
) -> None:
    call = ToolCall.example("write", arguments)
    async with a_site() as site, site.person() as ana:
        (id,) = await site.ask(call)
        address, read, parts = f"call/{id}", "", 0
        while address:
            page = (await ana.get(address)).text
            assert len(page) < 1_100_000
            read += "".join(
                re.findall(r'<pre class="block"[^>]*"Arguments">(.*?)</pre>', page, re.S)
            )
            parts += 1
            following = re.search(r'href="([^"]+)">On from line', page)
            address = f"call/{html.unescape(following[1])}" if following else ""
    lines = re.findall(r'<span class="l(?: more)?">(.*?)</span>(?=<span class="l|$)', read, re.S)
    text = re.sub(r'<span class="escape">(.*?)</span>', r"\1", "".join(lines))
    text = re.sub(r"\\u\{([0-9a-f]+)\}", lambda char: chr(int(char[1], 16)), html.unescape(text))
    assert json.loads(text) == arguments
    assert parts > 1


async def test_a_part_that_is_not_there_is_refused() -> None:
    async with a_site() as site, site.person() as ana:
        (id,) = await site.ask(DELETE)
        for query, status in (
            *(("part=nothing", 404), ("part=meta", 404), ("part=arguments&from=-1", 400)),
            *(("part=arguments&from=1e3", 400), ("part=arguments&from=" + "9" * 5_000, 400)),
            ("part=arguments&from=99999", 200),
        ):
            assert (await ana.get(f"call/{id}?{query}")).status_code == status, query


async def test_what_was_decided_lately_states_by_whom_and_why() -> None:
    async with a_site() as site, site.person() as ana:
        one, two = await site.ask(DELETE, READ)
        assert (await ana.decide(one, answer="deny", reason="not <b>today</b>")).status_code == 200
        assert (await ana.decide(two, remember="session")).status_code == 200
        seen = Seen((await ana.get("decided")).text)
    assert re.search(
        "Denied delete_file on files by Ana, .*path: /srv/a.txt.*not <b>today</b>", seen.text
    )
    assert re.search(
        "Allowed read_file on files by Ana, .*remembered: Until the session ends.*path: /srv/a.txt",
        seen.text,
    )


async def test_a_past_decision_opens_for_those_who_may_see_it() -> None:
    def visible(person: str, request: ApprovalRequest) -> bool:
        return person == "Ana"

    big = ToolCall.example("write", {"text": "word " * 300})
    async with (
        a_site(visible=visible) as site,
        site.person() as ana,
        site.person("bo-session") as bo,
    ):
        (id,) = await site.ask(big)
        edited = '{"text": "shorter"}'
        assert (await ana.decide(id, arguments=edited, reason="so")).is_success
        await until_answered(site, "write")
        address = f"decided/{id}"
        assert f'href="{address}"' in (await ana.get()).text
        text = Seen((await ana.get(address)).text).text
        for displayed in ("Allowed by Ana", "word word", "shorter", "Destructive"):
            assert displayed in text, displayed
        assert (await bo.get(address)).status_code == 404
        assert (await ana.get("decided/none")).status_code == 404


async def test_a_reason_that_was_not_given_is_not_quoted() -> None:
    async with a_site() as site, site.person() as ana:
        (id,) = await site.ask(DELETE)
        await ana.decide(id, answer="deny", reason=" ")
        await until_answered(site, "delete_file")
        assert not Seen((await ana.get("decided")).text).tags("q")
    assert site.answers["delete_file"] == Deny(source="person", by="Ana")


# --------------------------------------------------------------------------- deciding


async def test_an_approval_and_a_denial_reach_their_calls_with_reason_and_name() -> None:
    async with a_site() as site, site.person() as ana, site.person("bo-session") as bo:
        one, two = await site.ask(DELETE, READ)
        assert (await ana.decide(one, answer="deny", reason=" not today ")).json() == {
            "decided": [one]
        }
        assert (await bo.decide(two)).status_code == 200
        await until_answered(site, "delete_file", "read_file")
    assert site.answers["delete_file"] == Deny("not today", source="person", by="Ana")
    assert site.answers["read_file"] == Allow(remember=Remember("call"), source="person", by="Bo")


@pytest.mark.parametrize(
    ("name", "remember"),
    [
        ("once", Remember("call")),
        ("session", Remember("session")),
        ("hour", Remember("session", seconds=3_600)),
        ("always", Remember("always")),
        ("exact", Remember("always", exact=True)),
    ],
)
async def test_a_decision_is_remembered_as_far_as_it_states(name: str, remember: Remember) -> None:
    async with a_site() as site, site.person() as ana:
        (id,) = await site.ask(DELETE)
        page = (await ana.get()).text
        (covers,) = re.findall(rf'value="{name}" data-covers="([^"]*)"', page)
        assert ("exactly these" in covers) is remember.exact
        await ana.decide(id, remember=name)
        await until_answered(site, "delete_file")
    response = site.answers["delete_file"]
    assert isinstance(response, Allow)
    assert response.remember == remember


async def test_edited_arguments_are_those_that_are_sent() -> None:
    async with a_site() as site, site.person() as ana:
        one, two = await site.ask(DELETE, READ)
        await ana.decide(one, arguments='{"path": "/srv/b.txt"}')
        await ana.decide(two, arguments=' {"path":\n"/srv/a.txt"} ')
        await until_answered(site, "delete_file", "read_file")
    edited, same = site.answers["delete_file"], site.answers["read_file"]
    assert isinstance(edited, Allow)
    assert isinstance(same, Allow)
    assert edited.arguments == {"path": "/srv/b.txt"}
    assert same.arguments is None, "nothing was changed"


async def test_an_edit_that_breaks_the_schema_is_reported_before_it_is_sent() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    sent: list[Any] = []

    def server(message: dict[str, Any]) -> Any:
        match message["method"]:
            case "tools/list":
                return {"tools": [{"name": "t", "inputSchema": schema}]}
            case "tools/call":
                sent.append(message["params"]["arguments"])
                return {"content": []}
        return NotImplemented

    async with (
        a_site() as site,
        site.person() as ana,
        connect(MemoryServer(server), approval=site.queue) as session,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(session.call_tool, "t", {"n": 1})
        with anyio.fail_after(30):
            while not site.queue.pending:
                await checkpoint()
            (first,) = site.queue.pending
            await ana.decide(first.id, arguments='{"n": "one"}')
            while [one.id for one in site.queue.pending] in ([], [first.id]):
                await checkpoint()
        (again,) = site.queue.pending
        page = Seen((await ana.get()).text).text
        assert "Your edit" in page
        assert "Look at this first" in page
        assert "the tool's input schema" in page
        assert sent == []
        facts = [fact for fact in again.request.facts() if fact.kind == "finding"]
        assert [fact.label for fact in facts] == ["Note"]
        await ana.decide(again.id)
    assert sent == [{"n": "one"}]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"arguments": "{"}, "line 1"),
        ({"arguments": "[]"}, "not a JSON object"),
        ({"arguments": '{"a": NaN}'}, "NaN"),
        ({"arguments": '{"a": 1, "a": 2}'}, "twice"),
        ({"arguments": '{"a": "\\ud800"}'}, "surrogate"),
        ({"arguments": '{"a": 1}', "remember": "session"}, "this call only"),
        ({"remember": "for ever"}, "remembered"),
        ({"answer": "perhaps"}, "Allow or Deny"),
    ],
)
async def test_a_decision_that_cannot_be_used_is_reported_and_decides_nothing(
    fields: dict[str, Any], expected: str
) -> None:
    async with a_site() as site, site.person() as ana:
        (id,) = await site.ask(DELETE)
        response = await ana.decide(id, **fields)
        assert response.status_code == 422
        assert expected in response.json()["error"]
        assert [one.id for one in site.queue.pending] == [id]


async def test_several_are_decided_at_once_or_none() -> None:
    async with a_site() as site, site.person() as ana:
        one, two = await site.ask(DELETE, READ)
        response = await ana.decide(one, "unknown", two)
        assert response.status_code == 409
        assert response.json()["gone"] == ["unknown"]
        assert len(site.queue.pending) == 2
        assert (await ana.decide(one, two, arguments="{}")).status_code == 422
        assert (await ana.decide()).status_code == 422
        assert (await ana.decide(one, two, answer="deny")).status_code == 200
        await until_answered(site, "delete_file", "read_file")


async def test_the_second_of_two_people_learns_who_was_first() -> None:
    async with a_site() as site, site.person() as ana, site.person("bo-session") as bo:
        (id,) = await site.ask(DELETE)
        assert (await ana.decide(id)).status_code == 200
        late = await bo.decide(id, answer="deny")
        assert late.status_code == 409
        assert late.json() == {"error": "It was decided already, by Ana.", "gone": [id]}
        await until_answered(site, "delete_file")
    assert isinstance(site.answers["delete_file"], Allow)


async def test_without_a_script_the_forms_work_and_lead_back_to_the_page() -> None:
    async with a_site() as site, site.person() as ana:
        (id,) = await site.ask(DELETE)
        done = await ana.decide(id, headers={"Accept": "text/html"})
        assert (done.status_code, done.headers["location"]) == (303, "./")
        again = await ana.decide(id, headers={"Accept": "text/html"})
        assert again.status_code == 409
        assert "decided already, by Ana" in again.text


# ----------------------------------------------------------------------------- live


async def test_a_stream_reports_what_is_pending_now_and_whenever_it_changes() -> None:
    async with a_site() as site, site.person() as ana, ana.stream() as events:
        first = await anext(events)
        assert first["ids"] == []
        (one,) = await site.ask(DELETE)
        assert (await anext(events))["ids"] == [one]
        assert f'id="call-{one}"' in (await ana.get(f"calls?ids={one},unknown")).text
        assert (await ana.decide(one, token=first["token"])).status_code == 200
        last = await anext(events)
        assert (last["ids"], last["decided"]) == ([], one)


class Brief(ApprovalPage):
    stream_seconds = 0.2


async def test_a_stream_ends_by_itself_and_comes_again() -> None:
    async with a_site(kind=Brief) as site, site.person() as ana:
        await site.ask(DELETE)
        for _ in range(2):
            async with ana.stream() as events:
                assert [len(event["ids"]) async for event in events] == [1]
    assert not site.queue._notifier._waiting
    assert ApprovalPage.stream_seconds < 15


async def test_it_runs_in_the_event_loop_of_any_server() -> None:
    """These tests serve it with uvicorn, on asyncio; here it is on trio, too."""
    queue, sent = ApprovalQueue(), bytearray()
    page = Brief(queue, authorize=lambda scope: "Ana")

    async def send(message: Any) -> None:
        sent.extend(message.get("body", b""))

    async def receive() -> dict[str, Any]:
        await anyio.sleep_forever()
        return {}

    scope = {"type": "http", "method": "GET", "path": "/changes", "headers": []}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(queue, DELETE)
        while not queue.pending:
            await checkpoint()
        with anyio.fail_after(60):
            await page({**scope, "query_string": b""}, receive, send)
        (pending,) = queue.pending
        assert sent.count(b"data: ") == 1
        assert pending.id.encode() in sent
        async with httpx.AsyncClient(transport=httpx.ASGITransport(page)) as client:
            displayed = (await client.get("http://page/")).text
            found = re.search(r'name="token" value="(\w+)"', displayed)
            assert found
            form = {"token": found[1], "ids": pending.id, "answer": "allow"}
            assert (await client.post("http://page/decide", data=form)).status_code == 303
    assert queue.pending == ()


async def test_a_stream_whose_reader_disconnects_leaves_nothing_behind() -> None:
    async with a_site() as site, site.person() as ana:
        async with ana.stream() as events:
            await anext(events)
        with anyio.fail_after(60):
            while site.queue._notifier._waiting:
                await checkpoint()


async def test_the_page_shows_what_waits_in_a_store(tmp_path: Path) -> None:
    file = tmp_path / "tickets.json"
    asking = ApprovalQueue(decisions=file, wait=0)
    async with a_site(ApprovalQueue(decisions=file)) as site, site.person() as ana:
        with pytest.raises(Exception, match="ticket") as caught:
            await asking(DELETE)
        ticket = caught.value.ticket  # type: ignore[attr-defined]
        assert f'id="call-{ticket}"' in (await ana.get()).text
        async with ana.stream() as events:
            assert (await anext(events))["ids"] == [ticket]
        assert (await ana.decide(ticket)).status_code == 200
        assert (await ana.decide(ticket)).status_code == 409
    response = await asking(DELETE)
    assert (type(response), response.by) == (Allow, "Ana")


@pytest.mark.parametrize("shared", [True, False])
async def test_a_form_of_one_worker_is_taken_by_another_where_they_share_the_decisions(
    shared: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queues = [ApprovalQueue(), ApprovalQueue()]
    if shared:
        queues = [ApprovalQueue(decisions=tmp_path / "decisions.json") for _ in range(2)]
    async with (
        a_site(queues[0]) as one,
        a_site(queues[1]) as other,
        one.person() as here,
        other.person() as there,
    ):
        (id,) = await other.ask(DELETE)
        token = await here.token()
        for _ in range(2):
            response = await there.decide(id, token=token)
        assert response.status_code == (409 if shared else 403)
        if not shared:
            await there.decide(id)
    warned = [one for one in caplog.records if "several processes that serve" in one.getMessage()]
    assert len(warned) == (0 if shared else 1)


# ------------------------------------------------------------------------- who may


EVERYTHING = ("", "changes", "calls?ids=x", "decided", "call/x", "draft/x", "static/desk.js")


@pytest.mark.parametrize("session", [None, "nobody's"])
async def test_who_is_not_logged_in_gets_nothing(session: str | None) -> None:
    async with a_site() as site, site.person(session) as stranger, site.person() as ana:
        (id,) = await site.ask(DELETE)
        for path in EVERYTHING:
            response = await stranger.get(path)
            assert response.status_code == 403
            assert "delete_file" not in response.text
        token = await ana.token()
        assert (await stranger.decide(id, token=token)).status_code == 403
        assert len(site.queue.pending) == 1


def raising(scope: Any) -> str:
    raise RuntimeError("the database is away")


@pytest.mark.parametrize(
    "who", [raising, lambda scope: "", lambda scope: True, lambda scope: None, lambda scope: 5]
)
async def test_anything_but_a_name_is_refused(who: Any) -> None:
    async with a_site(authorize=who) as site, site.person() as ana:
        assert (await ana.get()).status_code == 403


@pytest.mark.parametrize("name", ["x" * 201, "\u202e" * 26], ids=["long", "long-as-it-is-shown"])
async def test_two_people_are_never_one_because_their_names_are_long(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_site(authorize=lambda scope: name) as site, site.person() as ana:
        await site.ask(DELETE)
        response = await ana.get()
    assert response.status_code == 403
    assert "too long" in response.text
    assert "characters; give one of at most 200" in caplog.text


async def test_visible_receives_a_person_by_the_name_that_authorize_gave() -> None:
    name, received = "ana\u200b", set[str]()

    def visible(person: str, call: ToolCall) -> bool:
        received.add(person)
        return True

    async with a_site(authorize=lambda scope: name, visible=visible) as site, site.person() as ana:
        (id,) = await site.ask(DELETE)
        assert "ana\\u{200b}" in (await ana.get()).text
        assert (await ana.decide(id)).status_code == 200
        await until_answered(site, "delete_file")
    assert received == {name}
    assert site.answers["delete_file"].by == "ana\\u{200b}"


async def test_what_authorize_should_have_returned_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_site(authorize=lambda scope: True) as site, site.person() as ana:
        for _ in range(3):
            assert (await ana.get()).status_code == 403
    wanted = "authorize() returned a bool, so the request is refused: it must return the name"
    assert [wanted in one.getMessage() for one in caplog.records].count(True) == 1


async def test_authorize_may_be_a_plain_function_and_is_asked_for_each_request() -> None:
    asked: list[str] = []

    def who(scope: Any) -> str | None:
        asked.append(scope["path"])
        return "Ana\u202e" if len(asked) < 4 else None

    async with a_site(authorize=who) as site, site.person() as ana:
        (id,) = await site.ask(DELETE)
        assert (await ana.decide(id)).status_code == 200
        assert (await ana.get()).status_code == 200
        assert (await ana.get()).status_code == 403
        await until_answered(site, "delete_file")
    assert site.answers["delete_file"].by == "Ana\\u{202e}"


def mine(person: str, call: ToolCall) -> bool:
    return call.context == person.lower()


async def mine_later(person: str, call: ToolCall) -> bool:
    await checkpoint()
    return mine(person, call)


@pytest.mark.parametrize("visible", [mine, mine_later])
async def test_what_is_not_visible_to_a_person_is_not_there_for_them(visible: Any) -> None:
    async with (
        a_site(visible=visible) as site,
        site.person() as ana,
        site.person("bo-session") as bo,
    ):
        hidden, displayed = await site.ask(DELETE, READ)
        assert "delete_file" not in (await bo.get()).text
        assert "read_file" in (await bo.get()).text
        async with bo.stream() as events:
            assert (await anext(events))["ids"] == [displayed]
        for path in (f"call/{hidden}", f"draft/{hidden}"):
            unknown = await bo.get(path.replace(hidden, "unknown"))
            assert (await bo.get(path)).text == unknown.text
            assert unknown.status_code == 404
        assert hidden not in (await bo.get(f"calls?ids={hidden}")).text
        for ids in ([hidden], [displayed, hidden]):
            assert (await bo.decide(*ids)).status_code == 409
        assert len(site.queue.pending) == 2
        assert (await bo.decide(displayed)).status_code == 200
        assert "read_file" not in (await ana.get("decided")).text
        assert "read_file" in (await bo.get("decided")).text


def broken(person: str, call: ToolCall) -> bool:
    raise RuntimeError("no such tenant")


async def broken_later(person: str, call: ToolCall) -> bool:
    raise RuntimeError("no such tenant")


@pytest.mark.parametrize("visible", [broken, broken_later, lambda person, call: "yes"])
async def test_a_doubt_whether_a_call_is_visible_is_a_denial(visible: Any) -> None:
    async with a_site(visible=visible) as site, site.person() as ana:
        (id,) = await site.ask(DELETE)
        response = await ana.get()
        assert (response.status_code, "delete_file" in response.text) == (200, False)
        assert (await ana.decide(id)).status_code == 409


# -------------------------------------------------------------- what others can do to it


async def test_no_script_from_elsewhere_no_frame_no_cache_no_other_origin() -> None:
    async with a_site() as site, site.person() as ana:
        await site.ask(DELETE)
        page = await ana.get()
        other = await ana.get()
    rules = page.headers["content-security-policy"].split(";")
    policy = dict(rule.strip().partition(" ")[::2] for rule in rules)
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["base-uri"] == "'none'"
    assert policy["form-action"] == "'self'"
    assert not any("unsafe" in rule for rule in rules)
    (script,) = Seen(page.text).tags("script")
    assert policy["script-src"] == f"'nonce-{script['nonce']}'"
    assert str(script["nonce"]) not in other.text, "a nonce is used once"
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["cross-origin-resource-policy"] == "same-origin"


async def test_the_page_asks_no_one_else_for_anything() -> None:
    async with a_site() as site, site.person() as ana:
        (id,) = await site.ask(DELETE)
        page = (await ana.get()).text
        for _, attributes in Seen(page).elements:
            for name in ("src", "href", "action", "data-draft"):
                value = attributes.get(name) or ""
                assert not re.match("(https?:)?//", value)
        for path in ("static/desk.js", "static/desk.css"):
            file = await ana.get(path)
            assert file.status_code == 200
            assert not re.search("https?://", file.text)
        assert (await ana.get("static/../page.py")).status_code == 404
        assert (await ana.get("static/%2e%2e/page.py")).status_code == 404
        assert (await ana.get(f"call/{id}/x")).status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
async def test_a_decision_that_comes_from_another_site_is_refused(headers: dict[str, str]) -> None:
    async with a_site() as site, site.person() as ana:
        (id,) = await site.ask(DELETE)
        assert (await ana.decide(id, headers=headers)).status_code == 403
        assert len(site.queue.pending) == 1


async def test_a_decision_from_the_page_itself_is_taken_also_behind_a_proxy() -> None:
    async with a_site() as site, site.person() as ana:
        one, two = await site.ask(DELETE, READ)
        host = httpx.URL(site.base).netloc.decode()
        own = await ana.decide(one, headers={"Origin": f"http://{host}"})
        assert own.status_code == 200
        renamed = {"Origin": "https://app.example", "Sec-Fetch-Site": "same-origin"}
        assert (await ana.decide(two, headers=renamed)).status_code == 200


async def test_a_token_is_for_one_person() -> None:
    async with a_site() as site, site.person() as ana, site.person("bo-session") as bo:
        (id,) = await site.ask(DELETE)
        for token in (await bo.token(), "", "x", "é"):
            assert (await ana.decide(id, token=token)).status_code == 403
        assert len(site.queue.pending) == 1


async def test_a_stranger_gets_of_the_page_its_style_alone() -> None:
    async with a_site() as site, site.person(None) as stranger:
        refused = await stranger.get("call/x")
        (style,) = [one for one in Seen(refused.text).tags("link") if one["rel"] == "stylesheet"]
        assert style["href"] == "../static/desk.css"
        assert (await stranger.get("static/desk.css")).status_code == 200
        assert (await stranger.client.post("static/desk.css")).status_code == 403
        assert (await stranger.get("static/desk.js")).status_code == 403


async def test_another_site_can_open_the_page_and_fetch_or_frame_nothing() -> None:
    async with a_site() as site, site.person() as ana:
        await site.ask(DELETE)
        opened = await ana.get("", Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="document")
        assert opened.status_code == 200
        for dest in ("iframe", "empty", "script", "object"):
            fetched = await ana.get("", Sec_Fetch_Site="cross-site", Sec_Fetch_Dest=dest)
            assert fetched.status_code == 403


async def test_odd_requests_are_refused_with_their_status() -> None:
    async with a_site() as site, site.person() as ana:
        await site.ask(DELETE)
        client = ana.client
        assert (await ana.get("nothing")).status_code == 404
        assert (await ana.get("decide")).status_code == 405
        assert (await client.put("")).status_code == 405
        assert (await client.head("")).status_code == 200
        assert (await client.head("")).content == b""
        assert (await client.post("decide", json={})).status_code == 415
        large = await client.post("decide", data={"arguments": "x" * 5_000_000})
        assert large.status_code == 413
        many = await client.post("decide", data={"ids": ["x"] * 3_000})
        assert many.status_code == 400
        slash = await client.get(site.base.rstrip("/"))
        assert slash.status_code == 307


async def test_an_application_that_does_not_add_the_slash_is_sent_there() -> None:
    page = ApprovalPage(ApprovalQueue(), authorize=lambda scope: "Ana")
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/tools/approvals",
        "root_path": "/tools/approvals",
        "headers": [],
    }
    await page(scope, receive, send)
    assert sent[0]["status"] == 307
    assert (b"location", b"./approvals/") in sent[0]["headers"]


async def test_the_page_runs_alone_under_a_server_that_speaks_of_its_life() -> None:
    page = ApprovalPage(ApprovalQueue(), authorize=lambda scope: "Ana")
    sent: list[str] = []
    events = iter(["lifespan.startup", "lifespan.shutdown"])

    async def send(message: Any) -> None:
        sent.append(message["type"])

    async def receive() -> Any:
        return {"type": next(events)}

    await page({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    sent.clear()
    await page({"type": "websocket"}, receive, send)
    assert sent == ["websocket.close"]


@pytest.mark.parametrize(
    "options",
    [
        {"queue": None},
        {"authorize": None},
        {"authorize": "ana"},
        {"visible": True},
        {"secret": b"short"},
        {"secret": "text"},
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"queue": ApprovalQueue(), "authorize": authorize, **options}
    with pytest.raises(ConfigError, match="ApprovalPage"):
        ApprovalPage(arguments.pop("queue"), **arguments)


# ------------------------------------------------------------------------ hostile texts

nasty = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            "\"><img src=x onerror='alert(1)'>",
            "</pre></article><form action=//evil.example>",
            "&lt;b&gt; &#60;",
            "\u202egnp.exe\u2066",
            "a\u200bb\u3164",
            "x\ny\r\n<z>",
            "javascript:alert(1)",
            "' autofocus onfocus=alert(1) '",
        ]
    ),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | nasty,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(nasty, inner, max_size=3),
    max_leaves=6,
)
KNOWN_TAGS = {
    *("a", "article", "bdi", "button", "dd", "details", "div", "dl", "dt", "form", "h1", "h2"),
    *("h3", "header", "input", "label", "li", "option", "p", "pre", "section", "select", "span"),
    *("strong", "summary", "textarea", "time", "ul"),
}


@pytest.mark.slow
@given(nasty, nasty, nasty, nasty, st.dictionaries(nasty, json_values, max_size=3), nasty)
@examples(150)
def test_no_text_of_others_becomes_markup_and_none_is_hidden(
    name: str, title: str, description: str, server: str, arguments: Any, finding: str
) -> None:
    definition = {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": {"type": "object", "properties": {"a": {"title": title}}},
    }
    try:
        call = ToolCall.example(
            definition,
            arguments,
            server=server or "s",
            findings=[Finding("other_user", finding)],
            context=finding,
        )
    except ConfigError:  # a lone surrogate
        return
    old = {"name": name, "description": title}
    call = replace(call, drift=Drift.of(call.tool, "changed", old))
    pending = PendingApproval("id", call, 0.0, 1.0)
    for markup in (card(pending, "token", context=True), whole(pending, context=True)):
        assert not invisible(markup)
        seen = Seen(markup)
        assert {tag for tag, _ in seen.elements} <= KNOWN_TAGS
        for tag, attributes in seen.elements:
            assert not [each for each in attributes if each.startswith("on")], tag
            for link in ("href", "src", "action", "formaction"):
                assert re.match(
                    r"call/id$|(\.\./)?decide$|\.\./\?open=id#open$|$", attributes.get(link) or ""
                )


# ----------------------------------------------------------- what is not a tool call


async def test_a_skill_is_shown_with_its_files_and_decided_as_a_call_is() -> None:
    async with a_site() as site, site.person() as ana:
        (id,) = await site.ask(
            request_of(
                context="bo", findings=(Finding("definition_changed", "this skill has changed"),)
            )
        )
        page = Seen((await ana.get()).text).text
        for displayed in (
            *("Skill", "pdf", "docs", "Fill in forms", "2 files", "references/FORMS.md"),
            *("allowed-tools (an approval does not grant these)", "this skill has changed"),
            *("Until the session ends", "Allow", "Deny"),
        ):
            assert displayed in page
        assert "Edit" not in page
        assert "arguments" not in page
        all_of_it = Seen((await ana.get(f"call/{id}")).text).text
        assert PDF in all_of_it
        assert "Digest" in all_of_it
        assert (await ana.get(f"draft/{id}")).status_code == 404
        assert (await ana.decide(id, arguments="{}")).status_code == 422
        assert (await ana.decide(id, remember="exact")).status_code == 422
        assert (await ana.decide(id, remember="session")).status_code == 200
        await until_answered(site, PDF)
        assert site.answers[PDF] == Allow(remember=Remember("session"), source="person", by="Ana")
        assert "Until the session ends" in (await ana.get("decided")).text


async def test_a_skill_and_a_call_are_decided_together() -> None:
    async with a_site() as site, site.person() as ana:
        ids = await site.ask(request_of(), READ)
        assert (await ana.decide(*ids, answer="deny", reason="no")).status_code == 200
        await until_answered(site, PDF, "read_file")
        assert all(isinstance(response, Deny) for response in site.answers.values())


async def test_a_dynamic_skill_cannot_be_remembered_on_the_page() -> None:
    entry = {**SkillServer().skills[0], "resources": "dynamic"}
    async with a_site() as site, site.person() as ana:
        (id,) = await site.ask(request_of(entry))
        assert "Until the session ends" not in (await ana.get()).text
        assert (await ana.decide(id, remember="session")).status_code == 422
        assert (await ana.decide(id)).status_code == 200


async def test_a_skill_is_not_shown_by_a_function_that_knows_calls_only() -> None:
    async with (
        a_site(visible=lambda person, call: call.tool.name != "secret") as site,
        site.person() as ana,
    ):
        (id,) = await site.ask(request_of())
        assert "Fill in forms" not in (await ana.get()).text
        assert (await ana.decide(id)).status_code == 409


async def test_a_start_is_shown_whole_with_its_command_beside_the_decision() -> None:
    start = start_of(args=tuple(f"word{n}" for n in range(2_000)))
    async with a_site() as site, site.person() as ana:
        (id,) = await site.ask(start)
        page = (await ana.get()).text
        text = Seen(page).text
        for displayed in (
            *("Start of sky", "May this program be started?", "npx downloads and runs code"),
            *(
                "/srv/project/.mcp.json",
                "not one of your own settings",
                "/srv/project",
                "MODE=fast",
            ),
            *("TOKEN", "env.TOKEN", "This once", "Always"),
        ):
            assert displayed in text, displayed
        assert start.subject in text
        assert text.index(start.subject) < text.index("npx downloads"), "the command comes first"
        assert text.index("MODE=fast") < text.rindex("Reason")
        assert "Edit" not in text
        assert "Until the session ends" not in text
        assert (await ana.decide(id, remember="session")).status_code == 422
        assert (await ana.decide(id, remember="always")).status_code == 200
        await until_answered(site, start.subject)
    response = site.answers[start.subject]
    assert response == Allow(remember=Remember("always"), source="person", by="Ana")


async def test_a_use_of_the_model_is_shown_with_what_it_is_asked() -> None:
    request = sampling_of(*map("verse {}".format, range(9)), systemPrompt="Be\nbrief.")
    async with a_site() as site, site.person() as ana:
        (id,) = await site.ask(request)
        page = Seen((await ana.get()).text).text
        for displayed in (
            "Model for poet",
            "wants to use your model",
            "verse 8",
            "brief.",
            "1,000",
        ):
            assert displayed in page, displayed
        assert "verse 0" not in page
        assert "verse 0" in Seen((await ana.get(f"call/{id}")).text).text
        assert (await ana.decide(id, arguments="{}")).status_code == 422
        assert (await ana.decide(id, answer="deny", reason="no")).status_code == 200
        await until_answered(site, request.subject)
    assert site.answers[request.subject] == Deny("no", source="person", by="Ana")


@pytest.mark.slow
@given(nasty, nasty, nasty, nasty)
@examples(100)
def test_no_text_of_what_is_not_a_call_becomes_markup_and_none_is_hidden(
    one: str, two: str, three: str, four: str
) -> None:
    skill = request_of(SkillServer().skills[0] | {"name": one or "n", "description": two})
    start = start_of(server=one, command=two, args=(three, four), env={one: two}, cwd=four)
    sampling = sampling_of(one, two, systemPrompt=three, tools=[{"name": four}])
    for request in (skill, start, replace(start, command=None, url=four), sampling):
        pending = PendingApproval("id", request, 0.0, 1.0)
        for markup in (card(pending, "token", context=True), whole(pending, context=True)):
            assert not invisible(markup)
            seen = Seen(markup)
            assert {tag for tag, _ in seen.elements} <= KNOWN_TAGS
            for tag, attributes in seen.elements:
                assert not [each for each in attributes if each.startswith("on")], tag


@pytest.mark.slow
@pytest.mark.parametrize("size", [10, 10_000])
def test_a_card_of_what_is_not_a_call_is_bounded(size: int) -> None:
    text = "\n".join("\u202e" * 9 for _ in range(size))
    roles = [
        {"role": role, "content": {"type": "text", "text": text}}
        for role in ("user", "assistant") * 15
    ]
    for messages in (roles, sorted(roles, key=str)):
        params = {"messages": messages, "maxTokens": 1, "tools": [{"name": text}]}
        sampling = SamplingRequest.of({**params, "systemPrompt": text}, "poet")
        displayed = card(PendingApproval("1", sampling, 0.0, None), "token")
        assert len(displayed) < 70_000
        assert "24 earlier messages" in displayed
