"""What a flow asks for, and what it is given.

A flow is a plain generator: it yields a step, is sent that step's outcome, and returns its
result. It does no I/O, so that tests feed it tables; the driver carries the steps out.

============  ===================================  ==========================
a flow yields  which means                         and is sent
============  ===================================  ==========================
``Fetch``     send this request                    ``Fetched``, ``Unreachable``
``Consent``   have a person agree in a browser     ``Redirected``
============  ===================================  ==========================
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

__all__ = ["Consent", "Fetch", "Fetched", "Flow", "Redirected", "Step", "Unreachable"]

_NONE: Mapping[str, str] = MappingProxyType({})

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Fetch:
    """Send this request and read the whole reply, whatever its status."""

    method: str
    url: str
    what: str
    """What it is for, in an error's words: "the protected-resource metadata"."""
    headers: Mapping[str, str] = field(default=_NONE, repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A reply. A status that means failure is a reply too."""

    status: int
    headers: Mapping[str, str] = field(default=_NONE, repr=False)
    """Names in lower case."""
    body: bytes = field(default=b"", repr=False)
    url: str = ""
    """Where it came from in the end, after redirects."""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """There was no reply, or none that may be used: a refused address, a document too large."""

    reason: str


@dataclass(frozen=True, slots=True)
class Consent:
    """Have a person open ``url`` in a browser, and wait for what comes back to ``redirect_uri``."""

    url: str = field(repr=False)
    redirect_uri: str
    state: str = field(repr=False)
    server: str


@dataclass(frozen=True, slots=True)
class Redirected:
    """The query of the redirect that ended a consent: ``code``, ``state``, ``iss``, ``error``."""

    params: Mapping[str, str] = field(repr=False)


Step: TypeAlias = Fetch | Consent
Flow: TypeAlias = Generator[Step, Any, Result]
"""Yields steps, is sent their outcomes, returns a ``Result``."""
