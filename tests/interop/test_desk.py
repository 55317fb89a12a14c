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

from mcp_client import Allow, ApprovalQueue, CallDenied, Deny, Finding, Session, ToolCall
from mcp_client.auth import DeviceLogin
from mcp_client.desk import ApprovalPage
from tests.approval.test_concurrency import Server
from tests.desk_page.site import Site, a_site, sampling_of, start_of
from tests.interop import chromium, peers
from tests.interop.chromium import Page, until
from tests.support.skills import PDF, request_of

pytestmark = [pytest.mark.interop, pytest.mark.one_backend]
T = TypeVar("T")

TAB, ENTER, SPACE, SHIFT = "\ue004", "\ue007", " ", "\ue008"


_browsers: list[Page] = []


@pytest.fixture(scope="module", autouse=True)
def _start() -> Iterator[None]:
    """Two, once: to start them takes longer than most of the tests."""
    with ExitStack() as stack:
        _browsers[:] = [stack.enter_context(chromium.browsing(*peers.chromium())) for _ in range(2)]
        yield


@contextmanager
def browsers(site: Site, *sessions: str) -> Iterator[list[Page]]:
    """A browser for each, logged in and live."""
    pages = _browsers[: len(sessions)]
    for page, session in zip(pages, sessions, strict=True):
        page.look()
        page.open(site.base.replace("approvals/", f"login/{session}"))
        page.open(site.base)
        page.complaints.clear()  # that there is no icon, while logging in
        until(lambda page=page: live(page) == "Live", "it is not live")  # type: ignore[misc]
    try:
        yield pages
    finally:
        for page in pages:
            page.open("about:blank")  # a server that ends waits for a page that is live


def live(page: Page) -> str:
    return str(page.run("return document.getElementById('live').textContent"))


def listed(page: Page) -> int:
    """How many requests wait there."""
    return int(page.run("return document.querySelectorAll('#rows li.row').length"))


def opened(page: Page) -> str:
    """The title of the request that is open."""
    return str(page.run("return document.querySelector('#open h2')?.textContent || ''"))


def go_to(page: Page, title: str) -> None:
    """Open the request whose row begins so."""
    line = "Array.from(document.querySelectorAll('a.line')).find"
    page.run(f"{line}(one => one.textContent.startsWith('{title}')).click()")
    until(lambda: title in opened(page), f"{title} was not opened")


def settled(page: Page, title: str) -> None:
    """Wait until the request that begins so takes keys."""
    since = "return performance.now() - document.querySelector('#open article').dataset.since"
    until(lambda: opened(page).startswith(title) and page.run(since) > 300, f"{title} is not open")


def press(page: Page, name: str, within: str = "#open") -> None:
    """Press a button of the request that is open, once it takes an answer."""
    settled(page, "")
    page.click_on(page.named("button", name, within)[0])


def text_of(page: Page) -> str:
    return str(page.run("return document.body.innerText"))


def focused(page: Page) -> str:
    """What a screen reader would read as the focus."""
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
            assert listed(page) == 4
            for title, asks, wanted in (
                ("Skill pdf", "May this skill be loaded?", "Allow"),
                ("Start of sky", start.subject, "Allow"),
                ("Model for poet", "Write a haiku.", "Deny"),
                ("t", "May this tool run?", "Deny"),
            ):
                go_to(page, title)
                assert asks in text_of(page)
                assert len(page.named("button", "Edit")) == (title == "t"), "only a call has some"
                left = listed(page) - 1
                press(page, wanted)
                until(lambda left=left: listed(page) == left, "it was not decided")  # type: ignore[misc]
            assert page.complaints == []

        await with_browsers(site, decide)
        for subject, decision in (
            (PDF, Allow),
            ("t", Deny),
            (start.subject, Allow),
            (sampling.subject, Deny),
        ):
            assert isinstance(site.answers[subject], decision), subject


async def test_allow_deny_and_edit_do_what_they_are_named() -> None:
    server = Server()

    def decide(page: Page) -> None:
        assert listed(page) == 3
        press(page, "Allow")
        until(lambda: listed(page) == 2, "it was not allowed")
        until(lambda: [ran["n"] for ran in server.ran] == [0], "it did not run")
        page.type_into(page.named("textbox", "Reason")[0], "not today")
        press(page, "Deny")
        until(lambda: listed(page) == 1, "it was not denied")
        page.click_on(page.named("button", "Edit")[0])
        area = until(
            lambda: page.named("textbox", "Arguments to send instead (JSON)"), "no editor"
        )[0]
        page.type_into(area, "{", instead=True)
        press(page, "Allow")
        until(lambda: "cannot be sent: it is not JSON" in text_of(page), "no complaint")
        assert listed(page) == 1
        page.type_into(area, '{"n": 7}', instead=True)
        press(page, "Allow")
        until(lambda: listed(page) == 0, "it was not allowed")
        until(lambda: "with other arguments" in text_of(page), "it is not among the decided")
        assert "Denied t on files by Ana" in text_of(page)
        assert len(page.complaints) == 1, "the answer that could not be used"

    async with at_work(server) as (site, calls):
        calls.make(0, 1, 2)
        await until_pending(site, 3)
        await with_browsers(site, decide)
    assert calls.ended == {0: "ran", 1: "Ana: not today", 2: "ran"}
    assert server.ran == [{"n": 0}, {"n": 7}]


async def test_remember_states_in_words_what_it_covers() -> None:
    server = Server()

    def decide(page: Page) -> None:
        choice = page.named("combobox", "Remember")[0]
        page.type_into(choice, "Any arguments, until")
        until(lambda: "Calls with any arguments of t on files" in text_of(page), "no words")
        press(page, "Allow")
        until(lambda: listed(page) == 0, "it was not allowed")

    async with at_work(server) as (site, calls):
        calls.make(0)
        await until_pending(site, 1)
        await with_browsers(site, decide)
        await calls.session.call_tool("t", {"n": 1})
    assert len(server.ran) == 2


async def test_several_are_decided_at_once() -> None:
    server = Server()

    def decide(page: Page) -> None:
        assert page.named("button", "Allow selected") == [], "there is nothing to decide with it"
        ticks = page.named("checkbox", "Select")
        for tick in ticks[:3]:
            page.click_on(tick)
        assert "3 of 6 selected" in text_of(page)
        assert "Allow selected (3)" in text_of(page)
        page.click_on(page.named("button", "Allow selected")[0])
        until(lambda: listed(page) == 3, "they were not allowed")
        page.click_on(page.named("checkbox", "Select all")[0])
        page.type_into(page.named("textbox", "Reason for selected")[0], "too many")
        page.click_on(page.named("button", "Deny selected")[0])
        until(lambda: listed(page) == 0, "they were not denied")
        until(lambda: "Nothing waits for you." in text_of(page), "it does not state it")

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
            until(lambda count=count: listed(page) == count, "it did not come")  # type: ignore[misc]
            anyio.from_thread.run(anyio.sleep, 1.5)  # a stream ends, and another takes its place
        assert "(2)" in page.run("return document.title")
        ids = [one.id for one in site.queue.pending]
        site.queue.decide(ids, Deny("elsewhere"))
        until(lambda: listed(page) == 0, "they did not go")
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
            prompt = "Log in at https://as.example/activate with code WDJB-MJHT for server docs"
            until(lambda: prompt in text_of(page), "the login is not shown")
            link = "return document.querySelector('#logins a').rel"
            assert "noreferrer" in str(page.run(link))
            page.open(site.base)
            until(lambda: live(page) == "Live", "it is not live")
            assert prompt in text_of(page)
            end()
            until(lambda: "WDJB-MJHT" not in text_of(page), "the login is still shown")
            assert page.complaints == []

        await with_browsers(site, look)


async def test_two_people_at_once_decide_each_call_once() -> None:
    server = Server()

    def decide(ana: Page, bo: Page) -> None:
        assert (listed(ana), listed(bo)) == (3, 3)
        press(ana, "Allow")
        until(lambda: listed(bo) == 2, "Bo did not see it")
        until(lambda: "Decided elsewhere" in text_of(bo), "Bo does not see why")
        assert "Allowed t on files by Ana" in until(
            lambda: text_of(bo) if "by Ana" in text_of(bo) else "", "Bo does not see who"
        )
        # Both press at the same time, for the same call: one of them is first.
        second = site.queue.pending[0].id
        bo.run(f"document.querySelector('#line-{second}').click()")
        until(lambda: bo.run(f"return !!document.getElementById('call-{second}')"), "not open")
        for page, kind in ((ana, "allow"), (bo, "deny")):
            settled(page, "")
            page.run(f"document.querySelector('#call-{second} button.{kind}')?.click()")
        until(lambda: listed(ana) == 1 and listed(bo) == 1, "it is not decided for both")
        ana.click_on(ana.named("checkbox", "Select all")[0])
        ana.click_on(ana.named("button", "Deny selected")[0])
        until(lambda: listed(ana) == 0 and listed(bo) == 0, "it is not decided for both")

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
        assert listed(page) == 3, "Enter in a field decides nothing"
        reach(page, "Deny", back=True)
        settled(page, "")
        page.press(ENTER)
        until(lambda: listed(page) == 2, "it was not denied")
        assert "n: 1" in focused(page), "the focus is on the next call"
        reach(page, "Edit")
        page.press(SPACE)
        until(
            lambda: page.run("return document.activeElement.name") == "arguments",
            "not in the editor",
        )
        page.run("document.activeElement.value = ''")
        page.press(*'{"n": 9}')
        reach(page, "Allow")
        settled(page, "")
        page.press(ENTER)
        until(lambda: listed(page) == 1, "it was not allowed")
        reach(page, "Select all", back=True)
        page.press(SPACE)
        reach(page, "Allow selected (1)")
        page.press(ENTER)
        until(lambda: listed(page) == 0, "it was not allowed")

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
        assert listed(page) == 1
        seen = until(lambda: text_of(page), "nothing")
        for spelled in ("\\u{202e}", "\\u{200b}", "\\u{2066}", "\\u{3164}", "\\u{2069}"):
            assert spelled in seen, spelled
        assert "run right to left" in seen
        count = "return document.querySelectorAll('main img, iframe, main script, svg').length"
        assert page.run(count) == 0
        anyio.from_thread.run(site.ask, call)
        until(lambda: listed(page) == 2, "the second did not come")
        page.click_on(page.named("button", "Edit")[0])
        until(lambda: page.run("return document.querySelector('textarea').value"), "no draft")
        press(page, "Deny")
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
        names = [f"tool_{n:03}" for n in range(220)]
        await site.ask(*(ToolCall.example(name, {"n": name}, server="files") for name in names))

        def decide(page: Page) -> None:
            assert listed(page) == 200
            assert "These are 1 to 200 of 220 requests that wait." in text_of(page)
            page.type("#filter", "tool_01")
            until(lambda: listed(page) == 10, "it does not filter")
            page.click_on(page.named("checkbox", "Select all", "#all")[0])
            assert "10 of 10 selected" in text_of(page)
            page.click_on(page.named("button", "Allow selected", "#batch")[0])
            until(lambda: len(site.queue.pending) == 210, "they were not allowed")
            until(lambda: "matches this filter" in text_of(page), "it does not state it")
            page.run("document.querySelector('.empty a').click()")
            until(lambda: listed(page) == 200, "the others did not come")
            assert "These are 1 to 200 of 210 requests that wait." in text_of(page)
            page.run("document.querySelectorAll('a.line')[199].click()")
            until(lambda: opened(page) == "tool_209 on files", "it was not opened")
            press(page, "Deny")
            until(lambda: len(site.queue.pending) == 209, "the last was not denied")

        await with_browsers(site, decide)
        assert {one.request.subject for one in site.queue.decided} == {
            *(f"tool_01{n}" for n in range(10)),
            "tool_209",
        }


# ------------------------------------------------------------------- the page as an inbox

DOWN, UP, ESCAPE = "\ue015", "\ue013", "\ue00c"


async def test_an_ordinary_call_takes_one_key_from_the_list_and_two_from_a_fresh_page() -> None:
    async with a_site() as site:
        await site.ask(*(ToolCall.example(f"tool_{n}", {"n": n}) for n in range(6)))

        def decide(page: Page) -> None:
            page.press("a")
            assert listed(page) == 6, "letters mean nothing before the list has the focus"
            settled(page, "tool_0")
            page.press(DOWN, "a")
            until(lambda: listed(page) == 5, "two keys from a fresh page")
            settled(page, "tool_1")
            page.press("d")
            until(lambda: listed(page) == 4, "one key from the list")
            until(lambda: opened(page).startswith("tool_2"), "the next is not open")
            page.press(DOWN, DOWN, UP, SPACE)
            until(lambda: opened(page).startswith("tool_3"), "it is not open")
            assert "1 of 4 selected" in text_of(page)
            page.press("e")
            until(lambda: page.run("return document.activeElement.name") == "arguments", "no")
            page.press("a")
            assert listed(page) == 4, "a letter in a field is a letter"
            page.run("document.activeElement.blur()")
            page.press("/")
            page.press(*"tool_5")
            until(lambda: listed(page) == 1, "it does not filter")
            page.press(ESCAPE)
            until(lambda: "tool_5" in opened(page), "the one that is listed is open")
            settled(page, "tool_5")
            page.press("a")
            until(lambda: len(site.queue.pending) == 3, "it was not allowed")
            page.press("?")
            until(lambda: "Deny it" in text_of(page), "the keys are not shown")
            page.press(ESCAPE)
            assert page.complaints == []

        await with_browsers(site, decide)
    got = {name: type(decision) for name, decision in site.answers.items()}
    assert got == {"tool_0": Allow, "tool_1": Deny, "tool_5": Allow}


async def test_several_are_decided_with_eyes_open() -> None:
    long = {"database": "billing", "statement": "DROP TABLE invoices; " * 15}
    cut = ToolCall.example("sql", long, server="zebra", read_only=True)  # for any trust
    async with a_site() as site:
        await site.ask(*(ToolCall.example("get", {"n": n}) for n in range(12)), cut)

        def decide(page: Page) -> None:
            until(lambda: live(page) == "Live", "it is not live")
            page.click_on(page.named("checkbox", "Select all")[0])
            text = text_of(page)
            assert "Allow selected (12)" in text
            assert "Deny selected (13)" in text
            assert "12 of 13 can be allowed together" in text
            assert page.run(SEEN.replace("WHAT", "#left-out"))
            page.click_on(page.named("button", "Allow selected")[0])
            until(lambda: "get on example: 12" in text_of(page), "it does not ask")
            age = "return performance.now() - document.getElementById('ask').dataset.since"
            until(lambda: page.run(age) > 300, "the question takes no answer")
            page.click_on(page.named("button", "Allow 12 requests")[0])
            until(lambda: listed(page) == 1, "they were not allowed")
            assert [one.request.subject for one in site.queue.pending] == ["sql"]
            assert "1 of 1 selected" in text_of(page), "what was left out stays selected"
            go_to(page, "sql")
            until(lambda: "Allow selected (1)" in text_of(page), "it may be allowed now")
            page.click_on(page.named("button", "Allow selected")[0])
            until(lambda: listed(page) == 0, "it was not allowed")

        await with_browsers(site, decide)


async def test_a_row_that_is_too_narrow_does_not_count_as_seen() -> None:
    statement = "GRANT ALL PRIVILEGES ON DATABASE billing TO somebody"
    calls = [
        ToolCall.example("sql", {"database": "billing", "statement": f"{statement} {n}"})
        for n in range(3)
    ]
    async with a_site() as site:
        await site.ask(*calls, ToolCall.example("get", {"n": 1}))

        def decide(page: Page) -> None:
            for width, free in ((1600, 4), (390, 1), (1600, 4)):
                page.look(width=width)
                page.run("if (!document.getElementById('every').checked) every.click()")
                until(lambda: f"Allow selected ({free})" in text_of(page), f"{width}")  # noqa: B023
            page.look(width=390)
            page.run("document.querySelectorAll('#rows a.line')[2].click()")
            until(lambda: "Allow selected (2)" in text_of(page), "what was opened was seen")
            page.run("document.querySelector('#batch button.allow').click()")
            until(lambda: listed(page) == 2, "they were not allowed")

        await with_browsers(site, decide)
        allowed = [one.request.arguments_json for one in site.queue.decided]
        assert sorted(allowed) == [
            f'{{"database":"billing","statement":"{statement} 1"}}',
            '{"n":1}',
        ]


@pytest.mark.parametrize("count", [40, 200])
async def test_a_long_list_scrolls_by_itself_and_not_into_nothing(count: int) -> None:
    async with a_site() as site:
        await site.ask(*(ToolCall.example(f"t{n % 7}", {"n": n}) for n in range(count)))

        def look(page: Page) -> None:
            for width, height in ((1280, 900), (850, 900), (390, 844)):
                page.look(width=width, height=height)
                page.open(site.base)
                until(lambda: live(page) == "Live", "it is not live")
                page.run("document.getElementById('every').click()")
                end = page.run(END)
                assert page.run("return document.documentElement.scrollHeight") <= end + 4, width
                assert end < 2 * height, width
                for what in ("#rows time", "#rows .gist"):
                    assert page.run(FITS.replace("WHAT", what)), (width, what)
                if width > 400:
                    bar = page.run("return document.querySelector('.bar').offsetHeight")
                    assert bar <= 120, width

        await with_browsers(site, look)


END = "return scrollY + document.querySelector('aside').getBoundingClientRect().bottom;"
FITS = """
return Array.from(document.querySelectorAll('WHAT')).every(
  one => one.offsetWidth && one.scrollWidth <= one.clientWidth + 1);
"""
SEEN = """
const box = document.querySelector('WHAT').getBoundingClientRect();
return box.height > 0 && box.top >= 0 && box.bottom <= innerHeight;
"""


async def test_what_is_asked_is_above_its_buttons_on_small_screens() -> None:
    async with a_site() as site:
        await site.ask(start_of(), ToolCall.example("write", {"path": "/a", "text": "b"}))

        def look(page: Page) -> None:
            for width, height in ((850, 900), (390, 844)):
                page.look(width=width, height=height)
                page.open(site.base)
                until(lambda: live(page) == "Live", "it is not live")
                for line in (0, 1):
                    page.run(f"document.querySelectorAll('#rows a.line')[{line}].click()")
                    until(lambda: page.run("return !!document.querySelector('#open pre')"), "no")
                    until(lambda: page.run(ABOVE), f"{width} {line}")
                    reason, deny = (page.run(PLACE.replace("WHAT", one)) for one in BESIDE)
                    assert abs(reason - deny) < 2, "the reason is beside Deny"

        await with_browsers(site, look)


BESIDE = ("#open input[name=reason]", "#open button.deny")
PLACE = "return document.querySelector('WHAT').getBoundingClientRect().bottom;"
ABOVE = """
const what = document.querySelector('#open pre').getBoundingClientRect();
const allow = document.querySelector('#open button.allow').getBoundingClientRect();
return what.top >= 0 && what.bottom <= allow.top && allow.bottom <= innerHeight;
"""


async def test_a_double_click_and_a_key_held_down_decide_one() -> None:
    async with a_site() as site:
        await site.ask(*(ToolCall.example(f"tool_{n}", {"n": n}) for n in range(5)))

        def decide(page: Page) -> None:
            settled(page, "tool_0")
            assert page.run(CLICK.replace("COUNT", "1")), "the first click is for it"
            until(lambda: opened(page).startswith("tool_1"), "the next is not open")
            assert not page.run(CLICK.replace("COUNT", "2")), "the second is not for the next"
            settled(page, "tool_1")
            page.run("document.querySelector('a.line').focus()")
            assert page.run(PRESS.replace("HELD", "false"))
            until(lambda: opened(page).startswith("tool_2"), "the next is not open")
            assert not page.run(PRESS.replace("HELD", "true")), (
                "a key held down is not for the next"
            )
            for number, way in ((2, "byKey"), (3, "byButton")):
                settled(page, f"tool_{number}")
                page.run(f"{TWICE} window.done = false; twice({way});")
                until(lambda: page.run("return window.done"), "the second was not pressed")
                until(lambda: opened(page).startswith(f"tool_{number + 1}"), "no next")  # noqa: B023
                decided = [one.request.subject for one in site.queue.decided]
                assert decided == [f"tool_{n}" for n in range(number + 1)], "of two one counts"
            until(
                lambda: "the question had only just appeared" in text_of(page),
                "it does not state the reason",
            )
            settled(page, "tool_4")
            page.press(ENTER)
            until(lambda: listed(page) == 0, "the button has the focus, and it is late enough")

        await with_browsers(site, decide)


CLICK = """
const click = new MouseEvent('click', { bubbles: true, cancelable: true, detail: COUNT });
document.querySelector('#open button.allow').dispatchEvent(click);
return Boolean(document.querySelector('#open form').dataset.busy);
"""
TWICE = """
const byKey = () => document.activeElement.dispatchEvent(
  new KeyboardEvent('keydown', { key: 'a', bubbles: true }));
const byButton = () => { // as Enter does with the button that has the focus
  const button = document.querySelector('#open button.allow');
  button.focus();
  button.click();
};
const twice = (answer) => {
  const title = () => document.querySelector('#open h2')?.textContent || '';
  const was = title();
  new MutationObserver((_, observer) => {
    if (!title() || title() === was) return;
    observer.disconnect();
    answer(); // as soon as the next one is there
    window.done = true;
  }).observe(document.getElementById('open'), { childList: true });
  answer();
};
"""
PRESS = """
const press = new KeyboardEvent('keydown', { key: 'a', bubbles: true, repeat: HELD });
document.activeElement.dispatchEvent(press);
return Boolean(document.querySelector('#open form').dataset.busy);
"""


async def test_without_scripts_requests_are_opened_filtered_and_decided() -> None:
    async with a_site() as site:
        await site.ask(*(ToolCall.example(f"tool_{n}", {"n": n}) for n in range(3)))

        def decide(page: Page) -> None:
            with page.without_scripts():
                page.open(site.base)
                assert "Not live: needs JavaScript" in page.text
                page.click("li:nth-child(1) a.line")  # each is a group of one
                page.type("#filter", "tool_2")
                page.click("#filter-now")
                until(lambda: "q=tool_2" in page.url, "it does not filter")
                page.click("#open .allow")
                until(lambda: len(site.queue.pending) == 2, "it was not allowed")
                until(lambda: "matches this filter" in page.text, "it is not stated")
                page.open(site.base)
                page.click(".row .tick")
                page.click("#batch .deny")
                until(lambda: len(site.queue.pending) == 1, "it was not denied")
            assert page.complaints == []

        await with_browsers(site, decide)
    got = {name: type(decision) for name, decision in site.answers.items()}
    assert got == {"tool_2": Allow, "tool_0": Deny}


async def test_what_is_typed_and_ticked_stays_while_others_come_and_go() -> None:
    async with a_site() as site:
        one, *_ = await site.ask(*(ToolCall.example(f"tool_{n}") for n in range(3)))

        def watch(page: Page) -> None:
            page.type_into(page.named("textbox", "Reason")[0], "why not")
            page.click_on(page.named("checkbox", "Select")[1])
            go_to(page, "tool_2")
            page.press(UP)
            anyio.from_thread.run(site.ask, ToolCall.example("a_new_one"))
            until(lambda: listed(page) == 4, "it did not come")
            assert "1 of 4 selected" in text_of(page)
            assert "tool_1" in focused(page), "the focus stays where it was"
            page.press(UP)
            until(lambda: opened(page).startswith("tool_0"), "it is not open")
            assert (
                page.run(
                    "return document.getElementById('reason-' + arguments[0]).value".replace(
                        "arguments[0]", repr(one)
                    )
                )
                == "why not"
            )
            site.queue.decide(one, Deny("elsewhere"))
            until(lambda: "Decided elsewhere" in text_of(page), "it does not state it")
            assert page.named("button", "Allow") == [], "no other one came in its place"

        await with_browsers(site, watch)


async def test_what_does_not_arrive_and_who_is_logged_out_are_reported() -> None:
    people: dict[str, str | None] = {"there": "Ana"}
    async with a_site(kind=Brief, authorize=lambda scope: people["there"]) as site:
        await site.ask(ToolCall.example("tool"))

        def decide(page: Page) -> None:
            page.run("window.fetch = () => Promise.reject(new TypeError('no network'))")
            page.run("window.EventSource = class { close() {} }")
            press(page, "Allow")
            until(lambda: "did not arrive" in text_of(page), "it does not state it")
            assert live(page) == "No connection: trying again…"
            page.open(site.base)
            until(lambda: live(page) == "Live", "it is not live")
            people["there"] = None
            until(lambda: "log in" in live(page), "it does not state it")
            assert listed(page) == 1
            page.open(site.base)
            assert "You are not logged in" in text_of(page)
            assert page.run("return getComputedStyle(document.querySelector('h1')).fontWeight")

        await with_browsers(site, decide)


ODD = ToolCall.example(
    {"name": "send\u202e", "title": "Send", "description": "\u05d3\u05d1\u05e8"},
    {"to": "a" * 400, "text": "x\n" * 300},
    server="mail",
)


@pytest.mark.parametrize("count", [0, 12])
async def test_it_fits_and_keeps_nothing_from_anybody(count: int) -> None:
    script = peers.axe()
    calls = [ToolCall.example(f"tool_{n % 5}", {"n": n}, context="bo") for n in range(count - 6)]
    if count:
        delete = ToolCall.example("delete_file", {"path": "/a"}, destructive=True)
        calls += [start_of(), sampling_of("Write."), request_of(), ODD, delete, delete]  # type: ignore[list-item]
    async with a_site(show_context=True) as site:
        await site.ask(*calls)

        def look(page: Page) -> None:
            for width, height in ((320, 640), (768, 1024), (1440, 900)):
                for dark in (False, True):
                    page.look(width=width, height=height, dark=dark)
                    page.open(site.base)
                    until(lambda: live(page) == "Live", "it is not live")
                    assert page.run("return document.documentElement.scrollWidth") <= width
                    if count:
                        page.run("document.querySelectorAll('.row .tick')[1].click()")
                        assert page.run(IN_SIGHT.replace("KIND", "allow"))
                        assert page.run(IN_SIGHT.replace("KIND", "deny"))
                    if count == 12 and width == 1440:
                        assert page.run(LAST_ROW) <= height, "12 rows on one screen"
                    page.run(f"{script}; axe.run().then(r => window.found = r.violations)")
                    wrong = until(lambda: page.run("return window.found && [window.found]"), "axe")
                    prompt = [(one["id"], [n["html"] for n in one["nodes"]]) for one in wrong[0]]
                    assert prompt == [], (width, dark)

        await with_browsers(site, look)


IN_SIGHT = """
const box = document.querySelector('#open button.KIND').getBoundingClientRect();
return box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth;
"""
LAST_ROW = """
const rows = Array.from(document.querySelectorAll('li.row'));
return Math.max(...rows.map(one => one.getBoundingClientRect().bottom));
"""
