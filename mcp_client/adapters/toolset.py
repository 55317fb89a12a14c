"""What all providers have in common: tools to show a model, its calls, and the answers to them.

Each provider's module has a ``Toolset`` of its own with four methods: how a tool is declared, where
the calls stand in a response, which media a result may have, and what an answer looks like.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Coroutine, Hashable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar, Unpack, cast, overload

import anyio
from anyio.lowlevel import checkpoint

from ..catalog.call_context import NotAnObject
from ..catalog.result import ToolResult
from ..catalog.tool import Tool, tools_of
from ..connection.call_options import CallOptions, check_call_options, check_context
from ..errors import CallDenied, ConfigError, InvalidArguments, McpError, UnknownTool
from ..runtime.event_loop import in_event_loop
from ..runtime.limits import Limits
from ..runtime.portal import Blocking
from .answers import FAILED_HERE, Answer, explain
from .char_limits import MAX_CHARS, MaxChars, char_limits
from .definitions import Definition, Dialect
from .kept_results import KEPT_BYTES, KeptResults
from .model_calls import ModelCall, RawCall, unknown_tool
from .options import ToolsetOptions, check_toolset_options
from .parts import MediaTypes, ServerContent, encodable, shortened
from .shown_tools import ShownTools

__all__ = ["BlockingTarget", "CallTarget", "Outcome", "Toolset", "declared"]

_log = logging.getLogger("mcp_client")
_NOT_MADE = "The call was not made."
_LIMITS = Limits()
_TOO_MANY = (
    "Nothing was sent. At most {} calls of one response are made, and others stand before this "
    "one. Make it again, with fewer at once."
)

Outcome: TypeAlias = ToolResult | McpError | None
"""What a call led to; None where it was not made, as for one with a ``problem``."""
T = TypeVar("T", bound="Toolset")


class CallTarget(Protocol):
    """What runs the calls: a ``Session`` or a ``Host``."""

    async def call_tool(self, name: str, arguments: Any = None, /) -> ToolResult: ...


class BlockingTarget(Protocol):
    """A ``Session`` or ``Host`` of ``mcp_client.sync``."""

    def call_tool(self, name: str, arguments: Any = None, /) -> ToolResult: ...


class Toolset:
    """Tools in one provider's shape. Made by the ``toolset`` of the provider's module.

    It does not change: for another list of tools make another, or ask ``updated``.
    """

    dialect: ClassVar[Dialect]
    """What the provider takes as a schema, and whether it has a strict mode."""
    media_types: ClassVar[MediaTypes] = {}
    """What the provider takes in the answer to a call, beside text."""
    letter_first: ClassVar[bool] = False
    """Whether the names of tools have to begin with a letter or an underscore."""

    native_search: ClassVar[dict[str, Any] | None] = None
    """The provider's own tool to search tools, for ``search="native"``; None where it has none."""

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        _earlier: Toolset | None = None,
        **options: Unpack[ToolsetOptions],
    ) -> None:
        check_toolset_options(options)
        self._options = options
        earlier: ShownTools | None = _earlier._shown if _earlier is not None else None
        self._shown: ShownTools = ShownTools(self, tools, options, earlier)
        self.names: dict[str, str] = self._shown.names
        self._kept: KeptResults | None = _earlier._kept if _earlier is not None else None
        if self._kept is None and options.get("large_results") == "keep":
            self._kept = KeptResults(options.get("kept_bytes", KEPT_BYTES))
        """The names that the model is shown, each with the qualified name of its tool."""
        self.tools: list[dict[str, Any]] = self._shown.request
        """For the request. Plain dicts of your own: add what the provider offers beside."""

    @property
    def changes(self) -> tuple[str, ...]:
        """Every change made to a name or a schema, in sentences that are safe to show.

        Most accept more than the tool does, which costs nothing: the tool's own schema is what the
        arguments are checked against before they are sent. What a search shows is not changed.
        """
        return self._shown.changes

    def updated(self: T, tools: Iterable[Tool]) -> T:
        """A toolset of ``tools``, for the next request: what was in this one keeps its place.

        So the definitions in a provider's prompt cache hold: tools that have gone are left out,
        new ones come at the end. What is strict stays strict, and what searches goes on to search.
        """
        now = {tool.qualified_name: tool for tool in tools_of(tools, "updated()")}
        kept = [now[name] for name in self._shown.tools if name in now]
        new = [tool for name, tool in now.items() if name not in self._shown.tools]
        return type(self)([*kept, *new], _earlier=self, **self._options)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Toolset of {len(self.names)} tools>"

    # ------------------------------------------------------------- a model's calls

    def calls(self, response: Any) -> list[ModelCall]:
        """The calls in a response of the provider, its own object or a plain dict, in order.

        A response's message or its list of calls will do as well. Calls of tools that are run
        by the provider are not among them. Where two have the same id, the first counts: the
        provider takes one answer for it. Those beyond ``Limits().model_calls`` have a ``problem``.
        Raises ``ConfigError`` for what is not a response of this provider, such as None, a
        coroutine, a stream or another provider's response.
        """
        return list(self._calls(response, _LIMITS.model_calls))

    def _calls(self, response: Any, most: int) -> Iterator[ModelCall]:
        count = 0
        seen: set[str] = set()
        for raw in self._found(response):
            if raw.id and raw.id in seen:
                _log.warning("two calls of a model have the same id: the second is left out")
                continue
            seen.add(raw.id)
            count += 1
            if count <= most:
                yield self._shown.read(raw)
            else:
                problem = _TOO_MANY.format(most)
                yield ModelCall(raw.id, raw.name, {}, problem, None, raw.name)
        if count > most:
            _log.warning("a model's response has %d calls: %d are made", count, most)

    @overload
    def run(
        self,
        target: BlockingTarget,
        response: Any,
        *,
        max_chars: MaxChars = MAX_CHARS,
        **options: Unpack[CallOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def run(
        self,
        target: CallTarget,
        response: Any,
        *,
        max_chars: MaxChars = MAX_CHARS,
        **options: Unpack[CallOptions],
    ) -> Coroutine[Any, Any, list[dict[str, Any]]]: ...

    def run(
        self,
        target: CallTarget | BlockingTarget,
        response: Any,
        *,
        max_chars: MaxChars = MAX_CHARS,
        **options: Unpack[CallOptions],
    ) -> list[dict[str, Any]] | Coroutine[Any, Any, list[dict[str, Any]]]:
        """Make the calls in ``response`` on ``target``, a ``Session`` or a ``Host``, all at once.

        Returns the messages to append, in the order of the calls; none where the model made no
        call. Every call passes the approval hook, and every call has exactly one answer: a
        refusal, an error and a timeout are answers that say what the model may do now. A call that
        cannot be made (no tool has that name, its arguments are not JSON) is in the audit as well.
        ``max_chars`` limits the text of one answer: one number for all tools, a mapping from globs
        of qualified names, or a function of them (``MaxChars``). What is too much is left out of
        its middle; see ``large_results`` of ``ToolsetOptions``.
        The other options are those of ``call_tool``, for each of the calls: see ``CallOptions``.

        It is awaited. With a session or host of ``mcp_client.sync`` it is not, as nothing is there:
        ``messages += kit.run(host, response)``.

        Raises ``ConfigError`` for a wrong option, ``target`` or ``response``, before anything is
        sent; also for one of ``mcp_client.sync`` in code that an event loop runs, which it would
        block. After that only cancelling it raises, and that cancels all its calls.
        """
        if not _blocks(target):
            return self._run(target, response, max_chars, options)
        if in_event_loop():
            raise ConfigError(
                "run() was given a session or host of mcp_client.sync, which blocks the event "
                "loop: make the calls of kit.calls(response), then use kit.results(...), or give "
                "it a session or host of mcp_client"
            )
        blocking: Any = target
        found: list[dict[str, Any]] = blocking._wait_for(
            lambda its: self._run(its, response, max_chars, options)
        )
        return found

    async def _run(
        self, target: Any, response: Any, max_chars: MaxChars, options: CallOptions
    ) -> list[dict[str, Any]]:
        char_limits(max_chars)
        if options:
            check_call_options(options)
        if target is not None:
            _check_target(target)
        limits: Limits = getattr(target, "_limits", _LIMITS)
        search = self._shown.search
        while search is not None and search.prepare():
            await checkpoint()
        calls = []
        for call in self._calls(response, limits.model_calls):
            calls.append(call)
            if call.answer is not None or call.problem is not None:  # which took milliseconds
                await checkpoint()
        await self._record_not_made(target, calls, options.get("context"))
        outcomes: list[Outcome] = [None] * len(calls)

        async def make(number: int) -> None:
            outcomes[number] = await _outcome(target, calls[number], options)

        wanted = [n for n, call in enumerate(calls) if call.problem is None and call.answer is None]
        if wanted:  # searches need no target
            _check_target(target)
        if len(wanted) == 1:
            await make(wanted[0])
        elif wanted:
            await _side_by_side(make, wanted)
        answers: list[Answer] = []
        made, context = zip(calls, outcomes, strict=True), options.get("context")
        for answer in self._answers(made, max_chars, context):
            answers.append(answer)
            if answer.call.reads:  # each may search megabytes
                await checkpoint()
        return self._messages(answers) if answers else []

    async def _record_not_made(
        self, target: Any, calls: Sequence[ModelCall], context: Hashable
    ) -> None:
        """Have the calls in the audit that the model asked for and that cannot be made."""
        record = getattr(target, "_record_not_made", None)
        known = self._shown.tools
        for call in calls if record is not None else ():
            if call.problem is not None and not call.reads:
                broken = call.name in known
                given = NotAnObject() if broken else call.asked
                error = (InvalidArguments if broken else UnknownTool)(call.problem)
                await record(call.name, given, error, context)  # type: ignore[misc]

    def results(
        self,
        pairs: Iterable[tuple[ModelCall, Outcome]],
        *,
        max_chars: MaxChars = MAX_CHARS,
        context: Hashable = None,
    ) -> list[dict[str, Any]]:
        """The messages to append for calls that you made yourself, with what each led to.

        ``(call, None)`` is for one that has a ``problem`` or an ``answer``. For example, one after
        the other::

            def outcome(call):
                if call.problem or call.answer:
                    return None
                try:
                    return host.call_tool(call.name, call.arguments)
                except McpError as error:
                    return error

            messages += kit.results((call, outcome(call)) for call in kit.calls(response))

        ``max_chars`` is that of ``run``. ``context`` is that of the calls: what is kept of large
        results is read only with an equal one.
        """
        check_context(context)
        answers = list(self._answers(pairs, max_chars, context))
        return self._messages(answers) if answers else []

    def _answers(
        self, pairs: Iterable[tuple[ModelCall, Outcome]], max_chars: MaxChars, context: Hashable
    ) -> Iterator[Answer]:
        limits = char_limits(max_chars)
        for call, outcome in pairs:
            yield self._answer(call, outcome, limits(call.name), context)

    def _answer(
        self, call: ModelCall, outcome: Outcome, max_chars: int, context: Hashable
    ) -> Answer:
        if isinstance(outcome, ToolResult):
            # Anthropic takes nothing but text beside an error, and errors have little else.
            media = {} if outcome.is_error else self.media_types
            structured = self._options.get("structured", "auto")
            content = ServerContent.of_result(outcome, media, structured)
            kept = self._kept
            shown = (kept and kept.shown(content, max_chars, context)) or content.marked(max_chars)
            return Answer(call, tuple(shown), outcome.is_error)
        if isinstance(outcome, McpError):
            others = [name for name, full in self.names.items() if full != call.name]
            text = explain(outcome, unknown_tool(call.shown_name or call.name, others))
        elif self._kept is not None and call.reads and call.problem is None:
            text, is_read = self._kept.read(call.arguments, max_chars, context)
            return Answer(call, (text,), not is_read)
        elif call.problem is not None or call.answer is not None:
            text = call.problem or call.answer or ""
        else:
            text = _NOT_MADE
        parts = shortened([encodable(text)], max_chars)
        return Answer(call, tuple(parts), call.answer is None)

    # ------------------------------------------------------ what each provider says

    def _request(self, declared: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """``declared`` as the request wants it."""
        return declared

    def _declared(self, name: str, about: str, definition: Definition) -> dict[str, Any]:
        """``about`` is the description; empty where the server gives none."""
        raise NotImplementedError

    def _found(self, response: Any) -> Iterator[RawCall]:
        raise NotImplementedError

    def _messages(self, answers: Sequence[Answer]) -> list[dict[str, Any]]:
        raise NotImplementedError


def declared(name: str, about: str, **schema: dict[str, Any]) -> dict[str, Any]:
    """A tool's name, description and schema, which is a copy that its owner may change."""
    texts = {"name": name, "description": about} if about else {"name": name}
    return {**texts, **{key: _copied(value) for key, value in schema.items()}}


def _copied(value: Any) -> Any:
    if type(value) is dict:
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if type(value) is list else value


async def _outcome(target: Any, call: ModelCall, options: CallOptions) -> Outcome:
    try:
        result: ToolResult = await target.call_tool(call.name, call.arguments, **options)
        return result
    except McpError as error:
        if isinstance(error, CallDenied) and error.source == "gate":  # the model is told less
            _log.info("a call for a model was refused without a decision: %s", error)
        return error
    except Exception as error:  # noqa: BLE001 - the other calls have answers, and so has this one
        _log.error("a call for a model failed", exc_info=error)
        return McpError(FAILED_HERE)


async def _side_by_side(make: Any, numbers: Sequence[int]) -> None:
    try:
        async with anyio.create_task_group() as group:
            for number in numbers:
                group.start_soon(make, number)
    except BaseExceptionGroup as several:  # of KeyboardInterrupt and the like
        first: BaseException = several
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None


def _blocks(target: Any) -> bool:
    """Whether it is of ``mcp_client.sync``, and open."""
    return isinstance(target, Blocking) and callable(cast("BlockingTarget", target).call_tool)


def _check_target(target: object) -> None:
    if inspect.isawaitable(target) and not callable(getattr(type(target), "call_tool", None)):
        raise ConfigError(
            f"run() was given a {type(target).__name__} that is not open yet: give the session or "
            "host that 'async with' or 'await' gives"
        )
    if not callable(getattr(target, "call_tool", None)):
        raise ConfigError(
            f"run() was given a {type(target).__name__} to make the calls: give an open Session or "
            "Host first, then the response"
        )
