"""The same peers as HTTP servers: each started on a port of its own, and ended with its test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio

from tests.interop import peers
from tests.support.starting import free_port

__all__ = [
    "asking",
    "authlib",
    "everything",
    "growing",
    "guarded",
    "library",
    "official",
    "oidc_provider",
    "tasks",
]

_STARTING = 200.0


@asynccontextmanager
async def official(version: str, transport: str, *options: str) -> AsyncIterator[str]:
    """The URL of the official SDK's server; ``transport`` is its word for it."""
    stdio = peers.official(version)
    port = free_port()
    words = [stdio.command, *stdio.args, transport, str(port), *options]
    async with _running(words, port):
        yield f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"


@asynccontextmanager
async def library() -> AsyncIterator[str]:
    """The URL of a server on the official SDK 2.x with resources and prompts."""
    stdio = peers.library("2.3.0")
    port = free_port()
    async with _running([stdio.command, *stdio.args, str(port)], port):
        yield f"http://127.0.0.1:{port}/mcp"


@asynccontextmanager
async def tasks() -> AsyncIterator[str]:
    """The URL of a server on FastMCP that makes tasks of calls."""
    stdio = peers.tasks()
    port = free_port()
    async with _running([stdio.command, *stdio.args, str(port)], port):
        yield f"http://127.0.0.1:{port}/mcp"


@asynccontextmanager
async def growing() -> AsyncIterator[str]:
    """The URL of a server on the official SDK whose tools come and go while it runs."""
    stdio = peers.growing()
    port = free_port()
    async with _running([stdio.command, *stdio.args, str(port)], port):
        yield f"http://127.0.0.1:{port}/mcp"


@asynccontextmanager
async def guarded() -> AsyncIterator[str]:
    """The URL of a server on the official SDK behind the SDK's authorization server."""
    port = free_port()
    async with _running(peers.guarded(port), port):
        yield f"http://127.0.0.1:{port}/mcp"


@asynccontextmanager
async def oidc_provider(requires: str = "nothing") -> AsyncIterator[str]:
    """The issuer of an oidc-provider that knows no client yet; ``requires`` is of its script."""
    port = free_port()
    async with _running(peers.oidc_provider(port, requires), port):
        yield f"http://127.0.0.1:{port}"


@asynccontextmanager
async def authlib(grant: str = "jwt-bearer") -> AsyncIterator[str]:
    """The issuer of an Authlib server that knows no client yet; ``grant`` is for assertions."""
    port = free_port()
    async with _running(peers.authlib(port, grant), port):
        yield f"http://127.0.0.1:{port}"


@asynccontextmanager
async def asking(transport: str) -> AsyncIterator[str]:
    """The URL of a server on the official SDK that asks back."""
    stdio = peers.asking()
    port = free_port()
    async with _running([stdio.command, *stdio.args, transport, str(port)], port):
        yield f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"


@asynccontextmanager
async def everything(transport: str) -> AsyncIterator[str]:
    """The URL of the project's own server; ``transport`` is "streamableHttp" or "sse"."""
    stdio = peers.everything()
    port = free_port()
    words = [stdio.command, *stdio.args[:-1], transport]
    async with _running(words, port):
        yield f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"


@asynccontextmanager
async def _running(words: Sequence[str], port: int) -> AsyncIterator[None]:
    env = {**os.environ, "PORT": str(port)}
    env.pop("PYTHONPATH", None)
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(words, env=env, stdin=nothing, stdout=nothing, stderr=nothing)
    try:
        with anyio.fail_after(_STARTING):
            while not await _listens(port):
                assert process.poll() is None, f"{words} ended with {process.returncode}"
                await anyio.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


async def _listens(port: int) -> bool:
    try:
        stream = await anyio.connect_tcp("127.0.0.1", port)
    except OSError:
        return False
    await stream.aclose()
    return True
