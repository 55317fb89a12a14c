"""The commands that work on files: stubs."""

from __future__ import annotations

import argparse

import anyio

from .exits import DONE, UsageError
from .output import note, print_json, print_text
from .session import open_session

__all__ = ["stubs"]


async def stubs(options: argparse.Namespace) -> int:
    from ..stubs import generate

    async with open_session(options) as session:
        text = generate(await session.list_tools())
    if options.json:
        print_json({"stubs": text})
    elif options.output is None:
        print_text(text.rstrip("\n"), whole=True)
    if options.output is None:
        return DONE
    try:
        await anyio.Path(options.output).write_text(text)
    except OSError as error:
        raise UsageError(f"-o {options.output}: {error.strerror or error}") from None
    note(f"wrote {options.output}")
    return DONE
