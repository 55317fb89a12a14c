"""``desk``: the approval page for the calls of other programs, until Ctrl-C."""

from __future__ import annotations

import argparse
import sys

import anyio

from .exits import UsageError
from .output import note, print_json, print_text

__all__ = ["desk"]


async def desk(options: argparse.Namespace) -> int:
    """Serve the page for the calls that wait in a file of tickets.

    A program puts them there with ``connect(approval=ApprovalQueue(store=FILE))``.
    """
    from ..approval.queue import ApprovalQueue
    from ..desk.serve import serve_desk

    if options.tickets is None:
        raise UsageError(
            "desk: name the file where calls wait with --tickets FILE: that of "
            "ApprovalQueue(store=FILE). For the calls of one command use --approve web"
        )
    async with serve_desk(ApprovalQueue(store=options.tickets)) as page:
        if options.json:
            print_json({"url": page.url})
        else:
            print_text(page.url)
        sys.stdout.flush()
        note("the address lets in once; Ctrl-C ends the page")
        await anyio.sleep_forever()
    return 0
