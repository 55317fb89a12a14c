"""Requests of the kinds that are not calls, for tests of what decides and keeps them."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

from mcp_client import Finding
from mcp_client.approval import SamplingRequest, StartRequest

__all__ = ["sampling_of", "start_of"]


def start_of(**members: Any) -> StartRequest:
    given: dict[str, Any] = {
        "server": "files",
        "command": "python3",
        "args": ("serve.py",),
        "env_names": (),
        "cwd": None,
        "url": None,
        "header_names": (),
        "findings": (Finding("start", "this starts a program"),),
        "variables": MappingProxyType({}),
        "fingerprint": "sha256:" + "1" * 64,
        "path": Path("/project/.mcp.json"),
        "scope": "project",
    }
    return StartRequest(**{**given, **members})


def sampling_of(**members: Any) -> SamplingRequest:
    message = {"role": "user", "content": {"type": "text", "text": "Say hello."}}
    params = {"messages": [message], "maxTokens": 100, **members}
    return SamplingRequest.of(params, "files")
