"""The facts about a session and its server: nothing here waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..connection.connection import Connection
from ..protocol.capabilities import Implementation, declared_extensions
from ..transports.base import Transport

if TYPE_CHECKING:
    from ..catalog.tools import Catalog
    from ..sandbox.sandbox import Confinement
    from .session_options import Setup

__all__ = ["FactsOfSession"]


class FactsOfSession:
    """The part of ``Session`` that describes the connection and the server."""

    name: str
    _connection: Connection
    _catalog: Catalog
    _setup: Setup

    @property
    def _transport(self) -> Transport:
        return self._connection.transport

    @property
    def generation(self) -> int:
        """The number of connections that the session has had."""
        return self._connection.generation

    @property
    def server_info(self) -> Implementation | None:
        """The server's own name and version, or None: for display, never for a decision."""
        info = self._connection.rpc.era.server.info
        return None if info is None else info.of_origin(self._connection.transport.origin)

    @property
    def protocol_version(self) -> str:
        """The revision agreed on."""
        return self._connection.rpc.era.revision

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The capabilities that the server declares, unchanged."""
        return self._connection.rpc.era.server.capabilities

    @property
    def sandbox(self) -> Confinement | None:
        """The restrictions of the server's process, or None; ``.sentences`` explains them."""
        return self._transport.sandbox

    @property
    def extensions(self) -> Mapping[str, Mapping[str, Any]]:
        """The extensions that the server declares, with their settings; immutable."""
        return declared_extensions(self._connection.rpc.era.server.capabilities)

    @property
    def instructions(self) -> str | None:
        """The server's advice for a model: untrusted text."""
        return self._connection.rpc.era.server.instructions

    @property
    def _model_instructions(self) -> dict[str, str]:
        """The instructions, by the server's name, as far as a model may be shown them.

        With a lock file these are the pinned ones, once the tools were listed.
        """
        pinned = self._catalog.instructions
        text = self.instructions if self._setup.pins is None else pinned
        return {} if text is None else {self.name: text}

    @property
    def server_response(self) -> Mapping[str, Any]:
        """The complete result of ``initialize`` or ``server/discover``: untrusted.

        If the session has had several connections, this is the newest result.
        """
        return self._connection.rpc.era.server.raw

    @property
    def session_id(self) -> str | None:
        """The id that the server assigned to the session (``Mcp-Session-Id``), or None.

        Only Streamable HTTP of the handshake era has one. It changes when the session is opened
        again. It is a secret: a server may accept requests from anyone who has it.
        """
        return self._transport.session_id
