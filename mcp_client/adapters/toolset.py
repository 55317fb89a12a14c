"""The base of all toolsets: tools to show a model, its calls, and the responses to them.

Each provider's module has a ``Toolset`` of its own. It defines how a tool is declared and where the
calls are in a response. It also defines the media of results and messages, and their format.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, Unpack, overload

from ..catalog.call_values import ToolResult
from ..catalog.tool import Tool
from ..connection.call_options import CallOptions, check_context
from ..errors import McpError
from ..protocol.json_paths import copy_of
from ..runtime.limits import Limits
from .calls import Answer, ModelCall, RawCall, ScriptOutput, explain, unknown_tool
from .definitions import Definition, Dialect
from .model_tools import (
    INSTRUCTIONS_CHARS,
    LARGE_RESULTS,
    STRUCTURED,
    ModelTools,
    ToolsetOptions,
    check_number,
    check_toolset_options,
)
from .own_tools import READ, STORED_BYTES, StoredResults
from .parts import MediaTypes, Part, ServerContent, encodable, instructions_of, shortened
from .running import (
    MAX_CHARS,
    BlockingTarget,
    CallTarget,
    MaxChars,
    Outcome,
    Runner,
    char_limits,
    done_on,
)

if TYPE_CHECKING:
    from ..catalog.library import PromptResult, ResourceResult

__all__ = ["BlockingTarget", "CallTarget", "Outcome", "Toolset", "declared"]

_log = logging.getLogger("mcp_client")
_NOT_MADE = "The call was not made."
_LIMITS = Limits()
_TOO_MANY = (
    "Nothing was sent. At most {} calls of one response are made, and others stand before this "
    "one. Make it again, with fewer at once."
)
_MAX_SCRIPTS = 8
"""The maximum number of scripts in one response: each has its own process."""
_TOO_MANY_SCRIPTS = (
    f"Nothing was run. At most {_MAX_SCRIPTS} scripts of one response are run, and others stand "
    "before this one. Put them together."
)

T = TypeVar("T", bound="Toolset")


class Toolset:
    """Tools in one provider's format, made by the ``toolset`` of the provider's module.

    It is immutable: for another list of tools make another, or use ``updated``.
    """

    dialect: ClassVar[Dialect]
    """The schemas that the provider accepts, and whether it has a strict mode."""
    media_types: ClassVar[MediaTypes] = {}
    """The media that the provider accepts in the response to a call, beside text."""
    message_media: ClassVar[MediaTypes] = {}
    """The media that the provider accepts in a user's message, beside text."""
    letter_first: ClassVar[bool] = False
    """Whether the names of tools have to begin with a letter or an underscore."""

    native_search: ClassVar[dict[str, Any] | None] = None
    """The provider's own tool to search tools, for ``search="native"``; None without one."""

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        _earlier: Toolset | None = None,
        **options: Unpack[ToolsetOptions],
    ) -> None:
        check_toolset_options(options)
        self._options = options
        earlier: ModelTools | None = _earlier._model_tools if _earlier is not None else None
        self._model_tools: ModelTools = ModelTools(self, tools, options, earlier)
        self._stored: StoredResults | None = _earlier._stored if _earlier is not None else None
        if self._stored is None and options.get("large_results", LARGE_RESULTS) == "keep":
            self._stored = StoredResults(options.get("stored_bytes", STORED_BYTES))
        self.names: dict[str, str] = self._model_tools.names
        """The names that the model is shown, each with the qualified name of its tool."""
        self.tools: list[dict[str, Any]] = self._model_tools.request
        """For the request. Plain dicts of your own: add what the provider offers beside."""

    @property
    def changes(self) -> tuple[str, ...]:
        """Every change made to a name or a schema, in sentences that are safe to show.

        Most accept more than the tool does, which costs nothing: the tool's own schema is what the
        arguments are checked against before they are sent. What a search shows is not changed.
        """
        return self._model_tools.changes

    def updated(self: T, tools: Iterable[Tool]) -> T:
        """Return a toolset of ``tools`` for the next request, in which known tools do not move.

        So the provider's prompt cache remains valid. An unchanged tool is declared word for word as
        before, even if its server lists its members in another order. Tools that are gone are
        omitted, and return to their place later; new ones are at the end. Strict tools remain
        strict, and a toolset that searches remains one.
        """
        return type(self)(tools, _earlier=self, **self._options)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Toolset of {len(self.names)} tools>"

    # ------------------------------------------------------------- a model's calls

    def calls(self, response: Any) -> list[ModelCall]:
        """Return the calls in a provider's response, its own object or a plain dict, in order.

        A response's message or its list of calls is accepted, too. Calls of tools that the provider
        runs are omitted. If two have the same id, the first counts: the provider accepts one
        response for it. Those beyond ``Limits().model_calls`` have a ``problem``. Raises
        ``ConfigError`` for anything else, such as None, a coroutine, a stream or another provider's
        response.
        """
        return list(self._calls(response, _LIMITS.model_calls))

    def _calls(self, response: Any, most: int) -> Iterator[ModelCall]:
        count = scripts = 0
        seen: set[str] = set()
        for raw in self._found(response):
            if raw.id and raw.id in seen:
                _log.warning("two calls of a model have the same id: the second is ignored")
                continue
            seen.add(raw.id)
            count += 1
            problem = _TOO_MANY.format(most) if count > most else None
            if self._model_tools.code is not None and raw.name == self._model_tools.code.run:
                scripts += 1
                problem = problem or (_TOO_MANY_SCRIPTS if scripts > _MAX_SCRIPTS else None)
            if problem is None:
                yield self._model_tools.read(raw)
            else:
                is_own = problem is _TOO_MANY_SCRIPTS
                yield ModelCall(raw.id, raw.name, {}, problem, None, raw.name, is_own=is_own)
        if count > most:
            _log.warning("a model's response has %d calls: only %d are made", count, most)

    @overload
    def run(
        self,
        target: BlockingTarget,
        response: Any,
        *,
        max_chars: MaxChars = MAX_CHARS,
        idempotency_prefix: str | None = None,
        **options: Unpack[CallOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def run(
        self,
        target: CallTarget,
        response: Any,
        *,
        max_chars: MaxChars = MAX_CHARS,
        idempotency_prefix: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Coroutine[Any, Any, list[dict[str, Any]]]: ...

    def run(
        self,
        target: CallTarget | BlockingTarget,
        response: Any,
        *,
        max_chars: MaxChars = MAX_CHARS,
        idempotency_prefix: str | None = None,
        **options: Unpack[CallOptions],
    ) -> list[dict[str, Any]] | Coroutine[Any, Any, list[dict[str, Any]]]:
        """Make the calls in ``response``, all at once, and return the messages to append.

        They are in the order of the calls. Every call passes the approval hook and has exactly one
        response, even if it is refused or fails. The result is awaited, except with
        ``mcp_client.sync``: ``messages += kit.run(host, response)``.

        Args:
            target: A ``Session`` or a ``Host``.
            response: The model's response, as for ``calls``.
            max_chars: The maximum length of one result, in characters (``MaxChars``); its middle is
                omitted. See ``large_results`` of ``ToolsetOptions``.
            idempotency_prefix: A unique name of this response; needs a ``state``. The key of each
                call is ``"<prefix>/<the model's id of the call>"``, or its number. The same
                response with the same prefix makes no call twice, also after a crash.
            **options: As for ``call_tool`` (``CallOptions``). An ``on_progress`` of one parameter
                gets a ``CallProgress``.

        Raises:
            ConfigError: An argument is wrong, or would block an event loop; nothing was sent.
            CallPending: Calls wait for approval, as with ``ApprovalQueue(wait=0)``, and all others
                have run: continue with ``resume``. It has all ``.tickets``.
        """
        found: Any = done_on(
            target,
            "run",
            partial(Runner(self, max_chars, options).run, response, idempotency_prefix),
        )
        return found  # type: ignore[no-any-return]

    @overload
    def resume(
        self,
        target: BlockingTarget,
        paused: str | None,
        *,
        max_chars: MaxChars = MAX_CHARS,
        **options: Unpack[CallOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def resume(
        self,
        target: CallTarget,
        paused: str | None,
        *,
        max_chars: MaxChars = MAX_CHARS,
        **options: Unpack[CallOptions],
    ) -> Coroutine[Any, Any, list[dict[str, Any]]]: ...

    def resume(
        self,
        target: CallTarget | BlockingTarget,
        paused: str | None,
        *,
        max_chars: MaxChars = MAX_CHARS,
        **options: Unpack[CallOptions],
    ) -> list[dict[str, Any]] | Coroutine[Any, Any, list[dict[str, Any]]]:
        """Continue a response whose calls waited for approval, by its ``CallPending.paused``.

        It makes only the calls that waited, and returns the messages for all calls of the response,
        in order. Any process may do this with the same ``state``, or with an ``ApprovalQueue`` of
        the same ``decisions``; without either, only this process. A concurrent caller waits for the
        same results; a later one gets them for a day. A call that was sent by a process that has
        ended is not sent again: its response states that it may have run. It is repeated only if a
        trusted server declares it read-only or idempotent, or with ``retry=Retry(safe=True)``.

        The options are those of ``run``, with an equal ``context``. Raises ``CallPending`` if some
        still wait. Raises ``ConfigError`` for a ``paused`` that was changed, expired (after thirty
        days), or belongs to another context, state or provider. Raises ``StateError``, or the error
        that stops a script: another attempt repeats nothing.
        """
        found: Any = done_on(
            target, "resume", partial(Runner(self, max_chars, options).resume, paused)
        )
        return found  # type: ignore[no-any-return]

    @property
    def _provider(self) -> str:
        return type(self).__module__.rpartition(".")[2]

    def results(
        self,
        pairs: Iterable[tuple[ModelCall, Outcome]],
        *,
        max_chars: MaxChars = MAX_CHARS,
        context: Hashable = None,
    ) -> list[dict[str, Any]]:
        """Return the messages to append for calls that you made yourself, with their outcomes.

        The outcome is None for a call that has a ``problem`` or an ``answer``. Example::

            def outcome(call):
                if call.problem or call.answer:
                    return None
                try:
                    return host.call_tool(call.name, call.arguments)
                except McpError as error:
                    return error

            messages += kit.results((call, outcome(call)) for call in kit.calls(response))

        ``max_chars`` is that of ``run``. ``context`` is that of the calls: large results that are
        stored can be read only with an equal one.
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
        if isinstance(outcome, ToolResult | ScriptOutput):
            content = self._content_of(outcome)
            stored = self._stored
            shown = (stored and stored.shown(content, max_chars, context)) or content.marked(
                max_chars
            )
            return Answer(call, tuple(shown), outcome.is_error)
        if isinstance(outcome, McpError):
            others = [name for name, full in self.names.items() if full != call.name]
            text = explain(outcome, unknown_tool(call.shown_name or call.name, others))
        elif self._stored is not None and call.name == READ and call.is_own and not call.problem:
            text, is_read = self._stored.read(call.arguments, max_chars, context)
            return Answer(call, (text,), not is_read)
        elif call.problem is not None or call.answer is not None:
            text = call.problem or call.answer or ""
        else:
            text = _NOT_MADE
        parts = shortened([encodable(text)], max_chars)
        return Answer(call, tuple(parts), call.answer is None)

    @property
    def _result_media(self) -> MediaTypes:
        """The media of results that a model sees, beside text."""
        return self.media_types

    def _content_of(self, outcome: ToolResult | ScriptOutput) -> ServerContent:
        if isinstance(outcome, ScriptOutput):
            return outcome.content
        # Anthropic takes nothing but text beside an error, and errors have little else.
        media = {} if outcome.is_error else self._result_media
        return ServerContent.of_result(outcome, media, self._options.get("structured", STRUCTURED))

    # --------------------------------------------------------- prompts and resources

    def instructions(self, target: Any, *, max_chars: int = INSTRUCTIONS_CHARS) -> str:
        """Return the instructions of the servers of ``target``, a session or host, for a model.

        The text is for the system prompt, if the host wants it there: each server's instructions
        are marked as its data, and share ``max_chars`` characters. It is empty if there are none.
        With a lock file (``pins=``) instructions that differ from it are left out, which is a
        finding of ``list_tools()``; list the tools first. Those of a lazy server that was not
        started are from the file. Raises ``ConfigError`` for a wrong argument.
        """
        check_number("max_chars", max_chars)
        return instructions_of(target, max_chars)

    def prompt(self, result: PromptResult, *, max_chars: int = MAX_CHARS) -> list[dict[str, Any]]:
        """Return the messages of a prompt, from ``get_prompt`` of a session or host.

        Their texts are marked as a server's. Images, sounds and documents are passed on if the
        provider accepts them from a user, and named otherwise. All texts together have at most
        ``max_chars`` characters. Raises ``ConfigError`` for a wrong ``result`` or option.
        """
        from .parts import messages_of

        check_number("max_chars", max_chars)
        found = messages_of(result, self.message_media, max_chars)
        return [self._message(role, parts) for role, parts in found]

    def resource(
        self, result: ResourceResult, *, max_chars: int = MAX_CHARS
    ) -> list[dict[str, Any]]:
        """Return the contents of a resource, from ``read_resource``, as a user's message.

        They are marked and limited like the result of a tool. Raises ``ConfigError``.
        """
        from .parts import content_of

        check_number("max_chars", max_chars)
        return list(map(self._content, content_of(result, self.message_media, max_chars)))

    # --------------------------------------------------- what each provider defines

    def _request(self, declared: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return ``declared`` as the request needs it."""
        return declared

    def _declared(self, name: str, about: str, definition: Definition) -> dict[str, Any]:
        """Return the declaration; ``about`` is the description, perhaps empty."""
        raise NotImplementedError

    def _found(self, response: Any) -> list[RawCall]:
        raise NotImplementedError

    def _messages(self, answers: Sequence[Answer]) -> list[dict[str, Any]]:
        raise NotImplementedError

    def _content(self, part: Part) -> dict[str, Any]:
        """Return ``part`` within a user's message."""
        raise NotImplementedError

    def _message(self, role: str, parts: Sequence[Part]) -> dict[str, Any]:
        """Return a message of ``role`` "user" or "assistant"; the latter has only texts."""
        return {"role": role, "content": list(map(self._content, parts))}


def declared(name: str, about: str, **schema: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's name, description and schema, which is a copy that may be changed."""
    texts = {"name": name, "description": about} if about else {"name": name}
    return {**texts, **{key: copy_of(value) for key, value in schema.items()}}
