"""The page alone on this machine: an address for one use, and a server that keeps its bounds."""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from typing import Any

import anyio
import httpx
import pytest
from anyio.lowlevel import checkpoint

from mcp_client import Allow, ApprovalQueue, ConfigError, ToolCall
from mcp_client.approval.decision import Answer
from mcp_client.desk import serve_desk

CALL = ToolCall.example("delete_file", {"path": "/srv"}, server="files")


def browser() -> httpx.AsyncClient:
    return httpx.AsyncClient(follow_redirects=True, trust_env=False, verify=False, timeout=60)


async def test_the_address_opens_the_page_once_and_decides_in_the_persons_name() -> None:
    queue = ApprovalQueue()
    answers: list[Answer] = []

    async def ask() -> None:
        answers.append(await queue(CALL))

    async with (
        serve_desk(queue, person="Ana") as desk,
        browser() as one,
        browser() as other,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(ask)
        with queue.changes() as changes:
            (pending,) = await anext(changes)
        page = await one.get(desk.url)
        assert page.status_code == 200
        assert "delete_file" in page.text
        assert desk.url not in page.text
        assert (await one.get(page.url)).status_code == 200, "the cookie stays"
        late = await other.get(desk.url)
        assert late.status_code == 403
        assert "used already" in late.text
        assert 'href="/static/desk.css"' in late.text
        assert (await other.get(httpx.URL(desk.url).join("/static/desk.css"))).status_code == 200
        assert (await other.get(page.url)).status_code == 403
        token = re.search(r'name="token" value="(\w+)"', page.text)
        assert token
        form = {"token": token[1], "ids": pending.id, "answer": "allow"}
        assert (await one.post(page.url.join("decide"), data=form)).status_code == 200
        again = desk.invite()
        assert (await other.get(again)).status_code == 200
    assert [(type(response), response.by) for response in answers] == [(Allow, "Ana")]
    with pytest.raises(httpx.ConnectError):
        await browser().get(page.url)


async def test_who_decides_without_scripts_gets_the_page_though_the_program_ends_then() -> None:
    queue = ApprovalQueue()
    desk = await serve_desk(queue).open()
    desk.return_seconds = 120.0
    async with browser() as client, anyio.create_task_group() as tasks:
        tasks.start_soon(queue, CALL)
        with queue.changes() as changes:
            (pending,) = await anext(changes)
        page = await client.get(desk.url)
        token = re.search(r'name="token" value="(\w+)"', page.text)
        assert token
        form = {"token": token[1], "ids": pending.id, "answer": "allow"}
        to = page.url.join("decide")
        response = await client.post(to, data=form, follow_redirects=False)
        assert response.status_code == 303
        tasks.start_soon(desk.aclose)
        await anyio.wait_all_tasks_blocked()
        back = await client.get(to.join(response.headers["location"]))
        assert "Allowed" in back.text
        assert (await client.get(page.url.join("static/desk.css"))).status_code == 200
    with pytest.raises(httpx.ConnectError):
        await browser().get(page.url)


async def test_by_default_the_user_who_runs_the_program_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "carl")
    async with serve_desk(ApprovalQueue()) as desk, browser() as client:
        assert "carl" in (await client.get(desk.url)).text


async def test_the_cookie_is_for_the_path_of_the_page_and_for_no_script() -> None:
    async with (
        serve_desk(ApprovalQueue()) as desk,
        httpx.AsyncClient(trust_env=False, timeout=60) as client,
    ):
        response = await client.get(desk.url)
    cookie = response.headers["set-cookie"]
    path = response.headers["location"]
    assert response.status_code == 303
    assert len(path) > 20
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert f"Path={path}" in cookie


async def test_another_host_name_is_refused_and_does_not_use_the_address_up() -> None:
    async with serve_desk(ApprovalQueue()) as desk, browser() as client:
        for host in ("evil.example", "localhost", ""):
            foreign = await client.get(desk.url, headers={"Host": host})
            assert foreign.status_code == 421
        assert (await client.head(desk.url)).status_code == 403
        assert (await client.get(desk.url)).status_code == 200


async def test_it_closes_while_a_page_is_open(caplog: pytest.LogCaptureFixture) -> None:
    desk = await serve_desk(ApprovalQueue()).open()
    url = httpx.URL(desk.url)
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        response = await client.get(url)
        cookie = response.headers["set-cookie"].partition(";")[0]
        stream = await anyio.connect_tcp(url.host, url.port or 0)
        head = f"Host: {url.netloc.decode()}\r\nCookie: {cookie}\r\n\r\n"
        await stream.send(f"GET {response.headers['location']}changes HTTP/1.1\r\n{head}".encode())
        assert b"text/event-stream" in await stream.receive()
        with anyio.fail_after(60):
            await desk.aclose()
        await desk.aclose()
        await stream.aclose()
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


async def test_nothing_of_it_is_left_when_it_is_closed() -> None:
    before = set(threading.enumerate())
    async with serve_desk(ApprovalQueue()):
        new = [one.name for one in set(threading.enumerate()) - before]
        assert "mcp_client desk" in new
    assert "mcp_client desk" not in [one.name for one in threading.enumerate()]


async def test_what_may_be_seen_is_asked_in_the_event_loop_of_the_program() -> None:
    queue, here, asked = ApprovalQueue(), threading.get_ident(), list[int]()

    async def visible(person: str, request: ToolCall) -> bool:
        await checkpoint()
        asked.append(threading.get_ident())
        return request.tool.name == "delete_file"

    async with (
        serve_desk(queue, visible=visible) as desk,
        browser() as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(queue, CALL)
        tasks.start_soon(queue, ToolCall.example("hidden_one", server="files"))
        while len(queue.pending) < 2:
            await checkpoint()
        page = await client.get(desk.url)
        assert "delete_file" in page.text
        assert "hidden_one" not in page.text
        tasks.cancel_scope.cancel()
    assert asked == [here, here]


async def test_the_address_that_lets_in_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with (
        serve_desk(ApprovalQueue()) as desk,
        httpx.AsyncClient(trust_env=False, timeout=60) as client,
    ):
        caplog.clear()
        await client.get(desk.url)
        await client.get(desk.invite())
        ours = [one for one in caplog.records if one.name.startswith(("uvicorn", "mcp_client"))]
    assert not [one.getMessage() for one in ours if "HTTP/1.1" in one.getMessage()]


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "mcp_client.desk.http.find_spec", lambda name: None if name == package else True
    )
    with pytest.raises(ConfigError, match=rf'{package}: pip install "mcp-client-host\[web\]"'):
        serve_desk(ApprovalQueue())


@pytest.mark.parametrize(
    "options",
    [
        {"host": "0.0.0.0"},
        {"host": "example.com"},
        {"host": 5},
        {"port": -1},
        {"port": True},
        {"port": 70_000},
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"serve_desk\({next(iter(options))}="):
        serve_desk(ApprovalQueue(), **options)


# The oldest anyio that is supported leaves the socket it could not bind to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_port_that_is_taken_is_reported() -> None:
    async with serve_desk(ApprovalQueue()) as desk:
        port = httpx.URL(desk.url).port or 0
        with pytest.raises(ConfigError, match=f"cannot listen at 127.0.0.1:{port}"):
            await serve_desk(ApprovalQueue(), port=port).open()


# ------------------------------------------------------------------------- the server


async def first_line(desk_url: str, *parts: bytes) -> bytes:
    url, received = httpx.URL(desk_url), b""
    async with await anyio.connect_tcp(url.host, url.port or 0) as stream:
        for part in parts:
            await stream.send(part)
        with anyio.fail_after(30):
            while b"\r\n" not in received:
                received += await stream.receive()
    return received


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET http://evil/ HTTP/1.1\r\nHost: a\r\n\r\n", b"421"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n folded: x\r\n\r\n", b"421"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"421"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n", b"421"),
    ],
)
async def test_a_malformed_request_is_refused(request_: bytes, status: bytes) -> None:
    async with serve_desk(ApprovalQueue()) as desk:
        reply = await first_line(desk.url, request_)
        assert reply.startswith(b"HTTP/1.1 " + status + b" ")


async def test_a_head_that_does_not_end_is_not_taken_in() -> None:
    async with serve_desk(ApprovalQueue()) as desk:
        url = httpx.URL(desk.url)
        async with await anyio.connect_tcp(url.host, url.port or 0) as stream:
            await stream.send(b"GET / HTTP/1.1\r\nHost: a\r\n")
            with anyio.fail_after(30), suppress(anyio.BrokenResourceError):
                while True:
                    await stream.send(b"A: " + b"x" * 60_000 + b"\r\n")


async def test_a_request_may_come_in_pieces() -> None:
    async with serve_desk(ApprovalQueue()) as desk:
        host = httpx.URL(desk.url).netloc
        parts = (b"GET /x HT", b"TP/1.1\r\nHost: " + host, b"\r\n", b"\r\n")
        reply = await first_line(desk.url, *parts)
        assert reply.startswith(b"HTTP/1.1 403 Forbidden\r\n")


async def test_connections_that_send_nothing_keep_no_one_waiting() -> None:
    async with serve_desk(ApprovalQueue()) as desk, browser() as client:
        url = httpx.URL(desk.url)
        idle = [await anyio.connect_tcp(url.host, url.port or 0) for _ in range(80)]
        with anyio.fail_after(60):
            assert (await client.get(url)).status_code == 200
        for stream in idle:
            await stream.aclose()
