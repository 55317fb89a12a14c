"""Every journey by a name, as a function without parameters: what ``run_apart`` runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from tests.journeys import (
    asking_story,
    library_story,
    story,
    test_host,
    test_http,
    test_questions,
    test_stdio,
)

__all__ = ["FEWER_REAL", "OURS", "REAL"]

Journey: TypeAlias = Callable[[], Awaitable[None]]


async def _over_stdio(report: Callable[..., Awaitable[None]], start: Any, peer: story.Peer) -> None:
    await report(start(), peer)


async def _over_http(report: Callable[..., Awaitable[None]], start: Any, peer: story.Peer) -> None:
    async with start() as url:
        await report(url, peer)


async def _many_servers(era: str) -> None:
    with TemporaryDirectory() as directory:
        await test_host.test_a_host_from_opening_to_closing(era, Path(directory))


OURS: dict[str, Journey] = {
    **{f"many servers, {era}": partial(_many_servers, era) for era in asking_story.ERAS},
    **{f"asking, {era}": partial(asking_story.play, era) for era in asking_story.ERAS},
    **{
        f"library, {transport}, {revision}": partial(library_story.play, transport, revision)
        for transport, revision in library_story.PLAYS
        if revision in library_story.REVISIONS[-2:]
    },
}
"""With servers of our own."""

REAL: dict[str, Journey] = {
    **{
        f"stdio, {name}": partial(_over_stdio, story.play, *one)
        for name, one in (test_stdio.AGREED | test_stdio.PINNED).items()
    },
    **{
        f"http, {name}": partial(_over_http, story.play, *one)
        for name, one in test_http.TABLE.items()
    },
    **{
        f"closing, stdio, {name}": partial(_over_stdio, story.close_in_the_middle, *one)
        for name, one in test_stdio.AGREED.items()
    },
    **{
        f"closing, http, {name}": partial(
            _over_http, story.close_in_the_middle, *test_http.TABLE[name]
        )
        for name in ("official-2.3-events", "official-1.12-events", "everything-sse")
    },
    **{
        f"questions, {start}, {revision}": partial(
            test_questions.test_handlers_answer_the_official_server, start, pin, revision
        )
        for start, pin, revision in test_questions.ASKED
    },
    **{
        f"questions, everything, {transport}": partial(
            test_questions.test_handlers_answer_the_reference_server, transport
        )
        for transport in ("stdio", "streamableHttp", "sse")
    },
}
"""With real servers."""

FEWER_REAL = [
    "stdio, official-2.3",
    "http, official-2.3-events",
    "closing, stdio, official-2.3",
    "questions, stdio, 2025-11-25",
    "questions, streamable-http, 2026-07-28",
    "questions, everything, stdio",
]
"""One of each kind."""
