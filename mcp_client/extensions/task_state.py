"""A server's report about a task, parsed once and checked.

``io.modelcontextprotocol/tasks`` (2026-07-28, extension ``tasks``). A task is created by the
response to a call (``CreateTaskResult``), and described by ``tasks/get``: ``working``,
``input_required`` with the questions that are open, ``completed`` with the result of the call,
``failed`` with a JSON-RPC error, or ``cancelled``. Times are in milliseconds there, and in seconds
here.

A program that knows the id of a task may request its result. So the id is a secret: ``hide_id``
removes it from every error that leaves this room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ..errors import McpError
from ..protocol.era import Malformed
from ..runtime.masking import mask, mask_json
from ..runtime.safe_text import safe_text
from ..runtime.session_context import SessionContext

__all__ = [
    "CANCELLED",
    "COMPLETED",
    "FAILED",
    "INPUT_REQUIRED",
    "WORKING",
    "TaskState",
    "hide_id",
    "is_call_result",
    "note_status",
    "read_status",
    "read_task",
]

WORKING: Final = "working"
INPUT_REQUIRED: Final = "input_required"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
_STATUSES = frozenset({WORKING, INPUT_REQUIRED, COMPLETED, FAILED, CANCELLED})
_ENDED = frozenset({COMPLETED, FAILED, CANCELLED})

_POLL_SECONDS = 1.0
"""The seconds between two polls if the server states none."""
_MIN_POLL_SECONDS = 0.05
_MAX_POLL_SECONDS = 86_400.0
_MAX_ID_CHARS = 4_096
"""An id goes into an HTTP header."""


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task as the server described it last."""

    id: str = field(repr=False)
    """The server's, and a secret."""
    status: str
    """The status: ``WORKING``, ``INPUT_REQUIRED``, ``COMPLETED``, ``FAILED`` or ``CANCELLED``."""
    message: str | None = None
    """The server's message about the status, for people and models: untrusted text."""
    interval: float = _POLL_SECONDS
    """Seconds until the next poll."""
    ttl: float | None = None
    """The seconds from its creation for which the server stores it; None if it states none."""
    is_whole: bool = False
    """Whether it has the members of its status; the response that creates a task does not."""
    questions: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The server's open questions by key, while the status is ``input_required``."""
    result: dict[str, Any] | None = field(default=None, repr=False)
    """The result of the call, once it is ``completed``."""
    error: dict[str, Any] | None = field(default=None, repr=False)
    """The JSON-RPC error, if it ``failed``."""

    @property
    def ended(self) -> bool:
        """Whether its status is one that does not change any more."""
        return self.status in _ENDED


def read_task(fields: Mapping[str, Any], expected: str | None = None) -> TaskState:
    """Return the state in a response to ``tasks/get`` about the task ``expected``.

    Without ``expected`` it is the response that creates a task. Raises ``Malformed``.
    """
    state = read_status(fields, expected, fields.get("pollIntervalMs"), fields.get("ttlMs"))
    if expected is None:
        return state
    member = {INPUT_REQUIRED: "inputRequests", COMPLETED: "result", FAILED: "error"}.get(
        state.status
    )
    if member is None:
        return replace(state, is_whole=True)
    found = fields.get(member)
    if type(found) is not dict:
        raise Malformed(f"a task that is {state.status} has no object {member}")
    if member == "error" and type(found.get("code")) is not int:
        raise Malformed("the error of a task that failed has no code")
    if member == "inputRequests":
        return replace(state, is_whole=True, questions=found)
    if member == "result":
        if not is_call_result(found):
            raise Malformed("the result of a task that is completed is not the result of a call")
        return replace(state, is_whole=True, result=found)
    return replace(state, is_whole=True, error=found)


def is_call_result(found: Mapping[str, Any]) -> bool:
    """Whether a server can have meant it as the result of a call.

    Another kind of response, and one without content, would otherwise be an empty success.
    """
    has_content = any(member in found for member in ("content", "structuredContent", "isError"))
    return has_content and found.get("resultType") in (None, "complete")


def read_status(
    fields: Mapping[str, Any], expected: str | None, interval: object, ttl: object
) -> TaskState:
    """Return a task without what belongs to its status; ``interval`` and ``ttl`` in milliseconds.

    Raises ``Malformed``.
    """
    id, status = fields.get("taskId"), fields.get("status")
    if type(id) is not str or not id or len(id) > _MAX_ID_CHARS:
        raise Malformed(f"the taskId of a task is not a string of 1 to {_MAX_ID_CHARS} characters")
    if expected is not None and id != expected:
        raise Malformed("the response is about another task than the requested one")
    if type(status) is not str:
        raise Malformed(f"the status of a task is {mask(safe_text(status, 80), [id])!r}")
    if status not in _STATUSES:
        status = WORKING  # "queued", "submitted": it has not ended, as far as this client knows
    message, seconds = fields.get("statusMessage"), _seconds(interval)
    if seconds is None:
        seconds = _POLL_SECONDS
    return TaskState(
        id,
        status,
        mask(message, [id]) if type(message) is str else None,
        min(max(seconds, _MIN_POLL_SECONDS), _MAX_POLL_SECONDS),
        _seconds(ttl),
    )


def note_status(fields: Mapping[str, Any], context: SessionContext) -> None:
    """Report a status that the specification does not have, which counts as ``working``."""
    if fields.get("status") not in _STATUSES:
        context.stats.accept(context.server, "a task has a status of its own, taken for working")


def hide_id(error: McpError, id: str) -> McpError:
    """``error`` without the id of a task in its text and its data."""
    error.args = tuple(mask(each, [id]) if type(each) is str else each for each in error.args)
    for name, value in list(vars(error).items()):
        if isinstance(value, str | dict | list):
            setattr(error, name, mask_json(value, [id]))
    return error


def _seconds(value: object) -> float | None:
    """Return milliseconds as seconds; None for anything else."""
    if type(value) not in (int, float) or not 0 <= value < 1e15:  # type: ignore[operator]
        return None
    return value / 1000  # type: ignore[operator]
