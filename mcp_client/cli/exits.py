"""The exit codes of the command, and its errors in words or as JSON."""

from __future__ import annotations

import copy
from typing import Any

from .. import errors
from ..errors import Advice, CallTimeout, ConfigError, InvalidResult, McpError

__all__ = [
    "CANNOT_CONNECT",
    "DONE",
    "EXIT_CODES",
    "INTERRUPTED",
    "LOGIN_NEEDED",
    "NOT_FOUND",
    "NOT_WRITTEN",
    "OUTCOME_UNKNOWN",
    "REFUSED",
    "SERVER_ERROR",
    "TOOL_FAILED",
    "USAGE",
    "Interrupted",
    "OutputError",
    "UsageError",
    "error_document",
    "exit_code",
    "in_shell",
]

EXIT_CODES = """\
exit codes:
  0    done
  1    the tool reported an error; a log, or tools, have changed
  2    usage: nothing was done
  3    refused: no approval, or a config file's server was not confirmed
  4    no such tool, resource, prompt or server
  5    cannot connect
  6    login needed, or credentials refused
  7    timeout, or the outcome is unknown
  8    the server broke the protocol, or responded with an error
  74   the output could not be written: standard output, or a file of --save
  130  interrupted
"""
DONE, TOOL_FAILED, USAGE, REFUSED, NOT_FOUND, CANNOT_CONNECT = range(6)
LOGIN_NEEDED, OUTCOME_UNKNOWN, SERVER_ERROR = 6, 7, 8
NOT_WRITTEN, INTERRUPTED = 74, 130


class UsageError(ConfigError):
    """The command line is wrong."""


class OutputError(McpError):
    """An error: a result could not be written."""


class Interrupted(McpError):
    """Ctrl-C, SIGTERM or SIGHUP."""


_OWN_CODES = {OutputError: NOT_WRITTEN, Interrupted: INTERRUPTED}


def exit_code(error: McpError) -> int:
    """Return the code for an error: those of ``errors.exit_code``, and two of the command's own."""
    code = errors.exit_code(error)
    return code if code == LOGIN_NEEDED else _OWN_CODES.get(type(error), code)


_TIMEOUT = "allow more time with --timeout S"
_ADVICE = {
    "login": "log in with 'mcp-client login {about}', or, if you have a token already, put "
    "'Bearer ...' into a variable and give --header Authorization=env:NAME",
    "header": "give what it accepts with --header Authorization=env:NAME",
    "connect_timeout": f"{_TIMEOUT}, or {{about}} and see",
    "revision": "leave out --revision",
    "env": "{about}: give it with --env NAME, or in the config file",
    "terminal": "log in at a terminal",
    "issuer": "if you know that both belong to this server, log in with --issuer and its address",
    "result": "the whole result is printed with --json",
    "sandbox": "{about}. If it needs that, give each with --read, or in the config file",
    "home": "write $HOME in its place",
    "command": "give the command and its arguments apart: without quotes around all of them, or in "
    "a config file as command and args",
    "program": "",
}
"""The advice for an error, by its kind."""
_OPTIONS = {
    "HttpServer(headers=...)": "--header",
    "Sandbox(read=...)": "--read",
    "Sandbox(write=...)": "--write",
}
"""The options of the command line, by what code writes for them."""


def in_shell(error: McpError) -> McpError:
    """Return the error, with what can be done about it in the words of the command line."""
    advice = error.advice
    if advice is None and isinstance(error, CallTimeout):
        advice = Advice(_TIMEOUT)
    elif advice is not None and advice.kind in _ADVICE:
        advice = Advice(_ADVICE[advice.kind].format(about=advice.about))
    copied = copy.copy(error)
    if isinstance(copied, ConfigError):
        copied.option = _OPTIONS.get(copied.option, copied.option)
    copied.advice = advice
    return copied


def error_document(error: Exception) -> dict[str, Any]:
    """Return the error as one JSON document."""
    if isinstance(error, McpError):
        error = in_shell(error)
    found = {
        "type": type(error).__name__,
        "message": error.message if isinstance(error, McpError) else str(error),
        "server": getattr(error, "server", None),
        "tool": getattr(error, "tool", None),
        "retryable": getattr(error, "retryable", False),
    }
    if isinstance(error, InvalidResult):  # the tool ran
        found["result"] = error.result.raw
    return {"error": found}
