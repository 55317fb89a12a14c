"""The tools of a list that a model sees, and the options of a toolset.

The order is that of the list, and nothing depends on later tools: so a provider's prompt cache
remains valid while tools are added.

The options are one list, for the ``toolset`` of every provider. They are checked here, so that a
wrong value is the same error for each of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, TypedDict, get_args

from ..approval.constraints import glob
from ..catalog.tool import Tool, tools_of
from ..errors import ConfigError
from ..runtime.option_names import check_names
from ..runtime.safe_text import safe_text
from .calls import ModelCall, RawCall, arguments_of, unknown_tool
from .definitions import Definition, Dialect
from .own_tools import (
    ADVICE,
    CALL,
    OWN_TOOLS,
    READ,
    ToolSearch,
    asked_for,
    declaration,
    own_definitions,
    read_call,
)
from .parts import Structured
from .portable import legal_names
from .schema_inlining import clean_text

if TYPE_CHECKING:
    from .code_mode import CodeSearch

__all__ = [
    "BUDGET",
    "LARGE_RESULTS",
    "STRUCTURED",
    "ModelTools",
    "Search",
    "Shape",
    "ToolsetOptions",
    "check_number",
    "check_toolset_options",
]

Search: TypeAlias = bool | Literal["auto", "native"]
"""The way in which a model finds tools; False shows it all of them."""

INSTRUCTIONS_CHARS = 8_000
"""Characters of all servers' instructions together."""
BUDGET = 20_000
"""The characters of definitions that are shown with ``search="auto"``, without ``budget``."""
STRUCTURED: Structured = "auto"
LARGE_RESULTS: Literal["cut", "keep"] = "cut"
"""The defaults of the options of these names."""
_MAX_PLACES = 50_000
_MAX_GONE = 1_000
"""Tools that are gone and whose definitions are stored, in case they return."""


class ToolsetOptions(TypedDict, total=False):
    """The options of ``toolset``: the same for every provider.

    - ``strict``: Whether the provider guarantees valid arguments. With OpenAI omitted optional
      members are null, and are removed from the calls. A tool that cannot be strict is unchanged,
      and ``.changes`` has the reason. The same applies to a provider without a strict mode, and to
      tools above the limits of one request.
    - ``search``: True for three tools in place of all but ``always``: ``search_tools`` finds tools,
      ``describe_tools`` returns their definitions, ``call_tool`` calls one. "auto" for these only
      if all definitions are longer than ``budget``. The result of ``updated`` searches if the
      toolset does, even with fewer tools, so that a conversation with ``call_tool`` can continue.
      "native" for the provider's own search: all definitions are in the request, and all but
      ``always`` are marked with ``defer_loading``. Anthropic's Messages and OpenAI's Responses have
      one, for their newer models; OpenAI's models still see name and description of deferred
      functions.
    - ``always``: Globs of qualified names, such as ``["files__*"]``: tools that are always shown,
      also with ``search``.
    - ``budget``: For ``search="auto"``, the length of all definitions as JSON, that is
      ``len(json.dumps(kit.tools, ensure_ascii=False))``: 20,000 characters, some 5,000 tokens.
    - ``structured``: When a model sees the structured content of a result. With "auto", the
      default, if the content has no text, and in place of a text that is its JSON, so that nothing
      is repeated. With "always" also beside a text in other words, for servers whose texts are only
      a summary.
    - ``large_results``: The treatment of a result above ``max_chars``. With "cut", the default, its
      middle is lost. With "keep" the model gets a handle, and ``.tools`` has one more,
      ``read_result(handle, offset=0, limit=10_000, find=None)``: it returns characters of the text
      as it would have been shown, or the places of a text in it. It is not a tool call: it needs no
      approval, sends nothing, and is in no audit log. It returns only results stored for an equal
      ``context``, and never binary data or images.
    - ``stored_bytes``: The memory for stored results, 64 MiB by default. The oldest are deleted.
    - ``show_images``: For ``openai_chat``, whose tool messages accept only text. With True ``run``
      adds one message with the role "user" after the tool messages, with the images of all results
      that are not errors, and the texts of the tool messages refer to them. By default images are
      only named. The other providers accept images within a result, and always show them.
    - ``code``: True for three tools in place of all but ``always``: ``search_tools`` and
      ``describe_tools``, which describe tools as Python functions, and ``run_code(code)``, which
      ``run`` executes in a sandbox: the model writes one script in place of many calls, and sees
      its printed output and its last expression. Approval is requested for each call of a script;
      see ``mcp_client.code``. It needs the extra ``code``, and excludes ``search`` and ``budget``.
    """

    strict: bool
    search: Search
    always: Sequence[str]
    budget: int
    structured: Structured
    large_results: Literal["cut", "keep"]
    stored_bytes: int
    show_images: bool
    code: bool


def check_toolset_options(options: Mapping[str, Any]) -> None:
    """Raise ``ConfigError`` for a wrong value, ``TypeError`` for an unknown name."""
    for name, value in options.items():
        check_names("toolset()", [name], _CHECKS)
        _CHECKS[name](name, value)
    if options.get("code"):
        for name in ("search", "budget"):
            if options.get(name, False) is not False:
                raise ConfigError(f"{name}= cannot be used with code=True, which has a search")


def _check_flag(name: str, value: object) -> None:
    if type(value) is not bool:
        raise ConfigError(f"{name}={value!r}: give True or False")


def _check_search(name: str, value: object) -> None:
    if type(value) is not bool and value not in ("auto", "native"):
        raise ConfigError(f"{name}={value!r}: give True, False, 'auto' or 'native'")


def _check_globs(name: str, value: object) -> None:
    patterns = (
        value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else (None,)
    )
    if not all(type(one) is str for one in patterns):
        raise ConfigError(f"{name}={value!r}: give a list of globs, such as ['files__*']")


def _check_length(name: str, value: object) -> None:
    if type(value) is not int or value < 0:
        raise ConfigError(f"{name}={value!r}: give a whole number of characters, 0 or more")


def _check_word(*words: str) -> Callable[[str, object], None]:
    def check(name: str, value: object) -> None:
        if value not in words:
            raise ConfigError(f"{name}={value!r}: give {' or '.join(map(repr, words))}")

    return check


def check_number(name: str, value: object) -> None:
    """Raise ``ConfigError`` unless ``value``, of the option ``name``, is a number above 0."""
    if type(value) is not int or value < 1:
        raise ConfigError(f"{name}={value!r}: give a whole number above 0")


_CHECKS: dict[str, Any] = {
    "strict": _check_flag,
    "search": _check_search,
    "always": _check_globs,
    "budget": _check_length,
    "structured": _check_word(*get_args(Structured)),
    "large_results": _check_word("cut", "keep"),
    "stored_bytes": check_number,
    "show_images": _check_flag,
    "code": _check_flag,
}


class Shape(Protocol):
    """The properties of a provider's ``Toolset``."""

    dialect: ClassVar[Dialect]
    letter_first: ClassVar[bool]
    native_search: ClassVar[dict[str, Any] | None]

    def _declared(self, name: str, about: str, definition: Definition) -> dict[str, Any]: ...

    def _request(self, declared: list[dict[str, Any]]) -> list[dict[str, Any]]: ...


class ModelTools:
    """The tools of one toolset. ``earlier`` is what a model was shown of them before."""

    def __init__(
        self,
        shape: Shape,
        tools: Iterable[Tool],
        options: ToolsetOptions,
        earlier: ModelTools | None,
    ) -> None:
        self._shape = shape
        self._places: dict[str, Tool | None]
        """All tools that there were, in their order, each as it was shown last."""
        self._strict = options.get("strict", False)
        self._strict_before = earlier.strict_names() if earlier is not None else set()
        how = options.get("search", False)
        native = shape.native_search if how == "native" else None
        if how == "native" and native is None:
            provider = type(shape).__module__.rpartition(".")[2]
            raise ConfigError(
                f"search='native': {provider} has no search of its own (anthropic and "
                "openai_responses have): give True or 'auto'"
            )
        self._notes: list[str] = []
        tools = tools_of(tools, "toolset()" if earlier is None else "updated()")
        if earlier is not None:
            tools = self._updated(tools, earlier)
        self.tools: dict[str, Tool] = self._for_models(tools)
        """By qualified name."""
        if earlier is None:
            self._places = dict(self.tools)
        self._keeps = options.get("large_results", LARGE_RESULTS) == "keep"
        runs_code = options.get("code", False)
        own = [native.get("name", "")] if native else list(OWN_TOOLS) if how or runs_code else []
        own += [READ] if self._keeps else []
        own += ["run_code"] if runs_code else []
        self._always = self._matching(options.get("always", ()))
        wanted = [name for name in self.tools if not runs_code or name in self._always]
        new_names = legal_names(wanted, letter_first=shape.letter_first, reserved=own)
        self.names: dict[str, str] = {new: name for name, new in new_names.items()}
        """The names that a model is shown, each with the qualified name of its tool."""
        self.search: ToolSearch | None = None
        self.code: CodeSearch | None = None
        """The same as ``search``, where a model writes scripts."""
        self._definitions: dict[str, Definition] = {}
        """The definitions of the declared tools, by the names that the model sees."""
        if runs_code:
            from .code_mode import CodeSearch

            self.search = self.code = CodeSearch(self.tools)
            self._notes += self.code.bindings.left_out
        elif (
            how is True
            or (earlier is not None and earlier.search is not None)
            or (how == "auto" and self._exceeds(options))
        ):
            self.search = ToolSearch(self.tools, self.names)
        self._define()
        self.request: list[dict[str, Any]] = shape._request(self._all_declared(native))
        """For the provider's request."""

    def _for_models(self, tools: Iterable[Tool]) -> dict[str, Tool]:
        found: dict[str, Tool] = {}
        for tool in tools:
            name = tool.qualified_name
            if not tool.is_for_models:
                self._notes.append(f"{_quoted(name)}: it is not for models and is left out")
            elif found.setdefault(name, tool) is not tool:
                self._notes.append(f"{_quoted(name)}: another tool has this name; left out")
        return found

    def _updated(self, tools: list[Tool], earlier: ModelTools) -> list[Tool]:
        """Return ``tools`` in their earlier places, those of the same definition as before."""
        now = {tool.qualified_name: tool for tool in tools}
        places = earlier._places
        if len(places.keys() | now) > _MAX_PLACES:  # a server may rename its tools without end
            places = {name: places.get(name) for name in earlier.tools if name in now}
        self._places = places = {**dict.fromkeys((*places, *now)), **places}
        gone = places.keys() - now
        if len(gone) > _MAX_GONE:
            places |= dict.fromkeys(gone)
        for name, tool in now.items():
            old = places[name]
            places[name] = old if old is not None and _are_same(old, tool) else tool
        return [tool for name, tool in places.items() if tool is not None and name in now]

    def _matching(self, globs: Iterable[str]) -> set[str]:
        found: set[str] = set()
        for pattern in globs:
            matches = set(filter(glob(pattern), self.tools))
            if not matches:
                self._notes.append(f"always: no tool has a name like '{safe_text(pattern, 128)}'")
            found |= matches
        return found

    # ---------------------------------------------------------------- definitions

    def _exceeds(self, options: ToolsetOptions) -> bool:
        """Whether the definitions of all tools take more than the budget."""
        budget = options.get("budget", BUDGET)
        least = 0
        for new, name in self.names.items():  # to read the schemas of thousands takes seconds
            least += len(new) + len(_about(self.tools[name]))
            if least > budget:
                return True
        self._define()
        request = self._shape._request(self._all_declared(None))
        return len(json.dumps(request, ensure_ascii=False)) > budget

    def _define(self) -> None:
        dialect, searched = self._shape.dialect, self.search is not None
        wanted = {
            new: self.tools[name]
            for new, name in self.names.items()
            if not searched or name in self._always
        }
        found = {new: dialect.definition(tool, self._strict) for new, tool in wanted.items()}
        limits = dialect.in_request
        if self._strict and limits is not None:
            schemas = {new: one.schema for new, one in found.items() if one.strict}
            taken = sum(one.strict for _, one in own_definitions(dialect, True)) if searched else 0
            chosen = limits.chosen(schemas, self._strict_before, taken)
            for new in schemas.keys() - chosen:
                why = limits.refusal(dialect.provider, schemas[new])
                found[new] = dialect.not_strict(wanted[new], why)
        self._definitions = found

    def strict_names(self) -> set[str]:
        """The names of the tools that are strict, as the model is shown them."""
        return {new for new, definition in self._definitions.items() if definition.strict}

    def _all_declared(self, native: dict[str, Any] | None) -> list[dict[str, Any]]:
        declare = self._shape._declared
        found: list[dict[str, Any]] = []
        if self.code is not None:
            own = self.code.definitions(self._shape.dialect, self._strict)
            found = [declare(*one) for one in own]
        elif self.search is not None:
            searching = own_definitions(self._shape.dialect, self._strict)
            found = [declare(name, OWN_TOOLS[name], one) for name, one in searching]
        for new, definition in self._definitions.items():
            tool = self.tools[self.names[new]]
            declared = declare(new, _about(tool), definition)
            if native is not None and self.names[new] not in self._always:
                declared["defer_loading"] = True
            found.append(declared)
        if self._keeps:
            found.append(declare(*declaration()))
        # A provider refuses a search that could find nothing.
        is_found = native is not None and any("defer_loading" in one for one in found)
        return [dict(native or {}), *found] if is_found else found

    @property
    def changes(self) -> tuple[str, ...]:
        """Every change made to a name or a schema, in sentences that are safe to show."""
        found = list(self._notes)
        for new, name in self.names.items():
            if new != name:
                found.append(f"{_quoted(name)}: it is shown as '{new}'")
            definition = self._definitions.get(new)
            if definition is not None:
                about = self.tools[name].description
                if about and len(clean_text(about)) != len(about):
                    found.append(f"{_quoted(name)}: its description is shortened")
                found += [f"{_quoted(name)}: {change}" for change in definition.changes]
        if self.search is not None and self.code is None and self._strict:
            found.append(f"tool '{CALL}': it is not strict: its arguments are those of any tool")
        if self._keeps and self._strict:
            found.append(f"tool '{READ}': it is not strict: its arguments are optional")
        return tuple(found)

    # --------------------------------------------------------------- a model's calls

    def read(self, raw: RawCall) -> ModelCall:
        """Return the call of a tool; a call of the search has its response."""
        arguments, problem = arguments_of(raw.arguments)
        if self._keeps and raw.name == READ:
            return read_call(raw, arguments, problem)
        own = OWN_TOOLS if self.code is None else self.code.names
        if self.search is None or raw.name not in own:
            return self._call(raw, raw.name, arguments, problem)
        if self.code is not None and raw.name == self.code.run:
            return self.code.read(raw, arguments, problem)
        if raw.name != CALL:
            return self.search.answered(raw, arguments, problem)
        wanted, inner, problem = asked_for(arguments, problem)
        if wanted is None:
            return ModelCall(raw.id, CALL, {}, problem, None, raw.name, arguments)
        return self._call(raw, wanted, inner, problem)

    def _call(
        self, raw: RawCall, wanted: str, arguments: dict[str, Any], problem: str | None
    ) -> ModelCall:
        name = self.names.get(wanted)
        may_guess = self.search is not None and self.code is None
        if name is None and may_guess and wanted in self.tools:
            name = wanted  # models call by its own name what they have just read about
        if name is None:
            advice = ADVICE if self.search is not None else ""
            if self.code is not None:
                advice = self.code.advice
            problem = unknown_tool(wanted, list(self.names), advice)
            return ModelCall(raw.id, wanted, {}, problem, None, raw.name, arguments)
        if problem is not None:
            return ModelCall(raw.id, name, {}, problem, None, raw.name)
        definition = self._definitions.get(wanted)
        if definition is not None and definition.undo is not None:
            arguments = definition.undo.apply(arguments)
        return ModelCall(raw.id, name, arguments, None, None, raw.name)


def _are_same(old: Tool, now: Tool) -> bool:
    same = old.bound == now.bound and old.is_for_models == now.is_for_models
    return old is now or (same and old.fingerprint == now.fingerprint)


def _quoted(name: str) -> str:
    return f"tool '{safe_text(name, 128)}'"


def _about(tool: Tool) -> str:
    return clean_text(tool.description or tool.title or "")
