"""Subscriptions to a resource: in both eras, through lost connections, and never without an end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from trio.lowlevel import in_trio_run

from mcp_client import (
    CallTimeout,
    ConfigError,
    ConnectError,
    Limits,
    McpError,
    ServerError,
    Session,
    Timeouts,
    connect,
)
from mcp_client.protocol.offers import ResourceUpdate
from mcp_client.runtime.watch import Notifier
from mcp_client.session import Watch
from mcp_client.transports.memory import JsonRpcError
from tests.catalog.test_resources import library, reading
from tests.support.http_apps import LibraryApp
from tests.support.http_server import Reply, Request, serving
from tests.support.library import ID, Handshake, Library, Refused, Stateless
from tests.support.timing import Clock, quickly

__all__ = ["library"]  # the fixture: a library of each era

EMMA, ULYSSES = "book:emma", "book:ulysses"


@pytest.fixture(autouse=True)
async def no_change_is_found_by_the_clock(clock: Clock) -> None:
    clock.stop()


async def until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not true():
            await anyio.sleep(0)


def holds(library: Library, *uris: str) -> bool:
    """Whether just these are subscribed to, whatever the era."""
    streams = [wanted["resourceSubscriptions"][0] for wanted, _ in library.streams.values()]
    return sorted(streams + library.subscribed) == sorted(uris)


def lose(session: Session) -> None:
    session._connection.transport.end()  # type: ignore[attr-defined]


async def test_a_change_is_reported_from_the_first_line_of_the_block_to_its_end(
    library: Library,
) -> None:
    async with reading(library) as session:
        library.write(EMMA, "before")
        async with session.subscribe_resource(EMMA) as updates:
            assert holds(library, EMMA)
            library.write(ULYSSES, "another")
            library.write(EMMA, "one")
            assert await anext(updates) == ResourceUpdate(EMMA)
            library.write(EMMA, "two")
            assert await anext(updates) == ResourceUpdate(EMMA)
        await until(lambda: holds(library))
        with pytest.raises(StopAsyncIteration):
            await anext(updates)


async def test_what_is_asked_for_is_one_resource_and_nothing_else() -> None:
    library = Stateless()
    async with reading(library) as session, session.subscribe_resource(EMMA):
        request = next(m for m in library.messages if m["method"] == "subscriptions/listen")
    assert request["params"]["notifications"] == {"resourceSubscriptions": [EMMA]}


async def test_updates_that_were_not_taken_yet_come_as_one(library: Library, clock: Clock) -> None:
    async with reading(library) as session, session.subscribe_resource(EMMA) as updates:
        for _ in range(1_000):
            library.updated(EMMA)
        assert await anext(updates) == ResourceUpdate(EMMA)
        async with quickly(clock):
            with anyio.move_on_after(0.1) as nothing:
                await anext(updates)
        assert nothing.cancelled_caught
        library.updated(EMMA)
        assert await anext(updates) == ResourceUpdate(EMMA)


async def test_a_part_of_what_is_watched_is_reported_by_its_own_name() -> None:
    library = Handshake()
    async with reading(library) as session, session.subscribe_resource("book:emma") as updates:
        for uri in ("book:emma2", "book:emma/ch1", "book:em", "book:emma#p", "other:x", None, 7):
            library._unasked("resources/updated", uri=uri)
        assert [(await anext(updates)).uri for _ in range(2)] == ["book:emma/ch1", "book:emma#p"]


async def test_two_watches_of_one_resource_share_a_subscription(library: Library) -> None:
    async with reading(library) as session:
        first, second = session.subscribe_resource(EMMA), session.subscribe_resource(EMMA)
        async with first:
            async with second:
                assert holds(library, EMMA)
                library.updated(EMMA)
                assert await anext(first) == await anext(second)
            library.updated(EMMA)
            assert await anext(first)
            assert holds(library, EMMA)
        await until(lambda: holds(library))


async def test_each_resource_has_a_subscription_of_its_own_that_ends_separately(
    library: Library,
) -> None:
    async with reading(library) as session, session.subscribe_resource(EMMA):
        async with session.subscribe_resource(ULYSSES) as updates:
            assert holds(library, EMMA, ULYSSES)
            library.updated(ULYSSES)
            assert (await anext(updates)).uri == ULYSSES
        await until(lambda: holds(library, EMMA))


async def test_it_may_be_taken_up_again_at_once(library: Library) -> None:
    async with reading(library) as session:
        for _ in range(20):
            async with session.subscribe_resource(EMMA) as updates:
                library.updated(EMMA)
                assert (await anext(updates)).certain
        await until(lambda: holds(library))


async def test_a_watch_can_be_iterated_without_a_with_and_ends_with_its_session(
    library: Library,
) -> None:
    seen: list[ResourceUpdate] = []
    async with reading(library) as session, anyio.create_task_group() as tasks:

        async def watch() -> None:
            async for update in session.subscribe_resource(EMMA):
                seen.append(update)

        tasks.start_soon(watch)
        await until(lambda: holds(library, EMMA))
        library.updated(EMMA)
        await until(lambda: seen == [ResourceUpdate(EMMA)])
        await session.aclose()


async def test_a_watch_that_is_closed_by_another_task_ends(library: Library) -> None:
    async with reading(library) as session, anyio.create_task_group() as tasks:
        updates = session.subscribe_resource(EMMA)

        async def watch() -> None:
            assert [update async for update in updates] == []

        tasks.start_soon(watch)
        await until(lambda: holds(library, EMMA))
        await updates.aclose()
        await until(lambda: holds(library))


async def test_a_lost_connection_is_replaced_while_a_task_waits_and_counts_as_a_change(
    library: Library, clock: Clock
) -> None:
    async with (
        reading(library) as session,
        session.subscribe_resource(EMMA) as updates,
        quickly(clock),
    ):
        library.streams.clear()
        library.subscribed.clear()
        lose(session)
        assert await anext(updates) == ResourceUpdate(EMMA, certain=False)
        assert session.generation == 2
        assert holds(library, EMMA)
        library.updated(EMMA)
        assert await anext(updates) == ResourceUpdate(EMMA)


async def test_an_idle_watch_sleeps_until_it_is_notified(library: Library, clock: Clock) -> None:
    async with (
        reading(library) as session,
        session.tool_changes() as tools,
        session.resource_changes() as resources,
        session.subscribe_resource(EMMA) as updates,
        anyio.create_task_group() as tasks,
    ):
        looked: list[object] = []
        for watch in (tools, resources, updates):
            count_looks(watch, looked)
            tasks.start_soon(watch.__anext__)
        await until(lambda: len(looked) >= 3)
        await let_others_run()
        before = len(looked)
        for _ in range(20):
            clock.jump(10)
            await let_others_run()
        assert len(looked) == before
        library.updated(EMMA)
        await until(lambda: len(looked) > before)
        tasks.cancel_scope.cancel()


async def test_an_idle_watch_is_notified_of_a_lost_connection_and_not_by_the_clock(
    library: Library,
) -> None:
    async with (
        reading(library) as session,
        session.tool_changes() as tools,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(tools.__anext__)
        for generation in (2, 3):
            await let_others_run()
            library.streams.clear()
            lose(session)
            await until(lambda: session.generation == generation)  # noqa: B023
        tasks.cancel_scope.cancel()


def count_looks(watch: Watch[Any], looked: list[object]) -> None:
    take = watch._take

    async def counted() -> Any:
        looked.append(watch)
        return await take()

    watch._take = counted  # type: ignore[method-assign]


async def let_others_run() -> None:
    for _ in range(50):
        await anyio.sleep(0)


async def test_a_stream_that_ends_is_opened_again_and_counts_as_a_change(clock: Clock) -> None:
    library = Stateless()
    async with (
        reading(library) as session,
        session.subscribe_resource(EMMA) as updates,
        quickly(clock),
    ):
        ((id, (_, send)),) = library.streams.items()
        library.streams.clear()
        result = {"resultType": "complete", "_meta": {ID: id}}
        send({"jsonrpc": "2.0", "id": id, "result": result})
        assert await anext(updates) == ResourceUpdate(EMMA, certain=False)
        assert holds(library, EMMA)


async def test_a_server_that_keeps_dying_ends_the_waiting(library: Library, clock: Clock) -> None:
    async with (
        reading(library, limits=Limits(restarts=2)) as session,
        session.subscribe_resource(EMMA) as updates,
        quickly(clock),
    ):
        for _ in range(2):
            lose(session)
            assert not (await anext(updates)).certain
        lose(session)
        with pytest.raises(ConnectError, match=r"Limits\.restarts"):
            await anext(updates)


async def test_a_subscription_that_failed_to_open_holds_nothing(
    library: Library, clock: Clock
) -> None:
    unwilling = Unwilling(library)
    async with reading(library, timeouts=Timeouts(connect=5)) as session:
        with pytest.raises(ServerError):
            async with session.subscribe_resource(EMMA):
                raise AssertionError
        unwilling.refuses = lambda message, send: None
        async with quickly(clock):
            with anyio.move_on_after(0.1):
                async with session.subscribe_resource(EMMA):
                    raise AssertionError
            assert not session._subscriptions._watched[EMMA].is_watched
            await until(lambda: not session._subscriptions._watched[EMMA].in_use)


async def test_silence_names_the_clock_that_bounds_it(library: Library, clock: Clock) -> None:
    def nothing(message: dict[str, Any], send: Callable[[Any], None]) -> None:
        clock.jump(5.1)

    Unwilling(library).refuses = nothing
    async with reading(library, timeouts=Timeouts(connect=5, idle=2)) as session:
        with pytest.raises(CallTimeout, match=r"within 5 s \(connect") as caught:
            await anext(session.subscribe_resource(EMMA))
        assert caught.value.clock == "connect"


class Unwilling:
    """Refuses what a test sets, in either era."""

    def __init__(self, library: Library) -> None:
        self.refuses: Any = JsonRpcError(-32602, "no \x1b[31msuch book")
        self._respond = library.respond
        library.respond = self  # type: ignore[method-assign]

    def __call__(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        if message.get("method") in ("subscriptions/listen", "resources/subscribe"):
            if isinstance(self.refuses, JsonRpcError):
                raise Refused(self.refuses.code, self.refuses.message, self.refuses.data)
            if self.refuses is not None:
                return self.refuses(message, send)
        return self._respond(message, send)


async def test_a_refusal_is_raised_and_the_next_time_it_is_asked_again(library: Library) -> None:
    unwilling = Unwilling(library)
    async with reading(library) as session:
        updates: Watch[ResourceUpdate] = session.subscribe_resource(EMMA)
        for _ in range(2):
            with pytest.raises(ServerError, match="such book") as caught:
                await anext(updates)
            assert caught.value.code == -32602
            assert "\x1b" not in str(caught.value)
        unwilling.refuses = None
        library.books[EMMA] = "changed"
        async with updates:
            library.updated(EMMA)
            assert await anext(updates) == ResourceUpdate(EMMA)


@pytest.mark.parametrize("agreed", [{}, {"resourceSubscriptions": [ULYSSES]}, [], None])
async def test_a_server_that_does_not_agree_to_all_of_it_is_not_waited_for(agreed: Any) -> None:
    library = Stateless()
    unwilling = Unwilling(library)

    def acknowledge(message: dict[str, Any], send: Callable[[Any], None]) -> None:
        params = {"notifications": agreed, "_meta": {ID: message["id"]}}
        method = "notifications/subscriptions/acknowledged"
        send({"jsonrpc": "2.0", "method": method, "params": params})

    unwilling.refuses = acknowledge
    async with reading(library) as session:
        with pytest.raises(ServerError, match="did not agree"):
            await anext(session.subscribe_resource(EMMA))


async def test_waiting_for_an_acknowledgement_is_bounded(library: Library, clock: Clock) -> None:
    unwilling = Unwilling(library)
    unwilling.refuses = lambda message, send: None
    async with reading(library, timeouts=Timeouts(connect=5)) as session, quickly(clock):
        with pytest.raises(McpError) as caught:
            await anext(session.subscribe_resource(EMMA))
    assert isinstance(caught.value, CallTimeout)


async def test_a_stream_that_http_refuses_is_not_waited_for() -> None:
    class Refusing(LibraryApp):
        async def __call__(self, request: Request, reply: Reply) -> None:
            if request.rpc_method == "subscriptions/listen":
                await reply.send(403, b"not for you")
            else:
                await super().__call__(request, reply)

    async with serving(Refusing(Stateless())) as served, connect(served.url) as session:
        with pytest.raises(McpError, match="403"):
            await anext(session.subscribe_resource(EMMA))


async def test_a_stream_over_http_may_be_silent_for_any_time(clock: Clock, http_way: str) -> None:
    library = Stateless()
    async with serving(LibraryApp(library)) as served, connect(served.url) as session:
        async with session.subscribe_resource(EMMA) as updates:
            clock.jump(500)  # longer than any timeout by default but the approval's
            for _ in range(20):
                await anyio.sleep(0)
            library.updated(EMMA)
            assert await anext(updates) == ResourceUpdate(EMMA)
        assert len(served.saying("subscriptions/listen")) == 1


async def test_there_is_a_cap_on_how_many_are_watched(library: Library) -> None:
    async with reading(library, limits=Limits(watched=1)) as session:
        async with session.subscribe_resource(EMMA), session.subscribe_resource(EMMA):
            with pytest.raises(ConfigError, match=r"Limits\.watched"):
                await anext(session.subscribe_resource(ULYSSES))
        await until(lambda: holds(library))
        async with session.subscribe_resource(ULYSSES):
            assert holds(library, ULYSSES)


async def test_each_kind_of_list_has_a_notification_stream_of_its_own() -> None:
    library = Stateless()
    async with (
        reading(library) as session,
        session.tool_changes(),
        session.prompt_changes() as prompts,
        session.resource_changes(),
    ):
        assert [wanted for wanted, _ in library.streams.values()] == [
            {"toolsListChanged": True},
            {"promptsListChanged": True},
            {"resourcesListChanged": True},
        ]
        library.prompts.append("new")
        library.changed("tools")
        library.changed("prompts")
        assert [prompt.name for prompt in (await anext(prompts)).added] == ["new"]


async def test_those_who_wait_are_woken_in_the_order_in_which_they_came() -> None:
    notifier, woken = Notifier(), list[int]()

    async def wait(number: int) -> None:
        await notifier.wait(60.0)
        woken.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(wait, number)
            await anyio.wait_all_tasks_blocked()
        notifier.notify()
    in_any_order = in_trio_run()  # as trio runs all tasks
    assert (sorted(woken) if in_any_order else woken) == list(range(50))
