"""The steps of an authorization flow, the outcome of each, and the words of a refusal.

A flow is a plain generator: it yields a step, is sent the outcome of that step, and returns its
result. It does no I/O itself, so tests drive it from tables; ``TokenManager`` carries the steps
out.

======================  =======================================  ============================
a flow yields           which means                              and is sent
======================  =======================================  ============================
``Fetch``               send this HTTP request                   ``Fetched`` or ``Unreachable``
``Listen``              listen for the redirect of a login       the redirect URI
``Consent``             have a person log in with a browser      ``Redirected``
``ShowCode``            show a person where to type a code       None
``Wait``                wait so many seconds                     None
``TakeTurn``            wait for other logins at this issuer     None
``InStore``             read or change what is stored            what the store returned
``AskHost``             call a function that the host gave       the text it returned
``Remember``            store where the next tokens come from    None
``Accepted``            report a deviation that was accepted     None
======================  =======================================  ============================

*The words of a refusal.* RFC 6749 section 5.2 defines a JSON object with ``error`` and
``error_description``. Other providers send an array, an object of their own, plain text or a page.
The user needs these words to find the cause, so errors quote up to 300 characters of them, in one
line. A provider may repeat secrets that it was sent, or include a token. Only members of JSON that
hold words for people are used, and what looks like a credential is hidden. Text in a response of
success is not quoted at all, because it may be a token. Of its JSON only members about an error
are quoted.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ..errors import AuthError, McpError
from ..runtime.frozen import frozen_dataclass
from ..runtime.masking import MASK, mask
from ..runtime.safe_text import safe_text
from ..runtime.strict_json import read_json, read_json_object

if TYPE_CHECKING:
    from .store import TokenStore
    from .tokens import Registration, Source

__all__ = [
    "Accepted",
    "AskHost",
    "Consent",
    "DeviceLogin",
    "Fetch",
    "Fetched",
    "Flow",
    "FlowStep",
    "InStore",
    "Listen",
    "Redirected",
    "Remember",
    "ShowCode",
    "TakeTurn",
    "Unreachable",
    "Wait",
    "words_of",
]

Result = TypeVar("Result")
_MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Fetch:
    """Send this request and read the whole response, whatever its status."""

    method: str
    url: str
    what: str
    """The document to fetch, as an error names it: "the protected-resource metadata"."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    follow: bool = True
    """Whether redirects are followed; otherwise a redirect is the response."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A response, of any status."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Names in lower case."""
    body: bytes = field(default=b"", repr=False)
    url: str = ""
    """The URL it came from, after redirects."""

    @property
    def is_success(self) -> bool:
        """Whether the status is one of success. Some frameworks respond to each POST with 201."""
        return 200 <= self.status < 300

    @property
    def json(self) -> dict[str, Any] | None:
        """The JSON object in the body; None if it is anything else, or not strict JSON."""
        try:
            return read_json_object(self.body, max_depth=_MAX_DEPTH)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A missing response, or one that must not be used: a refused address, a document too large."""

    reason: str
    answered: bool = False
    """Whether an HTTP response came, so that asking again will give the same."""
    refused: bool = False
    """Whether the address must not be used, or the place to which a redirect leads."""


@dataclass(frozen=True, slots=True)
class Listen:
    """A request to listen for a redirect, before any server receives the redirect URI."""

    preferred: tuple[str, ...] = ()
    """Redirect URIs of an earlier registration: the first one whose port is free is used."""


@dataclass(frozen=True, slots=True)
class Consent:
    """Have a person open ``url`` in a browser, and wait for the redirect to ``redirect_uri``."""

    url: str = field(repr=False)
    redirect_uri: str
    state: str = field(repr=False)
    server: str
    registration: Registration | None = None
    """The client this login uses, if it was registered in an earlier run. It is not used for
    another login if this one ends without a redirect: the server may have forgotten it."""


@frozen_dataclass
class DeviceLogin:
    """A login on another device, as ``OAuth(on_device=...)`` receives it."""

    server: str
    """The name the host gave the MCP server."""
    url: str
    """The URL of the login page, for any browser: https, or http to this machine."""
    code: str = field(repr=False)
    """The code to type there."""
    complete_url: str | None = field(repr=False)
    """``url`` with the code in it, for a QR code; None if the server sends none."""
    expires_at: float
    """The time at which the code expires, in seconds since the beginning of 1970, UTC."""
    issuer: str = field(default="", compare=False)
    """The authorization server that asks for the login, as the MCP server names it."""
    warning: str | None = field(default=None, compare=False)
    """A warning for the person before the login, such as that ``url`` is on another site than
    ``issuer``; otherwise None."""


@dataclass(frozen=True, slots=True)
class ShowCode:
    """Show this to a person, without waiting for the login to end."""

    login: DeviceLogin


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until the authorization server may be asked again how far ``login`` is."""

    login: DeviceLogin
    seconds: float


@dataclass(frozen=True, slots=True)
class Redirected:
    """The query of the redirect that ended a login: ``code``, ``state``, ``iss``, ``error``."""

    params: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class TakeTurn:
    """Wait until no other login of the same person is under way at this issuer.

    The turn ends with the flow. Two logins at once would open two pages, and each would register
    a client.
    """

    issuer: str


@dataclass(frozen=True, slots=True)
class InStore:
    """Have ``use`` read or change tokens and registrations in the store of this login."""

    use: Callable[[TokenStore], Awaitable[Any]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class AskHost:
    """Call a function of the host, sync or async, for a secret text that the host looks after."""

    source: Callable[[], str | Awaitable[str]] = field(repr=False)
    what: str
    """The option it was given as: "WorkloadIdentity(assertion=...)"."""

    async def carry_out(self) -> str:
        """Return the text.

        Raises ``AuthError`` if the function raises or does not return a text.
        """
        try:
            returned = self.source()
            text = await returned if inspect.isawaitable(returned) else returned
        except McpError:
            raise
        except Exception as error:
            raise AuthError(
                f"the function given as {self.what} raised {type(error).__name__}; nothing was sent"
            ) from error
        if not isinstance(text, str) or not text:
            raise AuthError(
                f"the function given as {self.what} did not return a str; nothing was sent"
            )
        return text


@dataclass(frozen=True, slots=True)
class Remember:
    """Store that the tokens of the MCP server come from ``source`` from now on."""

    source: Source


@dataclass(frozen=True, slots=True)
class Accepted:
    """Report that a server deviates from the specification in a way that was accepted."""

    deviation: str
    """A sentence without values of the server: see ``Stats.accept``."""


FlowStep: TypeAlias = (
    Fetch | Listen | Consent | ShowCode | Wait | TakeTurn | InStore | AskHost | Remember | Accepted
)
Flow: TypeAlias = Generator[FlowStep, Any, Result]
"""Yields steps, is sent their outcomes, returns a ``Result``."""

# ---------------------------------------------------------------- the words of a refusal

_MAX_CHARS = 300
_MAX_READ_CHARS = 16_384
_MAX_WORDS_DEPTH = 4
_WORDS = (
    *("error", "error_code", "error_description", "error_message", "errors", "code", "title"),
    *("message", "msg", "description", "detail", "details", "reason", "hint"),
)
"""The members that hold a text for people, in the order in which they are shown."""
_OF_ERRORS = frozenset({"error", "error_description", "error_message", "errors", "message", "msg"})
_TITLE = re.compile(r"(?i)<title[^<>]{0,200}>([^<]{1,300})")
_CREDENTIAL = re.compile(
    r"(?i)((?:token|secret|code|assertion|verifier|password|credential|key)\w{0,20}"
    r"(?:[\"']\s{0,4}:|\s?=)\s{0,4}[\"']?)[^\s\"'&,;<>]{6,}"
)
_LONG_WORD = re.compile(r"\beyJ[\w.-]{10,}|[\w+/=~-]{32,}")


def words_of(response: Fetched, secrets: Iterable[str] = (), *, code: str | None = None) -> str:
    """Return the server's words in a response that refuses a request; empty if it has none.

    ``secrets`` are what was sent, and are hidden. ``code`` is what the caller shows already.
    """
    try:
        value = read_json(response.body, max_depth=_MAX_DEPTH)
    except ValueError:
        text = "" if response.is_success else _plain(response.body)
    else:
        if response.is_success:  # only what describes an error
            known = value if isinstance(value, dict) else {}
            value = {name: known[name] for name in known if name in _OF_ERRORS}
        text = ", ".join(each for each in dict.fromkeys(_texts(value, 0)) if each != code)
    text = mask(" ".join(text[:_MAX_READ_CHARS].split()), secrets)
    text = _LONG_WORD.sub(MASK, _CREDENTIAL.sub(rf"\1{MASK}", text))
    return safe_text(text, _MAX_CHARS)


def _texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if value.strip():
            yield value.strip()
    elif isinstance(value, list) and depth < _MAX_WORDS_DEPTH:
        for item in value[:5]:
            yield from _texts(item, depth + 1)
    elif isinstance(value, dict) and depth < _MAX_WORDS_DEPTH:
        for name in _WORDS:
            yield from _texts(value.get(name), depth + 1)


def _plain(body: bytes) -> str:
    """Return the text of a body that is not JSON; of a page its title."""
    text = body[: 4 * _MAX_READ_CHARS].decode("utf-8", "replace").strip()
    if not text.startswith("<"):
        return text
    title = _TITLE.search(text)
    return "" if title is None else title[1]
