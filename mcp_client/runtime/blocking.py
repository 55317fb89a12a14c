"""Objects of another thread's event loop, whose methods block instead of being awaited."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from .portal import Portal
from .watch import Watch

__all__ = ["Blocking", "BlockingWatch", "described_by", "waits", "watches"]

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
U = TypeVar("U")
_END: Any = object()


class Blocking(Generic[A_co]):
    """What stands for an async object of the portal's event loop."""

    _async: A_co
    _portal: Portal

    def _run(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.run(function, *args, **kwargs)

    def _wait_for(self, function: Callable[[Any], Awaitable[T]]) -> T:
        """Await what ``function`` makes of the async object; ``Toolset.run`` does."""
        return self._portal.run(function, self._async)

    def _in_loop(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a plain function in the event loop."""

        async def call() -> T:
            return function(*args, **kwargs)

        return self._portal.run(call)


def waits(
    method: Callable[Concatenate[A, P], Awaitable[T]],
) -> Callable[Concatenate[Blocking[A], P], T]:
    """The async method, waited for: same parameters, same documentation."""

    def blocking(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.run(method, self._async, *args, **kwargs)

    described: Callable[Concatenate[Blocking[A], P], T] = described_by(method, blocking)
    return described


class BlockingWatch(Blocking[Watch[U]], Generic[U]):
    """An iterator over changes, and a context manager to let go of it.

    Ends when what it watches is closed.
    """

    def __init__(
        self, portal: Portal, watch: Watch[U], shown: Callable[[U], U] = lambda change: change
    ) -> None:
        """``shown`` makes of each change what is handed over."""
        self._portal = portal
        self._async = watch
        self._shown = shown

    def __enter__(self) -> Self:
        self._run(self._async.__aenter__)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> U:
        found = self._run(_next, self._async)
        if found is _END:
            raise StopIteration
        return self._shown(found)

    def close(self) -> None:
        """Stop watching. A thread that waits for the next change gets ``StopIteration``."""
        self._run(self._async.aclose)


async def _next(watch: Watch[U]) -> U:
    return await anext(watch, _END)


def watches(
    method: Callable[Concatenate[A, P], Watch[U]],
) -> Callable[Concatenate[Blocking[A], P], BlockingWatch[U]]:
    """The method that returns an async iterator, with a plain one."""

    def blocking(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> BlockingWatch[U]:
        return BlockingWatch(self._portal, self._in_loop(method, self._async, *args, **kwargs))

    described: Callable[Concatenate[Blocking[A], P], BlockingWatch[U]]
    described = described_by(method, blocking)
    return described


def described_by(source: Callable[..., Any], function: Any) -> Any:
    """``function`` with the name, the documentation and the parameters of ``source``."""
    function.__name__ = source.__name__
    function.__qualname__ = source.__qualname__
    function.__doc__ = source.__doc__
    function.__signature__ = inspect.signature(source)
    return function
