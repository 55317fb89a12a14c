"""The results that a script has received, in order, so that the run can continue elsewhere.

No state of the interpreter is stored. It could not be distinguished from a forged one, and would
bring limits of its own; the same results in the same order lead to the same state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigError
from ..protocol.canonical_json import sha256
from ..runtime.version import __version__
from .identifiers import EXCEPTIONS
from .interpreter import AskedCall, Failure, Returned, Settled, interpreter_version

__all__ = ["Answered", "RunLog"]

_MAX_HELD_CHARS = 8_000_000
_SENT_NOTHING = (
    "this attempt sent nothing. What the script called before the pause stays done: tell the model "
    "so before it writes another one"
)


@dataclass(frozen=True, slots=True)
class Answered:
    """A result that the script received of one call."""

    number: int
    what: str
    """The digest of the call."""
    settled: Settled

    def check(self, call: AskedCall | None) -> None:
        """Raise ``ConfigError`` unless ``call`` is the one that was answered."""
        if call is None or call.digest != self.what:
            raise ConfigError(
                "the script ran differently than before its pause, or a tool that it had "
                f"called is defined otherwise now; {_SENT_NOTHING}"
            )


@dataclass(slots=True)
class RunLog:
    """The log of a script's run up to its present point."""

    id: str
    """The id of the run."""
    code: str
    """A digest of the script."""
    release: str
    """The releases of this package and of the interpreter: another one may run a script
    otherwise."""
    answers: list[Answered] = field(default_factory=list)
    chars: int = 0
    """The size of the results, as JSON text."""

    @classmethod
    def of(cls, id: str, code: str) -> RunLog:
        """Return the log of a run that begins."""
        return cls(id, sha256(code), _release())

    @property
    def is_whole(self) -> bool:
        """Whether the results are held. Those of a run that cannot be stored would fill memory."""
        return self.chars <= _MAX_HELD_CHARS

    def note(self, call: AskedCall, settled: Settled) -> None:
        """Note a result that the script receives now."""
        if self.is_whole:
            self.chars += _size(settled)
            if not self.is_whole:
                self.answers = [
                    Answered(one.number, one.what, _without_value(one.settled))
                    for one in self.answers
                ]
        held = settled if self.is_whole else _without_value(settled)
        self.answers.append(Answered(call.number, call.digest, held))

    def check(self, code: str) -> None:
        """Raise ``ConfigError`` unless it is a run of this script, by this release."""
        if self.code != sha256(code):
            raise ConfigError(f"this run was paused with another script; {_SENT_NOTHING}")
        if self.release != _release():
            raise ConfigError(
                f"this run was paused by another release ({self.release}) and cannot go on with "
                f"{_release()}; {_SENT_NOTHING}"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the run as JSON; its results are None if they are too large to be stored."""
        answers = [[one.number, one.what, _written(one.settled)] for one in self.answers]
        members = {"id": self.id, "code": self.code, "release": self.release}
        return {**members, "answers": answers if self.is_whole else None}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RunLog:
        """Raise ``ConfigError`` for anything that ``to_json`` does not give."""
        try:
            answers = [
                Answered(int(number), str(what), _read(settled))
                for number, what, settled in value["answers"]
            ]
            chars = sum(_size(one.settled) for one in answers)
            names = str(value["id"]), str(value["code"]), str(value["release"])
            return cls(*names, answers, chars)
        except (LookupError, TypeError, ValueError):
            raise ConfigError("the stored log of a paused script cannot be read") from None


def _release() -> str:
    return f"mcp-client-host {__version__}, pydantic-monty {interpreter_version()}"


def _size(settled: Settled) -> int:
    if isinstance(settled, Failure):
        return len(settled.message)
    value = settled.value
    return len(value) if isinstance(value, str) else len(json.dumps(value))


def _without_value(settled: Settled) -> Settled:
    return Returned(None) if isinstance(settled, Returned) else settled


def _written(settled: Settled) -> dict[str, Any]:
    if isinstance(settled, Returned):
        return {"value": settled.value}
    return {"kind": settled.kind, "message": settled.message}


def _read(value: Mapping[str, Any]) -> Settled:
    if "value" in value:
        return Returned(value["value"])
    kind, message = value["kind"], value["message"]
    if kind not in EXCEPTIONS or type(message) is not str:
        raise ValueError("it is not an exception of a script")
    return Failure(kind, message)
