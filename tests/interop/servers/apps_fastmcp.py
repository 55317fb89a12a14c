"""MCP Apps on FastMCP, over stdio."""

from fastmcp import FastMCP  # type: ignore[import-not-found,unused-ignore]
from fastmcp.apps import (  # type: ignore[import-not-found,unused-ignore]
    AppConfig,
    ResourceCSP,
    ResourcePermissions,
)

VIEW = "ui://clock/app.html"
RIGHTS = AppConfig(
    csp=ResourceCSP(connectDomains=["https://time.example.com"], frameDomains=["*"]),
    permissions=ResourcePermissions(clipboardWrite={}),
    prefersBorder=True,
)
mcp = FastMCP("clock")


def show() -> str:
    return "14:50"


def refresh() -> str:
    return "14:51"


def model_only() -> str:
    return "for the model"


def view() -> str:
    return "<!doctype html><p>14:50"


mcp.tool(show, app=AppConfig(resourceUri=VIEW))
mcp.tool(refresh, app=AppConfig(resourceUri=VIEW, visibility=["app"]))
mcp.tool(model_only, app=AppConfig(resourceUri=VIEW, visibility=["model"]))
mcp.resource(VIEW, app=RIGHTS)(view)
mcp.run(show_banner=False)
