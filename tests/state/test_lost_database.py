"""What a database that is lost, hangs, is full or refuses does to calls, and what it does not."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    ApprovalQueue,
    HttpServer,
    NotSent,
    OAuth,
    Session,
    Timeouts,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.approval import queue as approval_queue
from mcp_client.approval.tickets import Tickets
from mcp_client.audit import database_log, verify_audit
from mcp_client.errors import StateError
from mcp_client.runtime.callbacks import in_thread
from mcp_client.state import PostgresState
from mcp_client.state import database as bounds
from mcp_client.transports.memory import MemoryTransport
from tests.support.authorization import guarded
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.one_backend

BOUND = 30.0


class Known(MemoryTransport):
    stable_identity = "a server that decisions may be stored for"


class Server:
    """A tool that runs ``meanwhile`` before it answers, and what was sent to it."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.transport = Known(self.handle)
        self.meanwhile: Any = None

    async def handle(self, message: dict[str, Any]) -> Any:
        match message["method"]:
            case "server/discover":
                return {"supportedVersions": ["2026-07-28"], "capabilities": {}}
            case "tools/list":
                return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                self.sent.append(message["params"])
                if self.meanwhile is not None:
                    await in_thread(self.meanwhile)
                return {"content": [{"type": "text", "text": "ran"}]}
        return NotImplemented


class Database:
    """A database, used by a role that is not its owner, and what may befall it."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.name = server.new_database().rpartition("/")[2]
        owner = PostgresState(server.url(self.name))
        owner.get("any", "thing")  # makes the tables
        owner.close()
        self.sql(
            "create role app login password 'app'",
            "grant usage on schema mcp_client to app",
            "grant select, insert, update, delete on all tables in schema mcp_client to app",
        )
        self.url = f"postgresql://app:app@127.0.0.1:{server.port}/{self.name}?connect_timeout=2"

    def sql(self, *statements: str) -> None:
        with self.server.connection(self.name) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def disconnect(self) -> None:
        """End each connection, and wait until it has ended."""
        end = "select pg_terminate_backend(pid, 10000) from pg_stat_activity where usename = 'app'"
        self.sql(end)
        while self.connections():
            self.sql(end)

    def connections(self) -> int:
        with self.server.connection(self.name) as connection:
            query = "select count(*) from pg_stat_activity where usename = 'app'"
            return int(connection.execute(query).fetchall()[0][0])

    # ------------------------------------------------------------- what may befall it

    @contextmanager
    def killed(self) -> Iterator[None]:
        self.server.kill()
        yield
        self.server.start()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        self.server.stop()
        yield
        self.server.start()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        with self.server.suspended():
            yield

    @contextmanager
    def restarted(self) -> Iterator[None]:
        """Nothing is noticed of it but by those who were connected."""
        self.server.kill()
        self.server.start()
        yield

    @contextmanager
    def full(self) -> Iterator[None]:
        self.sql(
            "create function mcp_client.full() returns trigger language plpgsql as $$ begin raise "
            "exception 'could not extend file: No space left on device' using errcode = '53100'; "
            "end $$",
            *(
                f"create trigger full_disk before insert or update on mcp_client.{table} "
                "execute function mcp_client.full()"
                for table in ("object", "audit_chain")
            ),
        )
        yield
        self.sql("drop function mcp_client.full() cascade")

    @contextmanager
    def without_connections(self) -> Iterator[None]:
        self.sql("alter role app connection limit 0")
        self.disconnect()
        yield
        self.sql("alter role app connection limit -1")

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """As a replica is, to which a name may lead for a while."""
        self.sql(f"alter role app in database {self.name} set default_transaction_read_only = on")
        self.disconnect()
        yield
        self.sql(f"alter role app in database {self.name} reset default_transaction_read_only")
        self.disconnect()

    @contextmanager
    def without_rights(self) -> Iterator[None]:
        tables = "all tables in schema mcp_client"
        self.sql(f"revoke select, insert, update, delete on {tables} from app")
        yield
        self.sql(f"grant select, insert, update, delete on {tables} to app")

    @contextmanager
    def failed_over(self) -> Iterator[None]:
        """Another server, with all that was acknowledged, comes in its place."""
        self.server.stop()
        yield
        old = self.server.directory / "data"
        shutil.copytree(old, self.server.directory / "copy")
        shutil.rmtree(old)
        (self.server.directory / "copy").rename(old)
        for path in [old, *old.rglob("*")]:
            shutil.chown(path, *_owner(self.server.directory))
        self.server.start()


def _owner(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_uid, found.st_gid


@pytest.fixture
def database(own_postgres: PostgresServer) -> Database:
    return Database(own_postgres)


@pytest.fixture
def state(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresState]:
    monkeypatch.setattr(bounds, "RESPONSE_SECONDS", 0.5)
    monkeypatch.setattr(database_log, "_RETRY_SECONDS", (0.01, 0.05))
    state = PostgresState(database.url)
    yield state
    state.close()


def calls_in_the_audit(state: PostgresState) -> list[tuple[str, str]]:
    records = [json.loads(line) for _, _, line in state.audit.records()]
    return [(one["event"], one.get("outcome", "")) for one in records if one["event"] != "begun"]


USES: dict[str, Any] = {
    "audit": lambda state: {"audit": state.audit},
    "decisions": lambda state: {"state": state.decisions},
    "pins": lambda state: {"pins": state.pins},
    "pending": lambda state: {"approval": ApprovalQueue(decisions=state.decisions)},
    "all": lambda state: {"state": state},
}


async def approve(call: ToolCall) -> Allow:
    return Allow()  # in place of ``allow_all``, which decides before stored decisions are read


def connecting(
    server: Server, state: PostgresState, use: str
) -> AbstractAsyncContextManager[Session]:
    options = {"approval": approve, "timeouts": Timeouts(approval=BOUND), **USES[use](state)}
    return connect(server.transport, **options)


BEFALLS = [
    "killed",
    "stopped",
    "full",
    "without_connections",
    "read_only",
    pytest.param("suspended", marks=pytest.mark.slow),
    pytest.param("failed_over", marks=pytest.mark.slow),
]


async def call(session: Session, use: str, key: str) -> Any:
    return await session.call_tool("echo", idempotency_key=key if use == "all" else None)


@pytest.mark.slow
@pytest.mark.parametrize("how", BEFALLS)
async def test_a_call_is_refused_before_it_is_sent_and_works_when_the_database_does(
    how: str, database: Database, state: PostgresState
) -> None:
    server = Server()
    async with connecting(server, state, "all") as session:
        await call(session, "all", "1")
        threads = threading.active_count()
        with getattr(database, how)():
            for _ in range(2):
                with pytest.raises(StateError) as caught:
                    await call(session, "all", "2")
                assert caught.value.retryable
                assert isinstance(caught.value, NotSent)
                assert caught.value.busy is (how == "without_connections")
                assert "app:app" not in f"{caught.value!r} {caught.value}"
        assert len(server.sent) == 1
        assert (await call(session, "all", "2")).text == "ran"
        assert (await call(session, "all", "1")).text == "ran"
        assert len(server.sent) == 2
        assert threading.active_count() <= threads + 3
        assert database.connections() <= 4
    state.close()
    assert state.calls.unsettled() == ()
    found = verify_audit(state)
    assert (found.open_calls, found.lost) == ((), 0)


@pytest.mark.slow
@pytest.mark.parametrize("use", ["audit", "decisions", "pending"])
async def test_each_thing_that_is_stored_refuses_alone(
    use: str, database: Database, state: PostgresState
) -> None:
    server = Server()
    async with connecting(server, state, use) as session:
        await session.list_tools()
        with database.killed(), pytest.raises(StateError) as caught:
            await call(session, use, "1")
        assert not caught.value.busy
        assert server.sent == []
        if use != "pending":
            assert (await call(session, use, "1")).text == "ran"


@pytest.mark.slow
@pytest.mark.both_backends
@pytest.mark.parametrize("how", ["restarted", "killed"])
async def test_connections_that_were_lost_unseen_cost_no_call(
    how: str, database: Database, state: PostgresState
) -> None:
    server = Server()
    async with connecting(server, state, "all") as session:
        await call(session, "all", "1")
        with getattr(database, how)():
            pass
        assert (await call(session, "all", "2")).text == "ran"


@pytest.mark.slow
async def test_a_role_without_rights_is_informed_of_what_it_lacks_and_nothing_is_sent(
    database: Database, state: PostgresState
) -> None:
    server = Server()
    async with connecting(server, state, "all") as session:
        await call(session, "all", "1")
        with database.without_rights(), pytest.raises(Exception, match="permission denied"):
            await call(session, "all", "2")
        assert len(server.sent) == 1
        assert (await call(session, "all", "2")).text == "ran"


@pytest.mark.parametrize(
    "how", ["killed", "full", pytest.param("suspended", marks=pytest.mark.slow)]
)
async def test_a_call_that_ran_meanwhile_gives_its_result_and_is_written_down_later(
    how: str, database: Database, state: PostgresState
) -> None:
    server = Server()
    befalls = getattr(database, how)()
    async with connecting(server, state, "all") as session:
        await call(session, "all", "1")
        server.meanwhile = befalls.__enter__
        result = await call(session, "all", "2")
        server.meanwhile = None
        assert result.text == "ran"
        assert {finding.kind for finding in result.findings} == {"not_recorded"}
        with pytest.raises(StateError):
            await call(session, "all", "3")
        befalls.__exit__(None, None, None)
        with anyio.fail_after(BOUND):
            while state.audit.has_unwritten or [
                one.key for one in await in_thread(state.calls.unsettled)
            ]:
                await anyio.sleep(0.01)
        assert (await call(session, "all", "2")).text == "ran"
        assert len(server.sent) == 2
    reported = calls_in_the_audit(state)
    assert reported.count(("closed", "ok")) == reported.count(("opened", "")) - reported.count(
        ("closed", "StateError")
    )
    assert verify_audit(state).open_calls == ()


@pytest.mark.slow
async def test_a_call_that_waits_for_a_person_outlives_a_restart_of_the_database(
    database: Database, state: PostgresState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approval_queue, "_POLL_SECONDS", 0.05)
    failed, look = threading.Event(), Tickets.look

    def looking(self: Tickets, request: Any) -> Any:
        try:
            return look(self, request)
        except StateError:
            failed.set()
            raise

    monkeypatch.setattr(Tickets, "look", looking)
    server = Server()
    queue = ApprovalQueue(decisions=state.decisions)
    other = PostgresState(database.url)
    desk = ApprovalQueue(decisions=other.decisions)
    async with (
        connect(server.transport, approval=queue) as session,
        anyio.create_task_group() as tasks,
    ):
        done: list[Any] = []

        async def make() -> None:
            done.append(await session.call_tool("echo"))

        tasks.start_soon(make)
        with anyio.fail_after(BOUND):
            while not await in_thread(lambda: desk.pending):
                await anyio.sleep(0.01)
        with database.killed():
            assert await in_thread(failed.wait, BOUND)
        (pending,) = await in_thread(lambda: desk.pending)
        await in_thread(desk.decide, pending.id, Allow())
    assert [one.text for one in done] == ["ran"]
    other.close()


@pytest.mark.slow
async def test_a_login_that_cannot_be_looked_up_asks_no_one_to_log_in_again(
    database: Database, state: PostgresState
) -> None:
    async with guarded() as world:

        async def echo() -> str:
            server = HttpServer(world.url, auth=OAuth(on_url=world.agree))
            async with connect(server, approval=allow_all, state=state, audit=None) as session:
                return (await session.call_tool("echo", {"text": "x"})).text

        await echo()
        with database.killed(), pytest.raises(StateError):
            await echo()
        await echo()
        assert len(world.consents) == 1
