"""The command that runs a script of the user's own, in the sandbox of scripts of models."""

from __future__ import annotations

import argparse
import json
from typing import Any

import anyio

from ..code.bindings import Bindings, signature_of
from ..code.interpreter import as_text
from ..code.run import PausedRun, ScriptResult, run_script
from ..errors import CallDenied, McpError
from .exits import DONE, REFUSED, TOOL_FAILED, UsageError, in_shell
from .output import note, print_document, print_json, print_text
from .session import open_session
from .signals import standard_input

__all__ = ["run"]

_MAX_SCRIPT_BYTES = 1024 * 1024


async def run(options: argparse.Namespace) -> int:
    """Run a script, which calls the server's tools if that is approved.

    Without a script, show how it calls them.
    """
    code = None if options.script is None else await _code_of(options.script)
    async with open_session(options) as session:
        tools = [tool for tool in await session.list_tools() if tool.is_for_models]
        bindings = Bindings(tools)
        for sentence in bindings.left_out:
            note(sentence)
        if code is None:
            signatures = [signature_of(tool) for tool in bindings.by_name.values()]
            print_document(options, {"signatures": signatures}, "\n\n".join(signatures))
            return DONE
        refused: list[McpError] = []

        def explain(error: McpError) -> str:
            refused.extend([error] if isinstance(error, CallDenied) else [])
            return str(in_shell(error))

        found = await run_script(session, bindings, code, options={}, explain=explain)
        if isinstance(found, PausedRun):
            raise found.waiting[0]
        _show(options, found, session._limits.script_output)
    if not found.is_error:
        return DONE
    return REFUSED if refused else TOOL_FAILED


def _show(options: argparse.Namespace, found: ScriptResult, most: int) -> None:
    text, _ = as_text(found.value, most)
    if options.json:
        value: Any = text if isinstance(found.value, str) or not text else json.loads(text)
        document = {"output": found.output, "value": value, "calls": found.calls, "run": found.id}
        stop = None if found.stop is None else found.stop.text
        print_json({**document, "error": found.error, "limit": stop})
        return
    if found.output:
        print_text(found.output.removesuffix("\n"), whole=True)
    if found.value is not None and text:
        print_text(text, whole=True)
    if found.stop is not None:
        note(f"the script was ended: {found.stop.text}")
    elif found.error is not None:
        note(found.error.rstrip("\n"))


async def _code_of(word: str) -> str:
    """Return the text of the file, or with ``-`` of standard input. Raises ``UsageError``."""
    if word == "-":
        return await standard_input()
    try:
        async with await anyio.open_file(word, "rb") as file:
            data = await file.read(_MAX_SCRIPT_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{word}: {error.strerror or error}") from None
    if len(data) > _MAX_SCRIPT_BYTES:
        raise UsageError(f"{word} has more than {_MAX_SCRIPT_BYTES:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{word} is not UTF-8") from None
