"""The guides as pages of the API reference: each is a module without members, for pdoc to render.

So they have what pdoc gives to modules: a table of contents, a search, and links to names.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pdoc.doc

__all__ = ["ENTRY", "EXAMPLES", "guide_pages"]

EXAMPLES = Path(__file__).parent.parent / "examples"
ENTRY = "guides"
"""The page that lists which guide is for what."""
_LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json"}
_LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")


def guide_pages() -> tuple[dict[str, pdoc.doc.Module], set[str]]:
    """Return the page of each guide and of each program beside it, and the modules that the guides
    link to."""
    made, modules = {}, set[str]()
    for path in sorted(EXAMPLES.rglob("*")):
        if path.name == "README.md":
            text, linked = _with_links(path)
            made[_name(path)] = _page(_name(path), text)
            modules |= linked
        elif path.suffix in _LANGUAGES:
            code = f"# {path.name}\n\n```{_LANGUAGES[path.suffix]}\n{path.read_text()}```\n"
            made[_name(path)] = _page(_name(path), code)
    made[ENTRY].docstring += "\n## API reference\n\n" + "\n".join(_rooms())
    return made, modules


def _rooms() -> Iterator[str]:
    import mcp_client

    for room, about in re.findall(r"^    (mcp_client\.\w+) +(.+)$", mcp_client.__doc__ or "", re.M):
        yield f"- `{room}`: {about}"


def _page(name: str, text: str) -> pdoc.doc.Module:
    module: Any = ModuleType(name)
    page = pdoc.doc.Module(module)
    page.docstring = text
    page.__dict__["submodules"] = []
    return page


def _name(path: Path) -> str:
    """The page of a file below ``examples/``: ``guides.agents`` of its guide, and of a program
    ``guides.agents.agent_openai``."""
    parts = path.relative_to(EXAMPLES).with_suffix("").parts
    return ".".join([ENTRY, *(part for part in parts if part != "README")])


def _with_links(page: Path) -> tuple[str, set[str]]:
    """Return the text of a guide with links between the pages of the reference, and the modules of
    the package that it links to."""
    modules = set[str]()

    def linked(link: re.Match[str]) -> str:
        target, anchor = link[1], link[2] or ""
        if ":" in target:
            return link[0]
        path = (page.parent / target).resolve()
        if path.is_relative_to(EXAMPLES):
            name = _name(path)
        else:
            parts = path.relative_to(EXAMPLES.parent).with_suffix("").parts
            name = ".".join(part for part in parts if part != "__init__")
            modules.add(name)
        here = _name(page).replace(".", "/")
        url = posixpath.relpath(f"{name.replace('.', '/')}.html", posixpath.dirname(here) or ".")
        return f"]({url}{anchor})"

    return _LINK.sub(linked, page.read_text()), modules
