"""OpenAI's Chat Completions, and the many services that speak the same.

```python
kit = openai_chat.toolset(await host.list_tools())
response = client.chat.completions.create(..., tools=kit.tools, messages=messages)
messages.append(response.choices[0].message)
messages += await kit.run(host, response)
```
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..catalog.tool import Tool
from .definitions import Definition, Dialect
from .model_calls import RawCall, entries, member
from .schema_subset import Profile
from .toolset import Answer, declared
from .toolset import Toolset as _Toolset

__all__ = ["OPENAI", "Toolset", "toolset"]

OPENAI = Dialect(
    "OpenAI",
    strict=Profile(
        "OpenAI's strict mode",
        keeps=frozenset(
            {
                *("pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
                *("multipleOf", "minItems", "maxItems"),
            }
        ),
        formats=frozenset(
            {
                *("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6"),
                "uuid",
            }
        ),
        any_enum=True,
        strict=True,
        type_lists=True,
    ),
    complete=True,
)


class Toolset(_Toolset):
    """Tools, calls and answers of Chat Completions.

    ``calls`` and ``run`` take a completion, its first choice's message, or that message's
    ``tool_calls``. An answer is a message with the role "tool", of text alone: images and sounds
    are named in it.
    """

    dialect = OPENAI

    def _declared(self, name: str, about: str, definition: Definition) -> dict[str, Any]:
        function = declared(name, about, parameters=definition.schema)
        if definition.strict:
            function["strict"] = True
        return {"type": "function", "function": function}

    def _found(self, response: Any) -> Iterator[RawCall]:
        choice = next(entries(member(response, "choices")), None)
        message = response if choice is None else member(choice, "message")
        for call in entries(member(message, "tool_calls") or message):
            function = member(call, "function")
            if function is not None:
                id, name = member(call, "id") or "", member(function, "name") or ""
                yield RawCall(str(id), str(name), member(function, "arguments"))

    def _messages(self, answers: Sequence[Answer]) -> list[dict[str, Any]]:
        return [
            {"role": "tool", "tool_call_id": answer.call.id, "content": answer.text}
            for answer in answers
        ]


def toolset(tools: Iterable[Tool], *, strict: bool = False, search: bool = False) -> Toolset:
    """``tools``, the list of a host or a session, for ``tools=`` of Chat Completions.

    ``strict``: OpenAI guarantees arguments that fit; optional members are null where the model
    leaves them out, and are removed from its calls. A tool that cannot be strict stays as it is.
    ``search``: two tools in place of all, to search these and to call what was found.
    """
    return Toolset(tools, strict=strict, search=search)
