"""The network of a simulated life, and HTTP servers on it that have the habits of proxies.

It takes the place of ``http_pool.dial``. Bytes arrive in order, in pieces and late; connections
are refused, cut and reset; the front of a server is busy, redirects, forgets sessions, answers 502
before or after the server has run a call, and loses responses.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from functools import partial
from typing import Any

import anyio
import h11
from anyio.abc import ByteStream

from mcp_client import HttpServer
from mcp_client.runtime.event_loop import LoopEvent
from mcp_client.transports import http_client, http_pool

from .loops import replace, spawn
from .servers import SimServer
from .wires import PIECES, Line, Pipe, Told
from .world import World, faults

__all__ = ["NETWORK", "Network"]

DIALS = faults("dial is refused", "dial hangs", "slow dial", "idle cut", "keep-alive limit")
REFUSALS = faults(
    "http busy", "http 502", "http 500", "redirect", "session is forgotten", "http 401"
)
LOSSES = faults(
    "http 502 after it ran", "response is lost", "reset in the response", "stream is cut"
)
NETWORK = {*faults("socket is full", "pipe is full"), *DIALS, *REFUSALS, *LOSSES}
"""The kinds with which a server may not be told that a call was given up."""
_SESSION = "mcp-session-id"


class Network:
    def __init__(self, world: World) -> None:
        self.world = world
        self._fronts: dict[str, Front] = {}
        self.links: list[Link] = []

    def install(self, stack: ExitStack) -> None:
        replace(stack, http_pool, "dial", self.dial)
        replace(stack, http_client, "proxy_for", lambda url: None)

    def http(self, client: str, server: SimServer) -> HttpServer:
        host = f"{client}-{server.name}".lower()
        if host not in self._fronts:  # a host that replaces a server comes to the same address
            self._fronts[host] = Front(self.world, client, server)
        return HttpServer(f"http://{host}/mcp")

    async def dial(self, host: str, port: int) -> http_pool.Dialled:
        world, front = self.world, self._fronts[host]
        began = world.now()
        await anyio.lowlevel.checkpoint()
        if world.fault("dial hangs", host):
            await anyio.sleep_forever()
        if world.fault("slow dial", host):
            await anyio.sleep(world.latency(f"{host} dial"))
        if world.fault("dial is refused", host):
            raise ConnectionRefusedError(111, "connection refused")
        link = Link(world, front.client, host, began)
        self.links.append(link)
        spawn(world, partial(front.serve, link))
        return http_pool.Dialled(Stream(link), link.write, lambda: link.down.has_input)


class Link:
    """One TCP connection. ``up`` leads to the server."""

    def __init__(self, world: World, client: str, host: str, began: float) -> None:
        """``began`` is when the client wanted it, to send its first request."""
        self.world, self.client, self.host = world, client, host
        self.wanted_at: float | None = began
        self.up, self.down = Pipe(0), Pipe(0)
        if world.fault("socket is full", host):
            self.up.room = 100
        self.closed = self.reset = False
        self.changed = LoopEvent()
        self._up, self._down = Line(world, f"{host} up"), Line(world, f"{host} down")
        self.busy = False
        """Whether a request has begun, and its response has not ended."""
        self._on_way, self._ended_at = 0, 0.0

    def wake(self) -> None:
        event, self.changed = self.changed, LoopEvent()
        event.set()

    # ----------------------------------------------------------------- the client

    def write(self, data: bytes) -> int:
        if self.closed or self.reset or self.client in self.world.dead:
            raise BrokenPipeError
        if not self.busy and self.down.is_over and self._ended_at < self.world.now():
            self.world.fail(f"{self.host}: a request is sent on a connection that has ended")
        self.busy = True
        part = data[: self.up.room - len(self.up.data) - self._on_way]
        if not part:
            raise BlockingIOError
        self._on_way += len(part)
        at = self.world.now() if self.wanted_at is None else self.wanted_at
        self.wanted_at = None
        self._up.put(partial(self._arrive, part, at))
        return len(part)

    def _arrive(self, part: bytes, at: float) -> None:
        self._on_way -= len(part)
        if not self.up.data:
            self.up.sent.append(at)
        self.up.data += part
        self.wake()

    def close(self) -> None:
        self.closed = True
        self._up.put(self._end_up)
        self.wake()

    def _end_up(self) -> None:
        self.up.is_over = True
        self.wake()

    # ----------------------------------------------------------------- the server

    async def read(self) -> bytes:
        while not self.up.data and not self.up.is_over:
            await self.changed.wait()
        data = self.up.take(len(self.up.data))
        self.wake()
        return data

    def send(self, data: bytes, delivered: Told = None) -> None:
        while data:
            size = self.world.draw(f"{self.host} piece", PIECES)
            piece, data = data[:size], data[size:]
            self._down.put(partial(self._deliver, piece, None if data else delivered))

    def _deliver(self, piece: bytes, delivered: Told) -> None:
        if not self.closed and not self.reset:
            self.down.add(piece, delivered)
            self.wake()

    def shut(self, *, reset: bool = False) -> None:
        """Close it, after all that was sent; ``reset``: at once, and what was sent is lost."""
        if reset:
            self.reset = True
        self._down.put(self._end_down)
        self.wake()

    def _end_down(self) -> None:
        self.down.is_over, self._ended_at = True, self.world.now()
        self.wake()


class Stream(ByteStream):
    """The client's end of a connection, as anyio has it."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        link = self._link
        await anyio.lowlevel.checkpoint()
        while True:
            if link.closed:
                raise anyio.ClosedResourceError
            if link.reset:
                raise anyio.BrokenResourceError
            if link.down.data:
                return link.down.take(min(max_bytes, link.world.draw("tcp", PIECES)))
            if link.down.is_over:
                raise anyio.EndOfStream
            await link.changed.wait()

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        while item:
            try:
                item = item[self._link.write(item) :]
            except BlockingIOError:
                await self._link.changed.wait()
            except BrokenPipeError:
                closed = self._link.closed
                raise (anyio.ClosedResourceError if closed else anyio.BrokenResourceError) from None

    async def send_eof(self) -> None: ...

    async def aclose(self) -> None:
        if not self._link.closed:
            self._link.close()
        await anyio.lowlevel.checkpoint()


class Front:
    """The HTTP of one server for one client, with sessions in the handshake era."""

    def __init__(self, world: World, client: str, server: SimServer) -> None:
        self.world, self.client, self.server = world, client, server
        self.where = f"{client} {server.name}"
        self.streams = world.draw(f"{self.where} streams", (True, False))
        self.listens = world.draw(f"{self.where} has GET", (True, True, False))
        self.sessions: dict[str, Exchange | None] = {}
        """The stream on which each session listens."""
        self._count = 0
        self._redirected: dict[bytes, float] = {}
        """When what was redirected was sent at first."""

    async def serve(self, link: Link) -> None:
        http = h11.Connection(h11.SERVER)
        while True:
            found = await self._request(http, link)
            if found is None:
                return
            request, body, at = found
            at = self._redirected.pop(body, at) if body else at
            exchange = Exchange(self, link, http, request, at)
            await self._handle(exchange, body)
            link.busy = False
            if exchange.session is None:
                self.server.gone(exchange)
            if http.our_state is not h11.DONE or http.their_state is not h11.DONE:
                link.shut()
                return
            http.start_next_cycle()

    async def _request(self, http: Any, link: Link) -> tuple[Any, bytes, float] | None:
        request, body, at = None, b"", 0.0
        cut = self.world.draw(f"{link.host} idle", (1.0, 60.0, 3.0))
        idle = cut if self.world.fault("idle cut", link.host) else 10_000.0
        while True:
            try:
                event = http.next_event()
            except h11.RemoteProtocolError:  # it was closed within a request
                return None
            if event is h11.NEED_DATA:
                with anyio.move_on_after(idle):
                    http.receive_data(await link.read())
                    if not at and link.up.sent:  # when its first byte left
                        at = link.up.sent[0]
                    link.up.sent.clear()
                    continue
                link.shut()
                return None
            match event:
                case h11.Request():
                    request = event
                case h11.Data():
                    body += event.data
                case h11.EndOfMessage():
                    return request, body, at
                case _:
                    return None

    async def _handle(self, exchange: Exchange, body: bytes) -> None:
        method, session = exchange.method, exchange.session
        if not self.server.stateless and session is not None and session not in self.sessions:
            exchange.answer(404)
        elif method == "DELETE":
            self.sessions.pop(session or "", None)
            exchange.answer(200)
        elif method == "GET":
            if session is None or not self.listens:
                exchange.answer(405)
                return
            self.sessions[session] = exchange
            exchange.begin()
            await exchange.ended()
        else:
            message = json.loads(body)
            if not self._refuses(exchange, body):
                await self._post(exchange, message)

    def _refuses(self, exchange: Exchange, body: bytes) -> bool:
        """Whether a request is refused before the server has it."""
        kind = next((kind for kind in REFUSALS if self.world.fault(kind, self.where)), "")
        match kind:
            case "http busy":
                exchange.answer(self.world.draw("busy", (429, 503)), {"Retry-After": "1"})
            case "http 502":
                exchange.answer(502, {}, b"bad gateway")
            case "http 401":
                exchange.answer(401, {"WWW-Authenticate": "Bearer"})
            case "http 500":
                exchange.answer(500)
            case "redirect" if not exchange.target.endswith("x"):
                self._redirected[body] = exchange.at
                exchange.answer(307, {"Location": f"{exchange.target}x"})
            case "session is forgotten" if exchange.session in self.sessions:
                listens = self.sessions.pop(exchange.session)
                if listens is not None:  # a server that knows the session no more closes its stream
                    listens.end()
                exchange.answer(404)
            case _:
                return False
        return True

    async def _post(self, exchange: Exchange, message: dict[str, Any]) -> None:
        if "id" not in message or "method" not in message:
            await self.server.handle(message, exchange, exchange.at)
            exchange.answer(202)
            return
        if message["method"] == "initialize" and not self.server.stateless:
            self._count += 1
            exchange.session = f"{self.where}-{self._count}".replace(" ", "-")
            exchange.new_session = True
            self.sessions[exchange.session] = None
        exchange.id = message["id"]
        if self.streams or message["method"] == "subscriptions/listen":
            exchange.begin()
        spawn(self.world, partial(self.server.handle, message, exchange, exchange.at))
        await exchange.ended()


class Exchange:
    """One request and its response; and, in a session, the session as the server has it."""

    def __init__(self, front: Front, link: Link, http: Any, request: Any, at: float) -> None:
        headers = {name.decode(): value.decode() for name, value in request.headers}
        self.client = front.client
        self.method, self.target = request.method.decode(), request.target.decode()
        self.session = headers.get(_SESSION)
        self.new_session = False
        self.at = at
        self.id: Any = None
        self.is_over = False
        self._front, self._link, self._http, self._world = front, link, http, front.world
        self._began = False

    def __eq__(self, other: object) -> bool:
        if self.session is None or not isinstance(other, Exchange):
            return self is other
        return bool(self.session == other.session)

    def __hash__(self) -> int:
        return id(self) if self.session is None else hash(self.session)

    @property
    def alive(self) -> bool:
        return self.session is None or self.session in self._front.sessions

    async def ended(self) -> None:
        """Wait for the end of the response, or of the connection."""
        while not self.is_over and not self._link.up.is_over:
            await self._link.changed.wait()
        self.is_over = True

    def _over(self) -> None:
        self.is_over = True
        self._link.wake()

    # --------------------------------------------------------------- as HTTP

    def answer(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        if self.is_over:
            return
        self._head(status, {**(headers or {}), "Content-Length": str(len(body))})
        self._send(h11.Data(data=body))
        self._end()

    def _head(self, status: int, headers: dict[str, str]) -> None:
        if self._world.fault("keep-alive limit", self._front.where):
            headers["Connection"] = "close"
        if self.new_session and self.session:
            headers["Mcp-Session-Id"] = self.session
        self._send(h11.Response(status_code=status, headers=list(headers.items())))

    def begin(self) -> None:
        """Begin a stream of events."""
        self._began = True
        self._head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})

    def _send(self, event: Any, delivered: Told = None) -> None:
        self._link.send(self._http.send(event), delivered)

    def _end(self) -> None:
        self._send(h11.EndOfMessage())
        self._over()

    # ----------------------------------------------------------- as a server's peer

    def send(self, message: Any, delivered: Told = None) -> None:
        is_answer = isinstance(message, dict) and "method" not in message
        is_own = is_answer and message.get("id") == self.id
        if self.is_over or (not is_own and not self._began):
            stream = self._front.sessions.get(self.session or "")
            if stream is not None and stream is not self and not is_answer:
                stream.send(message, delivered)
            return
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        if is_own and self._is_lost(data):
            return
        if not self._began:
            self._head(200, {"Content-Type": "application/json", "Content-Length": str(len(data))})
            self._send(h11.Data(data=data), delivered)
        else:
            self._send(h11.Data(data=b"data: " + data + b"\n\n"), delivered)
        if is_own:
            self._end()

    def _is_lost(self, data: bytes) -> bool:
        """Whether the answer does not arrive."""
        kind = next((kind for kind in LOSSES if self._world.fault(kind, self._front.where)), "")
        match kind:
            case "http 502 after it ran" if not self._began:
                self.answer(502)
            case "response is lost":
                self.end()
            case "reset in the response":
                self._link.send(data[: len(data) // 2])
                self._link.shut(reset=True)
                self._over()
            case "stream is cut" if self._began:
                self._end()
            case _:
                return False
        return True

    def end(self, rest: bytes = b"") -> None:
        """Close the connection without an answer."""
        self._link.send(rest)
        self._link.shut()
        self._over()
