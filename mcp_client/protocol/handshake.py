"""The handshake era: ``initialize``, then requests in both directions.

Revisions 2024-11-05, 2025-03-26, 2025-06-18 and 2025-11-25, each at ``basic/lifecycle``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .capabilities import ClientDeclaration, ServerFacts
from .era import Complete, Era, Malformed, Reading
from .jsonrpc import Id, encode_fields, encode_members

__all__ = ["HandshakeEra", "initialize_params"]

_PROGRESS = "progressToken"
"""Given by us alone: it must be unique among the requests under way (2025-11-25
``basic/utilities/progress``)."""


class HandshakeEra(Era):
    closing_cancels = False
    server_may_ask = True
    listens = False
    mirrors = False

    @classmethod
    def from_initialize(cls, revision: str, result: Mapping[str, Any]) -> HandshakeEra:
        return cls(revision, ServerFacts.from_wire(result, result.get("serverInfo")))

    def params(
        self,
        fields: Mapping[str, Any],
        meta: Mapping[str, Any] | None,
        token: Id | None,
        log_level: str | None = None,
    ) -> str:
        body = encode_members(fields)
        own = {} if meta is None else {k: v for k, v in meta.items() if k != _PROGRESS}
        if token is not None:
            own[_PROGRESS] = token
        if not own:
            return f"{{{body}}}"
        shown = f'"_meta":{encode_fields(own)}'
        return f"{{{body},{shown}}}" if body else f"{{{shown}}}"

    def read(self, result: object, method: str = "") -> Reading:
        if type(result) is not dict:
            raise Malformed("the result is not a JSON object")
        return Complete(result)


def initialize_params(revision: str, client: ClientDeclaration) -> str:
    return encode_fields(
        {
            "protocolVersion": revision,
            "capabilities": client.declared_in(revision),
            "clientInfo": client.info.to_wire(),
        }
    )
