"""The offers of a server besides tools, as it lists and sends it: resources, prompts, completions.

All values are frozen. ``from_wire`` raises ``ValueError`` with the reason why an entry is rejected;
optional members of a wrong type are None.

2026-07-28 ``server/resources`` (data types), ``server/prompts`` and
``server/utilities/completion``; the same since 2024-11-05, with ``title`` since 2025-06-18 and
icons since 2025-11-25.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import InvalidArguments
from ..runtime.safe_text import invisible
from .content import ContentBlock, Contents, content_block
from .metadata import Metadata, size_or_none, texts_in
from .uris import BadTemplate, expand, variables

if TYPE_CHECKING:
    from .metadata import Origin

__all__ = [
    "Completion",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "Resource",
    "ResourceContents",
    "ResourceTemplate",
    "ResourceUpdate",
    "is_visible",
    "usable_uri",
]

_MAX_URI_CHARS = 65_536


@dataclass(frozen=True, slots=True)
class Resource(Metadata):
    """A resource of a server; ``read_resource(resource.uri)`` requests its contents.

    ``uri``, ``name``, ``title`` and ``mime_type`` are the server's.
    """

    uri: str
    name: str
    title: str | None
    description: str | None
    """Text from the server, not trusted, as are name and title."""
    mime_type: str | None
    size: int | None
    """The size in bytes, if the server states it."""
    server: str
    """The name the host gave the server."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The entry as it came."""
    _origin: Origin | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_wire(cls, entry: Any, server: str, origin: Origin | None = None) -> Resource:
        """Parse an entry of a list.

        Args:
            entry: The entry.
            server: The host's name for the server.
            origin: The origin of the server, if it is at a URL.

        Raises:
            ValueError: The reason why the entry is rejected.
        """
        uri, name = _identity(entry, "uri")
        reason = usable_uri(uri)
        if reason is not None:
            raise ValueError(f"its uri {reason}")
        title, about, media = texts_in(entry, "title", "description", "mimeType")
        return cls(uri, name, title, about, media, size_or_none(entry), server, entry, origin)


@dataclass(frozen=True, slots=True)
class ResourceTemplate(Metadata):
    """A family of resources: a ``uri_template`` (RFC 6570), whose variables the host fills in.

    ``name``, ``title``, ``description`` and ``mime_type`` are the server's.
    """

    uri_template: str
    name: str
    title: str | None
    description: str | None
    mime_type: str | None
    server: str
    """The name the host gave the server."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The entry as it came."""
    _origin: Origin | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_wire(cls, entry: Any, server: str, origin: Origin | None = None) -> ResourceTemplate:
        """Parse an entry. Raises ``ValueError`` with the reason if it is rejected."""
        template, name = _identity(entry, "uriTemplate")
        try:
            variables(template)
        except BadTemplate as error:
            raise ValueError(f"its uriTemplate is invalid: {error}") from None
        title, about, media = texts_in(entry, "title", "description", "mimeType")
        return cls(template, name, title, about, media, server, entry, origin)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables, each once, in order."""
        return variables(self.uri_template)

    def expand(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> str:
        """The URI with ``values`` filled in. Names that are not Python identifiers go in a dict.

        All of RFC 6570, levels 1 to 4: a value is a string, a number, a list or a mapping; a value
        that is missing or None is omitted. Reserved characters in values are percent-encoded,
        except in ``{+name}`` and ``{#name}``, where the server's template allows ``/``, ``?`` and
        the like.

        Raises ``InvalidArguments`` for a name that the template does not have, a value of another
        type, a value that would make ``.`` or ``..`` a segment of the path, or a URI of more than
        65,536 characters.
        """
        values_by_name = {**(values or {}), **named}
        unknown = [name for name in values_by_name if name not in self.variables]
        if unknown:
            raise InvalidArguments(
                f"the template has no variable {unknown[0]!r}; it has: "
                f"{', '.join(self.variables) or 'none'}",
                server=self.server,
            )
        try:
            return expand(self.uri_template, values_by_name, longest=_MAX_URI_CHARS)
        except ValueError as error:
            raise InvalidArguments(str(error), server=self.server) from None


@dataclass(frozen=True, slots=True, repr=False)
class ResourceContents(Contents):
    """The contents of a resource: ``text``, or ``blob`` in Base64; one of them is None.

    ``mime_type`` is the server's.
    """

    uri: str
    """The URI of these contents: a directory may return the contents of the files in it."""
    mime_type: str | None
    text: str | None
    blob: str | None
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The contents as the server sent them."""

    @classmethod
    def from_wire(cls, entry: Any) -> ResourceContents:
        """Parse an entry. Raises ``ValueError`` if it is invalid."""
        if type(entry) is not dict or type(entry.get("uri")) is not str:
            raise ValueError("it is not a JSON object with a uri")
        media, text, blob = texts_in(entry, "mimeType", "text", "blob")
        if (text is None) == (blob is None):
            raise ValueError("it has neither text nor blob, or both")
        return cls(entry["uri"], media, text, blob, entry)


@dataclass(frozen=True, slots=True)
class ResourceUpdate:
    """A resource that was subscribed to has changed; ``read_resource`` returns its contents."""

    uri: str
    """The URI that the server sent: it may be that of a part of the watched resource."""
    certain: bool = True
    """False where the stream was lost, so that a change may have been missed."""


def usable_uri(uri: str) -> str | None:
    """Return why a URI cannot be used, or None. Whether it exists is not checked."""
    if not uri or uri.isspace():
        return "is empty"
    if len(uri) > _MAX_URI_CHARS:
        return f"has more than {_MAX_URI_CHARS} characters"
    return None if is_visible(uri) else "has invisible characters"


def is_visible(text: str) -> bool:
    """Whether a person sees all characters of ``text``, and of white space not all."""
    return text.isprintable() and not text.isspace() and not invisible(text)


def _identity(entry: Any, member: str) -> tuple[str, str]:
    if type(entry) is not dict:
        raise ValueError("it is not a JSON object")
    key, name = entry.get(member), entry.get("name")
    if type(key) is not str or not key:
        raise ValueError(f"its {member} is missing, empty or not a string")
    if type(name) is not str:
        raise ValueError("its name is missing or not a string")
    return key, name


_ROLES = ("user", "assistant")
_MAX_VALUES = 100


@dataclass(frozen=True, slots=True)
class PromptArgument(Metadata):
    """An argument of a prompt: ``name``, ``title`` and ``description`` are the server's.

    ``required`` is whether ``get_prompt`` needs it; ``raw`` is the entry as the server sent it.
    """

    name: str
    title: str | None
    description: str | None
    required: bool
    raw: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Prompt(Metadata):
    """A prompt that a person may choose: ``get_prompt(prompt.name, arguments)`` requests it.

    ``arguments`` needs a value for each of its ``arguments`` that is required. ``name`` and
    ``title`` are the server's.
    """

    name: str
    title: str | None
    description: str | None
    """Text from the server, not trusted, as is all of a prompt."""
    arguments: tuple[PromptArgument, ...]
    server: str
    """The name the host gave the server."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The entry as it came."""
    _origin: Origin | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_wire(cls, entry: Any, server: str, origin: Origin | None = None) -> Prompt:
        """Parse an entry of a list.

        Args:
            entry: The entry.
            server: The host's name for the server.
            origin: The origin of the server, if it is at a URL.

        Raises:
            ValueError: The reason why the entry is rejected.
        """
        if type(entry) is not dict:
            raise ValueError("it is not a JSON object")
        name, arguments = entry.get("name"), entry.get("arguments")
        if type(name) is not str or not name or name.isspace():
            raise ValueError("its name is missing, empty or not a string")
        if arguments is not None and type(arguments) is not list:
            raise ValueError("its arguments are not an array")
        title, about = texts_in(entry, "title", "description")
        asked = tuple(map(_argument, arguments or ()))
        return cls(name, title, about, asked, server, entry, origin)


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt, for a model: untrusted text that a person asked for."""

    role: str
    """"user" or "assistant"."""
    content: ContentBlock
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @classmethod
    def from_wire(cls, message: Any, server: str, origin: str = "") -> PromptMessage:
        """Parse a message. Raises ``ValueError`` if it is invalid.

        A text is a block of text, and a list of one block is that block.
        """
        if type(message) is not dict or message.get("role") not in _ROLES:
            raise ValueError("a message is not a JSON object with the role 'user' or 'assistant'")
        content = message.get("content")
        content = content[0] if type(content) is list and len(content) == 1 else content
        content = {"type": "text", "text": content} if type(content) is str else content
        return cls(message["role"], content_block(content, server, origin), message)

    def __str__(self) -> str:
        return str(self.content)


@dataclass(frozen=True, slots=True)
class Completion:
    """The server's suggestions for an argument, the best first."""

    values: tuple[str, ...]
    """The suggestions: at most 100, without values that are not str."""
    total: int | None
    """The total number of suggestions, if the server states it."""
    has_more: bool
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The result as it came."""

    @classmethod
    def from_wire(cls, result: Mapping[str, Any]) -> Completion:
        """Parse a result. Raises ``ValueError`` if it is invalid."""
        found = result.get("completion")
        values = found.get("values", ()) if type(found) is dict else ()
        values = [] if values is None else values
        if type(found) is not dict or type(values) is not list:
            raise ValueError("it has no array of values")
        total = found.get("total")
        texts = [value for value in values if type(value) is str]
        return cls(
            tuple(texts[:_MAX_VALUES]),
            total if type(total) is int and total >= 0 else None,
            found.get("hasMore") is True or len(texts) > _MAX_VALUES,
            result,
        )


def _argument(argument: Any) -> PromptArgument:
    if type(argument) is not dict or type(argument.get("name")) is not str:
        raise ValueError("one of its arguments is not a JSON object with a name")
    title, about = texts_in(argument, "title", "description")
    return PromptArgument(
        argument["name"], title, about, argument.get("required") is True, argument
    )
