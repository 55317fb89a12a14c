"""Responses of a model that wait: what their calls led to is kept until all of them have an answer.

Where some calls of a response raise ``CallPending`` the others have run, and must not run again. So
a record of the response is kept: the calls that wait, and the answers of all others. It stands in
the state of the session or host; without one beside the tickets of its ``ApprovalQueue``, which
processes share for the same reason; else in this process.

``CallPending.paused`` is a random text and nothing else. The record is found by a digest of it, so
reading the state is not enough to resume, nor is the text without the state. The context
stands in the record as a digest that takes the text to make.

A call in a record waits, was sent, or has its answer. One caller at a time has the turn to make
those that wait. It is written down that a call was sent before it is, and its answer before the
turn ends. So if a turn ends without an answer, as after ``kill -9``, it is not known if the call
ran, and it is made again only where that does no harm. A turn is at an end when its process is, or
when it has not been renewed for a minute: then what it has not sent yet is not sent by it any more.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

import anyio

from ..catalog.call_context import context_text
from ..connection.call_options import CallOptions, before_sending
from ..errors import CallPending, ConfigError, McpError, NotSent
from ..protocol.canonical_json import NotJson, canonical
from ..runtime.callbacks import in_thread
from ..runtime.keyed_digest import digest_with
from ..runtime.process_id import is_alive, process_id
from ..runtime.storage import Change, MemoryStorage, Object, Storage
from .answers import Answer
from .model_calls import ModelCall
from .parts import Media, Part
from .running import side_by_side

__all__ = ["Make", "Resumption", "pause"]

_log = logging.getLogger("mcp_client")
_ROWS = "paused"
_WAITS, _SENT, _ANSWERED = "waits", "sent", "answered"
_KEEP_SECONDS = 30 * 86_400.0
_KEEP_ANSWERED_SECONDS = 86_400.0
_TURN_SECONDS = 60.0
"""Seconds for which a turn holds, where it cannot be told whether its process runs."""
_LOOK_SECONDS = 0.5
"""Seconds after which a caller looks again whether another one's turn has ended."""
_WRITE_SECONDS = 15.0
_MAX_RECORDS = 1_000
_MAX_CHARS = 16_000_000
"""Of all records. Beyond that, or their number, those go that would expire first."""
_MAX_MEDIA_CHARS = 8_000_000
"""Of the images and sounds in one record, as Base64."""
_HERE = MemoryStorage()
_NOT_FOUND = (
    "no response is paused under this text: it was changed, has expired, or belongs to another "
    "state. Give the text of CallPending.paused and the same state="
)

T = TypeVar("T")
Make: TypeAlias = Callable[[ModelCall, CallOptions], Awaitable[Answer | CallPending]]
"""Makes a call, and returns its answer or why there is none yet."""


async def pause(
    target: Any,
    provider: str,
    answers: Sequence[Answer],
    outcomes: Sequence[object],
    options: CallOptions,
) -> None:
    """Keep a response of which calls wait, and raise ``CallPending`` for these. Where it cannot be
    kept, that is logged and ``answers`` are not lost: it returns."""
    storage, paused = _storage_of(target), os.urandom(24).hex()
    meta, made = options.get("meta"), zip(answers, outcomes, strict=True)
    waiting = [outcome for outcome in outcomes if isinstance(outcome, CallPending)]
    try:
        record = {
            "provider": provider,
            "whose": _whose(paused, options.get("context")),
            "meta": None if meta is None else canonical(meta),
            "calls": [_kept(*each) for each in made],
            "turn": None,
            "expires_at": time.time() + _KEEP_SECONDS,
        }
        _bound(record)
        await _in(storage, _sweep, storage)
        await _in(storage, storage.change, _ROWS, _key(paused), lambda found: record)
    except (ConfigError, NotJson) as error:
        _log.error("a response that waits for approval cannot be kept: %s", error)
    else:
        raise _pending(waiting, len(answers), paused)


class Resumption:
    """One caller that goes on with a response."""

    def __init__(
        self,
        target: Any,
        provider: str,
        paused: object,
        options: CallOptions,
        *,
        lost: Callable[[ModelCall], Answer | None],
    ) -> None:
        """``lost`` gives the answer to a call whose outcome is unknown; None if it may be repeated.
        Raises ``ConfigError`` unless ``paused`` is a text."""
        if not isinstance(paused, str):
            kind = type(paused).__name__
            raise ConfigError(f"resume() was given a {kind}: give the text of CallPending.paused")
        self._storage = _storage_of(target)
        self._paused, self._key = paused, _key(paused)
        self._provider, self._whose = provider, _whose(paused, options.get("context"))
        self._options, self._lost = options, lost
        self._mark = os.urandom(16).hex()

    async def run(self, make: Make) -> list[Answer]:
        """The answers to all calls, once ``make`` has made those that waited. Raises
        ``CallPending`` where some still do, and ``ConfigError`` where there is no such response."""
        while True:
            record = await self._take_turn()
            pending: dict[int, CallPending] = {}
            if record["turn"] is None or await self._make_all(record, make, pending):
                break
        if pending:
            waiting = [pending[number] for number in sorted(pending)]
            raise _pending(waiting, len(record["calls"]), self._paused)
        return [_answer(call) for call in record["calls"]]

    # ------------------------------------------------------------------- the turn

    async def _take_turn(self) -> Object:
        """The record, once its turn is this caller's; or without a turn, where all is answered."""
        is_free = False

        def take(row: Object | None) -> Object:
            nonlocal is_free
            found = self._checked(row)
            turn = found["turn"]
            is_free = turn is None or time.time() >= turn["until"] or not is_alive(turn["process"])
            if not is_free:
                return found
            for call in found["calls"]:
                if call["state"] == _SENT:
                    answer = self._lost(_model_call(call))
                    call |= {"state": _WAITS} if answer is None else _answered(answer)
            found["turn"] = self._turn() if _waiting(found) else None
            return found

        while True:
            record = await self._change(take)
            assert record is not None
            if is_free:
                return record
            await anyio.sleep(_LOOK_SECONDS)

    def _checked(self, row: Object | None) -> Object:
        """Raises ``ConfigError`` for one that this caller may not go on with."""
        if row is None or not time.time() < row["expires_at"]:
            raise ConfigError(_NOT_FOUND)
        if row["whose"] != self._whose:
            raise ConfigError(
                "this response was paused for another context: give resume() the context of run()"
            )
        if row["provider"] != self._provider:
            raise ConfigError(
                f"this response was paused by a toolset of {row['provider']}: resume it with one"
            )
        for call in row["calls"]:  # each can be read
            _answer(call) if call["state"] == _ANSWERED else _model_call(call)
        return row

    def _turn(self) -> Object:
        until = time.time() + _TURN_SECONDS
        return {"mark": self._mark, "process": process_id(), "until": until}

    def _is_mine(self, row: Object | None) -> bool:
        return row is not None and row["turn"] is not None and row["turn"]["mark"] == self._mark

    # ------------------------------------------------------------------ the calls

    async def _make_all(self, record: Object, make: Make, pending: dict[int, CallPending]) -> bool:
        """Make the calls of ``record`` that wait, and put what they lead to there, or in
        ``pending``. False where another caller has the turn by now."""
        left = _waiting(record)
        renewing = anyio.CancelScope()

        async def one(number: int | None) -> None:
            if number is None:
                with renewing:
                    await self._renew()
                return
            await self._make(record, number, make, pending)
            left.remove(number)
            if not left:
                renewing.cancel()

        try:
            await side_by_side(one, [None, *left])
        finally:
            has_turn = await self._note(partial(self._left, record))
        return has_turn

    async def _make(
        self, record: Object, number: int, make: Make, pending: dict[int, CallPending]
    ) -> None:
        options, call = self._options, record["calls"][number]
        if options.get("meta") is None and record["meta"] is not None:
            options = {**options, "meta": json.loads(record["meta"])}
        before_sending.set(partial(self._sending, number))  # in a task of its own
        made = await make(_model_call(call), options)
        if isinstance(made, CallPending):
            pending[number] = made
        else:
            call |= _answered(made)
        await self._note(partial(self._ended, number, call))

    async def _sending(self, number: int) -> None:
        """Write down that a call is sent. Raises where that cannot be, or is not ours to do."""

        def sent(row: Object | None) -> Object | None:
            if row is not None and self._is_mine(row):
                row["calls"][number]["state"] = _SENT
                row["turn"] = self._turn()
            return row

        if not self._is_mine(await self._change(sent)):
            raise NotSent("another process goes on with this response", retryable=True)

    def _ended(self, number: int, call: Object, row: Object) -> None:
        row["calls"][number] = call
        row["turn"] = self._turn()

    def _left(self, record: Object, row: Object) -> None:
        """Give the turn back, with what ``_ended`` could not write."""
        for number, call in enumerate(record["calls"]):
            if call["state"] == _ANSWERED:
                row["calls"][number] = call
        _bound(row)
        kept = _KEEP_SECONDS if _waiting(row) else _KEEP_ANSWERED_SECONDS
        row |= {"turn": None, "expires_at": time.time() + kept}

    async def _renew(self) -> None:
        while True:
            await anyio.sleep(_TURN_SECONDS / 3)
            await self._note(lambda row: row.update(turn=self._turn()))

    # ----------------------------------------------------------------- the record

    async def _note(self, change: Callable[[Object], None]) -> bool:
        """Change the record, also while the caller is being cancelled. False where the turn is
        another caller's; what cannot be written is logged."""
        is_mine = True

        def noted(row: Object | None) -> Object | None:
            nonlocal is_mine
            is_mine = row is None or self._is_mine(row)
            if row is not None and is_mine:
                change(row)
            return row

        with anyio.move_on_after(_WRITE_SECONDS, shield=True):
            try:
                await self._change(noted)
            except McpError as error:
                _log.error("a response that is resumed cannot be written down: %s", error)
        return is_mine

    async def _change(self, function: Change) -> Object | None:
        def change(row: Object | None) -> Object | None:
            try:
                return function(row)
            except (LookupError, TypeError, AttributeError, ValueError) as error:
                why = f"a paused response cannot be read ({type(error).__name__})"
                raise self._storage.unusable(_ROWS, why) from None

        return await _in(self._storage, self._storage.change, _ROWS, self._key, change)


def _storage_of(target: Any) -> Storage:
    found: Storage | None = getattr(target, "_paused_in", None)
    return _HERE if found is None else found


async def _in(storage: Storage, function: Callable[..., T], *args: Any) -> T:
    return await in_thread(function, *args) if storage.waits else function(*args)


def _key(paused: str) -> str:
    return hashlib.sha256(paused.encode("utf-8", "surrogatepass")).hexdigest()


def _whose(paused: str, context: Hashable) -> str:
    return digest_with(paused.encode("utf-8", "surrogatepass"), context_text(context))


def _pending(waiting: Sequence[CallPending], calls: int, paused: str) -> CallPending:
    tickets = tuple(dict.fromkeys(ticket for one in waiting for ticket in one.tickets))
    return CallPending(
        f"{len(waiting)} of the {calls} calls of the response wait for approval, see .tickets, and "
        "what ran is kept: once these are decided, resume(target, error.paused) goes on",
        ticket=tickets[0] if tickets else "",
        tickets=tickets,
        paused=paused,
        retryable=False,  # to run the response again would repeat what ran
    )


def _sweep(storage: Storage) -> None:
    """Remove what has expired, and what is too much."""
    now, left, chars = time.time(), 0, 0
    gone = []
    rows = sorted(storage.list(_ROWS).items(), key=lambda each: -_expires_at(each[1]))
    for key, row in rows:
        left, chars = left + 1, chars + len(json.dumps(row))
        if _expires_at(row) <= now or left >= _MAX_RECORDS or chars > _MAX_CHARS:
            gone.append(key)
    if gone:
        storage.remove(_ROWS, gone)


def _expires_at(row: Mapping[str, Any]) -> float:
    found = row.get("expires_at")
    return found if type(found) is float else 0.0


# --------------------------------------------------------------------------- as JSON


def _waiting(record: Object) -> list[int]:
    return [n for n, call in enumerate(record["calls"]) if call["state"] != _ANSWERED]


def _kept(answer: Answer, outcome: object) -> Object:
    call = answer.call
    row = {"id": call.id, "name": call.name, "shown_name": call.shown_name}
    if isinstance(outcome, CallPending):
        return {**row, "state": _WAITS, "arguments": canonical(call.arguments)}
    return {**row, **_answered(answer)}


def _model_call(row: Object) -> ModelCall:
    arguments = json.loads(row.get("arguments", "{}"))
    return ModelCall(row["id"], row["name"], arguments, shown_name=row["shown_name"])


def _answered(answer: Answer) -> Object:
    parts = [
        part
        if isinstance(part, str)
        else {"mime_type": part.mime_type, "data": b64encode(part.data).decode()}
        for part in answer.parts
    ]
    return {"state": _ANSWERED, "parts": parts, "is_error": answer.is_error}


def _answer(row: Object) -> Answer:
    parts: list[Part] = [
        part if isinstance(part, str) else Media(part["mime_type"], b64decode(part["data"]))
        for part in row["parts"]
    ]
    return Answer(_model_call(row), tuple(parts), row["is_error"])


def _bound(record: Object) -> None:
    """Name images and sounds that are too much to keep, in place of them."""
    chars = 0
    for call in record["calls"]:
        for number, part in enumerate(call.get("parts", ())):
            if type(part) is dict:
                chars += len(part["data"])
                if chars > _MAX_MEDIA_CHARS:
                    call["parts"][number] = f"[{part['mime_type']}, too large to be kept]"
