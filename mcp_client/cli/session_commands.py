"""The commands that use one server: tools, describe, call, search, resources, prompts."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from ..catalog.tool import Tool
from ..errors import InvalidArguments, InvalidResult, McpError, NotFound, ServerError, UnknownTool
from ..protocol.offers import Prompt
from ..runtime.safe_text import close_names, near, safe_text
from ..session.session import Session
from .completion import keep_names, known_of
from .description import argument_rows, example_of
from .exits import DONE, TOOL_FAILED, Interrupted, UsageError, error_document, exit_code
from .output import (
    current_line,
    json_without_escapes,
    make_save_directory,
    note,
    note_error,
    print_content,
    print_contents,
    print_json,
    print_parts,
    print_result,
    print_table,
    print_text,
    print_wrapped,
    progress_to_stderr,
    save_content,
)
from .session import open_session
from .signals import standard_input, stdin_lines
from .tool_arguments import arguments_of, check_names, missing_names, signature_parts

__all__ = [
    "call",
    "complete",
    "describe",
    "prompt",
    "prompts",
    "read",
    "resources",
    "search",
    "tools",
]

_MAX_MISSING = 20
_METHOD_NOT_FOUND = -32601
_INVALID_PARAMS = -32602


async def tools(options: argparse.Namespace) -> int:
    """List the tools of a server: a line of types each, with the beginning of what it is for."""
    async with open_session(options) as session:
        listed = await session.list_tools()
        keep_names(options, known_of(listed), "tools")
        if options.json:
            print_json({"tools": list(map(_definition, listed))})
            return DONE
        for tool in listed:
            print_wrapped(*signature_parts(tool))
            for line in safe_text(tool.description or "", 400, lines=True).splitlines()[:3]:
                print_wrapped(("    ", ""), (line.strip(), "dim"))
        _note_rejected(listed)
        for finding in listed.findings:
            if not finding.note:
                note(f"look at this: {finding}")
    return DONE


def _definition(tool: Tool) -> dict[str, Any]:
    """Return the definition as a call has to give its arguments: without those that are bound."""
    return {**tool.raw, "inputSchema": tool.input_schema}


async def describe(options: argparse.Namespace) -> int:
    """Show one tool in full: its description, arguments, result and fingerprint."""
    async with open_session(options) as session:
        tool = await _tool(session, options)
        if options.json:
            print_json(_definition(tool))
            return DONE
        _describe(tool, options)
    return DONE


def _describe(tool: Tool, options: argparse.Namespace) -> None:
    print_parts(*signature_parts(tool))
    for text in (tool.title, tool.description):
        for line in f"\n{safe_text(text, 100_000, lines=True)}".split("\n") if text else ():
            print_wrapped((line, ""))
    rows = argument_rows(tool)
    if rows:
        print_text("\nArguments:")
        print_table(rows, "  name", "type", "", "about")
    if tool.output_schema is not None:
        schema = json.dumps(tool.output_schema, indent=2, ensure_ascii=False)
        print_text(f"\nResult:\n{json_without_escapes(schema)}", whole=True)
    example = example_of(tool, _words_before(options))
    if example is not None:
        print_text(f"\nExample:\n  {example}", whole=True)
    print_text(f"\nFingerprint: {tool.fingerprint}")
    for finding in tool.findings:
        note(str(finding) if finding.note else f"look at this: {finding}")


def _words_before(options: argparse.Namespace) -> list[str]:
    """Return the words of a call before the tool's name."""
    if getattr(options, "session", None) is not None:
        return ["call"]
    config = [] if options.config is None else ["--config", options.config]
    return ["mcp-client", "call", *config, options.target]


async def call(options: argparse.Namespace) -> int:
    """Call a tool with the arguments that the words give, if that is approved; print its result."""
    if getattr(options, "each", False):
        return await _call_each(options)
    make_save_directory(options)
    async with open_session(options) as session:
        tool = await _tool(session, options)
        stdin = await standard_input() if "-" in options.arguments else ""
        return await _call(session, tool, options, options.arguments, stdin)


async def _call(
    session: Session, tool: Tool, options: argparse.Namespace, words: list[str], stdin: str
) -> int:
    arguments = arguments_of(words, tool.input_schema, lambda: stdin)
    slip = check_names(arguments, tool.input_schema)
    missing = missing_names(arguments, tool.input_schema)
    if missing:
        signature = "".join(text for text, _ in signature_parts(tool))
        raise _incomplete(missing, f"the tool is {signature}", tool.server, tool.name)
    if slip is not None:
        note(slip)
    progress = progress_to_stderr()
    try:
        result = await session.call_tool(options.tool, arguments, on_progress=progress)
    except InvalidResult as error:  # the tool ran, so what it returned is not lost
        if options.json:
            save_content(error.result.content, options)
        else:
            print_result(error.result, options)
        raise
    finally:
        if progress is not None:
            progress.clear()
    if options.json:
        print_json(result.raw)
        save_content(result.content, options)
    else:
        print_result(result, options)
    return TOOL_FAILED if result.is_error else DONE


async def _call_each(options: argparse.Namespace) -> int:
    """Call the tool once for each JSON object on standard input, and print a JSON line for each.

    Each line of the input is an object. Arguments of the command line are for every call, unless a
    line has others. The exit code is that of the last call that failed.
    """
    if getattr(options, "session", None) is not None:
        raise UsageError("--each reads standard input, as 'shell' does: use 'mcp-client call'")
    if "-" in options.arguments:
        raise UsageError("--each reads the arguments from standard input: leave out -")
    options.json = True
    make_save_directory(options)
    code = DONE
    async with open_session(options) as session:
        tool = await _tool(session, options)
        async for number, line in stdin_lines():
            words = [*options.arguments, "-"]
            run = partial(_call, session, tool, options, words, line)
            code = await numbered(number, run, as_json=True) or code
    return code


async def numbered(number: int | None, run: Callable[[], Awaitable[int]], *, as_json: bool) -> int:
    """Work on one line of a batch; the exit code.

    A failure is reported with the line's number, and as one JSON document if that is what the batch
    prints. Raises ``Interrupted``.
    """
    token = current_line.set(number if as_json else None)
    try:
        return await run()
    except Interrupted:
        raise
    except McpError as error:
        if as_json:
            print_json(error_document(error))
        note_error(error, number)
        return exit_code(error)
    finally:
        current_line.reset(token)
        sys.stdout.flush()


def _incomplete(
    missing: list[str], signature: str, server: str, tool: str | None
) -> InvalidArguments:
    names = ", ".join(safe_text(name, 60) for name in missing[:_MAX_MISSING])
    more = f" and {len(missing) - _MAX_MISSING} more" if len(missing) > _MAX_MISSING else ""
    text = f"missing: {names}{more}; nothing was sent; {signature}"
    return InvalidArguments(text, server=server, tool=tool)


def _nameless(options: argparse.Namespace, what: str, session: Session, names: list[str]) -> Any:
    """Return the error of a command without a name, which has the names that there are."""
    there = near("", names) or f"; it has no {what}s"
    name = safe_text(session.name, 60)
    return UsageError(f"{options.command}: give the name of a {what} of {name}{there}")


async def _tool(session: Session, options: argparse.Namespace) -> Tool:
    """Return the tool, or raise ``UnknownTool`` with the nearest names.

    Raises ``UsageError`` without a name.
    """
    name = options.tool
    if name is None:
        names = [tool.name for tool in await session.list_tools()]
        raise _nameless(options, "tool", session, names)
    try:
        return await session.get_tool(name)
    except UnknownTool as error:
        names = [tool.name for tool in await session.list_tools()]
        if not close_names(name, names):
            raise
        text = f"the server has no tool {safe_text(name, 80)!r}{near(name, names)}"
        raise UnknownTool(text, server=error.server, tool=error.tool) from None


async def search(options: argparse.Namespace) -> int:
    """List the tools that fit the words of the query, the best first."""
    if not options.query:
        raise UsageError("search: describe in a few words what the tool should do")
    async with open_session(options) as session:
        listed = await session.list_tools()
        keep_names(options, known_of(listed), "tools")
        found = await session.search_tools(" ".join(options.query), limit=options.limit)
        if options.json:
            print_json({"tools": list(map(_definition, found))})
            return DONE
        for tool in found:
            print_parts(*signature_parts(tool))
    return DONE


async def resources(options: argparse.Namespace) -> int:
    """List the resources and resource templates of a server."""
    async with open_session(options) as session:
        listed = await _listed(session, "resources", session.list_resources)
        templates: Any = ()
        if "resources" in session.capabilities:
            templates = await _listed(session, "resources", session.list_resource_templates)
        if options.json:
            print_json(
                {
                    "resources": [one.raw for one in listed],
                    "resourceTemplates": [one.raw for one in templates],
                }
            )
            return DONE
        rows = [(one.uri, one.title or one.name or "") for one in listed]
        rows += [(one.uri_template, one.title or one.name or "") for one in templates]
        print_table(rows, "URI", "Name")
    return DONE


async def _listed(session: Session, feature: str, list_all: Any) -> Any:
    """Return the server's list; an empty one, with a note, if it does not have the feature."""
    if feature not in session.capabilities:
        note(f"{session.name} has no {feature}")
        return ()
    try:
        listed = await list_all()
    except ServerError as error:
        if error.code != _METHOD_NOT_FOUND:
            raise
        return ()  # it declares resources, and has no templates
    _note_rejected(listed)
    return listed


def _note_rejected(listed: Any) -> None:
    for rejected in listed.rejected:
        note(f"left out: {rejected.name}: {rejected.reason}")


async def read(options: argparse.Namespace) -> int:
    """Print the contents of a resource. Raises ``NotFound`` if the server has none."""
    make_save_directory(options)
    async with open_session(options) as session:
        if options.uri is None:
            listed = await _listed(session, "resources", session.list_resources)
            raise _nameless(options, "resource", session, [one.uri for one in listed])
        try:
            found = await session.read_resource(options.uri)
        except NotFound:
            raise
        except ServerError as error:
            if error.code != _INVALID_PARAMS:
                raise
            # Of the request, only the URI can be wrong.
            raise NotFound(
                f"the server has no resource {safe_text(options.uri, 200)!r}: "
                f"{error.server_message} (code {error.code})",
                code=error.code,
                data=error.data,
                server_message=error.server_message,
                server=session.name,
            ) from None
        if options.json:
            print_json(found.raw)
            save_content(found.contents, options)
        else:
            print_contents(found.contents, options)
    return DONE


async def prompts(options: argparse.Namespace) -> int:
    """List the prompts of a server, each with the names of its arguments."""
    async with open_session(options) as session:
        listed = await _listed(session, "prompts", session.list_prompts)
        keep_names(options, known_of((), listed), "prompts")
        if options.json:
            print_json({"prompts": [one.raw for one in listed]})
            return DONE
        for one in listed:
            name, arguments = _prompt_parts(one)
            print_parts((name, "bold cyan"), (arguments, ""))
            if one.description:
                print_parts((f"    {safe_text(one.description, 400)}", "dim"))
    return DONE


def _prompt_parts(one: Prompt) -> tuple[str, str]:
    """Return a prompt's name, and the names of its arguments."""
    names = [f"{safe_text(each.name, 60)}{'' if each.required else '?'}" for each in one.arguments]
    return safe_text(one.name, 200), f"({', '.join(names)})"


async def prompt(options: argparse.Namespace) -> int:
    """Print the messages of a prompt, filled in with the arguments that the words give."""
    arguments = dict(_pair(word) for word in options.arguments)
    make_save_directory(options)
    async with open_session(options) as session:
        one = await _check_prompt(session, options)
        missing = [
            each.name for each in one.arguments if each.required and each.name not in arguments
        ]
        if missing:
            signature = f"the prompt is {''.join(_prompt_parts(one))}"
            raise _incomplete(missing, signature, session.name, None)
        found = await session.get_prompt(options.prompt, arguments)
        if options.json:
            print_json(found.raw)
            save_content([message.content for message in found.messages], options)
            return DONE
        for message in found.messages:
            print_text(f"{message.role}:")
            print_content([message.content], options)
    return DONE


async def complete(options: argparse.Namespace) -> int:
    """Print the values that the server suggests for an argument of a prompt or template."""
    name, value = _pair(options.argument)
    known = dict(_pair(word) for word in options.arguments)
    async with open_session(options) as session:
        ref = await _reference(session, options)
        found = await session.complete(ref, {"name": name, "value": value}, known or None)
        if options.json:
            print_json(found.raw)
            return DONE
        for text in found.values:
            print_text(text)
    return DONE


async def _check_prompt(session: Session, options: argparse.Namespace) -> Any:
    listed, name = await _listed(session, "prompts", session.list_prompts), options.prompt
    if name is None:
        raise _nameless(options, "prompt", session, [one.name for one in listed])
    for one in listed:
        if one.name == name:
            return one
    raise NotFound(
        f"unknown prompt {safe_text(name, 80)!r}{near(name, [one.name for one in listed])}",
        server=session.name,
    )


async def _reference(session: Session, options: argparse.Namespace) -> Any:
    """Return a prompt by its name, or a resource template by its URI."""
    name = options.prompt
    if "resources" in session.capabilities and (":" in name or "{" in name):
        for one in await _listed(session, "resources", session.list_resource_templates):
            if one.uri_template == name:
                return one
    return await _check_prompt(session, options)


def _pair(word: str) -> tuple[str, str]:
    name, sign, value = word.partition("=")
    if not sign or not name:
        raise UsageError(f"{safe_text(word, 80)!r}: write name=value")
    return name, value
