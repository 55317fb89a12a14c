"""The resources and prompts of one session: listed, read, completed, and watched.

2026-07-28 ``server/resources``, ``server/prompts`` and ``server/utilities/completion``. No URI is
fetched from the network here: whatever its scheme, ``https`` included, it is read by asking the
server for it with ``resources/read``. Results are not cached; their ``ttlMs`` is for the host to
use. All this is loaded when the first of it is used: most sessions only call tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..connection.call_options import ReadOptions
from ..connection.rpc import Traffic
from ..errors import InvalidArguments, NotFound, ProtocolViolation, ServerError
from ..protocol import era as topics
from ..protocol.canonical_json import object_of
from ..protocol.content import ResourceLink
from ..protocol.metadata import brief
from ..protocol.offers import (
    Completion,
    Prompt,
    PromptMessage,
    Resource,
    ResourceContents,
    ResourceTemplate,
    ResourceUpdate,
    usable_uri,
)
from ..runtime.limits import Timeouts
from ..runtime.safe_text import safe_text
from ..runtime.watch import Watch
from .finding import Listed, Rejected
from .paged_list import Kind, PagedEntries
from .read_requests import FetchResult, ReadRequests
from .subscriptions import Subscriptions
from .watch import ListChanges, ListWatch, ResourceWatch, compared_by

__all__ = ["Library", "PromptResult", "ResourceResult", "read_resource", "uri_of"]

T = TypeVar("T")

_RESOURCES = Kind("resources/list", "resources", "resources", lambda one: one.uri, "entries")
_TEMPLATES = Kind(
    "resources/templates/list",
    "resourceTemplates",
    "resource templates",
    lambda one: one.uri_template,
    "entries",
)
_PROMPTS = Kind("prompts/list", "prompts", "prompts", lambda one: one.name, "entries")
_NOT_FOUND_CODES = frozenset({-32002, -32602})


@dataclass(frozen=True, slots=True)
class ResourceResult:
    """The contents of a resource."""

    contents: tuple[ResourceContents, ...]
    """The contents: usually one piece; for a directory, any number."""
    server: str
    """The name the host gave the server."""
    uri: str
    """The URI that was read."""
    rejected: tuple[Rejected, ...] = ()
    """Invalid pieces, each with its reason; ``raw`` has them as they came."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The result as it came, ``ttlMs`` and ``cacheScope`` included."""

    @classmethod
    def from_wire(cls, result: dict[str, Any], server: str, uri: str) -> ResourceResult:
        """Parse a result.

        Args:
            result: The result of ``resources/read``.
            server: The host's name for the server.
            uri: The URI that was read.

        Raises:
            ValueError: The result breaks the specification.
        """
        found = result.get("contents", ())
        found = [] if found is None else found
        if type(found) is not list:
            raise ValueError("contents is not an array")
        contents, rejected = [], []
        for piece in found:
            try:
                contents.append(ResourceContents.from_wire(piece))
            except ValueError as error:
                name = piece.get("uri") if type(piece) is dict else ""
                quoted = safe_text(name, 128) if type(name) is str else ""
                rejected.append(Rejected(quoted, str(error)))
        return cls(tuple(contents), server, uri, tuple(rejected), result)

    @property
    def meta(self) -> Mapping[str, Any]:
        """The server's ``_meta``; empty without one."""
        meta = self.raw.get("_meta")
        return meta if isinstance(meta, dict) else {}

    def __repr__(self) -> str:
        left_out = f", {len(self.rejected)} rejected" if self.rejected else ""
        return f"<ResourceResult of {safe_text(self.uri, 200)}: {brief(self.contents)}{left_out}>"

    @property
    def text(self) -> str:
        """The contents as text for a model.

        One piece is its text; several are each below a line that names it. A piece that is not text
        is named in brackets, never omitted.
        """
        if len(self.contents) == 1 and not self.rejected and self.contents[0].text is not None:
            return self.contents[0].text
        left_out = [f"[left out: {one.name or 'a piece'}, {one.reason}]" for one in self.rejected]
        return "\n".join([*map(str, self.contents), *left_out])


@dataclass(frozen=True, slots=True)
class PromptResult:
    """A prompt with its arguments filled in."""

    messages: tuple[PromptMessage, ...]
    """Messages for a model, untrusted text."""
    description: str | None
    """Text from the server, not trusted."""
    server: str
    """The name the host gave the server."""
    prompt: str
    """The name of the prompt."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The result as it came."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """The server's ``_meta``; empty without one."""
        meta = self.raw.get("_meta")
        return meta if isinstance(meta, dict) else {}

    def __repr__(self) -> str:
        return f"<PromptResult of {safe_text(self.prompt, 64)}: {brief(self.messages)}>"

    @property
    def links(self) -> tuple[ResourceLink, ...]:
        """The resource links in it, in order: ``Session.follow`` reads one."""
        contents = (message.content for message in self.messages)
        return tuple(content for content in contents if isinstance(content, ResourceLink))


class Library:
    """The resources, prompts and completion of a session; see its methods of the same names."""

    def __init__(self, requests: ReadRequests, subscriptions: Subscriptions, origin: str) -> None:
        """Use ``origin`` to mark the links in this session's results."""
        self._requests = requests
        self._server = requests.server
        self._subscriptions = subscriptions
        self._origin = origin
        resources, prompts = subscriptions.add(topics.RESOURCES), subscriptions.add(topics.PROMPTS)
        self.resources: PagedEntries[Resource] = PagedEntries(
            _RESOURCES, Resource.from_wire, requests, resources
        )
        self.templates: PagedEntries[ResourceTemplate] = PagedEntries(
            _TEMPLATES, ResourceTemplate.from_wire, requests, resources
        )
        self.prompts: PagedEntries[Prompt] = PagedEntries(
            _PROMPTS, Prompt.from_wire, requests, prompts
        )

    async def all(self, feature: str, listing: PagedEntries[T], refresh: bool) -> Listed[T]:
        """Return a complete list. Raises ``NotSent`` if the server does not declare ``feature``."""
        await self._requests.connection.ensure_connected()
        self._requests.require(feature)
        return await listing.all(refresh=refresh)

    def changes(self, feature: str, listing: PagedEntries[T]) -> Watch[ListChanges[T]]:
        """Return a watch of a list."""
        self._requests.require(feature)
        live = self._requests.connection.ensure_connected
        return ListWatch(listing, live, compared_by(listing.kind.key))

    async def read_resource(
        self, uri: str, options: ReadOptions, traffic: Traffic | None = None
    ) -> ResourceResult:
        """Request the contents of a resource."""
        self._requests.require("resources")
        return await read_resource(self._reader(options, traffic), self._server, uri_of(uri))

    def linked(self, link: object) -> str:
        """The URI of a link from a result of this session. Raises ``InvalidArguments``."""
        if not isinstance(link, ResourceLink):
            raise InvalidArguments(
                f"follow takes a ResourceLink of a result, and not a {type(link).__name__}; "
                "read_resource reads a uri of your own"
            )
        if link._origin != self._origin:
            whose = (
                f"another session, with {link.server!r}" if link._origin else "no session's result"
            )
            raise InvalidArguments(
                f"the link is from {whose}: follow it on the session whose result it is from",
                server=self._server,
            )
        return uri_of(link.uri)

    def subscribe_resource(self, uri: str) -> Watch[ResourceUpdate]:
        """Return a watch of a resource."""
        self._requests.require("resources", "subscribe")
        live = self._requests.connection.ensure_connected
        limit = self._requests.context.limits.watched
        return ResourceWatch(self._subscriptions, uri_of(uri), limit, live)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None,
        options: ReadOptions,
        traffic: Traffic | None = None,
    ) -> PromptResult:
        """Request the messages of a prompt."""
        self._requests.require("prompts")
        if not isinstance(name, str) or not name:
            raise InvalidArguments("the prompt's name is not a string, or empty")
        fields: dict[str, Any] = {"name": name}
        if arguments is not None:
            fields["arguments"] = _texts(arguments)
        result = await self._reader(options, traffic)("prompts/get", fields)
        messages, server = result.get("messages", ()), self._server
        messages = [] if messages is None else messages
        try:
            if type(messages) is not list:
                raise ValueError("messages is not an array")
            found = tuple(PromptMessage.from_wire(one, server, self._origin) for one in messages)
        except ValueError as error:
            raise _invalid("prompt", error, result, server) from None
        about = result.get("description")
        return PromptResult(found, about if isinstance(about, str) else None, server, name, result)

    async def complete(
        self,
        ref: Prompt | ResourceTemplate | Mapping[str, Any],
        argument: Mapping[str, str],
        context: Mapping[str, str] | None,
        timeout: float | Timeouts | None,
    ) -> Completion:
        """Request suggestions for an argument."""
        self._requests.require("completions")
        timeouts = self._requests.context.timeouts.for_call(timeout)
        fields: dict[str, Any] = {"ref": _reference(ref), "argument": _argument(argument)}
        if context is not None:
            fields["context"] = {"arguments": _texts(context)}
        result = await self._requests.ask("completion/complete", fields, timeouts)
        try:
            return Completion.from_wire(result)
        except ValueError as error:
            raise _invalid("completion", error, result, self._server) from None

    def _reader(self, options: ReadOptions, traffic: Traffic | None) -> FetchResult:
        meta = options.get("meta")
        plain = None if meta is None else object_of("meta", meta)[0]
        return self._requests.reader(options.get("timeout"), plain, traffic)


async def read_resource(ask: FetchResult, server: str, uri: str) -> ResourceResult:
    """Request the contents of ``uri``. Raises ``NotFound`` if the server has no such resource."""
    try:
        result = await ask("resources/read", {"uri": uri})
    except ServerError as error:
        if error.code in _NOT_FOUND_CODES:
            raise _not_found(error, uri) from None
        raise
    try:
        return ResourceResult.from_wire(result, server, uri)
    except ValueError as error:
        raise _invalid("resource", error, result, server) from None


def _invalid(what: str, error: ValueError, result: Any, server: str) -> ProtocolViolation:
    return ProtocolViolation(f"invalid {what} result: {error}", result=result, server=server)


def uri_of(uri: object) -> str:
    """Return ``uri`` if it can be sent. Raises ``InvalidArguments``."""
    if not isinstance(uri, str):
        raise InvalidArguments(f"the uri is a {type(uri).__name__}: give a string")
    reason = usable_uri(uri)
    if reason is not None:
        raise InvalidArguments(f"the uri {safe_text(uri, 80)!r} {reason}")
    return uri


def _not_found(error: ServerError, uri: str) -> ServerError:
    """Return the error with the name of the resource that was not found.

    -32002 has no other meaning; -32602 has, unless the error's data names the URI (2026-07-28).
    """
    data = error.data
    if error.code != -32002 and not (type(data) is dict and data.get("uri") == uri):
        return error
    return NotFound(
        f"the server has no resource {safe_text(uri, 200)!r}: {error.server_message} "
        f"(code {error.code})",
        code=error.code,
        data=error.data,
        server_message=error.server_message,
        http_status=error.http_status,
        body_excerpt=error.body_excerpt,
        retry_after=error.retry_after,
        server=error.server,
    )


def _reference(ref: Prompt | ResourceTemplate | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(ref, Prompt):
        return {"type": "ref/prompt", "name": ref.name}
    if isinstance(ref, ResourceTemplate):
        return {"type": "ref/resource", "uri": ref.uri_template}
    if isinstance(ref, Mapping):
        match dict(ref):
            case {"type": "ref/prompt", "name": str()} | {"type": "ref/resource", "uri": str()}:
                return dict(ref)
    raise InvalidArguments(
        "give a Prompt, a ResourceTemplate, or a reference such as "
        "{'type': 'ref/prompt', 'name': ...} or {'type': 'ref/resource', 'uri': ...}"
    )


def _argument(argument: Mapping[str, str]) -> dict[str, str]:
    found = _texts(argument)
    if set(found) != {"name", "value"}:
        raise InvalidArguments("argument: give {'name': ..., 'value': the text typed so far}")
    return found


def _texts(values: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(values, Mapping):
        raise InvalidArguments(f"the arguments are a {type(values).__name__}: give a dict")
    for name, value in values.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidArguments(f"{str(name)[:80]!r}: names and values must be strings")
    return dict(values)
