"""Responses of a model that wait: the results of their calls are stored until all have one.

If some calls of a response raise ``CallPending``, the others have run, and must not run again. So a
record of the response is stored: the waiting calls, and the results of all others. The
record is in the state of the session or host. Without a state, it is stored with the tickets of the
``ApprovalQueue``, which processes share for the same reason; without either, in this process.

``CallPending.paused`` is a random text and nothing else. The record is found by a digest of it. So
access to the state is not enough to resume, nor is the text without the state. The context is in
the record as a digest that depends on the text.

The record does not change. The results of the waiting calls are in the journal beside it. The
result of each is under a key made of the record's and the call's number. So one caller at a time
makes the call, and all get its result. The call itself is also under a key, as one with an
``idempotency_key``, so that it is not repeated if it may have run.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Hashable, Sequence
from math import inf
from typing import Any, TypeAlias, TypeVar

from ..catalog.call_values import context_text
from ..connection.call_options import CallOptions
from ..errors import CallPending, ConfigError, McpError
from ..protocol.canonical_json import NotJson, canonical, digest_with
from ..runtime.background import side_by_side
from ..runtime.callbacks import in_thread
from ..runtime.storage import MemoryStorage, Object, Storage
from ..session.journal import JournalRow, journal
from ..state.calls import KEEP_CLAIM, Claim, calls_in
from .calls import Answer, ModelCall
from .parts import Media, Part

__all__ = ["Make", "Resumption", "pause"]

_log = logging.getLogger("mcp_client")
_ROWS = "paused"
_WAITS, _ANSWERED = "waits", "answered"
_MAX_IN_MEMORY = 1_000
"""Records in the memory of this process; the first to expire are dropped for new ones."""
_MAX_MEDIA_CHARS = 8_000_000
"""The limit for images and sounds in one record or result, as Base64 characters."""
_MAX_RUN_LOG_CHARS = 8_000_000
"""The limit for the earlier results of a script, in characters."""
_HERE = MemoryStorage()
_NOT_FOUND = (
    "no response is paused under this text: it was changed, has expired, or belongs to another "
    "state. Give the text of CallPending.paused and the same state="
)

T = TypeVar("T")
Make: TypeAlias = Callable[[ModelCall, CallOptions], Awaitable[Answer | CallPending]]
"""A function that makes a call, and returns its result or the reason why it has none yet."""


async def pause(
    target: Any,
    provider: str,
    answers: Sequence[Answer],
    outcomes: Sequence[object],
    options: CallOptions,
    keys: Sequence[str | None],
) -> None:
    """Store a response whose calls wait, and raise ``CallPending`` for these.

    ``keys`` are those that the calls were made with. If it cannot be stored, that is logged, and
    the function returns so that ``answers`` are not lost.
    """
    storage, paused = _storage_of(target), os.urandom(24).hex()
    meta, made = options.get("meta"), zip(answers, outcomes, keys, strict=True)
    waiting = [outcome for outcome in outcomes if isinstance(outcome, CallPending)]
    try:
        record: Object = {
            "provider": provider,
            "whose": _whose(paused, options.get("context")),
            "meta": None if meta is None else canonical(meta),
            "tag": options.get("tag"),
            "calls": [_stored(*each) for each in made],
            "due": time.time() + KEEP_CLAIM,
        }
        _bound(record["calls"])
        await _in(storage, _keep, storage, _key(paused), record)
    except (McpError, NotJson) as error:
        _log.error("cannot store a response that waits for approval: %s", error)
    else:
        raise _pending(waiting, len(answers), paused)


class Resumption:
    """One caller that goes on with a response."""

    def __init__(self, target: Any, provider: str, paused: object, options: CallOptions) -> None:
        """Raises ``ConfigError`` unless ``paused`` is a text."""
        if not isinstance(paused, str):
            kind = type(paused).__name__
            raise ConfigError(f"resume() was given a {kind}: give the text of CallPending.paused")
        self._storage = _storage_of(target)
        self._has_keys = hasattr(target, "_paused_in")
        self._paused, self._key = paused, _key(paused)
        self._provider, self._whose = provider, _whose(paused, options.get("context"))
        self._options = options

    async def run(self, make: Make) -> list[Answer]:
        """Return the results of all calls, once ``make`` has made those that waited.

        Raises ``CallPending`` if some still wait, ``ConfigError`` if there is no such response, and
        ``StateError`` if the state cannot be used: another attempt repeats nothing.
        """
        record = self._checked(await _in(self._storage, self._storage.get, _ROWS, self._key))
        calls = record["calls"]
        found: dict[int, Answer | CallPending] = {}
        failed: list[McpError] = []

        async def one(number: int) -> None:
            try:
                found[number] = await self._answer(record, number, make)
            except McpError as error:
                failed.append(error)  # raised when the others have ended

        waiting = [n for n, call in enumerate(calls) if call["state"] == _WAITS]
        await side_by_side(one, waiting)
        if failed:
            raise failed[0]
        pending = [each for n in waiting if isinstance(each := found[n], CallPending)]
        if pending:
            raise _pending(pending, len(calls), self._paused)
        answers = [found.get(n) or _answer(call) for n, call in enumerate(calls)]
        return [each for each in answers if isinstance(each, Answer)]

    def _checked(self, row: Object | None) -> Object:
        """Raises ``ConfigError`` for one that this caller may not go on with."""
        try:
            if row is None or not time.time() < row["due"]:
                raise ConfigError(_NOT_FOUND)
            if row["whose"] != self._whose:
                raise ConfigError(
                    "this response was paused for another context: give resume() the context of "
                    "run()"
                )
            if row["provider"] != self._provider:
                raise ConfigError(
                    f"this response was paused by a toolset of {row['provider']}: resume it with "
                    "one"
                )
            for call in row["calls"]:  # each can be read
                _answer(call) if call["state"] == _ANSWERED else _model_call(call)
            return row
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            why = f"a paused response cannot be read ({type(error).__name__})"
            raise self._storage.unusable(_ROWS, why) from None

    async def _answer(self, record: Object, number: int, make: Make) -> Answer | CallPending:
        """Return the result of a call that waited: that of the first caller, or of this one."""
        call, calls = record["calls"][number], calls_in(self._storage)
        row = JournalRow(calls, f"{self._key}/{number}")
        about = {"digest": "", "server": "", "tool": call["name"], "context": None}
        claim, found = await row.take(about, repeats=False, check=lambda state, waited: None)
        if claim is Claim.SETTLED:
            return _answer({**call, **(found.outcome or {})})
        made: Answer | CallPending | None = None
        try:
            journal.set(calls)  # in a task of its own
            if "past" in call:  # a script may have come further meanwhile
                now = self._checked(await _in(self._storage, self._storage.get, _ROWS, self._key))
                call = now["calls"][number]
            made = await make(_model_call(call), self._options_of(record, number))
            if isinstance(made, CallPending):
                await self._note_progress(number, made)
        finally:
            outcome = None
            if isinstance(made, Answer):
                _bound([outcome := _answered(made)])
            failure = await row.end(outcome, may_have_run=False)
            if failure is not None:
                _log.error("the response to a call of a resumed response: %s", failure)
        return made

    async def _note_progress(self, number: int, pending: CallPending) -> None:
        """Store the progress of a script.

        If that fails, the script continues from an earlier point: the journal has its calls since
        then.
        """
        run_log: Object = getattr(pending, "run_log", {})

        def noted(row: Object | None) -> Object | None:
            if row is not None:
                row["calls"][number] |= _progress_of(run_log)
            return row

        if run_log:
            try:
                await _in(self._storage, self._storage.change, _ROWS, self._key, noted)
            except McpError as error:
                _log.error("cannot store the progress of a script: %s", error)

    def _options_of(self, record: Object, number: int) -> CallOptions:
        options: CallOptions = {**self._options}
        if options.get("meta") is None and record["meta"] is not None:
            options["meta"] = json.loads(record["meta"])
        if options.get("tag") is None:
            options["tag"] = record["tag"]
        if self._has_keys:
            key = record["calls"][number]["key"]
            options["idempotency_key"] = key or f"{self._key}/{number}/call"
        return options


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
        "what ran is stored: once these are decided, resume(target, error.paused) goes on",
        ticket=tickets[0] if tickets else "",
        tickets=tickets,
        paused=paused,
        retryable=False,  # to run the response again would repeat what ran
    )


def _keep(storage: Storage, key: str, record: Object) -> None:
    storage.sweep(_ROWS, time.time())
    storage.change(_ROWS, key, lambda found: record)
    if not storage.waits:
        storage.remove(_ROWS, list(storage.due(_ROWS, 1, inf))[:-_MAX_IN_MEMORY])


# --------------------------------------------------------------------------- as JSON


def _stored(response: Answer, outcome: object, key: str | None) -> Object:
    call = response.call
    row = {"id": call.id, "name": call.name, "shown_name": call.shown_name}
    if isinstance(outcome, CallPending):
        run_log = getattr(outcome, "run_log", None)
        row |= {} if run_log is None else _progress_of(run_log)
        return {**row, "state": _WAITS, "key": key, "arguments": canonical(call.arguments)}
    return {**row, **_answered(response)}


def _model_call(row: Object) -> ModelCall:
    arguments = json.loads(row.get("arguments", "{}"))
    run_log, shown = row.get("past"), row["shown_name"]
    own: dict[str, Any] = {"is_own": run_log is not None, "run_log": run_log}
    return ModelCall(row["id"], row["name"], arguments, shown_name=shown, **own)


def _progress_of(run_log: Object) -> Object:
    """Return the stored part of a script. Raises ``ConfigError`` if it is too large."""
    if run_log["answers"] is None or len(json.dumps(run_log)) > _MAX_RUN_LOG_CHARS:
        raise ConfigError(
            f"the results of a paused script have more than {_MAX_RUN_LOG_CHARS:,} characters"
        )
    return {"past": run_log}


def _answered(response: Answer) -> Object:
    parts = [
        part
        if isinstance(part, str)
        else {"mime_type": part.mime_type, "data": b64encode(part.data).decode()}
        for part in response.parts
    ]
    return {"state": _ANSWERED, "parts": parts, "is_error": response.is_error}


def _answer(row: Object) -> Answer:
    parts: list[Part] = [
        part if isinstance(part, str) else Media(part["mime_type"], b64decode(part["data"]))
        for part in row["parts"]
    ]
    return Answer(_model_call(row), tuple(parts), row["is_error"])


def _bound(calls: Sequence[Object]) -> None:
    """Replace images and sounds that are too large to store by their names."""
    chars = 0
    for call in calls:
        for number, part in enumerate(call.get("parts", ())):
            if type(part) is dict:
                chars += len(part["data"])
                if chars > _MAX_MEDIA_CHARS:
                    call["parts"][number] = f"[{part['mime_type']}, too large to be stored]"
