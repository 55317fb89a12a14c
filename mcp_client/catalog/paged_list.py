"""A list of a server: every page, cached, and refreshed when it may have changed.

2026-07-28 ``server/utilities/pagination`` and ``server/utilities/caching``. A fetch returns the
complete list or raises if a limit is exceeded. An invalid entry is omitted and listed in
``rejected``.

An empty string is a cursor. If a server returns a page or a cursor a second time, the list ends
there, with a finding; the entries before are used. A page whose entries are null is empty.

The list is fetched when it is first needed, once for all tasks that wait for it. It is fetched
again after the server reported a change, or once its ``ttlMs`` has passed. A list without ``ttlMs``
is fresh only while a change would be received: the server has declared change notifications, and a
stream for them has existed since the fetch began. Otherwise each use fetches it again. A
notification during a fetch makes its result stale, and any number of notifications cost one fetch.
A private list is dropped with the authorization it was fetched under. If a refresh fails, the old
list is returned with a finding. A list that the server does not offer is empty, without a request.

A server without change notifications is asked each time, and mostly sends the same. If every page
is the same as before, its entries are not parsed again: the list is the same object.
"""

from __future__ import annotations

import logging
import marshal
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from anyio.lowlevel import checkpoint

from ..errors import CallTimeout, ConfigError, McpError, ProtocolViolation, ServerError
from ..protocol.canonical_json import FrozenObject, frozen
from ..runtime.backoff import NoticePace
from ..runtime.event_loop import LoopLock, current
from ..runtime.safe_text import one_line, safe_text
from ..transports.base import is_passing
from .definition import text_findings
from .finding import Finding, Listed, Rejected
from .read_requests import NAMES, Ends, ReadRequests, identity, without_repeats
from .subscription import ListSubscription

if TYPE_CHECKING:
    from ..protocol.metadata import Origin

__all__ = ["LOGGED_BY_THE_LIST", "Kind", "PagedCache", "PagedEntries"]

_log = logging.getLogger("mcp_client")
_INVALID_PARAMS = -32602
_MAX_REASON_CHARS = 200
_SLICE_ENTRIES = 25

L = TypeVar("L", bound=Listed[Any])
T = TypeVar("T")


class Kind(NamedTuple):
    """The kind of list: its name in the protocol, and in this package."""

    method: str
    member: str
    """The member of a page which has its entries."""
    noun: str
    key: Callable[[Any], str]
    """The unique key of an entry."""
    cap: str
    """The field of ``Limits`` that bounds how many there are."""


class Freshness(NamedTuple):
    """The time for which a list is valid, and the caller, from its pages and its fetch."""

    until: float = math.inf
    """The end of the shortest ``ttlMs`` of its pages."""
    holds_until: float = math.inf
    """The end of the shortest that is above 0."""
    has_ttl: bool = True
    """Whether every page has one."""
    private: bool = False
    """Whether it is for one authorization alone (``cacheScope``)."""
    changes: int = -1
    """The number of changes that were known when the fetch began."""
    epoch: int | None = None
    """Since when a change would have been received; None if none would."""
    fetched_at: float = -math.inf
    fetched_as: Hashable = None
    """The authorization it was fetched under."""

    def and_page(self, page: dict[str, Any], now: float) -> Freshness:
        """Return the freshness of the list with one page more."""
        ttl = _ttl(page)
        private = self.private or page.get("cacheScope") != "public"
        if ttl is None:
            return self._replace(has_ttl=False, private=private)
        until = min(self.until, now + ttl)
        holds_until = min(self.holds_until, now + ttl) if ttl > 0 else self.holds_until
        return self._replace(until=until, holds_until=holds_until, private=private)


class PagedCache(ABC, Generic[L]):
    """The cache of one list."""

    kind: ClassVar[Kind]
    _depends_on_host = False
    """Whether the same entries may make another list, because of options of the host."""

    def __init__(self, requests: ReadRequests, subscription: ListSubscription) -> None:
        """Set ``subscription``, which reports changes of this list."""
        self.subscription = subscription
        self._requests = requests
        self._server = requests.context.server
        self._limits = requests.context.limits
        self._now = requests.now
        self._list: L | None = None
        self._by_key: dict[str, Any] = {}
        self.version: int = 0
        """Another number once entries were fetched, or may have changed."""
        self._freshness = Freshness(until=-math.inf, has_ttl=False)
        self._changes = 0
        self._loads = 0
        self._awaiting: list[Callable[[L], None]] = []
        """Functions that take the next list that is fetched."""
        self._came: tuple[object, ...] | None = None
        """The pages of the list; None if they cannot be compared."""
        self._failure: tuple[int, McpError] = (0, McpError("none yet"))
        self._turn = LoopLock()
        self._pace = NoticePace()
        subscription.add_listener(self._may_have_changed)

    @abstractmethod
    async def _sorted_out(self, found: list[Any]) -> L:
        """Return the parsed entries; an invalid one is omitted with its reason."""

    @property
    def known(self) -> L | None:
        """The list that was fetched last, fresh or not."""
        if self._freshness.private:
            return None  # it may be meant for another user, and that takes a wait to find out
        return self._list

    def when_fetched(self, take: Callable[[L], None]) -> None:
        """Call ``take`` with the next list that is fetched."""
        self._awaiting.append(take)

    @property
    def outdated(self) -> bool:
        """Whether the server has reported a change that was not fetched yet."""
        return self._freshness.changes != self._changes

    @property
    def is_over(self) -> bool:
        """Whether the list is ``outdated``, or the time is over for which it holds."""
        freshness, until = self._freshness, self._freshness.holds_until
        return freshness.changes != self._changes or (until < math.inf and self._now() >= until)

    @property
    def due_in(self) -> float:
        """Seconds after which it may be fetched again because of a notice."""
        return self._pace.wait(self._now())

    @property
    def fresh(self) -> bool:
        """Whether the list is certainly current: by a subscription, or by its ``ttlMs``."""
        freshness = self._freshness
        if freshness.changes != self._changes or self._now() >= freshness.until:
            return False
        epoch = freshness.epoch
        return freshness.has_ttl or (epoch is not None and epoch == self.subscription.epoch)

    def usable(self, key: str) -> Any:
        """Return the entry with this key if a call may use it without a wait, else None.

        It may be out of date, but the server has not reported that, its ``ttlMs`` has not passed,
        and it was fetched for this user.
        """
        if self._freshness.private or self.is_over:
            return None
        self._use()
        try:
            return self._by_key.get(key)
        except TypeError:  # not hashable: whatever looks it up next refuses it
            return None

    def _use(self) -> None:
        subscription = self.subscription
        if subscription.is_available and not subscription.is_used:
            subscription.use()

    def mark_outdated(self) -> None:
        """Note that the list has changed, although the server has not reported it."""
        self._may_have_changed(certain=True)

    def _may_have_changed(self, certain: bool) -> None:
        if certain or not self.fresh:
            self._changes += 1
            self.version += 1

    async def all(self, *, refresh: bool = False) -> L:
        """The complete current list; the last one, with a finding, if it cannot be fetched."""
        try:
            return await self._current(refresh)
        except ConfigError:
            raise
        except McpError as error:
            await self._drop_if_credentials_changed()
            if refresh or self._list is None:
                raise
            return self._stale_copy(self._list, error)

    def note_fetch(self) -> None:
        """Note that it is fetched because of a notice: the next one has to wait for ``due_in``."""
        self._pace.fetched(self._now())

    async def latest(self) -> L:
        """The list as of the last notice, however old."""
        await self._drop_if_credentials_changed()
        if self._list is not None and not self.outdated:
            return self._list
        if self._list is not None:
            self.note_fetch()
        return await self._current(refresh=False)

    async def _current(self, refresh: bool) -> L:
        await self._drop_if_credentials_changed()
        if not refresh and self._list is not None and self.fresh:
            self._use()
            return self._list
        if not refresh and self._list is not None:
            self._use()  # it may then be notified of changes, instead of asking again
        loads, failures = self._loads, self._failure[0]
        async with self._turn:
            # A task that waited here while another fetched takes what that fetch brought, unless
            # it was fetched for another user.
            await self._drop_if_credentials_changed()
            if (
                self._list is not None
                and not self.outdated
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
        freshness = self._freshness
        if not freshness.private or self._list is None:
            return
        credentials = self._requests.connection.transport.credentials
        if credentials is not None and await credentials.current() != freshness.fetched_as:
            self._list, self._by_key = None, {}
            self._freshness = freshness._replace(changes=-1)
            self.version += 1

    def _stale_copy(self, old: L, error: McpError) -> L:
        age, noun = self._now() - self._freshness.fetched_at, self.kind.noun
        _log.warning("%s: the list of %s could not be refreshed: %s", self._server, noun, error)
        text = (
            f"this list is {age:.0f} s old and may be out of date, because refreshing it failed: "
            f"{safe_text(one_line(error), _MAX_REASON_CHARS)}"
        )
        return old.with_finding(Finding("stale_list", text, noun))

    # ----------------------------------------------------------------- loading

    async def _load(self) -> L:
        changes, credentials = self._changes, self._requests.connection.transport.credentials
        epoch, seconds = self.subscription.epoch, self._requests.context.timeouts.total
        recorded: AbstractContextManager[set[Hashable]] = (
            nullcontext(set()) if credentials is None else credentials.recorded()
        )
        try:
            async with current().time_limit(seconds):
                with recorded as sent_as:
                    fetched = await self._every_page()
                    came = self._came_as(fetched)
                    known = None if came is None or came != self._came else self._list
                    entries = await self._sorted_out(fetched.entries) if known is None else known
                    for finding in fetched.findings if known is None else ():
                        entries = entries.with_finding(finding)
        except TimeoutError:
            raise CallTimeout(
                f"the list of {self.kind.noun} was not complete within {seconds:g} s "
                "(total timeout)",
                clock="total",
                server=self._server,
            ) from None
        if known is None:
            self._list, self._came = entries, came
            key = self.kind.key
            self._by_key = {key(entry): entry for entry in entries}
        entries.meta = fetched.meta
        self._freshness = fetched.freshness._replace(
            private=fetched.freshness.private and credentials is not None,
            changes=changes,
            epoch=epoch,
            fetched_at=self._now(),
            # Several: it is not known for whom it was fetched, so it is not stored.
            fetched_as=sent_as.pop() if len(sent_as) == 1 else object(),
        )
        self._loads += 1
        self.version += 1
        awaiting, self._awaiting = self._awaiting, []
        for take in awaiting:
            take(entries)
        self.subscription.notifier.notify()
        return entries

    def _came_as(self, fetched: _Fetched) -> tuple[object, ...] | None:
        """Return a value that is equal for the same pages, parsed in the same way."""
        if self._list is None or self._depends_on_host:
            return None
        digest = _digest_of(fetched.entries)
        if digest is None:
            return None
        return self._requests.connection.generation, *fetched.findings, digest

    async def _every_page(self) -> _Fetched:
        if not self.subscription.is_offered:
            return _Fetched([], Freshness(), ())
        try:
            return await self._walk()
        except _CursorGone:
            return await self._walk(last=True)

    async def _walk(self, *, last: bool = False) -> _Fetched:
        """Fetch page after page. ``last``: a cursor was refused before, and will not be again."""
        limits, kind = self._limits, self.kind
        most: int = getattr(limits, kind.cap)
        found: list[Any] = []
        ends = Ends(kind.noun)
        fields: dict[str, Any] = {}
        freshness, size = Freshness(), 0
        meta: object = None
        for _ in range(limits.pages):
            try:
                page, page_bytes = await self._requests.page(kind.method, fields)
            except ServerError as error:
                refused = error.code is not None or not is_passing(error.http_status)
                if refused and fields.get("cursor") in ("", 0):
                    ends.note("its last page has a cursor of '' or 0, which the server refuses")
                    break
                if error.code == _INVALID_PARAMS and fields and not last:
                    raise _CursorGone from None
                raise
            meta = meta if fields else page.get("_meta")
            entries = self._entries(page, ends)
            size += page_bytes
            cursor = self._cursor(page, ends, as_text=last)
            is_over = cursor is None or ends.after(entries, cursor, found)
            found += entries
            if len(found) > most:
                raise self._broken(f"more than {most} {kind.noun} (Limits.{kind.cap})", page)
            if size > limits.list_bytes:
                raise self._broken(f"more than {limits.list_bytes} bytes (Limits.list_bytes)", page)
            freshness = freshness.and_page(page, self._now())
            if is_over:
                break
            fields = {"cursor": cursor}
        else:
            raise self._broken(f"more than {limits.pages} pages (Limits.pages)", page)
        frozen_meta = frozen(meta if isinstance(meta, dict) else {})
        return _Fetched(found, freshness, ends.findings, frozen_meta)

    def _entries(self, page: dict[str, Any], ends: Ends) -> list[Any]:
        entries = page.get(self.kind.member)
        if entries is None and self.kind.member in page:
            ends.note("a page has null in place of its entries: it counts as empty")
            return []
        if type(entries) is not list:
            raise self._broken(f"a page without an array of {self.kind.noun}", page)
        return entries

    def _cursor(self, page: dict[str, Any], ends: Ends, *, as_text: bool) -> str | float | None:
        cursor = page.get("nextCursor")
        if cursor is None or type(cursor) is str:
            return cursor
        if cursor is False:
            ends.note("its last page has a cursor of false, which counts as none")
            return None
        if type(cursor) is int or type(cursor) is float:
            ends.note("a cursor is a number, which is sent back as it came")
            return str(cursor) if as_text else cursor
        raise self._broken("a nextCursor that is not a string", page)

    def _broken(self, what: str, page: Any) -> ProtocolViolation:
        return ProtocolViolation(
            f"the server's {self.kind.method} has {what}", result=page, server=self._server
        )


def _ttl(page: dict[str, Any]) -> float | None:
    """Seconds for which a page is fresh by its own word, at most a day."""
    ttl = page.get("ttlMs")
    if type(ttl) is int or type(ttl) is float:
        return max(0.0, min(ttl, 86_400_000) / 1000)
    return None


def _digest_of(entries: list[Any]) -> bytes | None:
    """Return what is equal only for the same JSON, in which ``1`` is not ``true``."""
    import hashlib  # imported here because it loads OpenSSL

    try:
        # A third of the time of json.dumps. Versions above 2 mark shared objects, too.
        return hashlib.sha256(marshal.dumps(entries, 2)).digest()
    except ValueError:  # it is nested too deeply
        return None


class _Fetched(NamedTuple):
    entries: list[Any]
    freshness: Freshness
    findings: tuple[Finding, ...]
    """The deviations of the pages from the specification."""
    meta: Mapping[str, Any] = FrozenObject()
    """``_meta`` of the first page."""


class _CursorGone(Exception):
    """A cursor the server gave is not valid any more."""


class _SameName(ValueError):
    """Another entry has the same name."""


class PagedEntries(PagedCache[Listed[T]]):
    """A list whose entries do not depend on each other: resources, their templates, prompts.

    ``read`` makes an entry, of a server of this name and origin, or raises ``ValueError`` with what
    is wrong with it. If two have the same key the first one counts: between two pages a list may
    move.
    """

    def __init__(
        self,
        kind: Kind,
        read: Callable[[Any, str, Origin | None], T],
        requests: ReadRequests,
        subscription: ListSubscription,
    ) -> None:
        super().__init__(requests, subscription)
        self.kind = kind  # type: ignore[misc]  # one class, three kinds
        self._read = read

    async def _sorted_out(self, found: list[Any]) -> Listed[T]:
        entries: dict[str, T] = {}
        rejected: list[Rejected] = []
        names = [" ".join(identity(entry)) for entry in found]
        findings: list[Finding] = []
        if len(set(names)) < len(names):
            found, findings = without_repeats(found, names, "entry")
        for number, entry in enumerate(found):
            if number % _SLICE_ENTRIES == _SLICE_ENTRIES - 1:
                await checkpoint()  # a long list takes its time: let others run, and stop
            try:
                read = self._read(entry, self._server, self._requests.connection.transport.origin)
                key = self.kind.key(read)
                if key in entries:
                    raise _SameName("an earlier entry has the same name")
            except ValueError as error:
                rejected.append(self._rejected(entry, error))
                continue
            entries[key] = read
            texts = self._texts(entry)
            findings += [found.at(f"'{safe_text(key, 128)}'") for found in text_findings(texts)]
        return Listed(list(entries.values()), rejected, findings)

    def _texts(self, entry: dict[str, Any]) -> list[str]:
        """The texts of an entry that people and models will read."""
        return [text for text in map(entry.get, _TEXTS) if type(text) is str]

    def _rejected(self, entry: Any, error: ValueError) -> Rejected:
        names = map(entry.get, NAMES) if type(entry) is dict else ()
        name = safe_text(next((name for name in names if type(name) is str), ""), 128)
        reason = safe_text(error, _MAX_REASON_CHARS)
        text = "%s: %s: %r is left out: %s"
        _log.warning(text, self._server, self.kind.noun, name, reason, extra=LOGGED_BY_THE_LIST)
        return Rejected(name, reason, "same_name" if isinstance(error, _SameName) else "invalid")


LOGGED_BY_THE_LIST = {"is_listed": True}
"""Marks the log record of what ``rejected`` has as well."""
_TEXTS = ("name", "title", "description")
