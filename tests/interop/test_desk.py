"""People decide calls in a real browser: by pointer and by keyboard, alone and two at once.

The browser is Chromium, the page is mounted in an application, and the calls are those of sessions
with a server that counts what reaches it.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeVar

import anyio
import pytest

from mcp_client import (
    Allow,
    ApprovalPage,
    ApprovalQueue,
    CallDenied,
    Deny,
    DeviceLogin,
    Finding,
    Session,
    ToolCall,
)
from tests.approval.test_concurrency import Server
from tests.desk_page.site import Site, a_site, sampling_of, start_of
from tests.interop import chromium, peers
from tests.interop.chromium import Page, until
from tests.server.skills import PDF, request_of

pytestmark = [pytest.mark.interop, pytest.mark.one_backend]
T = TypeVar("T")

TAB, ENTER, SPACE, SHIFT = "\ue004", "\ue007", " ", "\ue008"


@contextmanager
def browsers(site: Site, *sessions: str) -> Iterator[list[Page]]:
    """A browser for each, logged in and live."""
    with ExitStack() as stack:
        pages = []
        for session in sessions:
            page = stack.enter_context(chromium.browsing(*peers.chromium()))
            page.open(site.base.replace("approvals/", f"login/{session}"))
            page.open(site.base)
            page.complaints.clear()  # that there is no icon, while logging in
            until(lambda page=page: live(page) == "Live", "it is not live")  # type: ignore[misc]
            pages.append(page)
        yield pages


def live(page: Page) -> str:
    return str(page.run("return document.getElementById('live').textContent"))


def cards(page: Page) -> int:
    """How many calls can still be decided there."""
    return int(page.run("return document.querySelectorAll('article:not(.settled)').length"))


def text_of(page: Page) -> str:
    return str(page.run("return document.body.innerText"))


def focused(page: Page) -> str:
    """What a screen reader would say has the focus."""
    return str(
        page.run(
            "const e = document.activeElement; return (e.labels && e.labels.length)"
            " ? e.labels[0].textContent : e.textContent"
        )
    ).strip()


async def with_browsers(site: Site, do: Callable[..., T], *sessions: str) -> T:
    def run() -> T:
        with browsers(site, *(sessions or ("ana-session",))) as pages:
            return do(*pages)

    return await anyio.to_thread.run_sync(run)


class Calls:
    """Calls of a session, and how each ended."""

    def __init__(self, session: Session, tasks: Any) -> None:
        self.session = session
        self.tasks = tasks
        self.ended: dict[int, str] = {}

    def make(self, *numbers: int) -> None:
        for n in numbers:
            self.tasks.start_soon(self._one, n)

    async def make_one(self, n: int) -> None:
        """From the thread of a browser."""
        self.make(n)

    async def _one(self, n: int) -> None:
        try:
            self.ended[n] = (await self.session.call_tool("t", {"n": n})).text
        except CallDenied as error:
            self.ended[n] = f"{error.by}: {error.reason}"


@asynccontextmanager
async def at_work(
    server: Server, kind: type[ApprovalPage] = ApprovalPage
) -> AsyncIterator[tuple[Site, Calls]]:
    queue = ApprovalQueue()
    async with (
        a_site(queue, kind=kind) as site,
        server.connect(queue, seconds=3_600, name="files") as session,
        anyio.create_task_group() as tasks,
    ):
        await session.list_tools()
        yield site, Calls(session, tasks)


async def until_pending(site: Site, count: int) -> None:
    with site.queue.changes() as changes:
        async for pending in changes:
            if len(pending) == count:
                return


async def test_skills_starts_and_uses_of_the_model_are_decided_beside_calls() -> None:
    start, sampling = start_of(), sampling_of("Write a haiku.")
    async with a_site(ApprovalQueue()) as site:
        await site.ask(request_of(), ToolCall.example("t", {"n": 1}), start, sampling)

        def decide(page: Page) -> None:
            assert cards(page) == 4
            for shown in ("Skill pdf on docs", "Start of sky", start.subject, "Model for poet"):
                assert shown in text_of(page)
            assert len(page.named("button", "Edit")) == 1, "only a call has arguments"
            for left, answer in ((3, "Allow"), (2, "Deny"), (1, "Allow"), (0, "Deny")):
                page.click_on(page.named("button", answer)[0])
                until(lambda left=left: cards(page) == left, "it was not decided")  # type: ignore[misc]
            assert page.complaints == []

        await with_browsers(site, decide)
        for subject, answer in (
            (PDF, Allow),
            ("t", Deny),
            (start.subject, Allow),
            (sampling.subject, Deny),
        ):
            assert isinstance(site.answers[subject], answer), subject


async def test_allow_deny_and_edit_do_what_they_say() -> None:
    server = Server()

    def decide(page: Page) -> None:
        assert cards(page) == 3
        page.type_into(page.named("textbox", "Reason")[1], "not today")
        page.click_on(page.named("button", "Deny")[1])
        until(lambda: cards(page) == 2, "it was not denied")
        page.click_on(page.named("button", "Allow")[0])
        until(lambda: cards(page) == 1, "it was not allowed")
        until(lambda: [ran["n"] for ran in server.ran] == [0], "it did not run")
        page.click_on(page.named("button", "Edit")[0])
        area = until(
            lambda: page.named("textbox", "Arguments to send instead (JSON)"), "no editor"
        )[0]
        page.type_into(area, "{", instead=True)
        page.click_on(page.named("button", "Allow")[0])
        until(lambda: "cannot be sent: it is not JSON" in text_of(page), "no complaint")
        assert cards(page) == 1
        page.type_into(area, '{"n": 7}', instead=True)
        page.click_on(page.named("button", "Allow")[0])
        until(lambda: cards(page) == 0, "it was not allowed")
        until(lambda: "with other arguments" in text_of(page), "it is not among the decided")
        assert "Denied t on files by Ana" in text_of(page)
        assert len(page.complaints) == 1, "the answer that could not be used"

    async with at_work(server) as (site, calls):
        calls.make(0, 1, 2)
        await until_pending(site, 3)
        await with_browsers(site, decide)
    assert calls.ended == {0: "ran", 1: "Ana: not today", 2: "ran"}
    assert server.ran == [{"n": 0}, {"n": 7}]


async def test_remember_says_in_words_what_it_covers() -> None:
    server = Server()

    def decide(page: Page) -> None:
        choice = page.named("combobox", "Remember")[0]
        page.type_into(choice, "Any arguments, until")
        until(lambda: "Calls with any arguments of t on files" in text_of(page), "no words")
        page.click_on(page.named("button", "Allow")[0])
        until(lambda: cards(page) == 0, "it was not allowed")

    async with at_work(server) as (site, calls):
        calls.make(0)
        await until_pending(site, 1)
        await with_browsers(site, decide)
        await calls.session.call_tool("t", {"n": 1})
    assert len(server.ran) == 2


async def test_several_are_decided_at_once() -> None:
    server = Server()

    def decide(page: Page) -> None:
        allow, deny = (
            page.run(f"return document.querySelector('#batch .{kind}').disabled")
            for kind in ("allow", "deny")
        )
        assert (allow, deny) == (True, True)
        ticks = page.named("checkbox", "Select")
        for tick in ticks[:3]:
            page.click_on(tick)
        assert "3 of 6 selected" in text_of(page)
        page.click_on(page.named("button", "Allow selected")[0])
        until(lambda: cards(page) == 3, "they were not allowed")
        page.click_on(page.named("checkbox", "Select all")[0])
        page.type_into(page.named("textbox", "Reason for selected")[0], "too many")
        page.click_on(page.named("button", "Deny selected")[0])
        until(lambda: cards(page) == 0, "they were not denied")
        assert "Nothing waits for you." in text_of(page)

    async with at_work(server) as (site, calls):
        for n in range(6):
            calls.make(n)
            await until_pending(site, n + 1)
        await with_browsers(site, decide)
    assert [calls.ended[n] for n in range(6)] == ["ran"] * 3 + ["Ana: too many"] * 3
    assert sorted(ran["n"] for ran in server.ran) == [0, 1, 2]


class Brief(ApprovalPage):
    stream_seconds = 1.0


async def test_calls_come_and_go_without_reloading_also_when_streams_end() -> None:
    server = Server()

    def watch(page: Page) -> None:
        page.run("window.same = true")
        assert "Nothing waits for you." in text_of(page)
        for count in (1, 2):
            anyio.from_thread.run(calls.make_one, count)
            until(lambda count=count: cards(page) == count, "it did not come")  # type: ignore[misc]
            anyio.from_thread.run(anyio.sleep, 1.5)  # a stream ends, and another takes its place
        assert "(2)" in page.run("return document.title")
        ids = [one.id for one in site.queue.pending]
        site.queue.decide(ids, Deny("elsewhere"))
        until(lambda: cards(page) == 0, "they did not go")
        assert page.run("return window.same") is True

    async with at_work(server, Brief) as (site, calls):
        await with_browsers(site, watch)


async def test_a_login_comes_and_goes_without_reloading() -> None:
    async with a_site() as site:
        queue = site.queue
        login = DeviceLogin("docs", "https://as.example/activate", "WDJB-MJHT", None, 1e10)

        def look(page: Page) -> None:
            assert "WDJB-MJHT" not in text_of(page)
            end = anyio.from_thread.run(queue.show_login, login)
            told = "Log in at https://as.example/activate with code WDJB-MJHT for server docs"
            until(lambda: told in text_of(page), "the login is not shown")
            link = "return document.querySelector('#logins a').rel"
            assert "noreferrer" in str(page.run(link))
            page.open(site.base)
            until(lambda: live(page) == "Live", "it is not live")
            assert told in text_of(page)
            end()
            until(lambda: "WDJB-MJHT" not in text_of(page), "the login is still shown")
            assert page.complaints == []

        await with_browsers(site, look)


async def test_two_people_at_once_decide_each_call_once() -> None:
    server = Server()

    def decide(ana: Page, bo: Page) -> None:
        assert (cards(ana), cards(bo)) == (3, 3)
        ana.click_on(ana.named("button", "Allow")[0])
        until(lambda: cards(bo) == 2, "Bo did not see it")
        assert "Decided elsewhere" in text_of(bo)
        assert "Allowed t on files by Ana" in until(
            lambda: text_of(bo) if "by Ana" in text_of(bo) else "", "Bo does not see who"
        )
        # Both press at the same time, for the same call: one of them is first.
        second = site.queue.pending[0].id
        for page, kind in ((ana, "allow"), (bo, "deny")):
            page.run(f"document.querySelector('#call-{second} button.{kind}')?.click()")
        until(lambda: cards(ana) == 1 and cards(bo) == 1, "it is not decided for both")
        ana.click_on(ana.named("checkbox", "Select all")[0])
        ana.click_on(ana.named("button", "Deny selected")[0])
        until(lambda: cards(ana) == 0 and cards(bo) == 0, "it is not decided for both")

    async with at_work(server) as (site, calls):
        for n in range(3):
            calls.make(n)
            await until_pending(site, n + 1)
        await with_browsers(site, decide, "ana-session", "bo-session")
    assert calls.ended[0] == "ran"
    assert calls.ended[1] in ("ran", "Bo: no reason was given")
    assert calls.ended[2] == "Ana: no reason was given"
    assert len(server.ran) == [calls.ended[n] for n in range(3)].count("ran")


async def test_a_person_decides_with_the_keyboard_alone() -> None:
    server = Server()

    def reach(page: Page, name: str, *, back: bool = False) -> None:
        for _ in range(40):
            page.press(TAB) if not back else page.chord(SHIFT, TAB)
            if focused(page) == name:
                return
        raise AssertionError(f"{name} cannot be reached, only {focused(page)}")

    def decide(page: Page) -> None:
        page.press(TAB)
        assert focused(page) == "Skip to the requests"
        page.press(ENTER)
        reach(page, "Reason")
        page.press(*"no more", ENTER)
        assert cards(page) == 3, "Enter in a field decides nothing"
        reach(page, "Deny")
        page.press(ENTER)
        until(lambda: cards(page) == 2, "it was not denied")
        assert focused(page) == "t on files", "the focus is on the next call"
        reach(page, "Edit")
        page.press(SPACE)
        until(
            lambda: page.run("return document.activeElement.name") == "arguments",
            "not in the editor",
        )
        page.run("document.activeElement.value = ''")
        page.press(*'{"n": 9}')
        reach(page, "Allow")
        page.press(ENTER)
        until(lambda: cards(page) == 1, "it was not allowed")
        reach(page, "Select all", back=True)
        page.press(SPACE)
        reach(page, "Allow selected")
        page.press(ENTER)
        until(lambda: cards(page) == 0, "it was not allowed")

    async with at_work(server) as (site, calls):
        for n in range(3):
            calls.make(n)
            await until_pending(site, n + 1)
        await with_browsers(site, decide)
    assert calls.ended == {0: "Ana: no more", 1: "ran", 2: "ran"}
    assert server.ran == [{"n": 9}, {"n": 2}]


NASTY = (
    "</pre></article><script>document.title='owned'</script>"
    "<img src=x onerror=\"document.title='owned'\"><svg onload=alert(1)>"
    "<iframe src='https://evil.example'></iframe><base href='https://evil.example'>"
)


async def test_hostile_texts_are_text() -> None:
    call = ToolCall.example(
        {
            "name": f"\u202e{NASTY}",
            "title": f"a\u200b\u2066{NASTY}",
            "description": NASTY,
            "inputSchema": {"type": "object", "description": NASTY},
        },
        {NASTY: [NASTY, "\u202etxt.exe\u2069", "שלום"], "\u3164": NASTY},
        server=f"evil{NASTY}",
        findings=[Finding("odd_name", NASTY)],
    )

    def look(page: Page, id: str) -> None:
        assert cards(page) == 1
        seen = text_of(page)
        for spelled in ("\\u{202e}", "\\u{200b}", "\\u{2066}", "\\u{3164}", "\\u{2069}"):
            assert spelled in seen, spelled
        assert "run right to left" in seen
        count = (
            "return document.querySelectorAll('article img, iframe, article script, svg').length"
        )
        assert page.run(count) == 0
        anyio.from_thread.run(site.ask, call)
        until(lambda: cards(page) == 2, "the second did not come")
        page.click_on(page.named("button", "Edit")[0])
        until(lambda: page.run("return document.querySelector('textarea').value"), "no draft")
        page.click_on(page.named("button", "Deny")[0])
        until(lambda: "Denied" in text_of(page), "not among the decided")
        assert page.run(count) == 0
        assert "owned" not in page.run("return document.title")
        used = page.run("return performance.getEntriesByType('resource').map(one => one.name)")
        assert used
        assert all(name.startswith(site.base) for name in used), used
        assert page.complaints == []
        page.open(f"{site.base}call/{site.queue.pending[0].id}")
        assert "owned" in text_of(page)
        assert "owned" not in page.run("return document.title")
        assert page.complaints == []

    async with a_site() as site:
        (id,) = await site.ask(call)
        await with_browsers(site, functools.partial(look, id=id))


async def test_the_page_is_shown_in_no_frame() -> None:
    async with a_site() as site:
        (await site.ask(ToolCall.example("delete_file")),)

        def look(page: Page) -> None:
            page.open(site.base.replace("approvals/", "frame"))
            until(lambda: any("frame" in line.lower() for line in page.complaints), "no refusal")

        await with_browsers(site, look)


async def test_two_hundred_calls_stay_usable() -> None:
    async with a_site() as site:
        names = [f"tool_{n:03}" for n in range(200)]
        await site.ask(*(ToolCall.example(name, {"n": name}, server="files") for name in names))

        def decide(page: Page) -> None:
            assert cards(page) == 50
            assert "These are 50 of 200 requests that wait." in text_of(page)
            page.type("#filter", "tool_01")
            shown = "return document.querySelectorAll('article:not([hidden])').length"
            until(lambda: page.run(shown) == 10, "it does not filter")
            page.click_on(page.named("checkbox", "Select all", "#batch")[0])
            assert "10 of 10 selected" in text_of(page)
            page.click_on(page.named("button", "Allow selected", "#batch")[0])
            until(lambda: len(site.queue.pending) == 190, "they were not allowed")
            page.run(
                "const f = document.getElementById('filter'); f.value = '';"
                "f.dispatchEvent(new Event('input'))"
            )
            until(lambda: "tool_059" in text_of(page), "no others came in their place")
            assert "These are 50 of 190 requests that wait." in text_of(page)
            page.run(
                "const all = document.querySelectorAll('article:not(.settled)');"
                "all[all.length - 1].querySelector('button.deny').click()"
            )
            until(lambda: len(site.queue.pending) == 189, "the last was not denied")

        await with_browsers(site, decide)
        assert {one.request.subject for one in site.queue.decided} == {
            *(f"tool_01{n}" for n in range(10)),
            "tool_059",
        }
