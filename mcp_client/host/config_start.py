"""One server of a config file, on its way to be started.

The servers of a project's file are read twice: at first without the files that they put in, and
again with them, once, when somebody looks at what would be started. What is shown and what is
started both come from that second reading.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from ..approval.start_request import StartRequest
from ..errors import ConfigError
from ..runtime.limits import Timeouts
from .config_files import Files
from .config_launch import Launch
from .config_problem import Reading
from .config_server import read_server
from .config_text import KeyPath
from .server_config import ServerConfig
from .start_request import start_request

__all__ = ["Looked", "Start"]

V = TypeVar("V")


class Start:
    """Its methods look at files, and raise ``ConfigError`` where that cannot be done. For any
    number of threads."""

    def __init__(
        self, reading: Reading, path: KeyPath, members: Any, first: Launch, *, files: Files
    ) -> None:
        """``files`` are those that its second reading reads."""
        self.first = first
        """As far as it is known without looking at a file."""
        self._reading, self._path, self._members, self._files = reading, path, members, files
        self._lock = threading.Lock()
        self._launch: Launch | None = None
        self._request: StartRequest | None = None

    @property
    def is_read(self) -> bool:
        """Whether ``first`` is all of it."""
        return self._reading.variables.files.reads or not self.first.has_files

    def launch(self) -> Launch:
        with self._lock:
            if self._launch is None:
                self._launch = self.first if self.is_read else self._again()
            return self._launch

    def config(self, timeouts: Timeouts | None = None) -> ServerConfig:
        """What is started. ``timeouts`` are those of the host, where the file sets only some."""
        launch = self.launch()
        try:
            return launch.config(timeouts)
        except ConfigError as error:
            if self.is_read:
                raise
            raise ConfigError(f"{self._place}: it is not valid with its files put in") from error

    def request(self) -> StartRequest:
        """What a person is asked."""
        launch = self.launch()
        with self._lock:
            if self._request is None:
                reading = self._reading
                self._request = start_request(
                    launch, reading.path, reading.scope, reading.base, reading.inputs
                )
            return self._request

    @property
    def _place(self) -> str:
        return f"{self._reading.path}: the server {self.first.name!r}"

    def _again(self) -> Launch:
        variables = replace(self._reading.variables, files=self._files)
        reading = replace(self._reading, variables=variables, problems=[])
        launch = read_server(reading, self._path, self._members)
        if launch is not None:
            return launch
        problem = next((one for one in reading.problems if one.left_out), None)
        raise ConfigError(str(problem or f"{self._place} cannot be used"))


class Looked(Mapping[str, V]):
    """What ``look`` makes of each of ``starts`` when it is asked for; names are known before."""

    def __init__(self, starts: Mapping[str, Start], look: Callable[[Start], V]) -> None:
        self._starts, self._look = starts, look

    def __getitem__(self, name: str) -> V:
        return self._look(self._starts[name])

    def __contains__(self, name: object) -> bool:
        return name in self._starts

    def __iter__(self) -> Iterator[str]:
        return iter(self._starts)

    def __len__(self) -> int:
        return len(self._starts)

    def __repr__(self) -> str:
        return f"<{len(self)} servers: {', '.join(map(repr, self))}>"
