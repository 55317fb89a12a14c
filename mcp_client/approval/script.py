"""The script that makes a tool call, as the approval hook sees it: a frozen value."""

from __future__ import annotations

from typing import Any

from ..protocol.canonical_json import sha256
from ..runtime.frozen import frozen_dataclass

__all__ = ["Script"]


@frozen_dataclass
class Script:
    """The script that makes a call, and the line of the call: ``ToolCall.script``.

    Each of its calls has a value of its own. ``id`` and ``code`` are those of the run, even if it
    was paused and continues in another process. Lines end with a line feed.
    """

    id: str
    """The id of the run, as in the audit."""
    code: str
    """The complete code, as the model wrote it: untrusted text."""
    calls: int = 0
    """The number of calls that the run made before this one."""
    line: int | None = None
    """The line that makes the call, counted from 1; None if unknown."""

    @property
    def digest(self) -> str:
        """The SHA-256 digest of the code."""
        return "sha256:" + sha256(self.code)

    @property
    def calling_line(self) -> str | None:
        """The text of the line that makes the call."""
        if self.line is None:
            return None
        lines = self.code.split("\n")
        return lines[self.line - 1].strip() if 0 < self.line <= len(lines) else None

    def listing(self) -> str:
        """The code with numbered lines and a mark at the line that makes the call."""
        lines = self.code.split("\n")
        width = len(str(len(lines)))
        return "\n".join(
            f"{'>' if number == self.line else ' '} {number:>{width}}  {line}"
            for number, line in enumerate(lines, 1)
        )

    def recorded(self) -> dict[str, Any]:
        """The part of a call's record about the script."""
        return {"script": self.id, "script_call": self.calls + 1, "script_line": self.line}

    def to_json(self) -> dict[str, Any]:
        """Return the script as a dict for ``from_json``."""
        return {"id": self.id, "code": self.code, "calls": self.calls, "line": self.line}

    @classmethod
    def from_json(cls, value: Any) -> Script:
        """Parse the result of ``to_json``. Raises ``ValueError`` for anything else."""
        try:
            script = cls(**value)
        except TypeError:
            raise ValueError("the value is not a script") from None
        texts = type(script.id) is str and type(script.code) is str
        if not texts or type(script.calls) is not int or type(script.line) not in (int, type(None)):
            raise ValueError("a script has a member of the wrong type")
        return script
