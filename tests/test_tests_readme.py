"""``tests/README.md`` lists where the tests of each module are, and what each helper is for."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "mcp_client"
README = (TESTS / "README.md").read_text()


def table(header: str) -> list[list[str]]:
    """The rows below ``header``, as the cells of each."""
    _, _, rest = README.partition(f"| {header} |\n")
    rows = re.match(r"\|[-|]+\|\n((?:\|.*\|\n)+)", rest)
    assert rows, header
    return [
        [cell.strip().strip("`") for cell in row.strip("|").split("|")]
        for row in rows[1].splitlines()
    ]


def elsewhere() -> dict[str, str]:
    """By module, as ``room/module``: the file that the table names."""
    return {
        f"{room}/{module}": file
        for room, modules, file in table("room | modules | tested in")
        for module in modules.split(", ")
    }


def files_in_table() -> set[str]:
    """The helpers in the table, whose other rows are headings."""
    return {name for name, *_ in table("file | what it is") if not name.startswith("**")}


def test_the_tests_of_each_module_have_its_name_or_are_in_the_table() -> None:
    modules = {
        str(path.relative_to(PACKAGE).with_suffix(""))
        for path in PACKAGE.rglob("*.py")
        if path.stem.isidentifier() and path.name != "__init__.py" and path.parent != PACKAGE
    }
    assert len(modules) > 250
    by_name = {
        module
        for module in modules
        if (TESTS / module).with_name(f"test_{Path(module).name}.py").exists()
    }
    assert modules - by_name - {*elsewhere()} == set(), "add them to the table"
    assert {*elsewhere()} - modules == set(), "these modules are gone"
    assert {*elsewhere()} & by_name == set(), "these have a file of their name"


def test_each_file_that_the_tables_name_exists() -> None:
    named = {*elsewhere().values(), *files_in_table()}
    named |= {row[0] for row in table("directory | what it is for")}
    assert not {name for name in named if not (TESTS / name).exists()}


def test_each_helper_states_what_it_is_and_those_for_all_are_in_the_table() -> None:
    helpers = {
        path.relative_to(TESTS)
        for path in TESTS.rglob("*.py")
        if not path.name.startswith(("test_", "__init__"))
    }
    silent = {
        path for path in helpers if not ast.get_docstring(ast.parse((TESTS / path).read_bytes()))
    }
    assert silent == set()
    for_all = {str(path) for path in helpers if str(path.parent) in (".", "support")}
    assert for_all == files_in_table()


def test_each_directory_is_a_room_or_is_in_the_table() -> None:
    directories = {
        path.name for path in TESTS.iterdir() if path.is_dir() and any(path.glob("*.py"))
    }
    rooms = {path.name for path in PACKAGE.iterdir()}
    assert directories - rooms == {
        row[0].rstrip("/") for row in table("directory | what it is for")
    }
