"""``bind=``: arguments that the host sets, and that a model neither sees nor chooses.

```python
connect(server, bind={"create_*": {"tenant": "acme", "user": lambda context: context.user}})
```

The keys are globs over the server's own tool names. If several match a tool, all of them apply; if
two set one argument, the last one wins. The values are dicts from argument names to a JSON value or
to a function, sync or async, that returns one. The function takes the ``context=`` of the call, or
None. It is called once for each call, before approval is requested, within ``Timeouts.approval``
seconds. A call that is repeated because it waited for approval (``CallPending``) calls the function
again. The approval covers the value, so return the same value for the same context.

Bound arguments are removed from ``Tool.input_schema``; ``Tool.bound`` lists them. They are added to
the call before it is frozen, so rules, approver and audit see the call as it is sent. Only the host
sets them:

- A call that contains a bound argument raises ``InvalidArguments``, and nothing is sent, even if
  the tool does not declare it.
- If an approver's edit leaves one out, it is added again, and the approver is asked about that. An
  edit that changes one is refused.
- An argument that the tool's schema does not declare is not added. That, and a glob that matches no
  tool, are findings of the list, of the kind ``bind``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from anyio.lowlevel import checkpoint

from ..approval.constraints import Constraints, glob
from ..approval.question import Question
from ..catalog.bound_schema import declared
from ..catalog.finding import Finding
from ..errors import ConfigError, InvalidArguments, McpError
from ..protocol.canonical_json import NotJson, canonical_of, plain
from ..protocol.json_paths import pointer
from ..runtime.callbacks import invoke_hook
from ..runtime.safe_text import safe_text

if TYPE_CHECKING:
    from ..approval.gate import Gate
    from ..approval.tool_call import ToolCall
    from ..catalog.tool import Tool
    from .call_state import CallSpec

__all__ = ["Bind", "Binding"]

Bind: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The arguments that the host sets, by globs over tool names: JSON values, or functions."""

_log = logging.getLogger("mcp_client")
_SLICE_TOOLS = 25
_MAX_LISTED = 5
_EXAMPLE = 'bind={"create_*": {"tenant": "acme"}}'


class BoundCall(Protocol):
    """The part of a ``CallState`` that this module uses."""

    spec: CallSpec
    bound: dict[str, Any] | None


class Binding:
    """The bound arguments of one session."""

    def __init__(self, bind: Any) -> None:
        """Raises ``ConfigError``, which has no value of an argument."""
        self._logged: set[tuple[str, str]] = set()
        self._globs = [
            (
                _name(pattern, "a glob over names of tools"),
                glob(pattern),
                _values(pattern, arguments),
            )
            for pattern, arguments in _mapping(bind, "bind").items()
        ]

    def _of(self, tool: str) -> dict[str, Any]:
        """Return the bound arguments of ``tool``, declared or not."""
        found: dict[str, Any] = {}
        for _, matches, values in self._globs:
            if matches(tool):
                found |= values
        return found

    # -------------------------------------------------------------------- a list

    async def on(self, tools: list[Tool]) -> tuple[list[Tool], list[Finding]]:
        """Return ``tools`` as they are listed, and the findings about globs and arguments."""
        listed: list[Tool] = []
        for number, tool in enumerate(tools):
            if number % _SLICE_TOOLS == _SLICE_TOOLS - 1:
                await checkpoint()  # so that a long list does not stop the event loop
            names = self._of(tool.name)
            bound = declared(tool._definition["inputSchema"], names) if names else ()
            listed.append(replace(tool, bound=bound) if bound else tool)
        findings = list(self._findings(listed))
        for finding in findings:
            if finding.known_as not in self._logged:
                self._logged.add(finding.known_as)
                _log.warning("%s", finding)
        return listed, findings

    def _findings(self, listed: list[Tool]) -> Iterator[Finding]:
        for pattern, matches, values in self._globs:
            tools = [tool for tool in listed if matches(tool.name)]
            pattern_text = safe_text(pattern, 80)
            if not tools:
                yield Finding(
                    "bind", f"bind: {pattern_text!r} matches no tool: it sets nothing", pattern_text
                )
            for name in values if tools else ():
                lacking = [safe_text(tool.name, 64) for tool in tools if name not in tool.bound]
                if lacking:
                    text = (
                        f"bind: {pattern_text!r} sets {safe_text(name, 80)!r}, not an argument of "
                        f"{_some(lacking)}: it is not set there"
                    )
                    yield Finding("bind", text, f"{pattern_text} {safe_text(name, 80)}")

    # -------------------------------------------------------------------- a call

    async def complete(
        self, call: BoundCall, tool: Tool, arguments: dict[str, Any], gate: Gate
    ) -> str:
        """Return the canonical text of the arguments of ``call``, with the bound ones added.

        Args:
            call: The call.
            tool: The definition in force.
            arguments: The caller's arguments.
            gate: The gate, which ends waits for a function when it closes.

        Raises:
            InvalidArguments: The caller set a bound argument, or a function has no value.
        """
        its = self._of(tool.name)
        for name in arguments:
            if name in its:
                raise InvalidArguments(
                    f"the argument {safe_text(name, 80)!r} is set by the host: omit it "
                    "from the call",
                    path=pointer([name]),
                )
        bound = call.bound = {} if call.bound is None else call.bound
        for name in tool.bound:
            if name not in bound:
                value = its[name]
                is_function = isinstance(value, _Function)
                bound[name] = await _value_of(name, value, call, gate) if is_function else value
        return canonical_of(arguments | {name: bound[name] for name in tool.bound})

    def restored(self, call: BoundCall, edited: ToolCall) -> ToolCall:
        """Return an approver's call with the bound arguments added, and a finding of that."""
        tool, bound = edited.tool, call.bound or {}
        arguments = json.loads(edited.arguments_json)
        for name in self._of(tool.name):
            if name in arguments and not (
                name in tool.bound
                and Constraints({"": {"equals": bound[name]}}).hold(arguments[name])
            ):
                raise InvalidArguments(
                    f"the approver's edit sets the argument {safe_text(name, 80)!r}, which only "
                    "the host sets. Edit other arguments",
                    path=pointer([name]),
                )
        lost = [name for name in tool.bound if name not in arguments]
        findings = edited.findings
        if lost:
            left_out = _some([safe_text(name, 80) for name in lost])
            text = (
                f"the edit left out arguments that the host sets; they were added again: {left_out}"
            )
            findings = (*findings, Finding("bind", text, left_out))
        arguments |= {name: bound[name] for name in tool.bound}
        return replace(edited, arguments_json=canonical_of(arguments), findings=findings)


class _Function:
    """A marker that distinguishes a function from a JSON value."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[Any], Any]) -> None:
        self.call = call


async def _value_of(name: str, function: _Function, call: BoundCall, gate: Gate) -> Any:
    value: Any = None
    try:
        with Question(gate, call.spec.timeouts.approval):
            value = await invoke_hook(function.call, call.spec.context)
        found = plain(value)
        canonical_of(found)
    except NotJson:
        what = f"a {_type_of(value)} that is not JSON"
    except Exception as error:
        why = f"it raised {_type_of(error)}"  # the text of that may be secret
        if not isinstance(error, McpError):
            why = gate._failure_reason(error)
        raise _no_value(name, f"no value ({why})") from error
    else:
        return found
    raise _no_value(name, what)


def _no_value(name: str, what: str) -> InvalidArguments:
    text = f"the host sets the argument {safe_text(name, 80)!r}, and its function returned {what}"
    return InvalidArguments(text, path=pointer([name]))


def _mapping(value: Any, what: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{what} is a {_type_of(value)}: give a mapping, {_EXAMPLE}")
    return value


def _name(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        kind = "an empty str" if value == "" else f"a {_type_of(value)}"
        raise ConfigError(f"bind has {kind} as {what}: give a non-empty str, {_EXAMPLE}")
    return str(value)


def _values(pattern: str, arguments: Any) -> dict[str, Any]:
    """Return the arguments that one glob sets: JSON values, copied, and functions."""
    found: dict[str, Any] = {}
    for name, value in _mapping(arguments, f"bind[{safe_text(pattern, 80)!r}]").items():
        name = _name(name, "the name of an argument")
        if callable(value):
            found[name] = _Function(value)
            continue
        try:
            found[name] = plain(value)
            canonical_of({name: found[name]})
        except NotJson:
            where = f"bind[{safe_text(pattern, 80)!r}][{safe_text(name, 80)!r}]"
            raise ConfigError(
                f"{where} is a {_type_of(value)} that is not JSON: give a JSON value, or a "
                "function of the call's context"
            ) from None
    return found


def _type_of(value: Any) -> str:
    return safe_text(type(value).__name__, 80)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more
