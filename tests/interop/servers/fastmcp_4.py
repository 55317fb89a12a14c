"""A server on FastMCP 4: sums, reports the weather, fails."""

from dataclasses import dataclass
from typing import Literal

from fastmcp import FastMCP  # type: ignore[import-not-found,unused-ignore]
from fastmcp.exceptions import ToolError  # type: ignore[import-not-found,unused-ignore]

server = FastMCP("fast")


@dataclass
class Weather:
    place: str
    degrees: float


def add(a: int, b: int = 1) -> int:
    """The sum."""
    return a + b


def weather(place: str, unit: Literal["C", "F"] = "C") -> Weather:
    """How warm it is."""
    return Weather(place, 22.5 if unit == "C" else 72.5)


def fail(reason: str) -> str:
    """Fail."""
    raise ToolError(reason)


for tool in (add, weather, fail):
    server.tool(tool)

if __name__ == "__main__":
    server.run(show_banner=False)
