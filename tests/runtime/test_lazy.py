"""The rooms: their public names are loaded when they are first used, each from one table."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib import import_module

import pytest

import mcp_client
from mcp_client.runtime.lazy import lazy
from tests import room_stubs

pytestmark = pytest.mark.one_backend

ROOT = room_stubs.ROOT
TABLES = {room_stubs.package(path): path for path in room_stubs.tables()}
ROOMS = sorted(TABLES)
NEEDED = {"mcp_client.errors", "mcp_client.runtime", "mcp_client.runtime.lazy"}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_has_each_name_of_its_table_and_no_other(room: str) -> None:
    module = import_module(room)
    starred: dict[str, object] = {}
    exec(f"from {room} import *", starred)
    assert {*module.__all__} == {*starred} - {"__builtins__"} <= {*dir(module)}
    for name in module.__all__:
        assert starred[name] is getattr(module, name)
        if isinstance(starred[name], type):
            assert pickle.loads(pickle.dumps(starred[name])) is starred[name]
    with pytest.raises(AttributeError, match=f"module '{room}' has no attribute 'Nothing'"):
        module.Nothing  # noqa: B018


@pytest.mark.parametrize("room", ROOMS)
def test_type_checkers_read_the_table_of_a_room(room: str) -> None:
    path = TABLES[room]
    wanted = room_stubs.stub(path)
    assert path.with_suffix(".pyi").read_text() == wanted, "run: python -m tests.room_stubs"


def test_a_name_is_public_in_one_room() -> None:
    rooms: dict[str, list[str]] = {}
    for room in {*ROOMS, "mcp_client.errors"} - {"mcp_client", "mcp_client.sync"}:
        for name in import_module(room).__all__:
            rooms.setdefault(name, []).append(room)
    assert {name: found for name, found in rooms.items() if len(found) > 1} == {}


def test_importing_rooms_loads_none_of_their_modules_and_no_package_of_others() -> None:
    code = f"import sys, mcp_client.errors, {', '.join(ROOMS)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {*done.stdout.split()}
    ours = {name for name in loaded if name.split(".")[0] == "mcp_client"}
    assert ours == {"mcp_client", *ROOMS, *NEEDED}
    assert loaded & {"httpx", "httpx_sse", "jsonschema", "anyio", "asyncio", "trio"} == set()


def test_a_table_can_name_a_module_of_another_room_and_its_rooms_can_be_attributes() -> None:
    get, names, public = lazy("mcp_client", {"errors": ["McpError"], "..sync": []}, rooms=True)
    assert get("errors") is sys.modules["mcp_client.errors"]
    assert public == ["McpError"]
    assert {"errors", "McpError", "__doc__"} <= {*names()}
    get, names, public = lazy("mcp_client.content", {"..errors": ["NotSent"]})
    assert get("NotSent") is mcp_client.errors.NotSent
    assert "errors" not in names()


def test_every_stub_of_the_package_is_written_from_a_table() -> None:
    written = {path.with_suffix(".pyi") for path in TABLES.values()}
    assert {*ROOT.rglob("*.pyi")} - written - {ROOT / "__init__.pyi"} == set()
