"""``mcp_client.sync``: the client for programs without an event loop."""

from __future__ import annotations

import gc
import inspect
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

import mcp_client
from mcp_client import (
    Allow,
    CallDenied,
    CancelToken,
    ConfigError,
    ConnectError,
    Deny,
    Handlers,
    MemoryServer,
    NotSent,
    ToolCall,
    allow_all,
    sync,
)
from mcp_client.errors import CallCancelled, UnknownTool
from mcp_client.handlers import Accept
from mcp_client.runtime.portal import portal
from mcp_client.sync import connect
from tests.support.starting import library, scripted, views

ROOT = Path(__file__).parents[1]
BOUND = 180.0
"""Seconds that anything here may take, on a loaded machine."""


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def described(function: Any) -> tuple[str, str | None]:
    signature = inspect.signature(function)
    return str(signature.replace(return_annotation=signature.empty)), function.__doc__


def loaded(program: str) -> set[str]:
    """The modules that ``program`` loads."""
    words = [sys.executable, "-c", f"{program}; import sys; print(*sys.modules)"]
    return set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())


def test_importing_connect_loads_three_modules_more_than_the_async_import() -> None:
    known = loaded("from mcp_client import connect, StdioServer, Allow")
    more = loaded("from mcp_client.sync import connect") - known
    own = {"mcp_client.runtime.portal", "mcp_client.sync", "mcp_client.sync.connecting"}
    assert more == own


class TestTheFace:
    def test_a_session_has_the_names_of_the_async_one(self) -> None:
        asynchronous = public(mcp_client.Session) - {"aclose"} | {"close", "name", "stats"}
        assert public(sync.Session) | {"name"} == asynchronous

    def test_methods_have_the_signatures_and_documentation_of_the_async_ones(self) -> None:
        for name in sorted(public(mcp_client.Session) - {"aclose"}):
            blocking = inspect.getattr_static(sync.Session, name, None)
            if inspect.isfunction(blocking):
                assert described(blocking) == described(getattr(mcp_client.Session, name)), name

    def test_properties_have_the_first_line_of_the_async_ones(self) -> None:
        for name in sorted(public(sync.Session)):
            blocking = inspect.getattr_static(sync.Session, name)
            if isinstance(blocking, property):
                original = inspect.getattr_static(mcp_client.Session, name, None)
                if isinstance(original, property):
                    first = (original.__doc__ or "").splitlines()[0]
                    assert (blocking.__doc__ or "").startswith(first), name

    def test_connect_has_the_options_and_documentation_of_the_async_one(self) -> None:
        assert described(connect) == described(mcp_client.connect)

    def test_a_wrong_option_is_the_error_of_the_async_one(self) -> None:
        with pytest.raises(ConfigError, match="allow_all"):
            connect(scripted(), approval=True)  # type: ignore[arg-type]

    def test_using_a_session_before_it_is_open_states_what_to_write(self) -> None:
        with pytest.raises(ConfigError, match=r"connect\(...\)\.open\(\)"):
            connect(scripted()).call_tool("echo")  # type: ignore[attr-defined]


class TestASession:
    @pytest.mark.parametrize("era", ["handshake", "stateless"])
    def test_lists_calls_reads_and_completes(self, era: str) -> None:
        with connect(library(era), approval=allow_all) as session:
            assert session.protocol_version
            assert session.capabilities
            for tool in session.list_tools():
                assert session.get_tool(tool.name).fingerprint == tool.fingerprint
            resources = session.list_resources()
            assert session.read_resource(resources[0].uri).contents
            assert len(session.list_prompts()) > 0
            session.ping()

    def test_a_view_is_read_and_its_app_answers(self) -> None:
        with connect(views(), approval=allow_all) as session:
            tool = session.get_tool("show")
            assert session.read_ui(tool).html.startswith("<!doctype html>")
            app = session.app(tool, context="ana")
            assert app.context == "ana"
            assert app.call_tool("refresh").structured_content == {"h": 14}
            assert app.read_resource("data:hours").contents
            assert app.link("https://example.com/help").host == "example.com"
            message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            assert app.handle(message) == {"jsonrpc": "2.0", "id": 1, "result": {}}
            app.close()
            with pytest.raises(NotSent, match="the view was closed"):
                app.call_tool("refresh")

    def test_an_app_has_the_names_signatures_and_documentation_of_the_async_one(self) -> None:
        assert public(sync.App) == public(mcp_client.extensions.App)
        for name in sorted(public(mcp_client.extensions.App)):
            blocking = described(inspect.getattr_static(sync.App, name))
            assert blocking == described(getattr(mcp_client.extensions.App, name)), name

    def test_is_closed_by_the_end_of_its_block(self) -> None:
        with connect(scripted(), approval=allow_all) as session:
            pid = int(session.call_tool("pid").text)
        with pytest.raises(ConnectError):
            session.list_tools(refresh=True)
        assert not Path(f"/proc/{pid}").exists()

    def test_opened_without_a_block_is_closed_by_close(self) -> None:
        session = connect(scripted(), approval=allow_all).open()
        pid = int(session.call_tool("pid").text)
        session.close()
        session.close()
        assert not Path(f"/proc/{pid}").exists()

    def test_cannot_be_opened_twice_by_one_connect(self) -> None:
        connecting = connect(scripted())
        connecting.open().close()
        with pytest.raises(ConfigError, match="once"):
            connecting.open()

    def test_raises_what_the_async_one_raises(self) -> None:
        with connect(scripted(), approval=lambda _: Deny("not today")) as session:
            with pytest.raises(UnknownTool, match="echo"):
                session.call_tool("eccho")
            with pytest.raises(CallDenied, match="not today"):
                session.call_tool("echo", {})

    def test_a_server_that_does_not_start_is_a_connect_error(self, tmp_path: Path) -> None:
        with pytest.raises(ConnectError), connect([str(tmp_path / "missing")]):
            pass

    def test_works_where_a_loop_is_running_already(self) -> None:
        async def cell() -> str:
            with connect(scripted(), approval=allow_all) as session:
                return session.call_tool("echo", {"a": 1}).text

        assert json.loads(anyio.run(cell)) == {"a": 1}

    def test_a_token_cancels_a_call_from_another_thread(self) -> None:
        token = CancelToken()
        with connect(scripted(), approval=allow_all) as session:
            sent = threading.Event()

            def cancel() -> None:
                assert sent.wait(BOUND)
                token.cancel("enough")

            def approved(_: ToolCall) -> Allow:
                sent.set()
                return Allow()

            thread = threading.Thread(target=cancel)
            thread.start()
            with (
                connect(scripted(), approval=approved) as other,
                pytest.raises((CallCancelled, mcp_client.errors.CallWithdrawn), match="enough"),
            ):
                other.call_tool("never", cancel=token)
            thread.join(BOUND)
            assert session.call_tool("echo", {}).text == "{}"


class TestAHost:
    def test_has_the_names_signatures_and_documentation_of_the_async_one(self) -> None:
        assert public(sync.Host) == public(mcp_client.Host) - {"aclose"} | {"open", "close"} | {
            "problems"
        }
        for name in sorted(public(mcp_client.Host) - {"aclose"}):
            its = inspect.getattr_static(sync.Host, name)
            if isinstance(its, property):
                continue
            ours, theirs = getattr(sync.Host, name), getattr(mcp_client.Host, name)
            if name == "status_changes":
                assert described(ours)[0] == described(theirs)[0]
            else:
                assert described(ours) == described(theirs), name
        assert described(sync.Host.__init__) == described(mcp_client.Host.__init__)

    def test_calls_tools_of_many_servers_from_many_threads(self) -> None:
        servers: dict[str, Any] = {
            "one": scripted(),
            "two": scripted(),
            "gone": ["/nonexistent/program"],
        }
        with sync.Host(servers, approval=allow_all) as host:
            assert {name: one.state for name, one in host.status().items()} == {
                "one": "connected",
                "two": "connected",
                "gone": "failed",
            }
            names = {tool.qualified_name for tool in host.list_tools()}
            assert names >= {"one__echo", "one__pid", "two__echo", "two__pid"}
            assert len(names) == 2 * len(host.sessions["one"].list_tools())

            def work(number: int) -> bool:
                name = f"{('one', 'two')[number % 2]}__echo"
                return host.call_tool(name, {"n": number}).text == f'{{"n": {number}}}'

            with ThreadPoolExecutor(4) as pool:
                assert all(pool.map(work, range(40), timeout=BOUND))

    def test_gives_sessions_that_block(self) -> None:
        with sync.Host({"one": scripted()}, approval=allow_all) as host:
            session = host.session("one")
            assert isinstance(session, sync.Session)
            assert host.sessions["one"] is session
            assert session.call_tool("echo", {}).text == "{}"

    def test_reports_servers_that_come_and_go(self) -> None:
        with sync.Host({}, approval=allow_all) as host, host.status_changes() as changes:
            assert host.add("one", scripted()).state == "connected"
            while (status := next(changes)).state != "connected":
                pass
            assert isinstance(host.sessions[status.name], sync.Session)
            host.remove("one")
            assert host.status() == {}

    def test_without_a_block_is_opened_and_closed(self) -> None:
        host = sync.Host({"one": scripted()}, approval=allow_all).open()
        pid = int(host.call_tool("one__pid").text)
        host.close()
        assert gone(pid)
        host.close()
        with pytest.raises(ConfigError, match="Create another Host"):
            host.open()

    def test_starts_nothing_after_it_was_closed(self, tmp_path: Path) -> None:
        starts = tmp_path / "starts"
        host = sync.Host({"one": scripted("--starts", str(starts))}, approval=allow_all)
        host.close()
        with pytest.raises(ConnectError, match="closed before it was opened"), host:
            raise AssertionError("it was entered")
        assert not starts.exists()
        assert host._async not in portal()._closers


class TestThreads:
    def test_share_one_session(self) -> None:
        with connect(scripted(), approval=allow_all) as session:
            session.list_tools()

            def work(number: int) -> bool:
                result = session.call_tool("echo", {"n": number})
                return bool(json.loads(result.text) == {"n": number})

            with ThreadPoolExecutor(8) as pool:
                assert all(pool.map(work, range(200), timeout=BOUND))

    @pytest.mark.slow
    def test_are_served_by_one_portal_thread(self) -> None:
        def portals() -> int:
            return sum(thread.name == "mcp_client portal" for thread in threading.enumerate())

        with connect(scripted()) as one, connect(scripted()) as other:
            one.list_tools()
            other.list_tools()
            assert portals() == 1
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: connect(scripted()).open().close(), range(4)))
        assert portals() == 1

    def test_one_thread_may_close_what_another_waits_on(self) -> None:
        asked = threading.Event()

        def approve(_: ToolCall) -> Allow:
            asked.set()
            return Allow()

        session = connect(scripted(), approval=approve).open()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(session.call_tool, "never")
            assert asked.wait(BOUND)
            session.close()
            assert isinstance(waiting.exception(BOUND), mcp_client.McpError)


class TestHooks:
    def test_may_be_plain_or_async(self) -> None:
        async def approve(call: ToolCall) -> Allow | Deny:
            return Allow() if call.arguments["n"] else Deny("zero")

        with connect(scripted(), approval=approve) as session:
            assert session.call_tool("echo", {"n": 1}).text == '{"n": 1}'
            with pytest.raises(CallDenied, match="zero"):
                session.call_tool("echo", {"n": 0})

    def test_a_plain_hook_may_use_the_session(self) -> None:
        seen: list[int] = []

        def approve(_: ToolCall) -> Allow:
            seen.append(len(session.list_tools()))
            return Allow()

        with connect(scripted(), approval=approve) as session:
            session.call_tool("echo", {})
            assert seen == [len(session.list_tools())]

    def test_an_async_hook_that_blocks_on_a_session_is_informed_at_once(self) -> None:
        raised: list[BaseException] = []

        async def approve(_: ToolCall) -> Allow:
            try:
                session.list_tools()
            except NotSent as error:
                raised.append(error)
            return Allow()

        with connect(scripted(), approval=approve) as session:
            session.call_tool("echo", {})
        assert "event loop" in str(raised[0])

    def test_a_plain_progress_callback_that_blocks_is_informed_at_once(self) -> None:
        raised: list[BaseException] = []

        def progress(*_: Any) -> None:
            try:
                session.list_tools()
            except NotSent as error:
                raised.append(error)

        with connect(scripted(), approval=allow_all) as session:
            session.call_tool("flood-progress", {"count": 1}, on_progress=progress)
        assert len(raised) == 1

    def test_one_that_raises_system_exit_ends_neither_the_loop_nor_others(self) -> None:
        async def leave(_: ToolCall) -> Allow:
            raise SystemExit(3)

        with connect(scripted(), approval=allow_all) as other:
            with (
                connect(scripted(), approval=leave) as session,
                pytest.raises((SystemExit, CallDenied)),
            ):
                session.call_tool("echo", {})
            assert other.call_tool("echo", {}).text == "{}"

    def test_handlers_may_be_plain_functions(self) -> None:
        handlers = Handlers(elicitation=lambda _: Accept({}))
        with connect(scripted(), handlers=handlers) as session:
            assert session.protocol_version


class TestChanges:
    def test_are_iterated_and_let_go(self) -> None:
        with connect(library("stateless"), approval=allow_all) as session:
            with session.tool_changes() as changes:
                assert iter(changes) is changes
            assert list(changes) == []

    def test_a_waiting_thread_ends_when_another_closes(self) -> None:
        with connect(library("stateless"), approval=allow_all) as session:
            changes = session.tool_changes()
            with changes, ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(list, changes)
                changes.close()
                assert waiting.result(BOUND) == []

    def test_end_with_the_session(self) -> None:
        session = connect(library("stateless"), approval=allow_all).open()
        changes = session.tool_changes()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(list, changes)
            session.close()
            assert waiting.result(BOUND) == []


PRELUDE = """
    import os, signal, sys, threading
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from mcp_client import StdioServer, allow_all
    from mcp_client.sync import connect
    from tests.support.starting import scripted

    def say(*words): os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # as one
"""


def program(tmp_path: Path, body: str) -> subprocess.Popen[str]:
    """A program of its own, whose output is read line by line."""
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PRELUDE) + textwrap.dedent(body))
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, list[str], str]:
    try:
        output, errors = process.communicate(timeout=BOUND)
    finally:
        process.kill()
    return process.returncode, output.splitlines(), errors


def gone(pid: int) -> bool:
    """Whether the process ends within the bound."""
    until = time.monotonic() + BOUND
    while Path(f"/proc/{pid}/stat").exists():
        if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            return True
        if time.monotonic() > until:
            return False
        threading.Event().wait(0.01)
    return True


@pytest.mark.parametrize("face", ["session", "host"])
def test_ctrl_c_as_soon_as_it_is_open_closes_it(face: str, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = MemoryServer(lambda message: NotImplemented)
    opening = connect(memory) if face == "session" else sync.Host({"one": memory})
    run, interrupts = opening._run, iter([KeyboardInterrupt])

    def run_and_interrupt(*arguments: Any) -> Any:
        done = run(*arguments)
        for interrupt in interrupts:
            assert memory._open
            raise interrupt
        return done

    monkeypatch.setattr(opening, "_run", run_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        opening.open()
    assert not memory._open


class TestAProgram:
    @pytest.mark.slow
    def test_ctrl_c_cancels_the_call_and_notifies_the_server(self, tmp_path: Path) -> None:
        process = program(
            tmp_path,
            """
            def server(message, send):
                if message["method"] == "tools/call":
                    say("CALLED")
                elif message["method"] == "notifications/cancelled":
                    say("TOLD")
                elif message["method"] == "initialize":
                    send({"jsonrpc": "2.0", "id": message["id"], "result": {
                        "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                        "serverInfo": {"name": "x", "version": "1"}}})
                elif message["method"] == "tools/list":
                    send({"jsonrpc": "2.0", "id": message["id"], "result": {
                        "tools": [{"name": "never", "inputSchema": {"type": "object"}}]}})

            from mcp_client import MemoryServer
            memory = MemoryServer(server)
            with connect(memory, approval=allow_all, revision="2025-11-25") as session:
                try:
                    session.call_tool("never")
                except KeyboardInterrupt:
                    say("INTERRUPTED")
                say(len(session.list_tools(refresh=True)))
            say("CLOSED")
            """,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "CALLED\n"
        process.send_signal(signal.SIGINT)
        code, lines, errors = ended(process)
        assert (code, sorted(lines)) == (0, ["1", "CLOSED", "INTERRUPTED", "TOLD"]), errors

    @pytest.mark.slow
    def test_ctrl_c_ends_it_and_its_server(self, tmp_path: Path) -> None:
        process = program(
            tmp_path,
            """
            with connect(scripted(), approval=allow_all) as session:
                say(session.call_tool("pid").text)
                session.call_tool("never")
            """,
        )
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        code, _, errors = ended(process)
        assert code in (-signal.SIGINT, 130), errors
        assert "KeyboardInterrupt" in errors
        assert gone(pid)

    @pytest.mark.parametrize("face", ["session", "host"])
    @pytest.mark.parametrize("begun_by", ["map", "submit", "threads"])
    def test_ctrl_c_cancels_the_calls_of_all_threads_and_begins_no_other(
        self, tmp_path: Path, face: str, begun_by: str
    ) -> None:
        process = program(
            tmp_path,
            f"""
            from concurrent.futures import ThreadPoolExecutor
            from mcp_client import McpError
            from mcp_client.sync import Host
            face, begun_by = {face!r}, {begun_by!r}
            """
            """
            both, ended = threading.Barrier(2), threading.Semaphore(0)

            def approve(call):
                both.wait(60)
                say("ASKED")
                return allow_all(call)

            def work(number):
                try:
                    target.call_tool("never" if face == "session" else "one__never", timeout=900)
                except McpError as error:
                    say(type(error).__name__, getattr(error, "reason", error))
                finally:
                    ended.release()

            one = scripted()
            opened = connect(one, approval=approve) if face == "session" else Host(
                {"one": one}, approval=approve)
            try:
                with opened as target:
                    target.list_tools()
                    if begun_by == "threads":
                        started = [threading.Thread(target=work, args=[n]) for n in range(2)]
                        try:
                            [thread.start() for thread in started]
                            [thread.join() for thread in started]
                        finally:
                            [thread.join() for thread in started]
                    else:
                        with ThreadPoolExecutor(2) as pool:
                            if begun_by == "map":
                                list(pool.map(work, range(6)))
                            else:
                                [pool.submit(work, number) for number in range(6)]
            except KeyboardInterrupt:
                say("INTERRUPTED")
            for _ in range({"threads": 2, "submit": 6, "map": 0}[begun_by]):
                # Python takes a thread for ended if its join was interrupted.
                assert ended.acquire(timeout=60)
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
            """,
        )
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["ASKED\n"] * 2
        process.send_signal(signal.SIGINT)
        code, lines, errors = ended(process)
        assert (code, errors) == (0, "")
        if begun_by == "map":
            assert lines.pop() == "INTERRUPTED"
        else:  # Ctrl-C ends the wait for the threads, which may print later
            lines.remove("INTERRUPTED")
        assert lines.count("CallCancelled Ctrl-C") == 2
        begun_later = lines.count("CallWithdrawn Ctrl-C")
        assert begun_later == len(lines) - 2 <= 4
        assert begun_later == 4 or begun_by != "submit"

    def test_goes_on_after_it_has_handled_ctrl_c(self, tmp_path: Path) -> None:
        process = program(
            tmp_path,
            """
            from mcp_client.runtime import portal
            portal._SECONDS_TO_UNWIND = 0.0
            interrupted, handled = threading.Event(), threading.Event()

            def work():
                interrupted.wait(60)
                for _ in range(2):
                    try:
                        say(session.call_tool("echo", {"n": 1}).text)
                    except Exception as error:
                        say(type(error).__name__)
                    refused.set()
                    handled.wait(60)

            refused = threading.Event()
            with connect(scripted(), approval=allow_all) as session:
                thread = threading.Thread(target=work)
                thread.start()
                try:
                    say("READY")
                    handled.wait(60)
                except KeyboardInterrupt:
                    interrupted.set()
                    refused.wait(60)
                handled.set()
                thread.join()
            """,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "READY\n"
        process.send_signal(signal.SIGINT)
        code, lines, errors = ended(process)
        assert (code, errors) == (0, "")
        assert lines == ["CallWithdrawn", '{"n": 1}']

    def test_its_own_handler_of_ctrl_c_stays(self, tmp_path: Path) -> None:
        process = program(
            tmp_path,
            """
            def own(*_): say("OWN")
            signal.signal(signal.SIGINT, own)
            with connect(scripted(), approval=allow_all) as session:
                assert signal.getsignal(signal.SIGINT) is own
            assert signal.getsignal(signal.SIGINT) is own
            signal.signal(signal.SIGINT, signal.default_int_handler)
            with connect(scripted(), approval=allow_all) as session:
                assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
                signal.signal(signal.SIGINT, own)
            assert signal.getsignal(signal.SIGINT) is own
            """,
        )
        assert ended(process) == (0, [], "")

    @pytest.mark.slow
    def test_that_ends_without_closing_leaves_no_process(self, tmp_path: Path) -> None:
        process = program(
            tmp_path,
            """
            session = connect(scripted("--ignore-sigterm"), approval=allow_all).open()
            other = connect(scripted(), approval=lambda call: allow_all(call)).open()
            say(session.call_tool("pid").text, other.call_tool("pid").text)
            """,
        )
        code, lines, errors = ended(process)
        assert (code, errors) == (0, "")
        assert all(gone(int(pid)) for pid in lines[0].split())

    @pytest.mark.slow
    def test_that_fails_without_closing_leaves_no_process(self, tmp_path: Path) -> None:
        process = program(
            tmp_path,
            """
            session = connect(scripted(), approval=allow_all).open()
            say(session.call_tool("pid").text)
            raise LookupError("a fault of the program")
            """,
        )
        code, lines, errors = ended(process)
        assert code == 1
        assert "LookupError" in errors
        assert gone(int(lines[0]))

    @pytest.mark.slow
    def test_forked_from_another_cannot_use_its_session_and_does_not_close_it(
        self, tmp_path: Path
    ) -> None:
        process = program(
            tmp_path,
            """
            import warnings
            warnings.simplefilter("ignore", DeprecationWarning)  # threads and fork, of 3.12
            from mcp_client import McpError
            session = connect(scripted(), approval=allow_all).open()
            pid = session.call_tool("pid").text
            child = os.fork()
            if child == 0:
                try:
                    session.call_tool("pid")
                except McpError as error:
                    say("CHILD", "parent process" in str(error))
                with connect(scripted(), approval=allow_all) as own:
                    say("ANOTHER", own.call_tool("pid").text != pid)
                sys.exit(0)
            _, status = os.waitpid(child, 0)
            say("STATUS", status)
            say("SAME", session.call_tool("pid").text == pid)
            session.close()
            """,
        )
        code, lines, errors = ended(process)
        assert (code, errors) == (0, "")
        assert lines == ["CHILD True", "ANOTHER True", "STATUS 0", "SAME True"]

    def test_a_host_that_is_open_at_its_end_starts_nothing_again(self, tmp_path: Path) -> None:
        starts = tmp_path / "starts"
        process = program(
            tmp_path,
            f"""
            import logging
            from mcp_client.sync import Host

            logging.basicConfig()
            server = scripted("--starts", {str(starts)!r})
            host = Host(dict(one=server, two=server)).open()
            say(len(host.list_tools()) > 0)
            """,
        )
        assert ended(process) == (0, ["True"], "")
        assert len(starts.read_text().split()) == 2

    def test_a_daemon_thread_in_a_call_at_its_end_prints_nothing(self, tmp_path: Path) -> None:
        process = program(
            tmp_path,
            """
            import threading
            asked = threading.Event()

            def hook(call):
                asked.set()
                return Allow()

            from mcp_client import Allow
            session = connect(scripted(), approval=hook).open()
            threading.Thread(target=lambda: session.call_tool("never"), daemon=True).start()
            asked.wait()
            """,
        )
        assert ended(process) == (0, [], "")


class TestDropped:
    """What no one can use any more is closed, with a warning."""

    @pytest.mark.parametrize("face", ["session", "host"])
    def test_it_is_closed_and_a_warning_names_it(self, face: str) -> None:
        memory = MemoryServer(lambda message: NotImplemented)
        opened: Any = connect(memory, name="weather").open()
        if face == "host":
            opened.close()
            opened = sync.Host({"weather": memory}).open()
        close, held = opened._async.aclose, [opened]
        del opened
        with pytest.warns(ResourceWarning, match=f"{face.title()}.* 'weather' .*dropped"):
            held.clear()
        portal().run(close)  # which waits for the close that has begun
        assert not memory._open

    def test_what_belongs_to_a_session_keeps_it_open(self) -> None:
        memory = MemoryServer(lambda message: NotImplemented)
        held = [connect(memory, name="weather").open().tool_changes()]
        gc.collect()
        assert memory._open
        with pytest.warns(ResourceWarning, match="Session 'weather'"):
            held.clear()

    def test_one_that_was_closed_does_not_warn(self) -> None:
        session = connect(MemoryServer(lambda message: NotImplemented)).open()
        session.close()
        del session
        gc.collect()
