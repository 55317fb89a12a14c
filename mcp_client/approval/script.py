"""The script of a model that makes a call (code mode), as an approver is shown it."""

from __future__ import annotations

from typing import Any

from ..protocol.canonical_json import sha256
from ..runtime.frozen import frozen_dataclass

__all__ = ["Script"]


@frozen_dataclass
class Script:
    """The script that makes a call, at the place where it makes it: ``ToolCall.script``.

    Each of its calls has a value of its own; ``id`` and ``code`` are those of the run, also where
    it was paused and goes on in another process. Lines end with a line feed.
    """

    id: str
    """The run's, as in the audit."""
    code: str
    """All of it, as the model wrote it: untrusted text."""
    calls: int = 0
    """How many calls it has made before this one."""
    line: int | None = None
    """The line that calls, counted from 1; None where that is not known."""

    @property
    def digest(self) -> str:
        """SHA-256 of the code."""
        return "sha256:" + sha256(self.code)

    @property
    def calling_line(self) -> str | None:
        """The text of the line that calls."""
        if self.line is None:
            return None
        lines = self.code.split("\n")
        return lines[self.line - 1].strip() if 0 < self.line <= len(lines) else None

    def listing(self) -> str:
        """The code with numbered lines, of which the one that calls is marked."""
        lines = self.code.split("\n")
        width = len(str(len(lines)))
        return "\n".join(
            f"{'>' if number == self.line else ' '} {number:>{width}}  {line}"
            for number, line in enumerate(lines, 1)
        )

    def recorded(self) -> dict[str, Any]:
        """What the record of a call says of it."""
        return {"script": self.id, "script_call": self.calls + 1, "script_line": self.line}

    def to_json(self) -> dict[str, Any]:
        """What ``from_json`` makes this script of again."""
        return {"id": self.id, "code": self.code, "calls": self.calls, "line": self.line}

    @classmethod
    def from_json(cls, value: Any) -> Script:
        """Raises ``ValueError`` for anything that ``to_json`` does not give."""
        try:
            script = cls(**value)
        except TypeError:
            raise ValueError("it is not a script") from None
        texts = type(script.id) is str and type(script.code) is str
        if not texts or type(script.calls) is not int or type(script.line) not in _LINE:
            raise ValueError("a script has a member of the wrong type")
        return script


_LINE = (int, type(None))
