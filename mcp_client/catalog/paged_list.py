"""One list of a server's: every page, cached, and asked for anew where that is due.

2026-07-28 ``server/utilities/pagination`` and ``server/utilities/caching``. The list is whole or
it is an error: an empty-string cursor is a cursor, a cursor that comes twice or a cap that is
reached raises. One bad entry spoils one entry: it is left out and named in ``rejected``.

The list is fetched when it is first needed, once for all who wait for it, and again after the
server said that it changed, or once its ``ttlMs`` is over. A notice that comes during a fetch
makes what is being fetched stale already, and any number of notices cost one fetch. A list that
is for us alone is forgotten with the authorization it was fetched under. One that cannot be
fetched anew is served as it was, and says so in ``findings``.
"""

from __future__ import annotations

import logging
import marshal
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from ..errors import CallTimeout, ConfigError, McpError, ProtocolViolation, ServerError
from ..runtime.limits import Limits
from ..runtime.safe_text import safe_text
from ..transports.base import Credentials
from .inspection import text_findings
from .listed import Listed, Rejected
from .reading import FetchResult
from .subscription import ListSubscription

__all__ = ["Kind", "ListSource", "PagedCache", "PagedEntries"]

_log = logging.getLogger("mcp_client")
_INVALID_PARAMS = -32602
_SHOWN = 200
_AT_ONCE = 25

L = TypeVar("L", bound=Listed[Any])
T = TypeVar("T")


class Kind(NamedTuple):
    """What is listed: in the protocol's words, and in ours."""

    method: str
    member: str
    """The member of a page which has its entries."""
    noun: str
    key: Callable[[Any], str]
    """What an entry goes by: no other has the same."""
    cap: str
    """The field of ``Limits`` that bounds how many there are."""


@dataclass(frozen=True, slots=True)
class ListSource:
    """Where the lists of one session come from, and within which bounds they are fetched."""

    server: str
    fetch: FetchResult
    """One page, from the method and its parameters."""
    now: Callable[[], float]
    limits: Limits
    seconds: float = math.inf
    """For fetching one list, all its pages."""
    credentials: Callable[[], Credentials | None] = lambda: None
    """How to learn what the server knows us by now: a private list is kept for one value only.
    None where that cannot change."""


class PagedCache(ABC, Generic[L]):
    kind: ClassVar[Kind]

    def __init__(self, source: ListSource, subscription: ListSubscription) -> None:
        """``subscription`` tells of changes of this list."""
        self.subscription = subscription
        self._source = source
        self._server = source.server
        self._limits = source.limits
        self._now = source.now
        self._list: L | None = None
        self._by_key: dict[str, Any] = {}
        self._fresh_until = -math.inf
        self._fetched_at = -math.inf
        self._private = False
        self._fetched_as: Hashable = None
        self._changes = 0
        self._seen = -1
        self._loads = 0
        self._failure: tuple[int, McpError] = (0, McpError("none yet"))
        self._turn = anyio.Lock()
        subscription.add_listener(self._may_have_changed)

    @abstractmethod
    async def _sorted_out(self, found: list[Any]) -> L:
        """What came, as what it is; a bad entry is left out with its reason."""

    @property
    def known(self) -> L | None:
        """The list that was fetched last, fresh or not."""
        if self._private and self._source.credentials() is not None:
            return None  # it may be meant for another user, and that takes a wait to find out
        return self._list

    @property
    def outdated(self) -> bool:
        """Whether the server has said that its list changed, and it was not fetched since."""
        return self._seen != self._changes

    @property
    def fresh(self) -> bool:
        return not self.outdated and self._now() < self._fresh_until

    def _may_have_changed(self, certain: bool) -> None:
        if certain or not self.fresh:
            self._changes += 1

    async def all(self, *, refresh: bool = False) -> L:
        """The whole current list; the last one, with a finding, where it cannot be fetched."""
        try:
            return await self._current(refresh)
        except ConfigError:
            raise
        except McpError as error:
            await self._drop_if_credentials_changed()
            if refresh or self._list is None:
                raise
            return self._stale_copy(self._list, error)

    async def latest(self) -> L:
        """The list as of the last notice, however old."""
        await self._drop_if_credentials_changed()
        if self._list is not None and not self.outdated:
            return self._list
        return await self._current(refresh=False)

    async def _current(self, refresh: bool) -> L:
        await self._drop_if_credentials_changed()
        if not refresh and self._list is not None and self.fresh:
            self.subscription.rely()
            return self._list
        loads, failures = self._loads, self._failure[0]
        async with self._turn:
            # A task that waited here while another fetched takes what that fetch brought, unless
            # it was fetched for another user.
            await self._drop_if_credentials_changed()
            if (
                self._list is not None
                and self._seen == self._changes
                and (self._loads > loads or (not refresh and self.fresh))
            ):
                return self._list
            if self._failure[0] > failures:
                raise self._failure[1].with_traceback(None)
            try:
                return await self._load()
            except McpError as error:
                self._failure = self._failure[0] + 1, error
                raise

    async def _drop_if_credentials_changed(self) -> None:
        """Forget a private list that was fetched under another authorization."""
        if not self._private or self._list is None:
            return
        credentials = self._source.credentials()
        if credentials is not None and await credentials.current() != self._fetched_as:
            self._list, self._by_key, self._seen = None, {}, -1

    def _stale_copy(self, old: L, error: McpError) -> L:
        age, noun = self._now() - self._fetched_at, self.kind.noun
        _log.warning("%s: the list of %s could not be fetched anew: %s", self._server, noun, error)
        return old.with_finding(
            f"this list is {age:.0f} s old and may be out of date, for fetching it anew failed: "
            f"{safe_text(error, _SHOWN)}"
        )

    # ----------------------------------------------------------------- loading

    async def _load(self) -> L:
        changes, credentials = self._changes, self._source.credentials()
        recorded: AbstractContextManager[set[Hashable]] = (
            nullcontext(set()) if credentials is None else credentials.recorded()
        )
        with anyio.move_on_after(self._source.seconds) as clock, recorded as sent_as:
            found, fresh_until, private = await self._every_page()
            entries = await self._sorted_out(found)
        if clock.cancelled_caught:
            raise CallTimeout(
                f"the list of {self.kind.noun} was not whole within {self._source.seconds:g} s "
                "(total clock)",
                clock="total",
                server=self._server,
            )
        self._list = entries
        key = self.kind.key
        self._by_key = {key(entry): entry for entry in entries}
        self._seen, self._fresh_until, self._fetched_at = changes, fresh_until, self._now()
        self._private = private
        # Several: it is not known for whom it was fetched, so it is not kept.
        self._fetched_as = sent_as.pop() if len(sent_as) == 1 else object()
        self._loads += 1
        self.subscription.signal.notify()
        return entries

    async def _every_page(self) -> tuple[list[Any], float, bool]:
        """All entries, until when they are fresh, and whether they are for us alone."""
        try:
            return await self._walk()
        except _CursorGone:
            return await self._walk(last=True)

    async def _walk(self, *, last: bool = False) -> tuple[list[Any], float, bool]:
        limits, kind = self._limits, self.kind
        most: int = getattr(limits, kind.cap)
        found: list[Any] = []
        cursors: set[str] = set()
        fields: dict[str, Any] = {}
        fresh_until, private, size = math.inf, False, 0
        for _ in range(limits.pages):
            try:
                page = await self._page(fields)
            except ServerError as error:
                if error.code == _INVALID_PARAMS and fields and not last:
                    raise _CursorGone from None
                raise
            found += page[kind.member]
            size += len(marshal.dumps(page, 2))  # not JSON's own length, but cheap and close to it
            if len(found) > most:
                raise self._broken(f"more than {most} {kind.noun} (Limits.{kind.cap})", page)
            if size > limits.list_bytes:
                raise self._broken(f"more than {limits.list_bytes} bytes (Limits.list_bytes)", page)
            fresh_until = min(fresh_until, self._now() + self._seconds_fresh(page))
            private = private or page.get("cacheScope") != "public"
            cursor = page.get("nextCursor")
            if cursor is None:
                return found, fresh_until, private
            if type(cursor) is not str:
                raise self._broken("a nextCursor that is not a string", page)
            if cursor in cursors:
                raise self._broken("a cursor that came before: the list has no end", page)
            cursors.add(cursor)
            fields = {"cursor": cursor}
        raise self._broken(f"more than {limits.pages} pages (Limits.pages)", page)

    async def _page(self, fields: dict[str, Any]) -> dict[str, Any]:
        page = await self._source.fetch(self.kind.method, fields)
        if type(page.get(self.kind.member)) is not list:
            raise self._broken(f"a page without an array of {self.kind.noun}", page)
        return page

    def _seconds_fresh(self, page: dict[str, Any]) -> float:
        """How long a page may be taken as fresh.

        Without a usable ``ttlMs``: until the server says otherwise, where it is heard when it
        does; else not at all.
        """
        ttl = page.get("ttlMs")
        if type(ttl) is int or type(ttl) is float:
            return max(0.0, min(ttl, 86_400_000) / 1000)
        return math.inf if self.subscription.is_notified else 0.0

    def _broken(self, what: str, page: Any) -> ProtocolViolation:
        return ProtocolViolation(
            f"the server's {self.kind.method} has {what}", result=page, server=self._server
        )


class _CursorGone(Exception):
    """A cursor the server gave is not valid any more."""


class PagedEntries(PagedCache[Listed[T]]):
    """A list of which each entry is read by itself: resources, their templates, prompts.

    ``read`` makes an entry, or raises ``ValueError`` with the reason why it is none. Where two
    have the same key the first one counts: between two pages a list may move.
    """

    def __init__(
        self,
        kind: Kind,
        read: Callable[[Any, str], T],
        source: ListSource,
        subscription: ListSubscription,
    ) -> None:
        super().__init__(source, subscription)
        self.kind = kind  # type: ignore[misc]  # one class, three kinds
        self._read = read

    async def _sorted_out(self, found: list[Any]) -> Listed[T]:
        entries: dict[str, T] = {}
        rejected: list[Rejected] = []
        findings: list[str] = []
        for number, entry in enumerate(found):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await checkpoint()  # a long list takes its time: let others run, and stop
            try:
                read = self._read(entry, self._server)
                key = self.kind.key(read)
                if key in entries:
                    raise ValueError("another came before it that goes by the same name")
            except ValueError as error:
                rejected.append(self._rejected(entry, error))
                continue
            entries[key] = read
            texts = [text for text in map(entry.get, _TEXTS) if type(text) is str]
            findings += [f"'{safe_text(key, 128)}': {found}" for found in text_findings(texts)]
        return Listed(list(entries.values()), rejected, findings)

    def _rejected(self, entry: Any, error: ValueError) -> Rejected:
        names = map(entry.get, _NAMES) if type(entry) is dict else ()
        name = safe_text(next((name for name in names if type(name) is str), ""), 128)
        reason = safe_text(error, _SHOWN)
        _log.warning("%s: %s: %r is left out: %s", self._server, self.kind.noun, name, reason)
        return Rejected(name, reason)


_TEXTS = ("name", "title", "description")
_NAMES = ("uri", "uriTemplate", "name")
