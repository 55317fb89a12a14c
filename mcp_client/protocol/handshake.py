"""The handshake era: ``initialize``, then requests in both directions.

Revisions 2024-11-05, 2025-03-26, 2025-06-18 and 2025-11-25, each at ``basic/lifecycle``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .capabilities import ClientDeclaration, ServerFacts, declared_in
from .era import Complete, Era, Malformed, Reading
from .jsonrpc import Id, Json, encode_fields

__all__ = ["HandshakeEra", "initialize_params"]


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
        if meta or token is not None:
            own = {} if token is None else {"progressToken": token}
            fields = {**fields, "_meta": Json(encode_fields({**(meta or {}), **own}))}
        return encode_fields(fields)

    def read(self, result: object) -> Reading:
        if type(result) is not dict:
            raise Malformed("the result is not a JSON object")
        return Complete(result)


def initialize_params(revision: str, client: ClientDeclaration) -> str:
    return encode_fields(
        {
            "protocolVersion": revision,
            "capabilities": declared_in(revision, client.capabilities),
            "clientInfo": client.info.to_wire(),
        }
    )
