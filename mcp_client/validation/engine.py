"""The verdict of ``jsonschema``. The only module that imports it, when it is first needed.

It runs in this process and as the worker process (``main``), so the two cannot disagree. In the
worker it is loaded without the rest of the package: it may import ``fast_path`` and the standard
library.

As the worker it reads frames from standard input. Each is four bytes of length, and a value that
the parent process wrote with ``marshal``. It writes one line of JSON for each. It limits its own
memory. Before each question it sets a timer (``ITIMER_REAL``), so the kernel ends it even if
the parent has exited. It exits after 30 seconds without a question. Windows has neither limits nor
timers: there the job of the process limits its memory and ends it with the parent.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from typing import Any, BinaryIO

from .fast_path import compile_fast_path

__all__ = [
    "MEMORY_BYTES",
    "UnusableSchema",
    "build_validator",
    "find_problems",
    "is_loaded",
    "load",
]

_MAX_ERRORS = 64
_MAX_REPORTED = 5
MEMORY_BYTES = 1024 * 1024 * 1024
"""The memory limit of a worker."""
_MAX_FRAMES = 4_000
_MAX_VALUE_CHARS = 120
_MAX_TEXT_CHARS = 1_000


class UnusableSchema(Exception):
    """The schema cannot be used; the text is the reason."""


def is_loaded() -> bool:
    """Whether ``jsonschema`` has been imported, which takes some 50 milliseconds."""
    return "jsonschema" in sys.modules


def load() -> None:
    """Import ``jsonschema``."""
    import jsonschema  # noqa: F401


def build_validator(schema: Any, is_sound: bool = False) -> Any:
    """The validator of ``schema``. Raises ``UnusableSchema``.

    ``is_sound``: the schema is known to be one, and every reference in it to lead somewhere; else
    both are checked here. Raises ``RecursionError`` where the stack is too deep already.
    """
    import jsonschema
    from jsonschema.validators import validator_for
    from referencing.jsonschema import EMPTY_REGISTRY

    cls: Any = validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        if not is_sound:
            cls.check_schema(schema)
        validator = cls(schema, registry=EMPTY_REGISTRY)
        if not is_sound:
            _resolve(validator)
    except jsonschema.SchemaError as error:
        raise UnusableSchema(f"at {_path(error) or 'the root'}: {_described(error)}") from None
    except (RecursionError, MemoryError, UnusableSchema):
        raise
    except BaseException as error:  # noqa: BLE001 - a hostile schema finds what jsonschema lets through
        raise _refusal(error) from None
    return validator


def _resolve(validator: Any) -> None:
    """Look up every reference, even if no value reaches it. Raises ``UnusableSchema``."""
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
    from referencing.jsonschema import specification_with

    dialect = validator.ID_OF(validator.META_SCHEMA)
    root = specification_with(dialect).create_resource(validator.schema)
    waiting = [(root, REGISTRY.resolver_with_root(root))]
    while waiting:
        resource, resolver = waiting.pop()
        if isinstance(resource.contents, dict):
            for keyword in ("$ref", "$dynamicRef"):
                reference = resource.contents.get(keyword)
                if isinstance(reference, str):
                    _look_up(resolver, reference)
        waiting += [(part, resolver.in_subresource(part)) for part in resource.subresources()]


def _look_up(resolver: Any, reference: str) -> None:
    from referencing.exceptions import Unresolvable

    try:
        resolver.lookup(reference)
    except Unresolvable:
        raise UnusableSchema(_unresolved(reference)) from None


def find_problems(validator: Any, value: Any) -> tuple[list[list[str]], str] | None:
    """Return the problems of ``value``, or None.

    Each problem has the path, the expectation and the value, the most relevant first; the number of
    further ones is text. Raises ``UnusableSchema``, and ``RecursionError`` if the stack is too deep
    already.
    """
    from referencing.exceptions import Unresolvable

    try:
        errors = list(itertools.islice(validator.iter_errors(value), _MAX_ERRORS))
        return _reported_problems(errors) if errors else None
    except Unresolvable as error:
        raise UnusableSchema(_unresolved(error.ref)) from None
    except (RecursionError, MemoryError):
        raise
    except OverflowError:
        return [["", "numbers that can be compared", "a number that is too large"]], ""
    except BaseException as error:  # noqa: BLE001 - a hostile schema finds what jsonschema lets through
        raise _refusal(error) from None


def _refusal(error: BaseException) -> BaseException:
    """Return what to raise for an ``error`` that jsonschema did not expect."""
    if isinstance(error, Exception):
        return UnusableSchema(f"{type(error).__name__}: {str(error)[:_MAX_VALUE_CHARS]}")
    # The Rust code under jsonschema panics if the stack ends while Python compares its keys.
    return RecursionError() if type(error).__name__ == "PanicException" else error


def _reported_problems(errors: list[Any]) -> tuple[list[list[str]], str]:
    from jsonschema.exceptions import best_match

    first = best_match(errors)
    # One keyword at one place is one problem, however many properties it misses.
    places = {_place(error): error for error in reversed(errors)}
    root = first
    while root.parent is not None:
        root = root.parent
    places.pop(_place(root))
    rest = list(reversed(places.values()))
    problems = [
        _problem(first),
        *(_problem(best_match([error])) for error in rest[: _MAX_REPORTED - 1]),
    ]
    more = len(rest) + 1 - len(problems)
    if not more and len(errors) < _MAX_ERRORS:
        return problems, ""
    return problems, f"{'at least ' if len(errors) == _MAX_ERRORS else ''}{more} more"


def _place(error: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return tuple(error.path), tuple(error.schema_path)


def _problem(error: Any) -> list[str]:
    return [
        _path(error)[:_MAX_TEXT_CHARS],
        _expected(error)[:_MAX_TEXT_CHARS],
        short(error.instance),
    ]


def _unresolved(reference: object) -> str:
    return (
        f"it refers to {str(reference)[:_MAX_VALUE_CHARS]!r}, which is not in it; addresses "
        "outside a schema are never fetched"
    )


def _path(error: Any) -> str:
    # A JSON pointer. The worker is loaded without ``protocol.json_paths``.
    steps = [str(step).replace("~", "~0").replace("/", "~1") for step in error.absolute_path]
    return "".join([f"/{step}" for step in steps])


def _described(error: Any) -> str:
    return f"expected {_expected(error)}, got {short(error.instance)}"


def _expected(error: Any) -> str:
    keyword, wanted, came = error.validator, error.validator_value, error.instance
    if keyword is None:
        return "nothing"
    if keyword == "type":
        return " or ".join(map(str, wanted)) if isinstance(wanted, list) else str(wanted)
    if keyword == "required" and isinstance(wanted, list) and isinstance(came, dict):
        missing = [name for name in wanted if name not in came]
        if len(missing) > 1:
            return f"the properties {short(missing)}"
        return f"the property {short(missing[0])}" if missing else "other properties"
    if keyword == "additionalProperties" and wanted is False and isinstance(came, dict):
        return f"no properties but {short(list(error.schema.get('properties', ())))}"
    return f"{keyword} {short(wanted)}"


def short(value: Any) -> str:
    """Return ``value`` as shortened JSON. The time does not depend on the size of ``value``."""
    text = json.dumps(_pruned(value, 3), ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_VALUE_CHARS else text[: _MAX_VALUE_CHARS - 1] + "…"


def _pruned(value: Any, levels: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _MAX_VALUE_CHARS else value[:_MAX_VALUE_CHARS] + "…"
    if isinstance(value, dict):
        if not levels:
            return "{…}"
        first = itertools.islice(value.items(), 8)
        some = {_pruned(key, 0): _pruned(item, levels - 1) for key, item in first}
        return some if len(value) <= 8 else {**some, "…": f"{len(value) - 8} more"}
    if isinstance(value, list):
        if not levels:
            return "[…]"
        items = [_pruned(item, levels - 1) for item in value[:8]]
        return items if len(value) <= 8 else [*items, f"… {len(value) - 8} more"]
    return value


# ------------------------------------------------------------------- the worker


def main(idle: float) -> None:
    """Answer requests until the input ends, or for ``idle`` seconds without one."""
    _limit_memory()
    sys.setrecursionlimit(_MAX_FRAMES)
    source, sink = sys.stdin.buffer, sys.stdout
    known: dict[int, tuple[Any, Any]] = {}
    find_problems(build_validator({"type": "object"}), 0)  # loads what the first question needs
    sink.write("ready\n")
    sink.flush()
    while _wait_for_question(source, idle):
        question = _frame(source)
        if question is None:
            return
        _set_timer(question["seconds"])
        try:
            response = _respond(question, source, known)
        except EOFError:
            return
        except RecursionError:
            response = {"unusable": "it refers to itself without end, or is nested too deep"}
        except MemoryError:
            known.clear()
            response = {"gave_up": "it takes too much memory to check"}
        _set_timer(0)
        sink.write(json.dumps(response) + "\n")
        sink.flush()


def _respond(question: Any, source: BinaryIO, known: dict[int, Any]) -> dict[str, Any]:
    value = _value(source) if question["has_value"] else None
    id = question["id"]
    if question["forget"]:
        known.clear()
    try:
        if "schema" in question:
            known.pop(id, None)
            schema = question["schema"]
            known[id] = (build_validator(schema), compile_fast_path(schema))
        validator, fast_path = known[id]
        if not question["has_value"] or (fast_path is not None and fast_path.accepts(value)):
            return {}
        found = find_problems(validator, value)
    except UnusableSchema as error:
        return {"unusable": str(error)}
    return {} if found is None else {"problems": found}


def _value(source: BinaryIO) -> Any:
    """Read a value that was sent whole, or in pieces: see ``worker_pool``."""
    open: list[tuple[str, list[Any]]] = []
    while True:
        match _frame(source):
            case ("open", kind):
                open.append((kind, []))
                continue
            case ("part", some):
                open[-1][1].extend(some)
                continue
            case ("whole", value):
                pass
            case ("close",):
                kind, items = open.pop()
                value = dict(items) if kind == "object" else items
            case _:
                raise EOFError
        if not open:
            return value
        open[-1][1].append(value)


def _frame(source: BinaryIO) -> Any:
    import marshal

    head = source.read(4)
    if len(head) < 4:
        return None
    data = source.read(int.from_bytes(head, "big"))
    return marshal.loads(data)  # noqa: S302 - written by our own parent


def _wait_for_question(source: BinaryIO, seconds: float) -> bool:
    if sys.platform == "win32":
        return _wait_in_thread(source, seconds)
    import select

    # ``select`` does not see what is buffered, but nothing is: the parent waits for each answer.
    return bool(select.select([source], [], [], seconds)[0])


def _wait_in_thread(source: Any, seconds: float) -> bool:
    """Wait for a question where ``select`` knows sockets only."""
    import threading

    ready = threading.Event()

    def look() -> None:
        source.peek(1)  # blocks; true as well at the end of the input, which is read next
        ready.set()

    threading.Thread(target=look, daemon=True).start()
    if not ready.wait(seconds):
        os._exit(0)  # an orderly end waits for the thread, which holds the lock of the input
    return True


def _set_timer(seconds: float) -> None:
    if sys.platform != "win32" and seconds < 1e6:
        import signal

        signal.setitimer(signal.ITIMER_REAL, seconds)


def _limit_memory() -> None:
    if sys.platform != "win32":
        import contextlib
        import resource

        with contextlib.suppress(OSError, ValueError):
            _, most = resource.getrlimit(resource.RLIMIT_AS)
            wanted = MEMORY_BYTES if most == resource.RLIM_INFINITY else min(MEMORY_BYTES, most)
            resource.setrlimit(resource.RLIMIT_AS, (wanted, most))
