"""Examples for the ``--help`` of each command, two of each."""

from __future__ import annotations

__all__ = ["COMMAND_EXAMPLES"]

_URL = "https://mcp.example.com/mcp"
_COMMAND = "'python server.py'"

COMMAND_EXAMPLES = {
    "tools": (_COMMAND, f"{_URL} --json"),
    "describe": (f"{_COMMAND} get_weather", "weather get_weather --config .mcp.json"),
    "call": (
        f"{_COMMAND} get_weather location=Oslo",
        'weather set_alarm \'{"location": "Oslo"}\' --allow set_alarm --json',
    ),
    "search": ("weather storm siren", f"{_URL} 'create an issue' --limit 3"),
    "resources": (_COMMAND, f"{_URL} --json"),
    "read": ("files file:///notes.txt > notes.txt", "library book:cover --save pictures"),
    "prompts": (_COMMAND, f"{_URL} --json"),
    "prompt": (f"{_COMMAND} summary title=emma", f"{_URL} review language=python --json"),
    "complete": (f"{_COMMAND} summary title=e", "library 'book:{title}' title=e"),
    "stubs": ("weather -o weather_tools.py", f"{_URL} --json"),
    "run": ("weather report.py --allow 'get_*'", "weather"),
    "shell": (_COMMAND, f"{_URL} --allow 'get_*'"),
    "doctor": (_COMMAND, f"{_URL} --header Authorization=env:TOKEN"),
    "pins": ("weather --pins mcp.lock", "weather --pins mcp.lock --accept set_alarm"),
    "audit": ("verify calls.jsonl --key env:AUDIT_KEY", "show calls.jsonl"),
    "decisions": ("list --kind call", "revoke --server weather"),
    "servers": ("", "--config .mcp.json --json"),
    "confirm": (".mcp.json", ".mcp.json weather --yes sha256:..."),
    "login": (_URL, f"{_URL} --headless"),
    "logout": (_URL, f"{_URL} --json"),
    "completion": ("bash > mcp-client.bash", "zsh"),
    "desk": ("", "--state state"),
}
"""The words after the command's name."""
