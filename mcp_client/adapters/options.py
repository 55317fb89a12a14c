"""The options of a toolset: one list, for the ``toolset`` of every provider.

They are checked here, so that a wrong value is the same error for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict, get_args

from ..errors import ConfigError
from .parts import Structured

__all__ = ["ToolsetOptions", "check_toolset_options"]


class ToolsetOptions(TypedDict, total=False):
    """The options of ``toolset``: the same for every provider.

    - ``strict``: the provider guarantees arguments that fit. Optional members are null where the
      model leaves them out, and are removed from its calls. A tool that cannot be strict stays as
      it is, and ``.changes`` says why; so does every tool of a provider without a strict mode.
    - ``search``: two tools in place of all, to search these and to call what was found.
    - ``structured``: when a model is shown the structured content of a result. With "auto", the
      default, where the content has no text, and in place of a text that is its JSON; so nothing is
      said twice. With "always" also beside a text that says it in other words: for servers whose
      texts are only a summary.
    - ``large_results``: what happens to a result above ``max_chars``. With "cut", the default, its
      middle is lost. With "keep" the model gets a handle, and ``.tools`` has one more,
      ``read_result(handle, offset=0, limit=10_000, find=None)``: it gives characters of the text as
      it would have been shown, or the places of a text in it. It is no call of a tool: nobody is
      asked, nothing is sent, and it is in no audit log. It gives only what was kept for an equal
      ``context``, and no binary data or image is ever among it.
    - ``kept_bytes``: the memory for what is kept, 64 MiB by default. The oldest is forgotten.
    """

    strict: bool
    search: bool
    structured: Structured
    large_results: Literal["cut", "keep"]
    kept_bytes: int


def check_toolset_options(options: Mapping[str, Any]) -> None:
    """Raises ``ConfigError`` for a wrong value, ``TypeError`` for an unknown name."""
    for name, value in options.items():
        if name not in _CHECKS:
            raise TypeError(f"toolset() has no option {name!r}; it has: {', '.join(_CHECKS)}")
        _CHECKS[name](name, value)


def _check_flag(name: str, value: object) -> None:
    if type(value) is not bool:
        raise ConfigError(f"{name}={value!r}: give True or False")


def _check_word(*words: str) -> Callable[[str, object], None]:
    def check(name: str, value: object) -> None:
        if value not in words:
            raise ConfigError(f"{name}={value!r}: give {' or '.join(map(repr, words))}")

    return check


def _check_number(name: str, value: object) -> None:
    if type(value) is not int or value < 1:
        raise ConfigError(f"{name}={value!r}: give a whole number above 0")


_CHECKS: dict[str, Any] = {
    "strict": _check_flag,
    "search": _check_flag,
    "structured": _check_word(*get_args(Structured)),
    "large_results": _check_word("cut", "keep"),
    "kept_bytes": _check_number,
}
