"""The stateless era: every request carries the client's name, revision and capabilities.

Revision 2026-07-28: ``basic/index`` (``_meta``, result types), ``server/discover``,
``basic/patterns/subscriptions``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .capabilities import ClientDeclaration, ServerFacts
from .era import Complete, Era, ExtensionResult, InputRequired, Malformed, Reading, _id
from .headers import NAMED_BY, HeaderParam, mirrored, name_header, request_headers
from .jsonrpc import Id, Json, Notification, dump, encode_fields, encode_members
from .notifications import CANCELLED

__all__ = ["StatelessEra", "discover_params"]

_PREFIX = "io.modelcontextprotocol/"
_LOG_LEVEL = _PREFIX + "logLevel"


class StatelessEra(Era):
    closing_cancels = True
    server_may_ask = False
    listens = True
    mirrors = True

    def __init__(self, revision: str, server: ServerFacts, client: ClientDeclaration) -> None:
        super().__init__(revision, server)
        self._stamp = _stamp(revision, client)
        self._reserved = tuple(_own_meta(revision, client))
        self._additions = client.additions

    @classmethod
    def from_discover(
        cls, revision: str, result: Mapping[str, Any], client: ClientDeclaration
    ) -> StatelessEra:
        meta = result.get("_meta")
        said = meta.get(_PREFIX + "serverInfo") if isinstance(meta, dict) else None
        facts = ServerFacts.from_wire(result, said or result.get("serverInfo"))
        return cls(revision, facts, client)

    def params(
        self,
        fields: Mapping[str, Any],
        meta: Mapping[str, Any] | None,
        token: Id | None,
        log_level: str | None = None,
    ) -> str:
        # Our part of ``_meta`` is always the same, so its text is made once.
        body = encode_members(fields)
        own = self._stamp
        if log_level is not None and not (meta and _LOG_LEVEL in meta):
            own = f'{own},"{_LOG_LEVEL}":"{log_level}"'
        if token is not None:
            shown = token if type(token) is int else dump(token)
            own = f'{own},"progressToken":{shown}'
        if meta:
            reserved = (*self._reserved, "progressToken")
            rest = encode_members({k: v for k, v in meta.items() if k not in reserved})
            own = f"{own},{rest}" if rest else own
        return f'{{{body},"_meta":{{{own}}}}}' if body else f'{{"_meta":{{{own}}}}}'

    def headers(
        self, method: str, fields: Mapping[str, Any], mirrors: Sequence[HeaderParam] = ()
    ) -> Mapping[str, str]:
        name = fields.get(NAMED_BY.get(method, ""))
        headers = dict(request_headers(method, name if type(name) is str else None))
        if method in self._additions.named_by:
            headers.update(name_header(fields.get(self._additions.named_by[method])))
        if mirrors:
            headers.update(mirrored(mirrors, fields["arguments"]))
        return headers

    def read(self, result: object, method: str = "") -> Reading:
        if type(result) is not dict:
            raise Malformed("the result is not a JSON object")
        kind = result.get("resultType", "complete")
        if kind == "complete":
            return Complete(result)
        if kind != "input_required":
            kind, added = str(kind), self._additions.results
            if method in added.get(kind, ()):
                return ExtensionResult(kind, result)
            what = (
                f"no result of {method} may have"
                if kind in added
                else "this revision does not have"
            )
            raise Malformed(f"resultType is {kind[:40]!r}, which {what}")
        questions, state = result.get("inputRequests"), result.get("requestState")
        if questions is None and state is None:
            raise Malformed("input_required with neither inputRequests nor requestState")
        if not isinstance(questions, dict | None) or not isinstance(state, str | None):
            raise Malformed("inputRequests is not an object, or requestState is not a string")
        return InputRequired(questions or {}, state, result)

    def owner(self, notice: Notification) -> Id | None:
        meta = notice.params.get("_meta")
        if isinstance(meta, dict) and _PREFIX + "subscriptionId" in meta:
            return _id(meta[_PREFIX + "subscriptionId"])
        if notice.method == CANCELLED:  # the server asks nothing itself: it can only be of ours
            return _id(notice.params.get("requestId"))
        return super().owner(notice)


def discover_params(revision: str, client: ClientDeclaration) -> str:
    return encode_fields({"_meta": Json("{" + _stamp(revision, client) + "}")})


def _own_meta(revision: str, client: ClientDeclaration) -> dict[str, Any]:
    return {
        _PREFIX + "protocolVersion": revision,
        _PREFIX + "clientInfo": client.info.to_wire(),
        _PREFIX + "clientCapabilities": client.declared_in(revision),
    }


def _stamp(revision: str, client: ClientDeclaration) -> str:
    return encode_members(_own_meta(revision, client))
