"""A pytest plugin: programs on the official SDK run their tests over this client.

``mcp.ClientSession`` becomes a session of ours in that shape, over whatever streams the program
gives it. ``frameworks.py`` loads it into the programs' own test runs; it writes what became of each
test, and how many sessions were opened, to the file of ``FRAMEWORKS_REPORT``.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp_client import Timeouts, allow_all, connect
from mcp_client.adapters import official, official_sdk
from mcp_client.extensions import ClientInfo
from mcp_client.transports import StreamServer

outcomes: dict[str, str] = {}
opened = [0]
began = time.monotonic()


class CarriedSession(official.OfficialSession):
    """What the programs construct in the place of ``mcp.ClientSession``."""

    def __init__(
        self,
        read_stream: Any,
        write_stream: Any,
        read_timeout_seconds: Any = None,
        sampling_callback: Any = None,
        elicitation_callback: Any = None,
        list_roots_callback: Any = None,
        logging_callback: Any = None,
        message_handler: Any = None,
        client_info: Any = None,
        **more: Any,
    ) -> None:
        @asynccontextmanager
        async def open() -> AsyncIterator[Any]:
            yield (
                official_sdk._Receiving(read_stream),
                official_sdk._Sending(write_stream),
            )

        seconds = official._seconds(read_timeout_seconds)
        self._connecting = connect(
            StreamServer(open, name="carried"),
            revision="handshake",
            approval=allow_all,
            trusted=True,
            timeouts=None if seconds is None else Timeouts(idle=seconds, total=seconds),
            client_info=None
            if client_info is None
            else ClientInfo(client_info.name, client_info.version),
            handlers=official.handlers(
                sampling_callback=sampling_callback,
                elicitation_callback=elicitation_callback,
                list_roots_callback=list_roots_callback,
                logging_callback=logging_callback,
                message_handler=message_handler,
                sampling_capabilities=more.get("sampling_capabilities"),
            ),
        )

        self._is_open = False

    async def initialize(self) -> Any:
        """Open the session. The official client, too, sends nothing before this."""
        session = await self._connecting
        opened[0] += 1
        super().__init__(session, "result", importlib.import_module("mcp.types"))
        self._is_open = True
        return await super().initialize()

    def get_server_capabilities(self) -> Any:
        """Return None before ``initialize``, as the official client does."""
        return super().get_server_capabilities() if self._is_open else None

    async def __aenter__(self) -> CarriedSession:
        return self

    async def __aexit__(self, *raised: object) -> None:
        if self._is_open:
            await super().__aexit__(*raised)
            await self._connecting.__aexit__(None, None, None)


def pytest_configure() -> None:
    """Put the session under the names of the official client, before a program imports them."""
    mcp: Any = importlib.import_module("mcp")
    client: Any = importlib.import_module("mcp.client.session")
    if os.environ["FRAMEWORKS_CLIENT"] == "ours":
        mcp.ClientSession = client.ClientSession = CarriedSession
        return
    enter = client.ClientSession.__aenter__

    async def counted(self: Any) -> Any:
        opened[0] += 1
        return await enter(self)

    client.ClientSession.__aenter__ = counted


def pytest_runtest_logreport(report: Any) -> None:
    """Note the outcome of a test: that of the first phase that did not pass."""
    expected = report.when == "call" or report.outcome != "passed"
    if expected and outcomes.get(report.nodeid, "passed") == "passed":
        outcomes[report.nodeid] = report.outcome


def pytest_sessionfinish() -> None:
    """Write the report."""
    seconds = time.monotonic() - began
    report = {"outcomes": outcomes, "sessions": opened[0], "seconds": seconds}
    Path(os.environ["FRAMEWORKS_REPORT"]).write_text(json.dumps(report))
