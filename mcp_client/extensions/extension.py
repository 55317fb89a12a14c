"""Declaring the host program and its extensions to the server: ``connect(client_info=...)``.

2026-07-28 ``basic/versioning`` (extension negotiation). An extension is declared with its settings
in the client's capabilities: with every request in the stateless era, with ``initialize`` in the
handshake era. What an extension then means is between the server and the host, except for those
that this package knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, field, replace
from typing import Any

from ..errors import ConfigError
from ..protocol.canonical_json import NotJson, canonical_of, frozen, plain
from ..protocol.capabilities import (
    TOOLS_CALL,
    Additions,
    ClientDeclaration,
    Implementation,
    is_extension_id,
)
from ..runtime.frozen import frozen_dataclass
from ..runtime.option_names import with_option_names
from ..runtime.safe_text import safe_text

__all__ = ["SKILLS", "TASKS", "ClientInfo", "Extension"]

TASKS = "io.modelcontextprotocol/tasks"
"""The server may create a task for a call: see ``tasks``."""

SKILLS = "io.modelcontextprotocol/skills"
"""The server has skills: see ``skills``. Nothing needs to be declared by the client."""

_TASK_METHODS = ("tasks/get", "tasks/update", "tasks/cancel")
# Examples of the extension's page respond to ``tasks/get`` with the type that creates a task.
_ADDITIONS = {
    TASKS: Additions(
        results={"task": frozenset({TOOLS_CALL, "tasks/get"})},
        named_by=dict.fromkeys(_TASK_METHODS, "taskId"),
        stateless_only=frozenset({TASKS}),
    )
}
"""The additions of the known extensions to the protocol, by identifier."""


@frozen_dataclass
class Extension:
    """An extension that the host supports: its identifier, and its settings as a JSON object.

    The identifier has a prefix, a slash and a name: ``com.example/x``. Raises ``ConfigError``.
    """

    id: str
    """The identifier, such as ``com.example/x``: a prefix, a slash and a name."""
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Immutable once given."""

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not is_extension_id(self.id):
            raise ConfigError(
                f"Extension({safe_text(self.id, 80)!r}): give an identifier such as "
                "'com.example/x': a prefix of labels with dots, a slash, and a name that begins "
                "and ends with a letter or digit"
            )
        if not isinstance(self.settings, Mapping):
            raise ConfigError(f"Extension({self.id!r}, ...): give the settings as a dict")
        try:
            settings = plain(self.settings)
            canonical_of(settings)
            object.__setattr__(self, "settings", frozen(settings))
        except NotJson as error:
            raise ConfigError(
                f"Extension({self.id!r}, ...): the settings are not JSON: {error}"
            ) from None


@with_option_names()
@frozen_dataclass
class ClientInfo:
    """A description of the host program, which servers are given: ``ClientInfo("my-app", "1.0")``.

    Raises ``ConfigError`` for a wrong value, and for an extension that is listed twice.
    """

    name: str
    """The name of the program."""
    version: str
    """The version of the host program."""
    _: KW_ONLY
    title: str | None = None
    """The name to show to people."""
    extensions: Sequence[Extension] | None = field(default=(), hash=False)
    """The extensions to declare, ``[Extension("com.example/x", {...})]``. Tasks are declared as
    well, because this client waits for them. None declares nothing. The server's own extensions
    are in ``session.extensions``."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    """Other members to send, such as ``websiteUrl``."""

    def __post_init__(self) -> None:
        for member in ("name", "version", "title"):
            value = getattr(self, member)
            if not isinstance(value, str) and (member != "title" or value is not None):
                raise ConfigError(f"ClientInfo({member}={safe_text(value, 80)!r}): give a str")
        if self.extensions is not None:
            object.__setattr__(self, "extensions", _checked(self.extensions))

    def declaration(self, capabilities: Mapping[str, Any]) -> ClientDeclaration:
        """Return the declaration for servers: this, with the ``capabilities`` of the handlers."""
        info = Implementation(self.name, self.version, self.title, self.raw)
        client = ClientDeclaration(info, capabilities)
        if self.extensions is None:
            return client
        settings: dict[str, Mapping[str, Any]] = {
            TASKS: {},
            **{one.id: one.settings for one in self.extensions},
        }
        additions = Additions.together(_ADDITIONS[id] for id in settings if id in _ADDITIONS)
        return replace(client.with_extensions(settings), additions=additions)


def _checked(extensions: Any) -> tuple[Extension, ...]:
    """Raise ``ConfigError`` for what is not a list of extensions, or lists one twice."""
    if isinstance(extensions, str | bytes | Mapping) or not isinstance(extensions, Sequence):
        raise ConfigError(
            f"ClientInfo(extensions=...) is a {type(extensions).__name__}: give a list, "
            "[Extension(...)], or None to declare nothing"
        )
    seen = set[str]()
    for one in extensions:
        if not isinstance(one, Extension):
            raise ConfigError(
                f"ClientInfo(extensions=[...]): {safe_text(one, 80)!r} is a {type(one).__name__}: "
                "give Extension('com.example/x', {...})"
            )
        if one.id in seen:
            raise ConfigError(f"ClientInfo(extensions=[...]): {one.id!r} appears twice")
        seen.add(one.id)
    return tuple(extensions)
