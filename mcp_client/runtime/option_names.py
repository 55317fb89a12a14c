"""Names of options: an unknown one is a ``ConfigError`` that suggests the right one.

``with_option_names`` is for a function or a class whose options are the parameters of its
signature; ``check_names`` is for those that take ``**options``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ..errors import ConfigError
from .safe_text import near

__all__ = ["UnknownOption", "check_names", "with_option_names"]

T = TypeVar("T", bound=Callable[..., Any])


class UnknownOption(ConfigError, TypeError):
    """An option that does not exist; also a ``TypeError``, as Python raises it."""


def check_names(
    what: str, names: Iterable[str], known: Iterable[str], hints: Mapping[str, str] | None = None
) -> None:
    """Raise ``UnknownOption`` for a name in ``names`` that is not in ``known``.

    Args:
        what: What takes the options, as the error begins: "connect()".
        names: The names to check.
        known: The names that there are.
        hints: What to write instead, for names of options of other objects.
    """
    error = _unknown(what, names, [*known], hints or {})
    if error is not None:
        raise error


def _unknown(
    what: str, names: Iterable[str], known: list[str], hints: Mapping[str, str]
) -> UnknownOption | None:
    for name in names:
        if name not in known:
            advice = f": {hints[name]}" if name in hints else near(name, known)
            return UnknownOption(f"{what} has no option {name!r}{advice}")
    return None


def with_option_names(**hints: str) -> Callable[[T], T]:
    """Return a decorator that makes an unknown option an ``UnknownOption``.

    Args:
        **hints: What to write instead of an option of another object.
    """

    def decorate(made: T) -> T:
        function: Any = made.__init__ if isinstance(made, type) else made  # type: ignore[misc]
        what = f"{made.__qualname__.removesuffix('.__init__')}()"

        @functools.wraps(function)
        def checked(*args: Any, **options: Any) -> Any:
            try:
                return function(*args, **options)
            except TypeError as error:
                here, inner = error.__traceback__, function
                while here is not None and (inner := getattr(inner, "__wrapped__", None)):
                    here = here.tb_next
                if here is not None and here.tb_next is None:  # the call itself failed
                    names = [
                        name for name in inspect.signature(function).parameters if name != "self"
                    ]
                    if (unknown := _unknown(what, options, names, hints)) is not None:
                        raise unknown from None
                raise

        if not isinstance(made, type):
            return checked  # type: ignore[return-value]
        made.__init__ = checked  # type: ignore[misc]
        return made

    return decorate
