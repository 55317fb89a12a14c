"""Asking the person at the terminal whether the host's model may answer a prompt of a server.

2024-11-05 to 2026-07-28 ``client/sampling``: a person reviews the request, and can refuse it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from ..approval.gate import Allow, Deny
from ..protocol.jsonrpc import dump
from ..runtime.console import Console, open_console, why_no_terminal
from ..runtime.console_layout import Fold, Page, Row, prose
from .handlers import SamplingMessage, SamplingRequest

__all__ = ["approve_sampling_on_terminal"]

_log = logging.getLogger("mcp_client")
_TRIES = 3
_MESSAGES = 6
"""Messages that are shown at first: the last ones, as the model is to answer them."""
_NO = "the person at the terminal said no"
_ALL = (Fold(text=20_000, members=10_000, depth=1_000),)
_ALL_LINES = 2_000


async def approve_sampling_on_terminal(request: SamplingRequest) -> Allow | Deny:
    """Ask the person at the terminal whether the model may be asked what a server wants to know:
    ``Handlers(sampling=..., sampling_approval=approve_sampling_on_terminal)``.

    Shown are the server, the tool whose call led to it, the system prompt, the last messages, the
    tools offered and the most tokens, bounded and made safe to look at. ``v`` shows the whole
    request, up to 20,000 characters of one text and 2,000 lines. ``y`` is a yes; ``n``, nothing,
    the third other answer, Ctrl-C, Ctrl-D and a missing terminal are a no. What the model answers
    is not shown: review it in ``sampling``, before it is returned.
    """
    reason = why_no_terminal()
    if reason is not None:
        _log.warning("%s: a prompt for the model was refused: %s", request.server, reason)
        return Deny(reason)
    async with open_console() as console:
        _show(console, request)
        tries = _TRIES
        while tries:
            match (await console.ask("Ask the model? [y/N/v] ") or "n").strip().lower():
                case "y" | "yes":
                    return Allow()
                case "" | "n" | "no":
                    return Deny(_NO)
                case "v":
                    _show_all(console, request)
                case _:
                    tries -= 1
                    console.say("That is not one of the answers." if tries else "Counted as no.")
    return Deny(_NO)


def _show(console: Console, request: SamplingRequest) -> None:
    page = console.page()
    page.say()
    page.say("A server wants your model to answer. It gets to see the answer.")
    page.quote("Server", prose(request.server, 200), 3)
    if request.call is not None:
        page.quote("Tool called", prose(request.call.tool.name, 200), 3)
    if request.system_prompt is not None:
        page.quote("System", prose(request.system_prompt, 4_000), 12)
    left = len(request.messages) - _MESSAGES
    if left > 0:
        page.fact("", f"{left:,} earlier message{'s' if left > 1 else ''}: v shows more")
    for message in request.messages[-_MESSAGES:]:
        page.quote(message.role.capitalize(), _rows(message), 12)
    if request.tools:
        page.quote("Tools", prose(", ".join(_names(request)), 400), 4)
    page.fact("Most tokens", f"{request.max_tokens:,}")
    page.say("y  ask the model          n  no          v  view all", indent=2)
    console.show(page)


def _rows(message: SamplingMessage) -> Iterator[Row]:
    for block in message.content:
        yield from prose(str(block), 4_000)


def _names(request: SamplingRequest) -> Iterator[str]:
    for tool in request.tools:
        name: Any = tool.get("name")
        yield name if isinstance(name, str) else "?"


def _show_all(console: Console, request: SamplingRequest) -> None:
    page: Page = console.page()
    page.say()
    page.quote_json("Request", dump(request.raw), _ALL, _ALL_LINES)
    console.show(page)
