"""The house stays as drawn: imports go one way, and what the design forbids is not there."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mcp_client

ROOT = Path(mcp_client.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

LAYERS = [
    {"errors", "_version"},
    {"runtime"},
    {"protocol"},
    {"transports", "validation"},
    {"auth", "connection"},
    {"catalog"},
    {"approval", "audit"},
    {"handlers"},
    {"session"},
    {"__init__"},
]
"""A room imports from the layers above its own in this list, never from below or beside."""


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def layer(name: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if name in names)


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Each imported module as an absolute dotted name, and whether it is of this package."""
    package = ["mcp_client", *path.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, alias.name.startswith("mcp_client")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            if node.module:
                yield ".".join([*base, node.module]), True
            else:
                yield from ((".".join([*base, alias.name]), True) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.module.startswith("mcp_client")


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_imports_go_one_way(path: Path) -> None:
    here = layer(room(path))
    for name, ours in imports(path):
        parts = name.split(".")
        if ours and len(parts) > 1 and parts[1] != room(path):
            assert layer(parts[1]) < here, f"{ids(path)} imports {name}, which lies above it"


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_each_outside_package_is_imported_only_where_the_design_says(path: Path) -> None:
    allowed = {
        "asyncio": {"runtime/event_loop.py"},
        "trio": {"runtime/event_loop.py"},
        "httpx": {"transports/http", "transports/sse", "auth/"},
        "httpx_sse": {"transports/sse", "transports/http"},
        "jsonschema": {"validation/engine.py"},
        "jsonschema_specifications": {"validation/engine.py"},
        "referencing": {"validation/engine.py"},
        "jwt": {"auth/keys.py"},
        "cryptography": {"auth/keys.py"},
        "keyring": {"auth/keyring_store.py"},
    }
    for name, ours in imports(path):
        top = name.split(".")[0]
        if not ours and top in allowed:
            where = path.relative_to(ROOT).as_posix()
            assert any(where.startswith(prefix) for prefix in allowed[top]), f"{where}: {name}"
        assert ours or top in {*sys.stdlib_module_names, "anyio", *allowed}, (
            f"{name} is no package of ours"
        )


PURE = [
    path
    for path in FILES
    if room(path) in {"errors", "protocol"}
    or path.relative_to(ROOT).as_posix()
    in {
        "approval/constraints.py",
        "approval/decision.py",
        "approval/rules.py",
        "audit/hash_chain.py",
        "audit/redaction.py",
        "catalog/inspection.py",
        "catalog/listed.py",
        "catalog/result.py",
        "catalog/tool.py",
        "catalog/trust.py",
        "connection/deadlines.py",
        "handlers/handlers.py",
        "handlers/wire_format.py",
        "runtime/safe_text.py",
        "validation/schema_shape.py",
    }
]


@pytest.mark.parametrize("path", PURE, ids=ids)
def test_a_pure_module_waits_for_nothing(path: Path) -> None:
    tree = ast.parse(path.read_text())
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    assert not [node for node in ast.walk(tree) if isinstance(node, waiting)]
    assert not [name for name, _ in imports(path) if name.split(".")[0] in {"anyio", "httpx"}]


@pytest.mark.parametrize("path", [p for p in FILES if room(p) != "protocol"], ids=ids)
def test_revisions_are_written_only_under_protocol(path: Path) -> None:
    tree = ast.parse(path.read_text())
    documented = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in documented
        ):
            assert not re.search(r"\b20\d\d-\d\d-\d\d\b", node.value), f"{ids(path)}:{node.lineno}"


def test_only_one_line_of_the_package_sends_a_tool_call() -> None:
    lines = [
        f"{ids(path)}: {line.strip()}"
        for path in FILES
        if room(path) != "protocol"  # which knows the method's name and sends nothing
        for line in path.read_text().splitlines()
        if '"tools/call"' in line and not line.lstrip().startswith("case ")
    ]
    assert len(lines) == 1, lines
    assert lines[0].startswith("session/call.py"), lines


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 500
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            docstring = ast.get_docstring(node, clean=False) or ""
            assert length - len(docstring.splitlines()) <= 60, f"{node.name} has {length} lines"


def test_the_map_names_every_room_and_no_other() -> None:
    named = set(re.findall(r"^    (\w+(?:\.py|/))\s", mcp_client.__doc__ or "", re.MULTILINE))
    there = {p.name for p in ROOT.glob("*.py")} | {
        f"{p.name}/" for p in ROOT.iterdir() if (p / "__init__.py").exists()
    }
    assert named == there - {"__init__.py"}


def test_every_public_name_is_exported_once_and_exists() -> None:
    assert len(set(mcp_client.__all__)) == len(mcp_client.__all__)
    for name in mcp_client.__all__:
        assert getattr(mcp_client, name, None) is not None, name


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_every_module_says_what_it_is_for_and_what_it_offers(path: Path) -> None:
    name = ".".join(["mcp_client", *path.relative_to(ROOT).with_suffix("").parts])
    module = importlib.import_module(name.removesuffix(".__init__"))
    assert module.__doc__
    for public in getattr(module, "__all__", ()):
        assert hasattr(module, public), f"{name}.{public}"
    if path.name != "__init__.py":
        assert module.__all__


def test_importing_the_package_loads_neither_httpx_nor_jsonschema_nor_an_event_loop() -> None:
    code = (
        "import sys, mcp_client; "
        "print(*sorted({'httpx', 'httpx_sse', 'jsonschema', 'asyncio', 'trio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
