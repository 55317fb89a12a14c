"""The house stays as drawn: imports go one way, and what the design forbids is not there."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import mcp_client
from tests.room_stubs import public_names

ROOT = Path(mcp_client.__file__).parent
FILES = sorted(path for path in ROOT.rglob("*.py") if path.stem.isidentifier())

LAYERS = [
    {"errors"},
    {"runtime"},
    {"processes"},
    {"protocol", "sandbox"},
    {"transports", "validation"},
    {"auth", "connection"},
    {"catalog"},
    {"approval", "content"},
    {"audit"},
    {"handlers", "state"},
    {"extensions"},
    {"session"},
    {"config"},
    {"host"},
    {"code"},
    {"adapters", "desk", "sync", "testing"},
    {"stubs"},
    {"cli"},
    {"__init__", "__main__"},
]
"""A room imports from the layers above its own in this list, never from below or beside."""
ROOMS = re.findall(r"^    (\w+)(?:\.py|/) ", mcp_client.__doc__ or "", re.MULTILINE)
"""The rooms in the order of the map: imports go down it."""


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def layer(name: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if name in names)


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(parsed(path)))


@functools.cache
def imports(path: Path) -> tuple[tuple[str, bool], ...]:
    """Each imported module as an absolute dotted name, and whether it is of this package."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, bool]]:
    package = ["mcp_client", *path.relative_to(ROOT).parts[:-1]]
    for node in nodes(path):
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
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "_lazy":
            names = ast.literal_eval(node.args[1])
            yield from ((f"mcp_client{name[1:]}", True) for name in names if name[0] == ".")


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_imports_go_one_way() -> None:
    wrong = [
        f"{ids(path)} imports {name}, which lies above it"
        for path in FILES
        for name, ours in imports(path)
        if ours
        and len(parts := name.split(".")) > 1
        and parts[1] != room(path)
        and layer(parts[1]) >= layer(room(path))
    ]
    assert not wrong, wrong


ALLOWED = {
    "asyncio": ("runtime/event_loop.py", "runtime/portal.py"),
    "trio": ("runtime/event_loop.py",),
    "httpx": ("transports/http", "auth/"),
    "h11": ("transports/http",),
    "httpx_sse": ("transports/http",),
    "jsonschema": ("validation/engine.py",),
    "jsonschema_specifications": ("validation/engine.py",),
    "referencing": ("validation/engine.py",),
    "jwt": ("auth/signing.py",),
    "cryptography": ("auth/signing.py", "state/postgres.py"),
    "keyring": ("auth/store.py",),
    "psycopg": ("state/",),
    "yaml": ("extensions/front_matter.py",),
    "starlette": ("desk/",),
    "uvicorn": ("desk/serve.py",),
    "rich": ("cli/screen.py",),
    "prompt_toolkit": ("cli/shell.py",),
    "textual_image": ("cli/screen.py",),
    "PIL": ("cli/screen.py",),
    "pydantic_monty": ("code/interpreter.py",),
}
"""Packages outside the standard library, and the files that may import them."""


def test_each_outside_package_is_imported_only_where_the_design_allows() -> None:
    wrong = []
    for path in FILES:
        where = path.relative_to(ROOT).as_posix()
        for name, ours in imports(path):
            top = name.split(".")[0]
            if ours or (top in sys.stdlib_module_names and top not in ALLOWED) or top == "anyio":
                continue
            if top not in ALLOWED:
                wrong.append(f"{where}: {name} is not among the packages that may be imported")
            elif not where.startswith(ALLOWED[top]):
                wrong.append(f"{where} imports {name}")
    assert not wrong, wrong


PURE = {
    "adapters/calls.py",
    "adapters/definitions.py",
    "adapters/portable.py",
    "adapters/parts.py",
    "adapters/schema_inlining.py",
    "adapters/schema_merging.py",
    "adapters/schema_subset.py",
    "adapters/own_tools.py",
    "approval/constraints.py",
    "approval/decision.py",
    "approval/request.py",
    "approval/rules.py",
    "approval/sampling_request.py",
    "approval/skill_request.py",
    "approval/start_request.py",
    "approval/tool_call.py",
    "audit/hash_chain.py",
    "audit/redaction.py",
    "audit/schema_marks.py",
    "audit/secret_text.py",
    "catalog/call_values.py",
    "catalog/definition.py",
    "catalog/drift.py",
    "catalog/finding.py",
    "catalog/tool.py",
    "connection/deadlines.py",
    "extensions/front_matter.py",
    "handlers/handlers.py",
    "handlers/wire_format.py",
    "config/text.py",
    "host/naming.py",
    "config/starting.py",
    "runtime/backoff.py",
    "runtime/safe_text.py",
    "runtime/secret_names.py",
    "validation/schema_shape.py",
}
"""Modules that only compute, beside the errors and `protocol/`."""


def test_each_module_that_is_listed_as_pure_exists() -> None:
    assert {path for path in PURE if not (ROOT / path).is_file()} == set()


def test_a_pure_module_waits_for_nothing() -> None:
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    pure = [path for path in FILES if room(path) in {"errors", "protocol"}]
    for path in [*pure, *(ROOT / name for name in sorted(PURE))]:
        found = [node.lineno for node in nodes(path) if isinstance(node, waiting)]
        assert not found, f"{ids(path)} waits in lines {found}"
        for name, _ in imports(path):
            assert name.split(".")[0] not in {"anyio", "httpx"}, f"{ids(path)} imports {name}"


def test_revisions_are_written_only_under_protocol() -> None:
    wrong = []
    for path in FILES:
        if room(path) == "protocol":
            continue
        documented = {
            id(node.value)
            for node in nodes(path)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        wrong += [
            f"{ids(path)}:{node.lineno}"
            for node in nodes(path)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in documented
            and re.search(r"\b20\d\d-\d\d-\d\d\b", node.value)
        ]
    assert not wrong, wrong


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


SENTENCES = {"message", "reason", "why", "text", "server_message", "args"}
"""Attributes of errors and findings that are for people."""
OF_PEOPLE = re.compile(r"(.*_)?(error|failure|fault|lost|refused|denied|caught|finding|rejected)s?")
TAKE_APART = {
    *("startswith", "endswith", "removeprefix", "removesuffix", "replace", "find", "rfind"),
    *("index", "count", "split", "rsplit", "splitlines", "partition", "rpartition"),
    *(PATTERNS := {"match", "fullmatch", "search", "findall", "finditer", "sub"}),
}
MAY_READ = {
    ("approval/remembered.py", "why"): "each warning is given once",
    ("config/text.py", "why"): "tomllib of Python 3.11 names the line in its text alone",
}


class Reader(ast.NodeVisitor):
    """Finds where code compares or takes apart the text of an error, a refusal or a finding."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str]] = []
        self._texts: set[str] = set()
        self._errors: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer = self._texts, self._errors
        self._texts, self._errors = set(), set(self._errors)
        self.generic_visit(node)
        self._texts, self._errors = outer

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._errors |= {node.name} if node.name else set()
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        names = {each.id for each in node.targets if isinstance(each, ast.Name)}
        self._texts = self._texts | names if self._is_text(node.value) else self._texts - names

    def visit_Compare(self, node: ast.Compare) -> None:
        for operator, right in zip(node.ops, node.comparators, strict=True):
            if not isinstance(operator, ast.Is | ast.IsNot):
                self._note(node, node.left, right)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr in TAKE_APART:
            texts = node.args if node.func.attr in PATTERNS else [node.func.value]
            self._note(node, *texts)
        self.generic_visit(node)

    def _note(self, node: ast.expr, *operands: ast.expr) -> None:
        self.found += [(node.lineno, ast.unparse(each)) for each in operands if self._is_text(each)]

    def _is_text(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(id=name):
                return name in self._texts or name in ("reason", "why")
            case ast.Call(func=ast.Name(id="next"), args=[ast.GeneratorExp(elt=value), *_]):
                return self._is_text(value)
            case ast.Call(func=ast.Name(id="set" | "list"), args=[ast.Attribute(attr="findings")]):
                return True
            case ast.Call(func=ast.Name(id="str" | "safe_text"), args=[value, *_]):
                return self._is_error(value) or self._is_text(value)
            case ast.Attribute(value=value, attr=name) if name in SENTENCES:
                return name == "reason" or self._is_error(value)
            case ast.Subscript(value=value):
                return self._is_text(value)
            case ast.IfExp(body=body, orelse=orelse):
                return self._is_text(body) or self._is_text(orelse)
        return False

    def _is_error(self, node: ast.expr) -> bool:
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        return name in self._errors or OF_PEOPLE.fullmatch(name) is not None


def test_no_code_compares_or_takes_apart_a_sentence_that_is_for_people() -> None:
    wrong = []
    for path in FILES:
        reader = Reader()
        reader.visit(parsed(path))
        wrong += [
            f"{ids(path)}:{line} reads {text}: give the error or the finding a field or a kind"
            for line, text in reader.found
            if (ids(path), text) not in MAY_READ
        ]
    assert wrong == []


def test_files_and_functions_stay_small() -> None:
    wrong = []
    for path in FILES:
        text = path.read_text()
        if len(text.splitlines()) > 500:
            wrong.append(f"{ids(path)} has {len(text.splitlines())} lines")
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                docstring = ast.get_docstring(node, clean=False) or ""
                if length - len(docstring.splitlines()) > 60:
                    wrong.append(f"{ids(path)}: {node.name} has {length} lines")
    assert not wrong, wrong


MOST_OPTIONS = 8
OF_OURS = "the package makes it, and hooks read it"
MANY_OPTIONS = {
    "ClientCredentials": (9, "OAuth without a person, in the words of OAuth"),
    "Decision": (20, OF_OURS),
    "ElicitRequest": (9, OF_OURS),
    "EnterpriseAuthorization": (10, "two servers, a client at each, in the words of OAuth"),
    "Handlers": (9, "a handler for each kind of message, and what is declared"),
    "Limits": (32, "one number for each thing that a server can make large"),
    "OAuth": (14, "a client, a person and a store; deviations are an object"),
    "Resource": (9, OF_OURS),
    "SamplingRequest": (16, OF_OURS),
    "ServerConfig": (17, "what connect() has for one server, and which tools there are"),
    "SkillRequest": (12, OF_OURS),
    "StartRequest": (21, OF_OURS),
    "Timeouts": (9, "one number for each kind of wait"),
    "Tool": (9, OF_OURS),
    "ToolCall": (17, OF_OURS),
    "ToolCall.example": (14, "a ToolCall for tests of a hook, by its fields"),
    "UiResource": (10, OF_OURS),
    "Verified": (9, OF_OURS),
    "connect": (16, "a server, and one option for each subject"),
}
"""Public callables with more than eight parameters: how many they may have, and why."""


def public_callables() -> Iterator[tuple[str, Any]]:
    for name, (place, _) in public_names().items():
        value = getattr(importlib.import_module(place), name)
        if not callable(value):
            continue
        yield name, value
        if isinstance(value, type):
            for method in dir(value):
                if not method.startswith("_") and callable(getattr(value, method)):
                    yield f"{name}.{method}", getattr(value, method)


def test_no_public_callable_has_more_than_eight_parameters_without_a_reason() -> None:
    found: dict[str, int] = {}
    for name, value in public_callables():
        try:
            passed = inspect.signature(value).parameters.values()
        except (TypeError, ValueError):  # an alias of a type, or made in C
            continue
        named = [one for one in passed if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
        count = len([one for one in named if one.name != "self"])
        if count > MOST_OPTIONS:
            found[name] = count
    assert found == {name: count for name, (count, _) in MANY_OPTIONS.items()}
    assert all(reason for _, reason in MANY_OPTIONS.values())


def test_no_constructor_takes_more_than_eight_parameters_or_four_positional_ones() -> None:
    wrong = []
    for path in FILES:
        for kind in nodes(path):
            if not isinstance(kind, ast.ClassDef):
                continue
            most = max(MANY_OPTIONS.get(kind.name, (0, ""))[0], MOST_OPTIONS)
            for node in kind.body:
                if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                    positional = len(node.args.posonlyargs) + len(node.args.args) - 1
                    if positional > 4 or positional + len(node.args.kwonlyargs) > most:
                        wrong.append(f"{ids(path)}: {kind.name}")
    assert not wrong, wrong


def dotted(path: Path) -> str:
    return ".".join(["mcp_client", *path.relative_to(ROOT).with_suffix("").parts])


def imported_when_run(path: Path) -> Iterator[str]:
    """Everything that ``path`` imports relatively, also in functions, but not for types."""
    for_types = {
        each
        for node in nodes(path)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for each in ast.walk(node)
        if isinstance(each, ast.ImportFrom) and each not in node.orelse
    }
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.level and node not in for_types:
            base = [*dotted(path).split(".")[: -node.level], *(node.module or "").split(".")]
            yield from (
                ".".join(filter(None, [*base, *name]))
                for name in [(), *((each.name,) for each in node.names)]
            )


def test_no_files_import_one_another_in_a_circle_not_even_inside_functions() -> None:
    below = {dotted(path): {*imported_when_run(path)} for path in FILES}
    TopologicalSorter(below).prepare()  # which names the files of a circle, if there is one


def test_no_constant_of_a_module_is_written_twice() -> None:
    wrong = []
    for path in FILES:
        assigned = [node.targets for node in parsed(path).body if isinstance(node, ast.Assign)]
        names = [one.id for targets in assigned for one in targets if isinstance(one, ast.Name)]
        wrong += [f"{ids(path)}: {name}" for name in {*names} if names.count(name) > 1]
    assert wrong == []


def test_imports_go_down_the_map_as_it_is_printed() -> None:
    assert len(ROOMS) == len({*ROOMS}) > 20
    lower = {name: ROOMS[number + 1 :] for number, name in enumerate(ROOMS)}
    wrong = [
        f"{ids(path)} imports {name}, which is not below it on the map"
        for path in FILES
        if (own := room(path)) in lower
        for name, ours in imports(path)
        if ours and (parts := name.split("."))[1:] and parts[1] not in (own, *lower[own])
    ]
    assert not wrong, wrong


def test_the_map_names_every_room_and_no_other() -> None:
    named = set(re.findall(r"^    (\w+(?:\.py|/))\s", mcp_client.__doc__ or "", re.MULTILINE))
    there = {p.name for p in ROOT.glob("*.py")} | {
        f"{p.name}/" for p in ROOT.iterdir() if (p / "__init__.py").exists()
    }
    assert named == there - {"__init__.py", "__main__.py"}


def test_each_room_lists_its_modules_in_reading_order() -> None:
    wrong = []
    for path in sorted(ROOT.glob("*/__init__.py")):
        listed = re.findall(r"^    (\w+)\.py +\S", ast.get_docstring(parsed(path)) or "", re.M)
        there = {each.stem for each in FILES if each.parent == path.parent} - {"__init__"}
        wrong += [
            f"{ids(path)}: {name} is listed twice" for name in listed if listed.count(name) > 1
        ]
        wrong += [f"{ids(path)}: list {name}.py" for name in sorted(there - {*listed})]
        wrong += [f"{ids(path)}: {name}.py does not exist" for name in sorted({*listed} - there)]
    assert not wrong, wrong


def test_only_the_program_imports_the_room_of_the_shell() -> None:
    wrong = [
        f"{ids(path)} imports {name}"
        for path in FILES
        for name, ours in imports(path)
        if ours and name.startswith("mcp_client.cli") and room(path) not in ("cli", "__main__")
    ]
    assert not wrong, wrong


def test_every_module_states_what_it_is_for_and_what_it_offers() -> None:
    for path in FILES:
        name = ".".join(["mcp_client", *path.relative_to(ROOT).with_suffix("").parts])
        module = importlib.import_module(name.removesuffix(".__init__"))
        assert module.__doc__, f"{name} has no docstring"
        for public in getattr(module, "__all__", ()):
            assert hasattr(module, public), f"{name}.{public}"
        if path.name != "__init__.py":
            assert module.__all__, f"{name} has no __all__"


def test_importing_the_package_loads_neither_httpx_nor_jsonschema_nor_an_event_loop() -> None:
    code = (
        "import sys, mcp_client; "
        "print(*sorted({'httpx', 'httpx_sse', 'jsonschema', 'asyncio', 'trio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_naming_connect_loads_no_session_and_nothing_that_starts_processes() -> None:
    late = "{'asyncio', 'subprocess', 'mcp_client.session.session', 'mcp_client.session.call'}"
    code = (  # anyio before its lazy imports loads subprocess by itself
        "import sys, anyio; had = {*sys.modules}; import mcp_client; mcp_client.connect; "
        f"print(*sorted({late} & {{*sys.modules}} - had))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
