"""The API reference and the guides as a site: ``python -m tests.reference DIRECTORY`` builds it.

A public name is on the page of its room, and on no other. There is a page for each module of
``PAGES``, for each module that a docstring or a guide names, and for the types that signatures
name, in the module of each. The build fails, and names the place, if something on a page has no
docstring, or if a name or a link leads nowhere.

pdoc, which the extra ``dev`` brings, renders all pages and makes the search. Its command alone
would do neither of two things: show annotations that only type checkers import, and check links.
"""

from __future__ import annotations

import ast
import builtins
import html
import inspect
import re
import sys
import typing
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, TypeAlias, cast
from unittest.mock import patch

import pdoc.doc
import pdoc.render

import mcp_client
from mcp_client.adapters import PROVIDERS
from tests.reference_guides import ENTRY, guide_pages
from tests.room_stubs import ROOT, package, public_names, tables

PAGES = (
    *("mcp_client", "mcp_client.errors", "mcp_client.stubs"),
    *(package(path) for path in tables() if path.parent != ROOT),
    *("mcp_client.adapters", "mcp_client.adapters.toolset"),
    *(f"mcp_client.adapters.{name}" for name in (*PROVIDERS, "official")),
)
RETURNED = ("App", "Config", "Connecting", "Session", "Skill", "Task")
"""Classes whose objects a function or a method returns: no one needs the constructor."""
INTERNAL = ("@frozen_dataclass", "@with_option_names")
"""Decorators that a caller does not need to know."""
FOREIGN = frozenset(
    {
        *("AIza", "Authorization", "CallFailed", "ClientSession", "DPoP", "LoggerProvider"),
        "ToolAnnotations",
        *("Weather", "WeatherSync"),
        # of the official SDK
        *("Client", "ClientSession", "ClientSession.experimental", "ClientSessionGroup"),
        *("MultiServerMCPClient", "McpToolSpec", "InitializeResult", "ServerCapabilities"),
        *("ListToolsResult", "CallToolResult", "ListResourcesResult"),
        *("ListResourceTemplatesResult", "ReadResourceResult", "ListPromptsResult"),
        *("GetPromptResult", "CompleteResult", "CreateMessageRequestParams"),
        *("ElicitRequestParams", "LoggingMessageNotificationParams", "SamplingCapability"),
        *("CreateTaskResult", "GetTaskResult"),
        *("mcp_client.call", "mcp_client.outcome", "mcp_client.server"),  # attributes, loggers
    }
)
"""Names in docstrings that are neither of Python nor ours."""
ABOUT_OTHERS = ("mcp_client.adapters.official", "guides.coming_from")
"""Pages with many names of other packages."""

Doc: TypeAlias = pdoc.doc.Doc[Any]
Pages: TypeAlias = dict[str, pdoc.doc.Module]
_EXPORTED = {n: getattr(import_module(place), n) for n, (place, _) in public_names().items()}


def _room(name: str, place: str) -> str:
    """The room that a public name is shown in: that of the first day has a room, too."""
    for room in PAGES[1:]:
        found = import_module(room)
        if name in found.__all__ and getattr(found, name) is _EXPORTED[name]:
            return room
    return place


_PUBLIC = {
    name: (_room(name, place) if place == "mcp_client" else place, origin)
    for name, (place, origin) in public_names().items()
}
_NAME = r"\b[A-Z]\w*[a-z]\w*\b"
_IN_CODE = re.compile(
    rf"(?<=<code>)(mcp_client\.[\w.]+|{_NAME}(?:\.\w+)*)(?=(?:\(.*?\))?</code>)", re.S
)
_IN_SIGNATURE = re.compile(rf'(?<=<span class="n">){_NAME}(?=</span>)')
_LISTED = re.compile(r"^ {4}\w+\.py .*$", re.M)
_BASE = re.compile(r'(?<=<span class="base">)(?:<a [^>]*>)?([^<]*)(?:</a>)?(?=</span>)')
_ANNOTATION = re.compile(r'(?<=<span class="annotation">)[^<]*(?=</span>)')


class Written(str):
    """An annotation as it is written, not its value: ``ApprovalHook | None``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def written(annotation: Any, *_: Any) -> Any:
    return Written(annotation) if isinstance(annotation, str) else annotation


def all_written(annotations: Mapping[str, Any], *_: Any) -> dict[str, Any]:
    return {name: written(each) for name, each in annotations.items()}


# ------------------------------------------------------------------------- what is shown


def pages() -> Pages:
    guides, linked = guide_pages()
    made: Pages = dict(guides)
    todo: dict[str, set[str]] = {name: set() for name in {*PAGES, *linked}}
    while todo:
        new = {module: _page(module, names) for module, names in todo.items()}
        made |= new
        todo = {}
        for each in (each for page in new.values() for each in shown(page)):
            for module, name in _named(each):
                there = set(made[module].members) if module in made else None
                if there is None or name not in {"", *there}:
                    todo.setdefault(module, there or set()).add(name)
    return made


def _page(module: str, wanted: set[str]) -> pdoc.doc.Module:
    found = import_module(module)
    for name in getattr(found, "__all__", ()):  # some are loaded when they are first asked for
        getattr(found, name)
    page = pdoc.doc.Module(found)
    listed = page.docstring.replace("\n::\n\n    ", "\n\n    ")
    listed = listed.replace("::\n\n    ", ":\n\n    ")
    page.docstring = _LISTED.sub(lambda line: line[0].replace("``", ""), listed)
    members = page.members
    if module == "mcp_client":
        page.docstring += "\n\n" + "\n".join(_by_room())
        for name in [name for name in members if name in _PUBLIC and _PUBLIC[name][0] != module]:
            del members[name]
    else:
        loaded = vars(page.obj)
        public = [n for n in members if n in _EXPORTED and _EXPORTED[n] is loaded[n]]
        theirs = [n for n in public if _PUBLIC[n][0] != module]
        for place in sorted({_PUBLIC[name][0] for name in theirs}):
            names = ", ".join(f"`{name}`" for name in theirs if _PUBLIC[name][0] == place)
            page.docstring += f"\n\nOf `{place}`: {names}"
        for name in list(members):
            if name in theirs or not (module in PAGES or name in wanted):
                del members[name]
        for name in wanted - {"", *members}:  # which are not in __all__
            if isinstance(loaded.get(name), type):
                members[name] = pdoc.doc.Class(module, name, loaded[name], (module, name))
            else:
                members[name] = _alias(module, name)
    for name, each in list(members.items()):
        _without_internals(each)
        if inspect.isclass(value := getattr(page.obj, name, None)):
            members[name] = each = pdoc.doc.Class(module, name, value, each.taken_from)
            _complete(each)
        elif not each.docstring:
            members[name] = _alias(_PUBLIC.get(name, ("", module))[1], name, module)
    return page


def _without_internals(each: Doc) -> None:
    """Leave out the decorators that are ``INTERNAL``."""
    if isinstance(each, pdoc.doc.Class | pdoc.doc.Function):
        each.decorators[:] = [one for one in each.decorators if not one.startswith(INTERNAL)]


def _alias(home: str, name: str, module: str = "") -> Doc:
    home, _ = defined_in(home, name)
    source = pdoc.doc.Module(import_module(home))
    value = ast.unparse(_assigned(home)[name]) if name in _assigned(home) else ""
    return pdoc.doc.Variable(
        module or home,
        name,
        taken_from=(home, name),
        docstring=source._var_docstrings.get(name, ""),
        annotation=cast(Any, Written(value)),
    )


_defined: dict[str, str] = {}
"""The module in which each member is defined that is shown as another class's own."""


def _complete(cls: pdoc.doc.Class) -> None:
    """Show as its own what ``cls`` has from our classes, and nothing of others."""
    bases = [base for base in cls.obj.__mro__[1:] if base.__module__.startswith("mcp_client")]
    inherited = [
        pdoc.doc.Class(base.__module__, base.__qualname__, base, ("", "")) for base in bases
    ]
    _without_internals(cls)
    for name, member in list(cls.members.items()):
        _without_internals(member)
        module = _defined[member.fullname] = member.taken_from[0]
        for base in inherited:
            member.docstring = member.docstring or base._var_docstrings.get(name, "")
        if name == "__init__" and cls.name in RETURNED:
            del cls.members[name]
        elif module.startswith("mcp_client"):
            member.taken_from = (cls.modulename, member.qualname)
        elif name != "__init__":
            del cls.members[name]
        if isinstance(member, pdoc.doc.Class):
            _complete(member)


def _by_room() -> Iterator[str]:
    yield "All public names, by room:\n"
    for room, about in re.findall(r"^    (mcp_client\.\w+) +(.+)$", mcp_client.__doc__ or "", re.M):
        names = getattr(import_module(room), "__all__", ())
        yield f"- `{room}`, {about}: " + ", ".join(f"`{name}`" for name in names)


def shown(page: pdoc.doc.Namespace[Any]) -> Iterator[Doc]:
    yield page
    for each in page.members.values():
        if each.name.startswith("_") and each.name != "__init__":
            continue
        yield from shown(each) if isinstance(each, pdoc.doc.Class) else (each,)


# --------------------------------------------------------------------- where a name leads


def signature_of(doc: Doc) -> str:
    if isinstance(doc, pdoc.doc.Function):
        return str(doc.signature)
    return doc.annotation_str if isinstance(doc, pdoc.doc.Variable) else ""


def _named(doc: Doc) -> Iterator[tuple[str, str]]:
    """The modules, and the types with their modules, that a docstring and a signature name."""
    for path in re.findall(r"``(mcp_client(?:\.\w+)+)``", doc.docstring):
        if inspect.ismodule(resolve(path)):
            yield path, ""
    in_docstring = re.findall(rf"``({_NAME})[^`]*``", doc.docstring)
    for name in re.findall(_NAME, signature_of(doc)) + in_docstring:
        module, original = defined_in(_defined.get(doc.fullname, doc.taken_from[0]), name)
        if module.startswith("mcp_client.") and original not in _EXPORTED:
            yield module, original


@cache
def _imported(module: str) -> dict[str, tuple[str, str]]:
    package = import_module(module).__package__ or ""
    found: dict[str, tuple[str, str]] = {}
    for node in ast.walk(ast.parse(inspect.getsource(import_module(module)))):
        if isinstance(node, ast.ImportFrom):
            home = resolve_name("." * node.level + (node.module or ""), package)
            found |= {each.asname or each.name: (home, each.name) for each in node.names}
    return found


@cache
def _assigned(module: str) -> dict[str, ast.expr]:
    tree = ast.parse(inspect.getsource(import_module(module)))
    return {
        node.target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value
    }


def defined_in(module: str, name: str) -> tuple[str, str]:
    """Where ``name``, as ``module`` uses it, is defined, and its name there; "" for nowhere."""
    while module.startswith("mcp_client"):
        if name in _imported(module):
            module, name = _imported(module)[name]
        elif name in vars(import_module(module)) or name in _assigned(module):
            return module, name
        else:
            return "", name
    return module, name


def resolve(path: str) -> Any:
    """What a dotted path leads to; None for nowhere."""
    found: Any = mcp_client
    words = path.split(".")
    for number, word in enumerate(words[1:], 2):
        if word not in dir(found):
            try:
                import_module(".".join(words[:number]))
            except ImportError:
                return None
        found = getattr(found, word)
    return found


class Index:
    """Where each name on the reference is, for links that pdoc does not make."""

    def __init__(self, made: Pages) -> None:
        self._made = made
        self._pages = {name: page for page in reversed(made.values()) for name in page.members}

    def url(self, path: str, page: str, module: str) -> str:
        """The link on ``page`` to ``path``, another page or a name that ``module`` uses; or "".

        A public class goes by the path of its own module, too.
        """
        link = pdoc.render_helpers.relative_link
        if path in self._made:
            return link(page, path) or "#"
        words = path.split(".")
        if words[0] == "mcp_client":
            while words and not words[0][:1].isupper():
                del words[0]
        if not words:
            return ""
        home, name = defined_in(module, words[0])
        target: pdoc.doc.Module | None
        if name in _EXPORTED and getattr(sys.modules.get(home), name, None) is _EXPORTED[name]:
            target, words[0] = self._made[_PUBLIC[name][0]], name
        elif home in self._made and name in self._made[home].members:
            target, words[0] = self._made[home], name
        else:
            target = (
                self._made[page]
                if words[0] in self._made[page].members
                else self._pages.get(words[0])
            )
        if target is None or target.get(".".join(words)) is None:
            return ""
        return f"{link(page, target.modulename)}#{'.'.join(words)}"

    def linked(self, page: str, text: str) -> str:
        """``text`` of ``page`` with links for the names in it."""
        parts = re.split(r'(?=<(?:section|div) id=")', text)
        return "".join(self._linked(page, part) for part in parts)

    def _linked(self, page: str, part: str) -> str:
        id = re.match(r'<\w+ id="([^"]+)"', part)
        doc = self._made[page].get(id[1]) if id else None
        module = page if doc is None else _defined.get(doc.fullname, doc.taken_from[0])

        def link(found: re.Match[str]) -> str:
            url = self.url(found[0], page, module)
            return f'<a href="{url}">{found[0]}</a>' if url else found[0]

        def inside(found: re.Match[str]) -> str:
            return re.sub(_NAME, link, found[0])

        def base(found: re.Match[str]) -> str:  # which pdoc links even where it is not shown
            name = found[1].partition("[")[0].rpartition(".")[2]
            url = self.url(name, page, module)
            return f'<a href="{url}">{name}</a>' if url else name

        part = _IN_SIGNATURE.sub(link, _IN_CODE.sub(link, _BASE.sub(base, part)))
        return _ANNOTATION.sub(inside, part)


def build(made: Pages, directory: Path) -> None:
    index = Index(made)
    pdoc.render.configure(docformat="google", show_source=False)
    for name, page in made.items():
        file = directory / f"{name.replace('.', '/')}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(index.linked(name, pdoc.render.html_module(page, made)), encoding="utf-8")
    entry = f'<meta http-equiv="refresh" content="0; url={ENTRY}.html">'
    (directory / "index.html").write_text(f"<!doctype html>{entry}", encoding="utf-8")
    (directory / "search.js").write_text(pdoc.render.search_index(made), encoding="utf-8")


# ----------------------------------------------------------------------------- what is wrong


def undocumented(made: Pages) -> Iterator[str]:
    """What has no docstring, and is not named in that of its class; an option has its function's.

    The fields of a type that only signatures name may do without.
    """
    for page in made.values():
        for each in shown(page):
            owner = page.get(each.qualname.rpartition(".")[0]) if "." in each.qualname else page
            assert owner is not None
            about = "\n".join(base.__doc__ or "" for base in getattr(owner.obj, "__mro__", ()))
            named = re.search(
                rf"``(\w+\()?\.?{each.name}(=[^`]*)?``|^ +{each.name}: ", about, re.MULTILINE
            )
            may_do = page.modulename not in PAGES and each.kind == "variable"
            may_do |= each.name == "__init__" or typing.is_typeddict(owner.obj)
            if not (each.docstring or named or may_do):
                yield f"{each.fullname} has no docstring"


def missing(made: Pages) -> Iterator[str]:
    for module in PAGES:
        loaded = import_module(module)
        for name in loaded.__all__:
            there = made[_PUBLIC[name][0]].get(name) if name in _PUBLIC else None
            here = made[module].get(name)
            if here is None and (there is None or _EXPORTED[name] is not getattr(loaded, name)):
                yield f"{module}.{name} is not on the reference"


def dangling_names(directory: Path, made: Pages) -> Iterator[str]:
    """Names in docstrings that are not links, though they look like ours; where the docstring is
    one of ``PAGES``, names that the reference does not have."""
    known = [each for name, each in sys.modules.items() if name.startswith("mcp_client.")]
    for page in made.keys() - ABOUT_OTHERS:
        there = [builtins, typing, *(known if page not in PAGES else ())]
        text = (directory / f"{page.replace('.', '/')}.html").read_text(encoding="utf-8")
        for code in re.findall(r"<code>([^<]*)</code>", text):
            path = rf"(mcp_client\.[\w.]+|{_NAME})[\w.]*(\(.*\))?"
            found = re.fullmatch(path, html.unescape(code), re.S)
            if found and found[1] not in FOREIGN and not any(hasattr(a, found[1]) for a in there):
                yield f"{page}: {code} leads nowhere"


def dangling_links(directory: Path) -> Iterator[str]:
    files = {
        file: re.sub(r"<script.*?</script>", "", file.read_text(encoding="utf-8"), flags=re.S)
        for file in directory.rglob("*.html")
    }
    anchors = {file: set(re.findall(r'\bid="([^"]+)"', text)) for file, text in files.items()}
    for file, text in files.items():
        for link in re.findall(r'\bhref="([^"]+)"', text):
            path, _, anchor = html.unescape(link).partition("#")
            target = (file.parent / path).resolve() if path else file
            if ":" in path:
                continue
            if target not in files or (anchor and anchor not in anchors[target]):
                yield f"{file.relative_to(directory)}: {link} leads nowhere"


def dangling_paths() -> Iterator[str]:
    """Dotted paths in any docstring of the package that lead nowhere."""
    for file in sorted(Path(mcp_client.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                for path in re.findall(r"\bmcp_client(?:\.[a-zA-Z]\w*)+", str(node.value.value)):
                    if path not in FOREIGN and resolve(path) is None:
                        yield f"{file}:{node.lineno}: {path} leads nowhere"


def main(directory: Path) -> int:
    with (
        warnings.catch_warnings(),
        patch.object(pdoc.doc, "safe_eval_type", written),
        patch.object(pdoc.doc, "resolve_annotations", all_written),
    ):
        warnings.simplefilter("error")
        made = pages()
        build(made, directory)
    wrong = [
        *missing(made),
        *undocumented(made),
        *dangling_names(directory, made),
        *dangling_links(directory),
        *dangling_paths(),
    ]
    print("\n".join(dict.fromkeys(wrong)) or f"{directory / 'index.html'}: {len(made)} pages")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
