"""Public docstrings, README, error texts and names of tests are in the field's words.

A few rules only: how a docstring begins, and words for which the project has chosen others.
``ruff`` checks the form of docstrings (``D`` in ``pyproject.toml``).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import mcp_client

pytestmark = pytest.mark.one_backend

ROOT = Path(mcp_client.__file__).parent

FIRST_WORDS = re.compile(r"(What|That|Those|Where|Of|As|It|They|Its|From|Equal)\b")
REPLACED = {
    r"mend(s|ed|ing)?": "fix",
    r"(give|gives|gave|given|giving) back": "return",
    r"(hand|hands|handed|handing) over": "return, pass",
    r"what comes back": "response",
    r"folders?": "directory",
    r"anew|once more": "again",
    r"whoever|nobody|somebody": "the user, the caller, no one",
    r"(is|are|was|were) none that": "is not a",
    r"(?<!there )(is|are) no(?= )(?! longer| more| other| larger)": "is not a",
    r"for good|lasting": "permanent",
    r"(hear|hears|heard|learn|learns|learned) of": "receive, be notified of",
    r"(the other|our) side": "the server, the client",
    r"say|says|said|tell|tells|told": "contain, report, state, log",
    r"stand|stands|stood": "is, exists, is listed",
    r"an? (yes|no)(?=[ .,;:])": "an approval, a denial",
    r"kept": "stored",
    r"(?<=\. )Where": "If",
}
"""Words, and what is written instead."""
ALLOWED: dict[str, str] = {}
"""Phrases with such a word that are right, and why: at most twenty."""

_CODE = re.compile(r"``.*?``|`[^`]*`|\"[^\"]*\"|^ {4,}.*$", re.S | re.M)


def files() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def public_docstrings(body: list[ast.stmt]) -> Iterator[str]:
    """The docstrings in a module or class: of itself, and of each public name in it."""
    name = ""
    for node in body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str) and not name.startswith("_"):
                yield node.value.value
            continue
        name = "_"
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("_"):
                continue
            is_class = isinstance(node, ast.ClassDef)
            yield from public_docstrings(node.body if is_class else node.body[:1])
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            name = ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0])


def error_texts(tree: ast.Module) -> Iterator[str]:
    """The texts in the ``raise`` statements of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc:
            for part in ast.walk(node.exc):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def replaced(text: str) -> Iterator[str]:
    for phrase in ALLOWED:
        text = text.replace(phrase, "")
    text = " ".join(_CODE.sub(" ", text).split())
    for old, new in REPLACED.items():
        for found in re.finditer(rf"\b({old})\b", text):
            yield f"{text[max(found.start() - 30, 0) : found.end() + 30]!r}: {new}"


def test_a_docstring_begins_with_a_verb_or_names_its_subject() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {text.strip().splitlines()[0]}"
        for path in files()
        for text in public_docstrings(ast.parse(path.read_text(encoding="utf-8")).body)
        if FIRST_WORDS.match(text.strip())
    ]
    assert not wrong, "\n".join(wrong)


def test_docstrings_errors_and_readme_use_the_words_of_the_field() -> None:
    wrong = []
    for path in files():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = [*public_docstrings(tree.body), *error_texts(tree)]
        wrong += [f"{path.relative_to(ROOT)}: {each}" for t in texts for each in replaced(t)]
    readme = (ROOT.parent / "README.md").read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```", "", readme, flags=re.S | re.M)
    wrong += [f"README.md: {each}" for each in replaced(prose)]
    assert not wrong, "\n".join(wrong)


def test_the_names_of_tests_use_the_words_of_the_field() -> None:
    wrong = [
        f"{path.name}: {name}: {each}"
        for path in sorted(Path(__file__).parent.rglob("*.py"))
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text("utf-8"), re.M)
        for each in replaced(name.replace("_", " "))
    ]
    assert not wrong, "\n".join(wrong)


def test_few_phrases_are_allowed_and_each_has_a_reason() -> None:
    assert len(ALLOWED) <= 20
    assert all(ALLOWED.values())


def test_a_forbidden_word_is_found_and_code_is_not_judged() -> None:
    assert [*replaced("Store it anew, in ``folder``.")] == ["'Store it anew, in .': again"]
