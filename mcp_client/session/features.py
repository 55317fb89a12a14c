"""What a session offers besides tools: resources, prompts, completion, and hearing of changes.

Half of ``Session``: the public names are in ``resources`` and ``prompts``, and how they are asked
for is here. All of it is reading: what was lost on the way is asked for once more, and nothing of
it goes through the approval hook, for nothing of it is a call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from ..catalog.listed import Listed
from ..catalog.paged_list import FetchPage, Kind, PagedCache
from ..catalog.subscriptions import Subscriptions
from ..connection.connection import Connection, session_ended
from ..connection.rpc import RpcConnection
from ..errors import ConnectError, ConnectionLost, McpError, NotSent, ProtocolViolation
from ..handlers.input_rounds import InputRequiredLoop
from ..protocol.capabilities import may_offer
from ..protocol.era import Complete, Reading
from ..runtime.event_loop import current
from ..runtime.limits import Limits, Timeouts

if TYPE_CHECKING:
    from ..catalog.library import Library
    from ..catalog.prompts import PromptResult
    from ..catalog.resources import Read, ResourceResult
    from ..catalog.watch import ListChanges, ListWatch, ResourceWatch
    from ..protocol.content import ResourceLink
    from ..protocol.prompts import Completion, Prompt
    from ..protocol.resources import Resource, ResourceTemplate

__all__ = ["Features"]

L = TypeVar("L", bound=Listed[Any])
T = TypeVar("T")


class Features:
    name: str
    _connection: Connection
    _limits: Limits
    _origin: str
    _rounds: InputRequiredLoop
    _subscriptions: Subscriptions
    _timeouts: Timeouts

    # --------------------------------------------------------------- resources

    async def list_resources(self, *, refresh: bool = False) -> Listed[Resource]:
        """Every resource the server lists, kept and fetched anew as ``list_tools`` does.

        Raises ``NotSent`` where the server does not declare that it has any; the same holds of
        templates, prompts and completion (``capabilities`` tells before).
        """
        return await self._all("resources", lambda library: library.resources, refresh)

    async def list_resource_templates(self, *, refresh: bool = False) -> Listed[ResourceTemplate]:
        """Every resource template; ``read_resource(template.expand(name=...))`` reads one."""
        return await self._all("resources", lambda library: library.templates, refresh)

    def resource_changes(self) -> ListWatch[ListChanges[Resource]]:
        """Which resources are listed from now on that were not, and the reverse."""
        self._offered("resources")
        return self._changes(self._library.resources)

    async def read_resource(
        self,
        uri: str,
        *,
        timeout: float | Timeouts | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ResourceResult:
        """What a resource holds now: nothing is kept. The server alone reads it, never we.

        Options as for ``call_tool``; it may ask questions, too (2026-07-28). A ``ServerError`` of
        code -32002, or -32602 since 2026-07-28, says that there is no such resource.
        """
        from ..catalog.library import read, uri_of

        self._offered("resources")
        uri = uri_of(uri)
        return await read(self._reader(timeout, meta), self.name, uri)

    async def follow(
        self, link: ResourceLink, *, timeout: float | Timeouts | None = None
    ) -> ResourceResult:
        """Read what a link points to, with ``read_resource``, an ``https`` link included.

        Only a link of a result of this server's; for any other, ``InvalidArguments``. It is the
        server that chose the link, so whether to read it is for the host to say.
        """
        from ..catalog.library import linked

        return await self.read_resource(linked(link, self.name, self._origin), timeout=timeout)

    def subscribe_resource(self, uri: str) -> ResourceWatch:
        """A ``ResourceUpdate`` each time the server says that the resource changed.

        An async iterator and a context manager; see there. In the stateless era each resource has
        a stream of its own. Raises ``NotSent`` where the server declares no subscriptions.
        """
        self._offered("resources", "subscribe")
        return self._library.watch(uri, self._connection.live)

    # ----------------------------------------------------------------- prompts

    async def list_prompts(self, *, refresh: bool = False) -> Listed[Prompt]:
        """Every prompt the server lists, kept and fetched anew as ``list_tools`` does."""
        return await self._all("prompts", lambda library: library.prompts, refresh)

    def prompt_changes(self) -> ListWatch[ListChanges[Prompt]]:
        """Which prompts are listed from now on that were not, and the reverse."""
        self._offered("prompts")
        return self._changes(self._library.prompts)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        timeout: float | Timeouts | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> PromptResult:
        """The messages of a prompt, its arguments filled in by the server, which checks them.

        Options as for ``call_tool``; it may ask questions, too (2026-07-28).
        """
        from ..catalog.library import get

        self._offered("prompts")
        return await get(self._reader(timeout, meta), self.name, self._origin, name, arguments)

    async def complete(
        self,
        ref: Prompt | ResourceTemplate | Mapping[str, Any],
        argument: Mapping[str, str],
        context: Mapping[str, str] | None = None,
        *,
        timeout: float | Timeouts | None = None,
    ) -> Completion:
        """What the server suggests for an argument of a prompt or a template.

        ``ref`` is the prompt or template, or the specification's reference; ``argument`` is
        ``{"name": ..., "value": what is typed so far}``; ``context`` has the arguments that are
        known already, by name. Nothing is kept: do not ask at every key that is pressed.
        """
        from ..catalog.library import complete

        self._offered("completions")
        clocks = self._timeouts.for_call(timeout)

        async def ask(method: str, fields: Mapping[str, Any]) -> dict[str, Any]:
            return (await self._answered(method, clocks, fields)).result

        return await complete(ask, self.name, ref, argument, context)

    # ------------------------------------------------------------------- lists

    def _lists_are_kept(self) -> dict[str, Any]:
        """What all lists of the session share, besides ``PagedCache``'s first parameters."""
        return {
            "seconds": self._timeouts.total,
            "credentials": lambda: self._connection.transport.credentials,
        }

    def _fetching(self, kind: Kind) -> FetchPage:
        return partial(self._answered, kind.method, self._timeouts)

    @cached_property
    def _library(self) -> Library:
        from ..catalog.library import Library

        return Library(
            self.name,
            self._limits,
            self._fetching,
            current().now,
            self._lists_are_kept(),
            self._subscriptions,
        )

    async def _latest(self, listing: PagedCache[Any]) -> Any:
        await self._connection.live()
        return await listing.latest()

    # ----------------------------------------------------------------- reading

    def _offered(self, feature: str, detail: str | None = None) -> None:
        """Raises ``NotSent`` where the server says that it has no such thing."""
        era = self._connection.agreed().era
        if not may_offer(era.revision, era.server.capabilities, feature, detail):
            named = feature if detail is None else f"{feature}.{detail}"
            raise NotSent(
                f"the server does not declare {named}, so it is not asked", server=self.name
            )

    def _changes(self, listing: PagedCache[Any]) -> ListWatch[Any]:
        return self._library.changes(listing, partial(self._latest, listing))

    async def _all(
        self, feature: str, listing: Callable[[Library], PagedCache[L]], refresh: bool
    ) -> L:
        await self._connection.live()
        self._offered(feature)
        return await listing(self._library).all(refresh=refresh)

    async def _answered(
        self, method: str, timeouts: Timeouts, fields: Mapping[str, Any]
    ) -> Reading:
        """A reading that asks nothing back: one page of a list, or a completion."""

        async def ask(wire: RpcConnection) -> Reading:
            return await wire.request(method, fields, timeouts, repeatable=True)

        reading = await self._once_more(ask)
        if not isinstance(reading, Complete):
            raise ProtocolViolation(
                f"the server asks back on {method}, which only calls and reads may",
                result=reading.result,
                server=self.name,
            )
        return reading

    def _reader(self, timeout: float | Timeouts | None, meta: Mapping[str, Any] | None) -> Read:
        """A reading that may ask back."""
        from ..catalog.library import meta_of

        clocks, own = self._timeouts.for_call(timeout), meta_of(meta)

        async def read(method: str, fields: Mapping[str, Any]) -> dict[str, Any]:
            async def ask(wire: RpcConnection) -> dict[str, Any]:
                return await self._rounds.run(
                    wire, method, fields, clocks, meta=own, repeatable=True
                )

            return await self._once_more(ask)

        return read

    async def _once_more(self, ask: Callable[[RpcConnection], Awaitable[T]]) -> T:
        """What reads may be asked again, once, if the server died of old age in between."""
        try:
            return await ask(await self._connection.live())
        except (ConnectionLost, ConnectError) as error:
            if isinstance(error, ConnectError) and not session_ended(error):
                raise
            return await ask(await self._connection.live())
        except McpError as error:
            error.server = error.server or self.name
            raise
