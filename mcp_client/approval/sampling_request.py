"""A server's request to use the host's model, as hooks and people see it.

2024-11-05 to 2026-07-28 ``client/sampling``: a person reviews the request, and can refuse it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

from ..catalog.call_values import CallOrigin
from ..catalog.finding import Finding
from ..protocol.canonical_json import plain
from ..protocol.content import ContentBlock, content_block
from ..protocol.jsonrpc import whole
from ..runtime.frozen import frozen_dataclass
from .request import (
    ApprovalRequest,
    Choice,
    Fact,
    RequestKind,
    digest_of,
    facts_of,
    finding_facts,
    new_id,
)
from .tool_call import ToolCall

if TYPE_CHECKING:
    from .decision import Remember

__all__ = ["SAMPLING_FINDING", "SamplingMessage", "SamplingRequest"]

SAMPLING_FINDING = Finding(
    "sampling",
    "this is a server that wants to use your model: it wrote the prompt, and gets the response",
)
"""The first finding of every request, so that a hook which requires none denies it."""


@frozen_dataclass
class SamplingMessage:
    """One message of the conversation that the model is to continue."""

    role: str
    content: tuple[ContentBlock, ...]
    """The content blocks; ``tool_use`` and ``tool_result`` are ``UnknownContent`` with ``raw``."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, message: Mapping[str, Any]) -> SamplingMessage:
        """Parse an object of the wire format, whose content was checked."""
        content = message["content"]
        blocks = content if type(content) is list else [content]
        return cls(message["role"], tuple(map(content_block, blocks)), message)


@frozen_dataclass
class SamplingRequest(ApprovalRequest):
    """A server's request for a response of the model (``client/sampling``, deprecated 2026-07-28).

    The prompts are the server's texts and may try to mislead the model. ``max_tokens`` is binding,
    the other parameters are hints.
    """

    kind: ClassVar[RequestKind] = "sampling"
    handler = "sampling"
    """The name of the handler for it in ``Handlers``."""
    asks = "A server wants to use your model, and will see the response. May the model be used?"
    prompt = "Ask the model?"
    _covers_once = "This request only."

    server: str
    """The host's name for the server, never the server's own claim."""
    messages: tuple[SamplingMessage, ...]
    """The conversation that the model is to continue."""
    max_tokens: int
    """The maximum number of tokens of the response."""
    system_prompt: str | None = None
    """The system prompt that the server wants, in its own words."""
    model_preferences: Mapping[str, Any] | None = field(default=None, hash=False)
    """The models that the server suggests (``hints``), and its priorities from 0 to 1.

    The priorities are for cost, speed and intelligence.
    """
    include_context: str | None = None
    """The context of other servers that the server wants: "none", "thisServer", "allServers"."""
    temperature: float | None = None
    """The sampling temperature that the server suggests."""
    stop_sequences: tuple[str, ...] = ()
    """Texts at which the response is to end."""
    metadata: Mapping[str, Any] | None = field(default=None, hash=False)
    """The metadata that the server wants passed to the model's provider."""
    tools: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    """The server's tools that the model may request. Only the server runs them."""
    tool_choice: Mapping[str, Any] | None = field(default=None, hash=False)
    """Whether the model may or must use the tools: ``{"mode": "auto"}``."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The request's parameters, unchanged."""
    call: ToolCall | None = field(default=None, repr=False, compare=False)
    """The tool call that led to it, if known."""
    findings: tuple[Finding, ...] = (SAMPLING_FINDING,)
    """The findings for the person who decides; the first one states that this is sampling."""
    id: str = field(default_factory=lambda: new_id("sampling"), compare=False)
    """The id of the request, as in the audit."""
    _identity: Callable[[], str | None] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, params: Mapping[str, Any], server: str, **members: Any) -> SamplingRequest:
        """Parse the parameters of the wire format, which were checked as far as needed.

        Args:
            params: The ``params`` of ``sampling/createMessage``.
            server: The host's name for the server.
            **members: Other fields of the request, by their names.

        Returns:
            The request.
        """
        return cls(
            server,
            tuple(map(SamplingMessage.of, params["messages"])),
            whole(params["maxTokens"]),
            _of(str, params.get("systemPrompt")),
            _of(dict, params.get("modelPreferences")),
            _of(str, params.get("includeContext")),
            _of((int, float), params.get("temperature")),
            tuple(word for word in _of(list, params.get("stopSequences")) or () if _of(str, word)),
            _of(dict, params.get("metadata")),
            tuple(params.get("tools") or ()),
            _of(dict, params.get("toolChoice")),
            params,
            **members,
        )

    @property
    def subject(self) -> str:
        """The models that the server suggests, by its own names for them."""
        hints = (self.model_preferences or {}).get("hints")
        names = [_of(str, _of(dict, one) and one.get("name")) for one in _of(list, hints) or ()]
        return ", ".join(name for name in names if name) or "any model"

    @property
    def fingerprint(self) -> str:
        """The digest of all parameters but the messages.

        An approval for the session covers other messages with the same system prompt, tools, model
        and limits.
        """
        params = self._params
        return digest_of({name: params[name] for name in params if name != "messages"})

    @property
    def context(self) -> Hashable:
        """The context of the tool call that led to the request, if known."""
        return None if self.call is None else self.call.context

    @property
    def origin(self) -> CallOrigin:
        """The origin of the tool call that led to the request, if known."""
        return "host" if self.call is None else self.call.origin

    def facts(self) -> tuple[Fact, ...]:
        """The facts for the person who decides."""
        names = ", ".join(_of(str, tool.get("name")) or "?" for tool in self.tools)
        wanted = self.include_context
        facts = facts_of(
            ("Server", self.server, "server"),
            ("Tool called", None if self.call is None else self.call.tool.name, "call"),
            ("Model", self.subject, "subject"),
            ("Most tokens", f"{self.max_tokens:,}", "max_tokens"),
            ("Tools", names or None, "tools"),
            ("With context", None if wanted == "none" else wanted, "include_context"),
        )
        facts += finding_facts(self.findings)
        facts += facts_of(("System", self.system_prompt, "system_prompt"))
        for message in self.messages:
            text = "\n".join(map(str, message.content))
            facts.append(Fact(message.role.capitalize(), text, "message"))
        whole = json.dumps(plain(self._params), ensure_ascii=False)
        facts.append(Fact("Whole request", whole, "request", is_json=True))
        return tuple(facts)

    def choices(self) -> tuple[Choice, ...]:
        """The possible reaches of an approval."""
        return ("once", "session")

    @property
    def _not_done(self) -> str:
        return "the model is not asked: "

    def _covers(self, remember: Remember, until: str) -> str:
        whose = "" if self.context is None else " for the same context"
        return (
            f"Other prompts of {self.server}{whose} with the same system prompt, tools, model and "
            f"limits, {until}."
        )

    @property
    def _params(self) -> Mapping[str, Any]:
        """The wire's parameters; for a request that was made by hand, what it was made of."""
        if self.raw:
            return self.raw
        members = {
            "systemPrompt": self.system_prompt,
            "modelPreferences": self.model_preferences,
            "includeContext": self.include_context,
            "temperature": self.temperature,
            "stopSequences": list(self.stop_sequences) or None,
            "metadata": self.metadata,
            "tools": list(self.tools) or None,
            "toolChoice": self.tool_choice,
        }
        messages = [
            one.raw or {"role": one.role, "content": [block.raw for block in one.content]}
            for one in self.messages
        ]
        named = {name: value for name, value in members.items() if value is not None}
        params: dict[str, Any] = plain(
            {"messages": messages, "maxTokens": self.max_tokens, **named}
        )
        return params

    def _asked_for(self) -> Any:
        return [digest_of(self._params), None if self.call is None else self.call.key]

    def _own_members(self) -> dict[str, Any]:
        return {"params": self._params, "call": None if self.call is None else self.call.to_json()}

    @classmethod
    def _made_of(cls, members: dict[str, Any], value: Any) -> SamplingRequest:
        call = None if value["call"] is None else ApprovalRequest.from_json(value["call"])
        if call is not None and call.kind != "call":
            raise ValueError("the call of the request is not a tool call")
        return cls.of(value["params"], members.pop("server"), call=call, **members)


def _of(kind: Any, value: Any) -> Any:
    """Return ``value`` if it is of that kind, else None: these members are only hints."""
    return value if isinstance(value, kind) and not isinstance(value, bool) else None
