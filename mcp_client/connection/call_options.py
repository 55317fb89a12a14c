"""The options of a tool call and of a read: one list for every interface.

``Session``, ``Host``, ``App``, ``Toolset.run`` and ``mcp_client.sync`` accept these names and check
them here, so that a wrong value is the same error everywhere.

By default no call is repeated: ``error.retryable`` states whether that would be safe. With
``connect(retry=Retry())`` or ``call_tool(retry=Retry())`` a failed attempt is repeated if nothing
reached the server and another attempt may succeed. It is also repeated if the tool may have run,
but a trusted server declares it read-only or idempotent.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from ..errors import ConfigError
from ..protocol.canonical_json import NotJson, canonical_of, frozen, object_of, plain
from ..protocol.metadata import check_meta
from ..runtime.frozen import frozen_dataclass
from ..runtime.limits import Timeouts
from ..runtime.option_names import check_names
from ..validation.strictness import Strictness, check_strictness
from .cancellation import CancelToken
from .rpc import OnProgress

if TYPE_CHECKING:
    from .retry import Retry

__all__ = [
    "MAX_KEY_CHARS",
    "CallOptions",
    "CallProgress",
    "CallSteps",
    "ReadOptions",
    "check_call_options",
    "check_context",
    "check_key",
    "check_read_options",
    "frozen_tag",
    "takes",
]

MAX_KEY_CHARS = 500
"""The maximum length of an ``idempotency_key``, in characters."""
_MAX_TAG_CHARS = 4_000
_TIMEOUTS = Timeouts()


@frozen_dataclass
class CallProgress:
    """One step of a call that ``Toolset.run`` makes, for its ``on_progress``."""

    id: str
    """The model's id of the call; empty if the provider gives none."""
    name: str
    """The qualified name of the tool; "run_code" for a script, whose calls take these steps."""
    step: Literal["asked", "sent", "running", "done", "pending"]
    """The step of the call.

    Its approval is decided, it is sent, the server reports progress, it has ended, or it ends
    without an outcome because it waits for approval (``CallPending``).
    """
    progress: float | None = None
    """The progress that the server reports; None for the other steps."""
    total: float | None = None
    """The value of ``progress`` at the end, if the server reports it."""
    message: str | None = None
    """The server's text about the progress: untrusted."""
    is_error: bool = False
    """Whether the call was refused or failed, once it is done."""


class CallSteps:
    """An ``on_progress`` that also receives the steps of its call."""

    def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """The server reports progress."""

    def step(self, step: Literal["asked", "sent"]) -> None:
        """Note that the call reached this step."""


OnCallProgress: TypeAlias = Callable[[CallProgress], Awaitable[None] | None]


class ReadOptions(TypedDict, total=False):
    """The options of reading a resource and of requesting a prompt: each as in ``CallOptions``."""

    timeout: float | Timeouts | None
    meta: Mapping[str, Any] | None
    context: Hashable


class CallOptions(TypedDict, total=False):
    """The options of a tool call, the same on every interface.

    The default of each is None, which uses the session's own option.

    - ``timeout``: Seconds that limit the call from when it is sent; it cannot exceed the session's
      timeouts. A ``Timeouts`` sets them one by one, and ``approval`` if it is shorter.
    - ``on_progress``: A function of ``progress``, ``total`` and ``message``. It may be async; a
      plain function is called in the event loop and must not block. In ``Toolset.run`` it may take
      one ``CallProgress`` instead, which names the call and its step.
    - ``meta``: Members for the request's ``_meta`` beside the protocol's own.
    - ``validation``: For this call, as ``connect(validation=...)``.
    - ``cancel``: A token whose ``cancel(reason)`` cancels the call from any task or thread.
    - ``context``: The host's identifier of the caller: any hashable value. The approval hook gets
      it as ``call.context``; it is never sent.
    - ``tag``: The host's identifier of the call, such as the chat and the turn: any JSON value, or
      a tuple of them, of at most 4,000 characters. The approval hook gets it as ``call.tag``, and
      the audit records it. It is not among the facts that a person sees, no approval is bound to
      it, and it is never sent.
    - ``retry``: For this call, as ``connect(retry=...)``.
    - ``idempotency_key``: The caller's own name for this one call, at most 500 characters. It needs
      a ``state``. The same call with the same key, even in another process and after a crash,
      returns the stored result and is not made twice: see ``mcp_client.session.journal``.
    """

    timeout: float | Timeouts | None
    on_progress: OnProgress | OnCallProgress | None
    meta: Mapping[str, Any] | None
    validation: Strictness | None
    cancel: CancelToken | None
    context: Hashable
    tag: Any
    retry: Retry | None
    idempotency_key: str | None


def check_call_options(options: Mapping[str, Any], session: Timeouts = _TIMEOUTS) -> Timeouts:
    """Return the timeouts of a call with these options in a session with those timeouts.

    Raises ``ConfigError`` or ``InvalidArguments`` for an invalid value, ``TypeError`` for an
    unknown name.
    """
    _check(options, "a call", CallOptions.__annotations__)
    return session.for_call(options.get("timeout"))


def check_read_options(options: Mapping[str, Any]) -> None:
    """Do ``check_call_options`` for the options of a read."""
    _check(options, "a read", ReadOptions.__annotations__)


def _check(options: Mapping[str, Any], what: str, names: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name not in names:
            check_names(what, options, names)
        if value is not None:
            _CHECKS[name](value)


def _check_timeout(timeout: Any) -> None:
    _TIMEOUTS.for_call(timeout)


def _check_progress(on_progress: object) -> None:
    if not takes(on_progress, 3):
        raise ConfigError(
            f"on_progress={on_progress!r}: give a function of progress, total and message"
        )


def takes(function: Any, count: int) -> bool:
    """Return whether a function accepts so many positional arguments, as far as is known."""
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # a builtin that does not say
        pass
    return True


def _check_meta(meta: Any) -> None:
    if isinstance(meta, Mapping):
        check_meta(meta)
    object_of("meta", meta)


def _check_cancel(cancel: object) -> None:
    if not isinstance(cancel, CancelToken):
        raise ConfigError(f"cancel={cancel!r}: give a CancelToken")


def check_context(context: object) -> None:
    """Raise ``ConfigError`` for a ``context`` that cannot be compared with others."""
    try:
        hash(context)
    except TypeError:
        raise ConfigError(
            f"context is a {type(context).__name__}: give a hashable value such as a str or a tuple"
        ) from None


def frozen_tag(tag: Any) -> Any:
    """Return an immutable copy of a ``tag``. Raises ``ConfigError`` unless it is JSON and small."""
    try:
        text = canonical_of(copy := plain(tag))
    except NotJson as error:
        raise ConfigError(
            f"tag is a {type(tag).__name__} that JSON cannot represent ({error}): give a str, a "
            "number, a boolean, or a tuple or dict of them"
        ) from None
    if len(text) > _MAX_TAG_CHARS:
        raise ConfigError(f"tag has {len(text):,} characters as JSON: give at most 4,000")
    return frozen(copy)


def _check_retry(retry: object) -> None:
    from .retry import Retry  # few hosts retry

    if not isinstance(retry, Retry):
        raise ConfigError(f"retry={retry!r}: give Retry(attempts=...)")


def check_key(option: str, key: object, most: int = MAX_KEY_CHARS) -> None:
    """Raise ``ConfigError`` unless ``key`` is a str of at most ``most`` characters."""
    if not isinstance(key, str) or not 0 < len(key) <= most:
        described = f"a text of {len(key)} characters" if isinstance(key, str) else repr(key)
        raise ConfigError(f"{option}={described}: give a str of 1 to {most} characters")


_CHECKS: dict[str, Any] = {
    "timeout": _check_timeout,
    "on_progress": _check_progress,
    "meta": _check_meta,
    "validation": lambda validation: check_strictness("validation", validation),
    "cancel": _check_cancel,
    "context": check_context,
    "tag": frozen_tag,
    "retry": _check_retry,
    "idempotency_key": lambda key: check_key("idempotency_key", key),
}
