"""The view of a tool as its server sends it: HTML, and with what rights a host may show it.

2026-01-26 ``apps`` (UI resource format) of the extension ``io.modelcontextprotocol/ui``. Nothing is
shown here, and nothing in the HTML is looked at. It is the server's code: a host shows it in a
sandboxed iframe of another origin, under ``csp``, with no more than ``allow``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..catalog.finding import Finding
from ..catalog.library import ResourceResult
from ..errors import ProtocolViolation
from ..protocol.canonical_json import canonical, sha256
from ..protocol.offers import Resource, ResourceContents
from ..protocol.uris import allow_of, host_of, policy_of
from ..runtime.safe_text import safe_text

__all__ = ["MIME_TYPE", "UiResource", "has_own_rights"]

MIME_TYPE = "text/html;profile=mcp-app"
_SCHEME = "ui://"
_UI = "ui"


@dataclass(frozen=True, slots=True)
class UiResource:
    """The view of a tool: what to load, and with what rights."""

    uri: str
    """The URI of the view, which begins with ``ui://``."""
    html: str = field(repr=False)
    """A document from the server, not trusted."""
    csp: str
    """The value of the header ``Content-Security-Policy`` that the document must be served with."""
    allow: str
    """The ``allow`` attribute of its iframe: the browser permissions that the server asks for,
    which a host may grant or not. Empty if it asks for none."""
    domain: str | None
    """The dedicated origin that the server asks for. Its form is the host's to define: compare it
    with your own, never take it as it is."""
    prefers_border: bool | None
    """Whether the host should draw a border; None leaves it to the host."""
    domains: tuple[str, ...] = ()
    """The outside domains that ``csp`` lets the view reach. A host should show them to the
    person."""
    findings: tuple[Finding, ...] = ()
    """The requests of the server that are not granted, and other problems: safe to show."""
    server: str = ""
    """The name the host gave the server."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The ``contents[0]`` of the result, as it came."""

    @property
    def digest(self) -> str:
        """SHA-256 of the document and its rights: equal as long as the same would be shown."""
        parts = [self.server, self.uri, self.csp, self.allow, self.domain, self.html]
        return "sha256:" + sha256(canonical(parts))

    @classmethod
    def from_result(
        cls,
        result: ResourceResult,
        listed: Resource | None = None,
        *,
        most: int,
        local: bool = False,
    ) -> UiResource:
        """Return the view in the result of reading it.

        Args:
            result: The result of ``resources/read``.
            listed: The view's entry in the server's list, which counts if the contents have no
                ``_meta.ui``.
            most: The maximum size in bytes.
            local: Whether the server is on this machine, which no other server's view may reach.

        Raises:
            ProtocolViolation: If the document is malformed or too large.
        """
        first = _first(result)
        if first.mime_type != MIME_TYPE:
            media = "no mimeType"
            if first.mime_type is not None:
                media = f"the mimeType {safe_text(first.mime_type, 100)!r}"
            raise _broken(result, f"it has {media}, and must have {MIME_TYPE!r}")
        if not first.uri.startswith(_SCHEME):
            raise _broken(result, f"its uri {safe_text(first.uri, 100)!r} is not a ui:// URI")
        html = _html(result, first, most)
        ui, wrong = _ui_of(first, listed)
        policy = policy_of(ui.get("csp"), local=local)
        allow, refused = allow_of(ui.get("permissions"))
        left_out = [*policy.left_out, *refused]
        if first.uri != result.uri:
            wrong.append(f"its contents have another uri: {safe_text(first.uri, 100)!r}")
        if len(result.contents) + len(result.rejected) > 1:
            wrong.append("it has more than one piece of contents: the first one counts")
        domain, border = ui.get("domain"), ui.get("prefersBorder")
        if domain is not None and host_of(domain) is None:
            wrong.append("_meta.ui.domain is not the name of a host: ignored")
            domain = None
        if border is not None and type(border) is not bool:
            wrong.append("_meta.ui.prefersBorder is neither true nor false: ignored")
            border = None
        findings = [Finding("left_out", text) for text in left_out]
        findings += [Finding("invalid_metadata", text) for text in wrong]
        return cls(
            uri=result.uri,
            html=html,
            csp=policy.header,
            allow=allow,
            domain=domain,
            prefers_border=border,
            domains=policy.domains,
            findings=tuple(findings),
            server=result.server,
            raw=first.raw,
        )


def has_own_rights(result: ResourceResult) -> bool:
    """Whether the contents state themselves with what rights to show them."""
    return bool(result.contents) and _UI in result.contents[0].meta


def _first(result: ResourceResult) -> ResourceContents:
    pieces = result.raw["contents"]
    if not pieces:
        raise _broken(result, "it has no contents")
    if not result.contents or result.contents[0].raw is not pieces[0]:
        raise _broken(result, result.rejected[0].reason)
    return result.contents[0]


def _html(result: ResourceResult, first: ResourceContents, most: int) -> str:
    size = len(first.text) if first.text is not None else len(first.blob or "") * 3 // 4 - 2
    try:
        if size <= most:
            data = first.bytes if first.text is None else first.text.encode()
            size = len(data)
            if size <= most:
                return data.decode()
    except UnicodeError:
        raise _broken(result, "its document is not UTF-8") from None
    except ProtocolViolation as error:
        raise _broken(result, error.message) from None
    raise _broken(result, f"its document has more than {most:,} bytes, Limits(view_bytes=...)")


def _ui_of(first: ResourceContents, listed: Resource | None) -> tuple[Mapping[str, Any], list[str]]:
    """``_meta.ui`` of the contents, else of the list; what is wrong with it."""
    meta = first.meta if _UI in first.meta or listed is None else listed.meta
    ui = meta.get(_UI)
    if ui is None or type(ui) is dict:
        return ui or {}, []
    return {}, ["_meta.ui is not a JSON object: ignored"]


def _broken(result: ResourceResult, why: str) -> ProtocolViolation:
    return ProtocolViolation(
        f"the view {safe_text(result.uri, 200)!r} cannot be shown: {why}",
        result=result.raw,
        server=result.server,
    )
