"""MCP Apps on the official SDK 2.x for Python, over stdio."""

from mcp.server.apps import (  # type: ignore[import-not-found,unused-ignore]
    Apps,
    ResourceCsp,
    ResourcePermissions,
    client_supports_apps,
)
from mcp.server.mcpserver import (  # type: ignore[import-not-found,unused-ignore]
    Context,
    MCPServer,
)

VIEW = "ui://clock/app.html"
apps = Apps()


@apps.tool(resource_uri=VIEW)  # type: ignore[misc,untyped-decorator,unused-ignore]
def show(ctx: Context) -> str:
    return "a view" if client_supports_apps(ctx) else "no view"


@apps.tool(resource_uri=VIEW, visibility=["app"])  # type: ignore[misc,untyped-decorator,unused-ignore]
def refresh() -> str:
    return "refreshed"


@apps.tool(resource_uri=VIEW, visibility=["model"])  # type: ignore[misc,untyped-decorator,unused-ignore]
def model_only() -> str:
    return "for the model"


apps.add_html_resource(
    VIEW,
    "<!doctype html><p>14:50",
    csp=ResourceCsp(connect_domains=["https://time.example.com"], frame_domains=["*"]),
    permissions=ResourcePermissions(clipboard_write={}),
    prefers_border=True,
)

MCPServer("clock", extensions=[apps]).run()
