"""Objects of an event loop that runs elsewhere, for threads: what they do is waited for."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from .portal import Portal

__all__ = ["Blocking", "described_by", "waits"]

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


class Blocking(Generic[A_co]):
    """What stands for an async object of the portal's event loop."""

    _async: A_co
    _portal: Portal

    def _run(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.run(function, *args, **kwargs)

    def _in_loop(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a plain function in the event loop."""

        async def call() -> T:
            return function(*args, **kwargs)

        return self._portal.run(call)


def waits(
    method: Callable[Concatenate[A, P], Awaitable[T]],
) -> Callable[Concatenate[Blocking[A], P], T]:
    """The async method, waited for: same parameters, same documentation."""

    def waits(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.run(method, self._async, *args, **kwargs)

    described: Callable[Concatenate[Blocking[A], P], T] = described_by(method, waits)
    return described


def described_by(source: Callable[..., Any], function: Any) -> Any:
    """``function`` with the name, the documentation and the parameters of ``source``."""
    function.__name__ = source.__name__
    function.__qualname__ = source.__qualname__
    function.__doc__ = source.__doc__
    function.__signature__ = inspect.signature(source)
    return function
