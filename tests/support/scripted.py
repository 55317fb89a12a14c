"""A server over stdio that misbehaves on demand: the tool's name and the options choose how.

The standard library alone, both eras, one thread. ``TOOLS`` is what a call may do; ``OPTIONS`` are
about starting, negotiating and listing. Hundreds of tests start it: what few of them need is
imported there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from types import SimpleNamespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STATELESS, HANDSHAKE = "2026-07-28", "2025-11-25"
held: list[Any] = []
seen: list[dict[str, Any]] = []
probed = False


def send(message: dict[str, Any]) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode())


def write(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def text(value: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(value)}]}


# ------------------------------------------------------------------- what a call may do


def call(id: Any, name: str, arguments: dict[str, Any], meta: dict[str, Any]) -> Any:
    """The result, or None for no answer."""
    match name:
        case "echo":
            return text(json.dumps(arguments))
        case "length":
            return text(len(arguments["text"]))
        case "big":
            return text("x" * arguments["bytes"])
        case "environment":
            return text(json.dumps(dict(os.environ)))
        case "pid":
            return text(os.getpid())
        case "seen":
            return text(json.dumps(seen))
        case "never":
            return None
        case "hold":
            held.append(id)
            return None
        case "release":  # the last that was held is answered first
            while held:
                late = held.pop()
                send({"id": late, "result": text(late)})
            return text("released")
        case "raw":  # any bytes at all; ID means the id of this call
            for line in arguments["lines"]:
                write(line.replace("ID", str(id)).encode("latin-1"))
            return text("after") if arguments.get("answer") else None
        case "again":  # asks back for ever
            return {"resultType": "input_required", "requestState": "more"}
        case "exit":
            print("about to go", file=sys.stderr, flush=True)
            os._exit(arguments.get("code", 3))
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "close-output":
            os.close(1)
            signal.pause()
        case "close-input":
            os.close(0)
            send({"id": id, "result": text("deaf")})
            signal.pause()
        case "spawn":
            return text(grandchild())
        case "spawn-noting":
            return text(noting_grandchild(arguments["folder"]))
        case "spawn-and-exit":
            print(grandchild(), file=sys.stderr, flush=True)
            os._exit(0)
        case "stop-reading":
            send({"id": id, "result": text("stopped")})
            while not os.path.exists(arguments["until"]):
                time.sleep(0.01)
        case "flood-pings":
            for number in range(arguments["count"]):
                send({"id": f"p{number}", "method": "ping"})
            return text("flooded")
        case "flood-progress":
            for number in range(arguments["count"]):
                params = {"progressToken": meta.get("progressToken"), "progress": number}
                send({"method": "notifications/progress", "params": params})
            return text("flooded")
        case "flood-errors":
            sys.stderr.write("e" * arguments["bytes"] + "\nthe end\n")
            sys.stderr.flush()
            return text("flooded")
    return {"content": [{"type": "text", "text": f"no tool {name}"}], "isError": True}


TOOLS = [
    "echo",
    "length",
    "big",
    "environment",
    "pid",
    "seen",
    "never",
    "hold",
    "release",
    "raw",
    "again",
    "exit",
    "kill",
    "close-output",
    "close-input",
    "spawn",
    "spawn-noting",
    "spawn-and-exit",
    "stop-reading",
    "flood-pings",
    "flood-progress",
    "flood-errors",
]


def grandchild() -> int:
    import subprocess

    program = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
    return subprocess.Popen([sys.executable, "-ISc", program]).pid


def noting_grandchild(directory: str) -> int:
    """It makes the directory when it is asked to end."""
    import subprocess

    program = (
        "import os, signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        "print(flush=True)\n"
        "signal.sigwait([signal.SIGTERM])\n"
        "os.mkdir(sys.argv[1])\n"
    )
    command = [sys.executable, "-ISc", program, directory]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    return child.pid


def note_and_exit(directory: str) -> None:
    os.mkdir(directory)
    os._exit(0)


# ------------------------------------------------------------------------------ the rest


def page(options: Any, params: dict[str, Any]) -> dict[str, Any]:
    names = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
    cursor = params.get("cursor")
    extra = [{"name": f"more-{cursor}", "inputSchema": {"type": "object"}}]
    match options.list:
        case "empty-cursor":
            if cursor is None:
                return {"tools": names, "nextCursor": ""}
            return {"tools": extra if cursor == "" else []}
        case "repeated-cursor":
            return {"tools": [], "nextCursor": "again"}
        case "endless":
            return {"tools": [], "nextCursor": str(int(cursor or 0) + 1)}
        case "number-cursor":
            return {"tools": names, "nextCursor": 7}
        case "no-array":
            return {"tools": {"echo": {}}}
        case "surrogates":
            if cursor is not None:
                return {"tools": names}
            bad = {"name": "half \ud800", "inputSchema": {"type": "object"}}
            return {"tools": [bad], "nextCursor": "\udfff"}
        case "asks-back":
            return {"resultType": "input_required", "requestState": "x", "tools": names}
    return {"tools": names}


def discover(options: Any, params: dict[str, Any]) -> dict[str, Any]:
    """The response to the probe: its members besides the id."""
    unsupported = {"code": -32022, "message": "unsupported"}
    if options.probe_error is not None:
        return {"error": {"code": options.probe_error, "message": "no"}}
    if options.unsupported == "same":
        return {"error": {**unsupported, "data": {"supported": [STATELESS]}}}
    if options.unsupported == "nothing":
        return {"error": unsupported}
    if options.unsupported == "handshake":
        return {"error": {**unsupported, "data": {"supported": [HANDSHAKE]}}}
    versions = [HANDSHAKE] if options.probe_lists_only_handshake else [STATELESS]
    return {"result": {"supportedVersions": versions, "capabilities": {"tools": {}}}}


def initialize(options: Any, params: dict[str, Any]) -> dict[str, Any]:
    if probed and options.refuse_initialize_after_probe:
        return {"error": {"code": -32600, "message": "you have spoken before"}}
    version = options.version or params["protocolVersion"]
    info = {"name": "scripted", "version": "1"}
    return {"result": {"protocolVersion": version, "capabilities": {}, "serverInfo": info}}


def respond(options: Any, message: dict[str, Any]) -> None:
    global probed
    id, method, params = message["id"], message["method"], message.get("params", {})
    if method == "server/discover":
        probed = True
        if options.die_on_probe:
            os._exit(1)
    if method == "tools/call":
        meta = params.get("_meta", {})
        if options.calls:
            with open(options.calls, "a") as calls:
                calls.write(json.dumps([params["name"], params.get("arguments")]) + "\n")
        result = call(id, params["name"], params.get("arguments", {}), meta)
        reported = None if result is None else {"result": result}
    elif method == "tools/list":
        reported = {"result": page(options, params)}
    elif method == "ping":
        reported = {"result": {}}
    elif method == "server/discover" and options.era == "stateless":
        reported = discover(options, params)
    elif method == "initialize" and options.era == "handshake":
        reported = initialize(options, params)
    elif options.ignore_unknown:
        reported = None
    elif method == "server/discover" and options.probe_error is not None:
        reported = discover(options, params)
    else:
        reported = {"error": {"code": -32601, "message": f"method not found: {method}"}}
    if reported is not None:
        send({"id": id, **reported})


OPTIONS = {
    "era": str,
    "list": str,
    "version": str,
    "unsupported": str,
    "probe-error": int,
    "slow-start": float,
    "stderr-flood": int,
    "lives": float,  # seconds after which it dies by itself
    "starts": str,  # a file to which each start adds a line
    "calls": str,  # a file to which each call adds a line
    "note-sigterm": str,  # a directory that SIGTERM makes before the server ends
    "ignore-unknown": None,
    "die-on-probe": None,
    "refuse-initialize-after-probe": None,
    "probe-lists-only-handshake": None,
    "print-and-exit": None,
    "junk-first": None,
    "spawn-grandchild": None,
    "ignore-sigterm": None,
}
"""What becomes of the word that follows each; None for a flag, which has none."""


def options_of(words: list[str]) -> Any:
    found: dict[str, Any] = {name.replace("-", "_"): None for name in OPTIONS}
    rest = iter(words)
    for word in rest:
        name, has_value, value = word.removeprefix("--").partition("=")
        kind = OPTIONS[name]
        if kind is not None and not has_value:
            value = next(rest)
        found[name.replace("-", "_")] = True if kind is None else kind(value)
    return SimpleNamespace(**{**found, "era": found["era"] or "handshake"})


def main() -> None:
    options = options_of(sys.argv[1:])
    if options.starts:
        with open(options.starts, "a") as starts:
            starts.write(f"{os.getpid()}\n")
    if options.lives is not None:
        import threading

        threading.Timer(options.lives, os._exit, [1]).start()
    if options.print_and_exit:
        sys.exit(f"cannot start: the key {os.environ.get('SECRET', 'none')} is no good")
    if options.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.note_sigterm:
        signal.signal(signal.SIGTERM, lambda *_: note_and_exit(options.note_sigterm))
    if options.junk_first:
        print("Welcome to the server!\n\n{'not': json}", flush=True)
    if options.spawn_grandchild:
        grandchild()
    sys.stderr.write("e" * (options.stderr_flood or 0))
    if options.slow_start:
        import select

        select.select([sys.stdin], [], [])  # counted from the first request, which is not read
        time.sleep(options.slow_start)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message and "method" in message:
            respond(options, message)
        else:
            seen.append(message)
    while options.ignore_sigterm:
        signal.pause()


if __name__ == "__main__":
    main()
