"""Where each public name is, and the stubs of rooms: ``python -m tests.room_stubs`` writes them.

A stub, ``__init__.pyi``, is what type checkers and editors read. It has the table of names in the
``__init__.py`` beside it, written as imports.
"""

from __future__ import annotations

import ast
from pathlib import Path

import mcp_client
from mcp_client import errors

ROOT = Path(mcp_client.__file__).parent
HEAD = "# Written by `python -m tests.room_stubs` from the table in {}: do not edit.\n"


def tables() -> dict[Path, tuple[dict[str, list[str]], bool]]:
    """The table of each file that has one, and whether its keys are rooms."""
    return {path: table for path in sorted(ROOT.rglob("*.py")) if (table := _table(path))}


def package(path: Path) -> str:
    """Return the dotted name of the package whose ``__init__.py`` is at ``path``."""
    return ".".join(["mcp_client", *path.parent.relative_to(ROOT).parts])


def _table(path: Path) -> tuple[dict[str, list[str]], bool] | None:
    text = path.read_text()
    for node in ast.parse(text).body if "import lazy as _lazy" in text else ():
        match node:
            case ast.Assign(
                value=ast.Call(func=ast.Name(id="_lazy"), args=[_, names], keywords=kw)
            ):
                return ast.literal_eval(names), any(each.arg == "rooms" for each in kw)
    return None


def stub(path: Path) -> str:
    """Return the text of the stub beside ``path``."""
    names, rooms = tables()[path]
    lines = [HEAD.format(path.name)]
    lines += [
        f"from . import {room} as {room}" for room in sorted(names) if rooms and "." not in room
    ]
    lines += [
        f"from {module if module[0] == '.' else '.' + module} import {name} as {name}"
        for module in sorted(names)
        for name in sorted(names[module], key=_as_ruff_sorts)
    ]
    return "\n".join(lines) + "\n"


def _as_ruff_sorts(name: str) -> tuple[int, str]:
    kind = 0 if name.isupper() else 1 if name.lstrip("_")[:1].isupper() else 2
    return kind, name


def public_names() -> dict[str, tuple[str, str]]:
    """Return where users import each public name from, and the module that defines it.

    The names of ``mcp_client.sync``, which mirrors others, are left out.
    """
    found = dict.fromkeys(errors.__all__, ("mcp_client.errors", "mcp_client.errors"))
    for path, (names, _) in tables().items():
        room = package(path)
        if room not in ("mcp_client", "mcp_client.sync"):
            for module, its in names.items():
                home = f"mcp_client{module[1:]}" if module[0] == "." else f"{room}.{module}"
                found |= dict.fromkeys(its, (room, home))
    for module, its in tables()[ROOT / "__init__.py"][0].items():
        for name in its:
            _, home = found.get(name, ("", f"mcp_client.{module}"))
            found[name] = "mcp_client", home
    del found["__version__"]
    return found


if __name__ == "__main__":
    for each in tables():
        each.with_suffix(".pyi").write_text(stub(each))
