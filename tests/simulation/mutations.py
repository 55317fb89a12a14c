"""Deliberate mistakes in the package, and how many lives it takes to notice each.

``python -m tests.simulation.mutations [--most N] [NAME ...]`` makes one mistake after the other,
each in a process of its own, and lives seeds until a promise is broken. A mistake that is not
noticed means that the world lacks something.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

__all__ = ["MUTATIONS", "Mutation"]

_PACKAGE = Path(__file__).parents[2] / "mcp_client"


class Mutation(NamedTuple):
    module: str
    before: str
    after: str

    @property
    def source(self) -> str:
        return (_PACKAGE / f"{self.module.replace('.', '/')}.py").read_text()


MUTATIONS: dict[str, Mutation] = {
    "a hook that fails allows": Mutation(
        "approval.gate",
        "raise\n            raise self._failed(request, by, error) from error\n",
        "raise\n            return Allow(), by\n",
    ),
    "what is not a decision allows": Mutation(
        "approval.gate",
        "        if type(answer) is not Allow:\n            self._refuse(request, decided)\n",
        "        if type(answer) is not Allow:\n            answer = Allow()\n",
    ),
    "an edit is not what is sent": Mutation(
        "approval.gate",
        "approved, decided = await self._edit(request, decided, check, seconds)",
        "_, decided = await self._edit(request, decided, check, seconds)",
    ),
    "a cancellation that a hook swallows is forgotten": Mutation(
        "connection.call_options",
        "    if (token is None or not token.cancelled) and not being_cancelled(before):\n",
        "    if True:\n",
    ),
    "a yes is not compared after a change was told": Mutation(
        "session.call",
        "        return (\n            tools.version",
        "        return False and (\n            tools.version",
    ),
    "a definition told behind its list is in force": Mutation(
        "session.call", "            or tools.is_over  #", "            #"
    ),
    "another definition counts as the same": Mutation(
        "session.call_state", "    if now.tool != then.tool:\n", "    if False:\n"
    ),
    "a list that expired is in force": Mutation(
        "catalog.paged_list",
        "changes != self._changes or (until < math.inf and self._now() >= until)\n",
        "changes != self._changes\n",
    ),
    "a change told during a fetch is lost": Mutation(
        "catalog.paged_list",
        "            changes=changes,\n",
        "            changes=self._changes,\n",
    ),
    "a remembered yes is for any definition": Mutation(
        "approval.decisions",
        "(one.identity, one.fingerprint, one.trusted, one.origin) == same",
        "(one.identity, one.trusted, one.origin) == (same[0], *same[2:])",
    ),
    "a ticket is used again": Mutation(
        "approval.tickets",
        "            if not left:\n                return None\n            until",
        "            if not left:\n                return old\n            until",
    ),
    "a lost connection is not sent": Mutation(
        "transports.stdio",
        "        return ConnectionLost(\n",
        "        return (lambda text, why, **more: ConnectError(text, **more))(\n",
    ),
    "a server in this process is never reached": Mutation(
        "transports.memory",
        "        return ConnectionLost(\n",
        "        return (lambda text, why, **more: ConnectError(text, **more))(\n",
    ),
    "a line that has begun to leave is withdrawn": Mutation(
        "processes.loop_process", "                pending.begun = True\n", ""
    ),
    "what HTTP has sent counts as not begun": Mutation(
        "transports.http_pool",
        "        body.begun = True\n        if sent < len(head):",
        "        if sent < len(head):",
    ),
    "an idle connection is not looked at": Mutation(
        "transports.http_pool",
        "if not connection._dialled.has_input() or await",
        "if True or await",
    ),
    "a lost call is made again": Mutation(
        "session.call_state",
        "    return isinstance(error, ConnectError) and session_ended(error)\n",
        "    return isinstance(error, ConnectError | OutcomeUnknown)\n",
    ),
    "a server is not told that a call is given up": Mutation(
        "connection.rpc",
        "            transport.send_soon(notice, _NO_HEADERS)\n",
        "            pass\n",
    ),
    "clocks run while a person is asked": Mutation(
        "handlers.dispatcher", "        resume = pause()\n", "        resume = lambda: None\n"
    ),
    "a key is sent before it is written down": Mutation(
        "session.journal",
        "        await self.within(self._calls.sending, self._key, self._mark)\n        self._sent",
        "        self._sent",
    ),
    "a claim is not released": Mutation(
        "state.calls",
        "            is_unsettled = may_have_run and found.state == _SENT\n",
        "            return found\n            is_unsettled = may_have_run\n",
    ),
    "a sent call of a dead process is made again": Mutation(
        "state.calls",
        "            elif repeats:\n",
        "            elif True:\n",
    ),
    "a record is not closed when its task is cancelled": Mutation(
        "session.call",
        "        if call.observers:\n            token",
        "        if call.observers and isinstance(error, Exception):\n            token",
    ),
    "a lock is lost with a task that is cancelled": Mutation(
        "runtime.event_loop",
        "            if self._holder is waiter:  #",
        "            if False:  #",
    ),
    "a wake-up is lost": Mutation(
        "transports.multiplexer",
        "        self.settled = True\n        self._failure = error\n        self._wake()\n",
        "        self.settled = True\n        self._failure = error\n",
    ),
    "a connection that is given up is left open": Mutation(
        "connection.establish",
        "        except BaseException as error:\n            await self._transport.aclose()\n",
        "        except BaseException as error:\n",
    ),
    "a process that does not end is left": Mutation(
        "processes.process",
        "await self.exited(grace):\n                        self._tree.kill()\n",
        "await self.exited(grace):\n                        pass\n",
    ),
    "a response goes to any request that waits": Mutation(
        "transports.multiplexer",
        "            exchange = self.exchanges.get(message.id)\n",
        "            exchange = next(iter(self.exchanges.values()), None)\n",
    ),
    "what is sent is not approved": Mutation(
        "session.call",
        "            approved = await self._approve(call, frozen)\n            for each",
        "            approved = Approved(frozen)\n            for each",
    ),
    "a yes for a call is for its repetition, whatever that is": Mutation(
        "approval.remembered",
        "        if old is None or not _same_call(old, call):\n",
        "        if old is None:\n",
    ),
    "a yes outlives its connection": Mutation(
        "session.call_state", "    if now.rpc is not then.rpc:\n", "    if False:\n"
    ),
    "a call has no record before it has ended": Mutation(
        "session.observers",
        "            await self.entry.open(frozen)\n",
        "            return\n",
    ),
    "a list that cannot be read is the response to a call": Mutation(
        "session.call",
        "            except (OutcomeUnknown, ProtocolViolation) as error:\n",
        "            except OutcomeUnknown as error:\n",
    ),
    "a call waits its turn for ever": Mutation(
        "session.call",
        "            finally:\n                turns.give_back()\n",
        "            finally:\n                pass\n",
    ),
    "a call that waited its turn is not compared": Mutation(
        "session.call",
        "if not (has_waited and self._may_have_changed(now)):",
        "if True:",
    ),
    "a list ends after its first page": Mutation(
        "catalog.paged_list",
        "            if is_over:\n",
        "            if True:\n",
    ),
    "a closed session lets its calls wait": Mutation(
        "session.session",
        "            last.push_async_callback(self._connection.aclose)\n",
        "",
    ),
    "a task is not cancelled when its caller goes": Mutation(
        "extensions.tasks",
        "            if not run.over and run in self._waiting and in_event_loop():\n",
        "            if False:\n",
    ),
    "a task is polled without a pause": Mutation(
        "extensions.task_run",
        "await anyio.sleep(max(0.0, min(self._due - self._now(), left)))",
        "await anyio.sleep(min(0.0, left))",
    ),
    "a denied call of a script is one that returned nothing": Mutation(
        "code.run",
        "            return Failure(_kind(error), self._explain(error))\n",
        '            return Returned("")\n',
    ),
    "notices missed while the stream was down are forgotten": Mutation(
        "catalog.subscription",
        "            return self._streams if self._acknowledged else None\n",
        "            return 1\n",
    ),
}


class _Mutated(importlib.machinery.SourceFileLoader):
    """Loads the module with the mistake."""

    mutation: Mutation

    def get_code(self, fullname: str) -> CodeType:
        before, after = self.mutation.before, self.mutation.after
        return compile(self.mutation.source.replace(before, after), self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutation: Mutation) -> None:
        self._mutation = mutation

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> Any:
        if name != f"mcp_client.{self._mutation.module}":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        assert spec is not None
        assert spec.origin is not None
        loader = _Mutated(name, spec.origin)
        loader.mutation = self._mutation
        spec.loader = loader
        return spec


def notice(name: str, first: int, most: int) -> int:
    """Live with the mistake until it is noticed. To be called before the package is imported."""
    sys.meta_path.insert(0, _Finder(MUTATIONS[name]))
    from .life import lives

    for seed, _, wrong in lives(range(first, first + most)):
        if wrong:
            print(f"{seed - first + 1} {wrong[0]}")
            return 0
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutations")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--most", type=int, default=10_000, help="lives until it is given up")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--here", action="store_true", help="the one mistake in this process")
    given = parser.parse_args()
    if given.here:
        return notice(given.names[0], given.first, given.most)
    missed = 0
    for name in given.names or MUTATIONS:
        began = time.monotonic()
        options = [f"--most={given.most}", f"--first={given.first}", "--here", name]
        words = [sys.executable, "-m", "tests.simulation.mutations", *options]
        done = subprocess.run(words, capture_output=True, text=True)
        lives, _, how = done.stdout.strip().partition(" ")
        missed += done.returncode != 0
        took = time.monotonic() - began
        print(f"{lives or 'not noticed':>6}  {name}: {how[:100]} ({took:.0f} s)", flush=True)
        if done.stderr:
            print(done.stderr[-300:])
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
