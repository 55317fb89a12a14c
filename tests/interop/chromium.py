"""A real browser, and a person in it who logs in and agrees.

``python tests/interop/chromium.py URL`` is that too, and so may be in ``BROWSER``. Chromium is
driven over the W3C WebDriver protocol by its own driver; every wait is bounded, and what was
started is gone in the end.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["Page", "browsing", "log_in"]

_SECONDS = 60.0
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_ENV = "MCP_CLIENT_TEST_BROWSER"
"""Chromium, its driver and their environment as JSON, printed when this is run as a program."""

T = TypeVar("T")


class Page:
    """What is in the browser's only window."""

    def __init__(self, driver: str, session: str) -> None:
        self._base = f"{driver}/session/{session}"

    def open(self, url: str) -> None:
        _ask("POST", f"{self._base}/url", {"url": url})

    @property
    def url(self) -> str:
        return str(_ask("GET", f"{self._base}/url"))

    @property
    def text(self) -> str:
        return str(_ask("GET", f"{self._element('body')}/text"))

    def type(self, selector: str, text: str) -> None:
        _ask("POST", f"{self._element(selector)}/value", {"text": text})

    def click(self, selector: str) -> None:
        _ask("POST", f"{self._element(selector)}/click", {})

    def press(self, *keys: str) -> None:
        """Press and release keys, one after the other, wherever the focus is."""
        strokes = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        actions = [{"type": "key", "id": "keyboard", "actions": strokes}]
        _ask("POST", f"{self._base}/actions", {"actions": actions})

    def chord(self, held: str, key: str) -> None:
        """Press ``key`` while ``held`` is down."""
        strokes = [("keyDown", held), ("keyDown", key), ("keyUp", key), ("keyUp", held)]
        actions = [{"type": kind, "value": value} for kind, value in strokes]
        every = [{"type": "key", "id": "keyboard", "actions": actions}]
        _ask("POST", f"{self._base}/actions", {"actions": every})

    def screenshot(self) -> bytes:
        """What the window shows, as PNG."""
        return base64.b64decode(_ask("GET", f"{self._base}/screenshot"))

    def look(self, *, dark: bool = False, width: int = 1280, height: int = 900) -> None:
        """The person's window and its colours, from now on."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._devtools("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._devtools("Emulation.setEmulatedMedia", {"features": [scheme]})

    @property
    def complaints(self) -> list[str]:
        """The browser's console since this was last asked: blocked scripts among it."""
        lines = _ask("POST", f"{self._base}/se/log", {"type": "browser"})
        return [str(line["message"]) for line in lines]

    def named(self, role: str, name: str, within: str = "body") -> list[str]:
        """The elements with that role and accessible name, as the browser computes them; each as
        what ``click_on`` takes."""
        kinds = ("button", "input", "select", "textarea")
        selector = ", ".join(f"{within} {kind}" for kind in kinds)
        every = {"using": "css selector", "value": selector}
        found = [one[_ELEMENT] for one in _ask("POST", f"{self._base}/elements", every)]
        return [one for one in found if self._is_named(one, role, name)]

    def _is_named(self, element: str, role: str, name: str) -> bool:
        base = f"{self._base}/element/{element}"
        try:
            return (
                bool(_ask("GET", f"{base}/displayed"))
                and _ask("GET", f"{base}/computedlabel") == name
                and _ask("GET", f"{base}/computedrole") == role
            )
        except AssertionError as error:
            if "stale element" in str(error):
                return False  # it went meanwhile
            raise

    def click_on(self, element: str) -> None:
        _ask("POST", f"{self._base}/element/{element}/click", {})

    def type_into(self, element: str, text: str, *, instead: bool = False) -> None:
        if instead:
            _ask("POST", f"{self._base}/element/{element}/clear", {})
        _ask("POST", f"{self._base}/element/{element}/value", {"text": text})

    @contextmanager
    def without_scripts(self) -> Iterator[None]:
        """For a person who has turned them off: ``run`` does nothing, too."""
        self._devtools("Emulation.setScriptExecutionDisabled", {"value": True})
        try:
            yield
        finally:
            self._devtools("Emulation.setScriptExecutionDisabled", {"value": False})

    def _devtools(self, command: str, params: dict[str, Any]) -> None:
        _ask("POST", f"{self._base}/goog/cdp/execute", {"cmd": command, "params": params})

    def run(self, script: str) -> Any:
        return _ask("POST", f"{self._base}/execute/sync", {"script": script, "args": []})

    def _element(self, selector: str) -> str:
        """The first element there is within bounds of time."""
        wanted = {"using": "css selector", "value": selector}
        found = until(lambda: _ask("POST", f"{self._base}/elements", wanted), f"no {selector}")
        return f"{self._base}/element/{found[0][_ELEMENT]}"


def log_in(page: Page, url: str, name: str, password: str) -> str:
    """Log in at ``url`` and agree. Return the text of the last page."""
    page.open(url)
    page.type("#name", name)
    page.type("#password", password)
    page.click("#log-in")
    page.click("#agree")
    until(lambda: "/callback" in page.url, "it did not come back")
    return until(lambda: page.text, "the last page is empty")


def until(found: Callable[[], T], otherwise: str) -> T:
    """What ``found`` gives once it gives something."""
    end = time.monotonic() + _SECONDS
    while not (value := found()):
        assert time.monotonic() < end, otherwise
        time.sleep(0.05)
    return value


@contextmanager
def browsing(chromium: Path, driver: Path, env: dict[str, str]) -> Iterator[Page]:
    """A new Chromium without a window, with nothing in it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        process, port = _started(driver, {**os.environ, **env, "HOME": home, "TMPDIR": home})
        try:
            base = f"http://127.0.0.1:{port}"
            session = _ask("POST", f"{base}/session", _wishes(chromium, home))["sessionId"]
            yield Page(base, session)
            _ask("DELETE", f"{base}/session/{session}")
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def _started(driver: Path, env: dict[str, str]) -> tuple[subprocess.Popen[str], int]:
    """A driver and its port: one for IPv6, which another program may have for IPv4."""
    reported: list[str] = []
    for _ in range(5):
        process = subprocess.Popen(
            [driver, "--port=0"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        for line in process.stdout:
            reported.append(line)
            if "started successfully on port" in line:
                return process, int(line.rstrip().rstrip(".").rpartition(" ")[2])
        process.communicate()
        if "Address already in use" not in "".join(reported):
            break
    raise AssertionError(f"chromedriver did not start: {''.join(reported)}")


def _wishes(chromium: Path, home: str) -> dict[str, Any]:
    args = [
        "--headless=new",
        "--no-sandbox",  # root has none, and every page is our own
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--disable-background-networking",
        "--no-first-run",
        f"--user-data-dir={home}/profile",
    ]
    options = {"binary": str(chromium), "args": args}
    logs = {"browser": "ALL"}
    always = {
        "goog:loggingPrefs": logs,
        "goog:chromeOptions": options,
        "timeouts": {"pageLoad": int(_SECONDS * 1000)},
    }
    return {"capabilities": {"alwaysMatch": always}}


_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _ask(method: str, url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with _direct.open(request, timeout=_SECONDS) as reply:
            return json.load(reply)["value"]
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{method} {url}: {error.read(2000).decode()}") from None


def as_program(chromium: Path, driver: Path, env: dict[str, str]) -> dict[str, str]:
    """The environment in which the standard library's ``webbrowser`` opens this."""
    found = json.dumps([str(chromium), str(driver), env])
    return {"BROWSER": f"{shlex.join([sys.executable, __file__])} %s", _ENV: found}


if __name__ == "__main__":
    chromium_, driver_, env_ = json.loads(os.environ[_ENV])
    with browsing(Path(chromium_), Path(driver_), env_) as page_:
        log_in(page_, sys.argv[1], "ana", "correct horse")
