"""Generate a typed module for a server's tools, and call a tool with it."""

import sys
import tempfile
from pathlib import Path

from mcp_client import StdioServer, allow_all
from mcp_client.stubs import generate
from mcp_client.sync import connect

WEATHER = StdioServer(sys.executable, [str(Path(__file__).parents[1] / "servers" / "weather.py")])

with connect(WEATHER, approval=allow_all) as session, tempfile.TemporaryDirectory() as directory:
    module = Path(directory, "weather.py")
    module.write_text(generate(session.list_tools()))  # your project stores this file

    sys.path.insert(0, directory)
    from weather import WeatherSync  # type: ignore[import-not-found]

    weather = WeatherSync(session, timeout=10)
    print(weather.get_weather(location="Oslo")["temperature"])
