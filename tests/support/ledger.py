"""The proof of law 1 and law 2 from the wire: no ``tools/call`` leaves without its own Allow.

Every test runs under a ``Ledger`` (see ``conftest``). It hears what gates allow and what transports
are given to send, and knows nothing of the code between. A call that is written needs an Allow:

- given before, by a gate, for the same server, tool and arguments,
- within the same ``call_tool``, whose end voids what was not used,
- and used for nothing else. The rounds of one call are that call: a request that answers what the
  server asked back, or is repeated as it was.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import pytest

from mcp_client.approval.decision import Verdict
from mcp_client.approval.gate import Gate
from mcp_client.protocol.canonical_json import canonical
from mcp_client.session.call import Caller
from mcp_client.transports import Transport
from mcp_client.transports.base import PersonAsked
from mcp_client.transports.http import HttpTransport
from mcp_client.transports.http_sse import SseTransport
from mcp_client.transports.memory import MemoryTransport
from mcp_client.transports.stdio import StdioTransport
from mcp_client.transports.stream import StreamTransport

TRANSPORTS: tuple[type[Transport], ...] = (
    HttpTransport,
    MemoryTransport,
    SseTransport,
    StdioTransport,
    StreamTransport,
)


@dataclass(eq=False)
class Allowance:
    what: tuple[str, str, str]
    """Server, tool and arguments."""
    used_by: object = None


@dataclass
class Ledger:
    written: int = 0
    """Calls that were sent."""
    wrong: list[str] = field(default_factory=list)
    """Those that were not allowed."""

    def __post_init__(self) -> None:
        self._call: ContextVar[list[Allowance] | None] = ContextVar("call", default=None)
        self._rounds: ContextVar[object] = ContextVar("rounds", default=None)
        self._recorded_already: ContextVar[bool] = ContextVar("recorded_already", default=False)

    def allowed(self, verdict: Verdict[Any]) -> None:
        call, allowances = verdict.request, self._call.get()
        if allowances is not None and call.kind == "call":
            allowances.append(Allowance((call.server, call.tool.name, call.arguments_json)))

    def sent(self, transport: Any, text: str) -> bool:
        """Hear what a transport is given to send. Returns True: this text has been heard."""
        message = json.loads(text)
        if message.get("method") == "tools/call":
            self._called(transport, message["params"])
        return True

    def not_sent(self) -> None:
        """Free the Allow of a call that was held until a person had logged in, and never sent."""
        for allowance in self._call.get() or ():
            if allowance.used_by is self._rounds.get():
                allowance.used_by = None

    def _called(self, transport: Any, params: dict[str, Any]) -> None:
        self.written += 1
        context = getattr(transport, "context", None) or getattr(transport, "_context", None)
        what = (context and context.server, params["name"], canonical(params.get("arguments", {})))
        rounds = self._rounds.get() or object()
        for allowance in self._call.get() or ():
            if allowance.what == what and allowance.used_by in (None, rounds):
                allowance.used_by = rounds
                return
        self.wrong.append(f"{what[0]}/{what[1]} {what[2]}: this call was not allowed")

    @contextmanager
    def one_call(self) -> Iterator[None]:
        token = self._call.set([])
        try:
            yield
        finally:
            self._call.reset(token)

    @contextmanager
    def all_rounds(self) -> Iterator[None]:
        token = self._rounds.set(object())
        try:
            yield
        finally:
            self._rounds.reset(token)

    def listen(self, patch: pytest.MonkeyPatch) -> None:
        approve, run, send = Gate.decide, Caller.run, Caller._send

        @functools.wraps(approve)
        async def approving(gate: Gate, *args: Any, **options: Any) -> Verdict[Any]:
            verdict = await approve(gate, *args, **options)
            self.allowed(verdict)
            return verdict

        @functools.wraps(run)
        async def running(caller: Caller, *args: Any, **options: Any) -> Any:
            with self.one_call():
                return await run(caller, *args, **options)

        @functools.wraps(send)
        async def sending(caller: Caller, *args: Any, **options: Any) -> Any:
            with self.all_rounds():
                try:
                    return await send(caller, *args, **options)
                except PersonAsked:
                    self.not_sent()
                    raise

        patch.setattr(Gate, "decide", approving)
        patch.setattr(Caller, "run", running)
        patch.setattr(Caller, "_send", sending)
        for kind in TRANSPORTS:
            patch.setattr(kind, "exchange", self._recorded(kind.exchange, 2))
            patch.setattr(kind, "send", self._recorded(kind.send, 1))
            patch.setattr(kind, "send_soon", self._recorded_soon(kind.send_soon))

    def _recorded(self, method: Any, text: int) -> Any:
        @functools.wraps(method)
        async def hearing(*args: Any, **options: Any) -> Any:
            token = self._recorded_already.set(self.sent(args[0], args[text]))
            try:
                return await method(*args, **options)
            finally:
                self._recorded_already.reset(token)

        return hearing

    def _recorded_soon(self, method: Any) -> Any:
        @functools.wraps(method)
        def hearing(transport: Transport, text: str, headers: Any) -> Any:
            if not self._recorded_already.get():
                self.sent(transport, text)
            return method(transport, text, headers)

        return hearing
