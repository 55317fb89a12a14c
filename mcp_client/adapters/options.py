"""The options of a toolset: one list, for the ``toolset`` of every provider.

They are checked here, so that a wrong value is the same error for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict, get_args

from ..errors import ConfigError
from ..runtime.option_names import check_names
from .parts import Structured

__all__ = [
    "BUDGET",
    "LARGE_RESULTS",
    "STRUCTURED",
    "Search",
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
      adds one message with the role "user" after the tool messages, with the images of all results,
      and the texts of the tool messages refer to them. By default images are only named. The other
      providers accept images within a result, and always show them.
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
