"""The resources of a server: listed, read, and linked to by results of tools.

2026-07-28 ``server/resources``. No URI is fetched from the network here: whatever its scheme,
``https`` included, it is read by asking the server for it with ``resources/read``. Results are not
cached; their ``ttlMs`` is for the host to use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import InvalidArguments, NotFound, ProtocolViolation, ServerError
from ..protocol.content import ResourceLink
from ..protocol.metadata import brief
from ..protocol.resources import Resource, ResourceContents, ResourceTemplate, usable_uri
from ..runtime.safe_text import safe_text
from .listed import Rejected
from .paged_list import Kind, ListSource, PagedEntries
from .reading import FetchResult
from .subscription import ListSubscription

__all__ = [
    "RESOURCES",
    "TEMPLATES",
    "ResourceResult",
    "linked",
    "read",
    "resource_list",
    "template_list",
    "uri_of",
]

RESOURCES = Kind(
    "resources/list", "resources", "resources", lambda resource: resource.uri, "entries"
)
TEMPLATES = Kind(
    "resources/templates/list",
    "resourceTemplates",
    "resource templates",
    lambda template: template.uri_template,
    "entries",
)
_NOT_FOUND = frozenset({-32002, -32602})


@dataclass(frozen=True, slots=True)
class ResourceResult:
    """The contents of a resource: usually one piece; for a folder, any number."""

    contents: tuple[ResourceContents, ...]
    server: str
    uri: str
    """The URI that was read."""
    rejected: tuple[Rejected, ...] = ()
    """Invalid pieces, each with its reason; ``raw`` has them as they came."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The result as it came, ``ttlMs`` and ``cacheScope`` included."""

    @classmethod
    def from_wire(cls, result: dict[str, Any], server: str, uri: str) -> ResourceResult:
        """Raises ``ValueError`` where the result is not what the specification says."""
        found = result.get("contents")
        if type(found) is not list:
            raise ValueError("contents is not an array")
        contents, rejected = [], []
        for piece in found:
            try:
                contents.append(ResourceContents.from_wire(piece))
            except ValueError as error:
                name = piece.get("uri") if type(piece) is dict else ""
                shown = safe_text(name, 128) if type(name) is str else ""
                rejected.append(Rejected(shown, str(error)))
        return cls(tuple(contents), server, uri, tuple(rejected), result)

    @property
    def meta(self) -> Mapping[str, Any]:
        meta = self.raw.get("_meta")
        return meta if isinstance(meta, dict) else {}

    def __repr__(self) -> str:
        left_out = f", {len(self.rejected)} rejected" if self.rejected else ""
        return f"<ResourceResult of {safe_text(self.uri, 200)}: {brief(self.contents)}{left_out}>"

    @property
    def text(self) -> str:
        """All of it as text for a model: the text itself of one piece, and of several each below a
        line that names it. What is not text is named in brackets, never omitted."""
        if len(self.contents) == 1 and not self.rejected and self.contents[0].text is not None:
            return self.contents[0].text
        left_out = [f"[left out: {one.name or 'a piece'}, {one.reason}]" for one in self.rejected]
        return "\n".join([*map(str, self.contents), *left_out])


def resource_list(source: ListSource, subscription: ListSubscription) -> PagedEntries[Resource]:
    def read(entry: Any, server: str) -> Resource:
        return Resource.from_wire(entry, server, source.origin())

    return PagedEntries(RESOURCES, read, source, subscription)


def template_list(
    source: ListSource, subscription: ListSubscription
) -> PagedEntries[ResourceTemplate]:
    def read(entry: Any, server: str) -> ResourceTemplate:
        return ResourceTemplate.from_wire(entry, server, source.origin())

    return PagedEntries(TEMPLATES, read, source, subscription)


async def read(ask: FetchResult, server: str, uri: str) -> ResourceResult:
    try:
        result = await ask("resources/read", {"uri": uri})
    except ServerError as error:
        if error.code in _NOT_FOUND:
            raise _not_found(error, uri) from None
        raise
    try:
        return ResourceResult.from_wire(result, server, uri)
    except ValueError as error:
        raise ProtocolViolation(
            f"invalid resource result: {error}", result=result, server=server
        ) from None


def uri_of(uri: object) -> str:
    """``uri``, if it can be sent. Raises ``InvalidArguments``."""
    if not isinstance(uri, str):
        raise InvalidArguments(f"the uri is a {type(uri).__name__}: give a string")
    reason = usable_uri(uri)
    if reason is not None:
        raise InvalidArguments(f"the uri {safe_text(uri, 80)!r} {reason}")
    return uri


def linked(link: object, server: str, origin: str) -> str:
    """The URI of a link from a result of this session. Raises ``InvalidArguments``."""
    if not isinstance(link, ResourceLink):
        raise InvalidArguments(
            f"follow takes a ResourceLink of a result, and not a {type(link).__name__}; "
            "read_resource reads a uri of your own"
        )
    if link._origin != origin:
        whose = f"another session, with {link.server!r}" if link._origin else "no session's result"
        raise InvalidArguments(
            f"the link is from {whose}: follow it on the session whose result it is from",
            server=server,
        )
    return uri_of(link.uri)


def _not_found(error: ServerError, uri: str) -> ServerError:
    """The same error, naming the resource that was not found.

    -32002 has no other meaning; -32602 has, unless the error's data names the URI (2026-07-28).
    """
    if error.code != -32002 and not _is_about(error.data, uri):
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


def _is_about(data: Any, uri: str) -> bool:
    return type(data) is dict and data.get("uri") == uri
