"""PyInstaller finds the hook of the package, and a bundle has every name and file of it."""

from __future__ import annotations

import os
import pkgutil
import runpy
import subprocess
import sys
import types
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import mcp_client
from mcp_client.runtime import bundle
from tests.interop import peers
from tests.room_stubs import package, public_names, tables

ROOT = Path(__file__).parents[2]
PROGRAM = """
import importlib
from mcp_client import Allow, MemoryServer
from mcp_client.desk.markup import __file__ as desk
from mcp_client.sync import connect
from pathlib import Path
import mcp_client

for room in ROOMS:
    module = importlib.import_module(room)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
assert list((Path(desk).parent / "templates").glob("*.html"))

RESULTS = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "x", "version": "1"}},
    "tools/list": {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "called"}]},
}

def server(message, send):
    if "id" in message and message["method"] in RESULTS:
        send({"jsonrpc": "2.0", "id": message["id"], "result": RESULTS[message["method"]]})

memory = MemoryServer(server)
with connect(memory, approval=lambda call: Allow(), revision="2025-11-25") as session:
    print(session.call_tool("add").text)
"""


def test_the_hook_lists_every_module_that_is_loaded_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def submodules(package: str) -> list[str]:
        found = pkgutil.walk_packages(mcp_client.__path__, f"{package}.")
        return [package, *(one.name for one in found)]

    hooks = types.ModuleType("PyInstaller.utils.hooks")
    monkeypatch.setattr(hooks, "collect_submodules", submodules, raising=False)
    monkeypatch.setattr(hooks, "collect_data_files", lambda package: [package], raising=False)
    for name in ("PyInstaller", "PyInstaller.utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, hooks.__name__, hooks)
    (directory,) = bundle.get_hook_dirs()
    hook = runpy.run_path(str(Path(directory, "hook-mcp_client.py")))
    homes = {home for _, home in public_names().values()}
    assert homes - {*hook["hiddenimports"]} == set()
    assert hook["datas"] == ["mcp_client"]


def test_the_entry_point_that_pyinstaller_reads_leads_to_the_hook() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert 'hook-dirs = "mcp_client.runtime.bundle:get_hook_dirs"' in text
    for point in entry_points(group="pyinstaller40"):
        if point.value.startswith("mcp_client."):
            assert point.load() is bundle.get_hook_dirs


@pytest.mark.slow
def test_a_bundle_that_is_built_runs(tmp_path: Path) -> None:
    rooms = sorted({package(path) for path in tables()})
    (tmp_path / "program.py").write_text(f"ROOMS = {rooms}\n{PROGRAM}")
    words = ["-m", "PyInstaller", "--onedir", "--additional-hooks-dir", *bundle.get_hook_dirs()]
    built = subprocess.run(
        [str(peers.environments()), *words, "program.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert built.returncode == 0, built.stderr[-2_000:]
    program = tmp_path / "dist" / "program" / "program"
    ran = subprocess.run([program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stdout) == (0, "called\n"), ran.stderr[-2_000:]
