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
"""How a model finds tools; False where it is shown all of them."""

BUDGET = 20_000
"""Characters of definitions that are shown with ``search="auto"``, unless ``budget`` says it."""
STRUCTURED: Structured = "auto"
LARGE_RESULTS: Literal["cut", "keep"] = "cut"
"""The defaults of the options of these names."""


class ToolsetOptions(TypedDict, total=False):
    """The options of ``toolset``: the same for every provider.

    - ``strict``: the provider guarantees arguments that fit. With OpenAI optional members are null
      where the model leaves them out, and are removed from its calls. A tool that cannot be strict
      stays as it is, and ``.changes`` says why; so does every tool of a provider without a strict
      mode, and those that are too many for one request.
    - ``search``: True for three tools in place of all but ``always``: ``search_tools`` finds tools,
      ``describe_tools`` gives their definitions, ``call_tool`` calls one. "auto" for these only if
      all definitions take more than ``budget``. What ``updated`` makes of a toolset that searches
      searches too, even if fewer tools are left: a conversation in which ``call_tool`` was used
      goes on. "native" for the provider's own search: all definitions are in the request, and all
      but ``always`` are marked with ``defer_loading``. Anthropic's Messages and OpenAI's Responses
      have one, for their newer models; of functions that are deferred OpenAI's models see name and
      description all the same.
    - ``always``: globs of qualified names, such as ``["files__*"]``: tools that are shown whatever
      ``search`` says.
    - ``budget``: for ``search="auto"``, the length of all definitions as JSON, that is
      ``len(json.dumps(kit.tools, ensure_ascii=False))``: 20,000 characters, some 5,000 tokens.
    - ``structured``: when a model is shown the structured content of a result. With "auto", the
      default, where the content has no text, and in place of a text that is its JSON; so nothing is
      said twice. With "always" also beside a text that says it in other words: for servers whose
      texts are only a summary.
    - ``large_results``: what happens to a result above ``max_chars``. With "cut", the default, its
      middle is lost. With "keep" the model gets a handle, and ``.tools`` has one more,
      ``read_result(handle, offset=0, limit=10_000, find=None)``: it gives characters of the text as
      it would have been shown, or the places of a text in it. It is not a tool call: no one is
      asked, nothing is sent, and it is in no audit log. It gives only what was kept for an equal
      ``context``, and no binary data or image is ever among it.
    - ``kept_bytes``: the memory for what is kept, 64 MiB by default. The oldest is forgotten.
    - ``show_images``: for ``openai_chat``, whose tool messages take nothing but text. With True
      ``run`` adds one message with the role "user" after the tool messages, with the images of all
      results, and the texts of the tool messages refer to them. By default images are only named.
      The other providers take images within a result, and always show them.
    - ``code``: True for three tools in place of all but ``always``: ``search_tools`` and
      ``describe_tools``, which say how tools are called in Python, and ``run_code(code)``, which
      ``run`` executes in a sandbox: the model writes one script in place of many calls, and is
      shown what it prints and its last expression. Approval is asked for each call of a script; see
      ``mcp_client.code``. It needs the extra ``code``, and goes with no ``search`` or ``budget``.
    """

    strict: bool
    search: Search
    always: Sequence[str]
    budget: int
    structured: Structured
    large_results: Literal["cut", "keep"]
    kept_bytes: int
    show_images: bool
    code: bool


def check_toolset_options(options: Mapping[str, Any]) -> None:
    """Raises ``ConfigError`` for a wrong value, ``TypeError`` for an unknown name."""
    for name, value in options.items():
        check_names("toolset()", [name], _CHECKS)
        _CHECKS[name](name, value)
    if options.get("code"):
        for name in ("search", "budget"):
            if options.get(name, False) is not False:
                raise ConfigError(f"{name}= does not go with code=True, which has its own search")


def _check_flag(name: str, value: object) -> None:
    if type(value) is not bool:
        raise ConfigError(f"{name}={value!r}: give True or False")


def _check_search(name: str, value: object) -> None:
    if type(value) is not bool and value not in ("auto", "native"):
        raise ConfigError(f"{name}={value!r}: give True, False, 'auto' or 'native'")


def _check_globs(name: str, value: object) -> None:
    given = value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else (None,)
    if not all(type(one) is str for one in given):
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
    """Raises ``ConfigError`` unless ``value``, of the option ``name``, is a number above 0."""
    if type(value) is not int or value < 1:
        raise ConfigError(f"{name}={value!r}: give a whole number above 0")


_CHECKS: dict[str, Any] = {
    "strict": _check_flag,
    "search": _check_search,
    "always": _check_globs,
    "budget": _check_length,
    "structured": _check_word(*get_args(Structured)),
    "large_results": _check_word("cut", "keep"),
    "kept_bytes": check_number,
    "show_images": _check_flag,
    "code": _check_flag,
}
