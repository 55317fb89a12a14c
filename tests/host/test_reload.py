"""A config file that changes while its servers run: only what changed is touched."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    ConfigError,
    ConnectError,
    Deny,
    Host,
    McpError,
    MemoryServer,
    NotSent,
    Sandbox,
    Timeouts,
    allow_all,
    deny_all,
)
from mcp_client import sync as blocking
from mcp_client.approval import StartRequest
from mcp_client.host import Reloaded
from mcp_client.host import from_config as reloading

SCRIPTED = Path(__file__).parents[1] / "support" / "scripted.py"


class File:
    """A config file of scripted servers, and who was asked about them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / ".cursor" / "mcp.json"
        self.path.parent.mkdir()
        self.servers: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.decision: Any = Allow()
        self.write(a=self.server(), b=self.server())

    def server(self, **env: str) -> dict[str, Any]:
        return {"command": sys.executable, "args": ["-IS", str(SCRIPTED)], "env": env}

    def write(self, **servers: Any) -> None:
        """Replace servers of the file; one that is None goes."""
        whole = {**self.servers, **servers}
        self.servers = {name: one for name, one in whole.items() if one is not None}
        self.put(json.dumps({"mcpServers": self.servers}, indent=1))

    def put(self, text: str) -> None:
        self.path.write_text(text)

    async def confirm(self, request: StartRequest) -> Any:
        self.asked.append(request.server)
        response = self.decision
        return await response(request) if callable(response) else response

    def host(self, **options: Any) -> Host:
        options.setdefault("confirm", self.confirm)
        timeouts = Timeouts(connect=30, close=2)
        return Host.from_config(self.path, approval=allow_all, timeouts=timeouts, **options)

    @asynccontextmanager
    async def entered(self, **options: Any) -> AsyncIterator[Host]:
        with anyio.fail_after(60):
            async with self.host(**options) as host:
                self.asked.clear()
                yield host


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> File:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return File(tmp_path)


async def pids(host: Host) -> dict[str, str]:
    found = {}
    for name in host.sessions:
        found[name] = (await host.call_tool(f"{name}__pid")).text
    return found


async def until(host: Host, is_so: Callable[[], bool]) -> None:
    """Until a change of status after which it is so."""
    async with host.status_changes() as changes:
        if is_so():
            return
        async for _ in changes:
            if is_so():
                return


def states(host: Host) -> dict[str, str]:
    return {name: status.state for name, status in host.status().items()}


# --------------------------------------------------------------------- what is touched


@pytest.mark.slow
async def test_only_what_changed_is_restarted_and_asked_about(file: File) -> None:
    file.write(c=file.server())
    async with file.entered() as host:
        before = await pids(host)
        file.write(a=file.server(NEW="1"), b=None, d=file.server())
        done = await host.reload()
        assert done == Reloaded(added=("d",), removed=("b",), changed=("a",), unchanged=("c",))
        assert sorted(file.asked) == ["a", "d"]
        after = await pids(host)
        assert after.keys() == {"a", "c", "d"}
        assert after["c"] == before["c"]
        assert after["a"] != before["a"]
        assert {tool.server for tool in await host.list_tools()} == {"a", "c", "d"}
        assert await host.reload() == Reloaded(unchanged=("a", "c", "d"))
        assert len(file.asked) == 2


async def test_what_is_not_of_the_start_is_a_change_too(file: File) -> None:
    async with file.entered() as host:
        file.write(a={**file.server(), "mcp-client": {"include": ["echo"]}})
        assert (await host.reload()).changed == ("a",)
        listed = [tool.name for tool in await host.list_tools() if tool.server == "a"]
        assert listed == ["echo"]


async def test_the_order_and_the_spelling_of_a_file_are_not_a_change(file: File) -> None:
    async with file.entered() as host:
        before = await pids(host)
        backwards = dict(reversed(file.servers.items()))
        file.put(json.dumps({"other": 1, "mcpServers": backwards}))
        assert await host.reload() == Reloaded(unchanged=("b", "a"))
        assert await pids(host) == before


async def test_calls_under_way_on_other_servers_are_undisturbed(file: File) -> None:
    outcomes: dict[str, Any] = {}

    async def call(host: Host, name: str) -> None:
        try:
            outcomes[name] = await host.call_tool(f"{name}__hold", {"for": name})
        except McpError as error:
            outcomes[name] = error

    file.write(c=file.server())
    async with file.entered() as host, anyio.create_task_group() as group:
        for name in "abc":
            group.start_soon(call, host, name)
        await anyio.wait_all_tasks_blocked()
        for name in "abc":  # answered after it has read what was sent before
            await host.call_tool(f"{name}__echo")
        file.write(a=file.server(NEW="1"), b=None)
        await host.reload()
        assert "c" not in outcomes
        await host.call_tool("c__release")
    assert not outcomes["c"].is_error
    for name in "ab":  # they had been sent
        assert isinstance(outcomes[name], McpError), outcomes
        assert not isinstance(outcomes[name], NotSent), outcomes


async def test_a_server_that_changed_and_is_refused_is_not_running(file: File) -> None:
    async with file.entered() as host:
        file.decision = Deny("not this one")
        file.write(a=file.server(NEW="1"))
        assert (await host.reload()).changed == ("a",)
        await until(host, lambda: host.status()["a"].error is not None)
        assert states(host) == {"a": "idle", "b": "connected"}
        assert "not this one" in str(host.status()["a"].error)
        with pytest.raises(NotSent, match="not allowed to start"):
            await host.call_tool("a__echo")


async def test_a_question_that_is_pending_is_asked_again_only_where_its_server_changed(
    file: File,
) -> None:
    cancelled: list[str] = []

    async def wait(request: StartRequest) -> Any:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(request.server)

    file.decision = wait
    async with file.entered() as host:
        file.asked[:] = ["a", "b"]
        file.write(a=file.server(NEW="1"))
        done = await host.reload()
        assert (done.changed, done.unchanged) == (("a",), ("b",))
        assert file.asked == ["a", "b", "a"]
        assert cancelled == ["a"]
        assert states(host) == {"a": "idle", "b": "idle"}


async def test_a_server_that_is_down_stays_so_unless_it_changed(file: File) -> None:
    broken = {"command": "no-such-program-here", "args": []}
    file.write(a=broken, b=broken)
    async with file.entered() as host:
        assert states(host) == {"a": "failed", "b": "failed"}
        error = host.status()["b"].error
        file.write(a=file.server())
        assert (await host.reload()).changed == ("a",)
        assert states(host) == {"a": "connected", "b": "failed"}
        assert host.status()["b"].error is error


async def test_a_file_that_is_put_in_counts(file: File) -> None:
    variables = file.directory / "variables.env"
    variables.write_text("KIND=first\n")
    file.write(a={**file.server(), "envFile": "variables.env"})
    async with file.entered() as host:
        assert await host.reload() == Reloaded(unchanged=("a", "b"))
        variables.write_text("KIND=second\n")
        assert (await host.reload()).changed == ("a",)
        assert file.asked == ["a"]
        environment = (await host.call_tool("a__environment")).text
        assert json.loads(environment)["KIND"] == "second"
        variables.unlink()
        assert await host.reload() == Reloaded(unchanged=("b", "a"))
        assert "variables.env cannot be read" in host.problems[0].message


async def test_a_file_that_is_put_in_counts_in_a_sandbox_too(file: File) -> None:
    variables = file.directory / "variables.env"
    variables.write_text("KIND=first\n")
    file.write(a={**file.server(), "envFile": "variables.env"})
    async with file.entered(confirm=deny_all, sandbox=Sandbox()) as host:
        variables.write_text("KIND=second\n")
        assert (await host.reload()).changed == ("a",)


async def test_only_is_of_the_servers_that_are_wanted(file: File) -> None:
    async with file.entered(only=["a"]) as host:
        file.write(c=file.server(), b=file.server(NEW="1"))
        assert await host.reload() == Reloaded(unchanged=("a",))
        file.write(a=None)
        assert await host.reload() == Reloaded(removed=("a",))
        assert states(host) == {}
        file.write(a=file.server())
        assert await host.reload() == Reloaded(added=("a",))


async def test_two_at_once_do_the_work_once(file: File) -> None:
    done: list[Reloaded] = []
    async with file.entered() as host:
        file.write(a=file.server(NEW="1"), c=file.server())

        async def reload() -> None:
            done.append(await host.reload())

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(reload)
        assert done[0] == Reloaded(added=("c",), changed=("a",), unchanged=("b",))
        assert all({*one.unchanged} == {"a", "b", "c"} for one in done[1:])
        assert sorted(file.asked) == ["a", "c"]


async def test_what_the_host_added_or_removed_itself_is_its_own(file: File) -> None:
    async with file.entered() as host:
        await host.add("own", MemoryServer(lambda message: {"tools": []}))
        await host.remove("b")
        assert await host.reload() == Reloaded(unchanged=("a", "b"))
        assert states(host).keys() == {"a", "own"}
        file.write(b=None, own=file.server())
        with pytest.raises(ConfigError, match=r"'own'.*Rename one") as caught:
            await host.reload()
        assert caught.value.server == "own"
        assert states(host).keys() == {"a", "own"}
        file.write(own=None)
        assert (await host.reload()).removed == ("b",)


async def test_a_server_of_the_hosts_own_is_not_taken_for_one_of_the_file(file: File) -> None:
    async with file.entered() as host:
        await host.remove("a")
        await host.add("a", MemoryServer(lambda message: {"tools": []}))
        own = host._servers["a"]
        file.write(a=file.server(NEW="1"))
        with pytest.raises(ConfigError, match=r"'a'.*Rename one"):
            await host.reload()
        file.write(a=None)
        assert (await host.reload()).removed == ("a",)
        assert host._servers["a"] is own


async def test_no_one_takes_a_name_while_what_is_gone_ends(file: File) -> None:
    async with file.entered() as host:
        close_all = host._close_all

        async def close(servers: Any) -> None:
            host._close_all = close_all  # type: ignore[method-assign]
            with pytest.raises(ConfigError, match="cannot add the server 'd'"):
                await host.add("d", MemoryServer(lambda message: {"tools": []}))
            await close_all(servers)

        host._close_all = close  # type: ignore[method-assign]
        file.write(a=None, c=file.server(), d=file.server())
        done = await host.reload()
        assert done == Reloaded(added=("c", "d"), removed=("a",), unchanged=("b",))
        assert states(host) == dict.fromkeys("bcd", "connected")


@pytest.mark.parametrize("changes", [{"c": True}, {"a": True}, {"a": None, "c": True}])
async def test_a_host_that_is_closed_meanwhile_starts_nothing(
    file: File, changes: dict[str, Any]
) -> None:
    async with file.entered() as host:
        read, is_being_read, closed = host._source.read, threading.Event(), threading.Event()  # type: ignore[union-attr]

        def slow() -> Any:
            is_being_read.set()
            assert closed.wait(20)
            return read()

        host._source.read = slow  # type: ignore[union-attr]
        file.write(**{name: one and file.server(NEW="1") for name, one in changes.items()})

        async def reload() -> None:
            with pytest.raises(ConnectError, match="closed"):
                await host.reload()

        async with anyio.create_task_group() as group:
            group.start_soon(reload)
            await anyio.to_thread.run_sync(is_being_read.wait)
            await host.aclose()
            closed.set()
        assert file.asked == []
        assert set(states(host).values()) == {"closed"}


async def test_a_reload_that_is_cancelled_is_done_all_the_same_or_not_at_all(file: File) -> None:
    async with file.entered() as host:
        ending, close_all = anyio.Event(), host._close_all

        async def slow(servers: Any) -> None:
            ending.set()
            await close_all(servers)

        host._close_all = slow  # type: ignore[method-assign]
        file.write(a=file.server(NEW="1"), b=None, c=file.server())
        async with anyio.create_task_group() as group:
            group.start_soon(host.reload)
            await ending.wait()
            group.cancel_scope.cancel()
        await until(host, lambda: states(host) == {"a": "connected", "c": "connected"})
        assert await host.reload() == Reloaded(unchanged=("a", "c"))


async def test_servers_that_end_slowly_are_waited_for_side_by_side(file: File) -> None:
    async with file.entered() as host:
        ending, both = [], anyio.Event()
        for server in host._servers.values():

            async def slow(name: str = server.name, close: Any = server.aclose) -> None:
                ending.append(name)
                if len(ending) == 2:
                    both.set()
                await both.wait()
                await close()

            server.aclose = slow  # type: ignore[method-assign]
        file.write(a=None, b=None)
        longest, began = host._servers["a"].closes_within, anyio.current_time()
        assert (await host.reload()).removed == ("a", "b")
        assert anyio.current_time() - began < longest
        assert states(host) == {}


async def test_a_required_server_that_is_removed_while_the_host_is_entered_is_missed(
    file: File,
) -> None:
    silent = ["-IS", "-c", "import sys; sys.stdin.read()"]
    file.write(a={"command": sys.executable, "args": silent})
    with anyio.fail_after(60):
        host = file.host(required=["a"])

        async def enter() -> None:
            with pytest.raises(ConfigError, match="unknown server 'a'"):
                await host

        async with anyio.create_task_group() as group:
            group.start_soon(enter)
            while not host._opened:
                await anyio.lowlevel.checkpoint()
            file.write(a=None)
            assert (await host.reload()).removed == ("a",)


def vscode(file: File, **whole: Any) -> None:
    """A file of VS Code with one server, that uses an input."""
    file.path = file.directory / ".vscode" / "mcp.json"
    file.path.parent.mkdir(exist_ok=True)
    server = {"type": "stdio", **file.server(MODE="${input:mode}"), "sandboxEnabled": True}
    file.put(json.dumps({"servers": {"a": server}, **whole}))


def inputs(default: str) -> list[Any]:
    return [{"id": "mode", "type": "promptString", "default": default}]


async def test_what_the_file_sets_elsewhere_for_a_server_counts(file: File) -> None:
    vscode(file, inputs=inputs("1"))
    async with file.entered(confirm=deny_all) as host:
        vscode(file, inputs=inputs("2"))
        assert (await host.reload()).changed == ("a",)
        vscode(file, inputs=[*inputs("2"), {"id": "other", "type": "promptString"}])
        assert (await host.reload()).changed == ()
        vscode(file, inputs=inputs("2"), sandbox={"filesystem": {"allowRead": ["/etc"]}})
        assert (await host.reload()).changed == ("a",)


# ------------------------------------------------------------------- what cannot be used


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"mcpServers": {\n "a": {"command": "x"},,\n}}', "2"),
        ("", "1"),
        ("[1, 2]", ""),
        ('{"mcpServers":\n 7}', "1"),
        ("\0\1", "1"),
    ],
)
async def test_a_malformed_file_keeps_what_is_there_and_names_its_place(
    file: File, text: str, line: str
) -> None:
    async with file.entered() as host:
        before = await pids(host)
        file.put(text)
        with pytest.raises(ConfigError, match="was not applied") as caught:
            await host.reload()
        assert f"{file.path}{line and f':{line}'}" in str(caught.value)
        assert host.problems
        assert await pids(host) == before
        file.write()
        assert await host.reload() == Reloaded(unchanged=("a", "b"))
        assert host.problems == ()


async def test_a_file_that_is_gone_keeps_what_is_there(file: File) -> None:
    async with file.entered() as host:
        before = await pids(host)
        file.path.unlink()
        with pytest.raises(ConfigError, match=r"mcp\.json"):
            await host.reload()
        assert await pids(host) == before


@pytest.mark.parametrize("entry", [{"command": 7}, {"args": []}, 7, {"command": "${NO_SUCH_ONE}"}])
async def test_a_malformed_entry_keeps_its_server_and_no_other(file: File, entry: Any) -> None:
    file.write(ab=file.server())
    async with file.entered() as host:
        before = await pids(host)
        file.write(a=entry, ab=None, c=file.server())
        done = await host.reload()
        assert done == Reloaded(added=("c",), removed=("ab",), unchanged=("b", "a"))
        assert (await pids(host))["a"] == before["a"]
        (problem, *_) = host.problems
        assert problem.key.startswith("mcpServers.a")
        assert problem.line is not None
        file.write(a=file.server())
        assert await host.reload() == Reloaded(unchanged=("a", "b", "c"))


async def test_a_host_without_a_file_and_one_that_is_closed_report_it(file: File) -> None:
    async with Host({}, approval=allow_all) as host:
        with pytest.raises(ConfigError, match="no config file"):
            await host.reload()
    with pytest.raises(ConnectError, match="closed"):
        await host.reload()
    with pytest.raises(ConfigError, match="not open yet"):
        await file.host().reload()
    with pytest.raises(ConfigError, match="watch='yes'"):
        file.host(watch="yes")


def test_the_blocking_face_does_the_same(file: File) -> None:
    timeouts = Timeouts(connect=30, close=2)
    with blocking.Host.from_config(
        file.path, confirm=file.confirm, approval=allow_all, timeouts=timeouts, watch=False
    ) as host:
        file.write(a=None)
        assert host.reload() == Reloaded(removed=("a",), unchanged=("b",))


# ------------------------------------------------------------------------------- watching


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reloading, "_LOOK_SECONDS", 0.02)


@pytest.fixture
def reloads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What each reload led to."""
    seen: list[Any] = []
    reload = Host.reload

    async def noted(self: Host) -> Reloaded:
        try:
            done = await reload(self)
        except ConfigError as error:
            seen.append(error)
            raise
        seen.append(done)
        return done

    monkeypatch.setattr(Host, "reload", noted)
    return seen


async def count(seen: list[Any], number: int) -> Any:
    while len(seen) < number:
        await anyio.sleep(0.005)
    return seen[number - 1]


@pytest.mark.usefixtures("looks")
async def test_a_file_that_is_watched_is_read_again_when_it_was_written(
    file: File, reloads: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with file.entered(watch=True) as host:
        before = await pids(host)
        file.write(c=file.server())  # in place
        assert (await count(reloads, 1)).added == ("c",)

        new = file.directory / "new"  # as editors replace a file
        del file.servers["b"]
        new.write_text(json.dumps({"mcpServers": file.servers}))
        new.replace(file.path)
        assert (await count(reloads, 2)).removed == ("b",)

        file.path.touch()  # nothing is reported again
        assert await count(reloads, 3) == Reloaded(unchanged=("a", "c"))

        with caplog.at_level(logging.WARNING):
            file.put('{"mcpServers": {,}}')
            assert isinstance(await count(reloads, 4), ConfigError)
        assert f"{file.path}:1" in caplog.text
        assert host.problems
        file.path.unlink()
        assert isinstance(await count(reloads, 5), ConfigError)
        file.write()
        assert await count(reloads, 6) == Reloaded(unchanged=("a", "c"))
        assert (await pids(host))["a"] == before["a"]


async def test_a_file_that_is_written_in_two_steps_is_read_when_it_is_whole(
    file: File, reloads: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stamps are given here: what is tried is that two looks in a row have to be the same."""
    monkeypatch.setattr(reloading, "_LOOK_SECONDS", 0.001)
    stamps = iter([0, 1, 2, 3])
    last = [0]

    def stamp(self: Any) -> int:
        last[0] = next(stamps, last[0])
        if last[0] < 3:
            assert reloads == []
        return last[0]

    monkeypatch.setattr(reloading.ConfigSource, "stamp", stamp)
    async with file.entered(watch=True):
        assert await count(reloads, 1) == Reloaded(unchanged=("a", "b"))
        assert last == [3]


@pytest.mark.usefixtures("looks")
async def test_a_file_is_watched_on_where_it_could_not_be_read_for_a_moment(
    file: File, reloads: list[Any]
) -> None:
    async with file.entered(watch=True) as host:
        source, failing = host._source, anyio.Event()
        assert source is not None
        read = source.read

        def fail() -> Any:
            anyio.from_thread.run_sync(failing.set)
            raise RuntimeError("can't start new thread")

        source.read = fail
        file.write(a=None)
        await failing.wait()
        source.read = read
        file.write(c=file.server())
        done = await count(reloads, 1)
        assert (done.added, done.removed) == (("c",), ("a",))


@pytest.mark.usefixtures("looks")
async def test_a_host_that_is_closed_watches_no_more(file: File, reloads: list[Any]) -> None:
    async with file.entered(watch=True) as host:
        watch = host._file_watch
        assert watch is not None
    assert len(watch._tasks) == 0
