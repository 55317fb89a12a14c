"""An option that does not exist is a ``ConfigError`` that suggests the right one, everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_client import (
    Allow,
    ApprovalQueue,
    ConfigError,
    Deny,
    Host,
    MemoryServer,
    OAuth,
    Rules,
    ServerConfig,
    Timeouts,
    allow_all,
    connect,
    sync,
)
from mcp_client.approval import Remember
from mcp_client.audit import Audit, AuditLog, Redaction
from mcp_client.catalog import Pins
from mcp_client.connection import Limits
from mcp_client.extensions import ClientInfo
from mcp_client.sandbox import Sandbox
from mcp_client.state import FileState
from mcp_client.testing import ReplayServer
from mcp_client.validation import Validation

SERVER = MemoryServer(lambda message: NotImplemented)
TAKERS: dict[str, Callable[..., Any]] = {
    "connect": lambda **options: connect(SERVER, **options),
    "sync.connect": lambda **options: sync.connect(SERVER, **options),
    "Host": lambda **options: Host({}, **options),
    "sync.Host": lambda **options: sync.Host({}, **options),
    "ServerConfig": lambda **options: ServerConfig(SERVER, **options),
    "Timeouts": Timeouts,
    "Limits": Limits,
    **{made.__name__: made for made in (ApprovalQueue, Allow, Deny, Remember, Rules, OAuth)},
    **{made.__name__: made for made in (Sandbox, Pins, MemoryServer, FileState, Audit, AuditLog)},
    **{made.__name__: made for made in (Validation, ClientInfo, Redaction, ReplayServer)},
}


@pytest.mark.parametrize(
    ("taker", "wrong", "right"),
    [
        ("connect", "aproval", r"did you mean approval\?"),
        ("connect", "timeout", r"timeouts=Timeouts\(total=\.\.\.\)"),
        ("connect", "headers", r"HttpServer\(url, headers="),
        ("connect", "env", r"StdioServer\(command, args, env="),
        ("connect", "approve", r"did you mean approval\?"),
        ("sync.connect", "aproval", r"did you mean approval\?"),
        ("sync.connect", "headers", r"HttpServer\(url, headers="),
        ("Host", "aproval", r"did you mean approval\?"),
        ("Host", "exclude", r"ServerConfig\(server, exclude="),
        ("sync.Host", "headers", r"HttpServer\(url"),
        ("ServerConfig", "exlude", r"did you mean exclude or include\?"),
        ("Timeouts", "conect", r"did you mean connect\?"),
        ("Timeouts", "timeout", r"did you mean total\?"),
        ("Limits", "message_byte", r"did you mean message_bytes\?"),
        ("Limits", "x", r"it has: message_bytes, depth"),
        ("ApprovalQueue", "waits", r"^ApprovalQueue\(\) .* did you mean wait\?"),
        ("Allow", "rember", r"^Allow\(\) .* did you mean remember\?"),
        ("Deny", "reson", r"^Deny\(\) .* did you mean reason\?"),
        ("Remember", "second", r"^Remember\(\) .* did you mean seconds\?"),
        ("Rules", "asks", r"^Rules\(\) .* did you mean ask\?"),
        ("OAuth", "redirect_url", r"^OAuth\(\) .* did you mean redirect_uri\?"),
        ("Sandbox", "networks", r"^Sandbox\(\) .* did you mean network\?"),
        ("Pins", "polcy", r"^Pins\(\) .* did you mean policy\?"),
        ("MemoryServer", "identiy", r"^MemoryServer\(\) .* did you mean identity\?"),
        ("FileState", "decision", r"^FileState\(\) .* did you mean decisions\?"),
        ("Audit", "failures", r"^Audit\(\) .* did you mean failure\?"),
        ("AuditLog", "max_byte", r"^AuditLog\(\) .* did you mean max_bytes\?"),
        ("Validation", "result", r"^Validation\(\) .* did you mean results\?"),
        ("ClientInfo", "nam", r"^ClientInfo\(\) .* did you mean name\?"),
        ("Redaction", "pattern", r"^Redaction\(\) .* did you mean patterns\?"),
        ("ReplayServer", "pth", r"^ReplayServer\(\) .* did you mean path\?"),
    ],
)
def test_an_unknown_option_is_a_config_error_that_suggests_one(
    taker: str, wrong: str, right: str
) -> None:
    with pytest.raises(ConfigError, match=right) as caught:
        TAKERS[taker](**{wrong: 1})
    assert isinstance(caught.value, TypeError)
    assert f"has no option {wrong!r}" in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


async def test_an_unknown_option_of_a_call_is_a_config_error_that_suggests_one() -> None:
    async with connect(SERVER, approval=allow_all) as session:
        with pytest.raises(ConfigError, match=r"no option 'timout'; did you mean timeout\?"):
            await session.call_tool("t", timout=3)  # type: ignore[call-arg]


def test_other_mistakes_of_a_call_stay_what_they_are() -> None:
    with pytest.raises(TypeError, match="positional"):
        ServerConfig()  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="Timeouts"):
        connect(SERVER, timeouts=3)  # type: ignore[arg-type]
