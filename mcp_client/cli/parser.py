"""The command line: commands with their arguments and options."""

from __future__ import annotations

import argparse
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ..errors import ConfigError
from ..runtime.safe_text import close_names, near, safe_text
from ..runtime.version import __version__
from .exits import EXIT_CODES, UsageError

__all__ = ["COMMAND_EXAMPLES", "commands", "parsed", "place_of_command", "session_options"]

_TARGET = "a URL, the name of a server in a config file, or a quoted command"
_MAX_HAVING = 4
"""Commands that an error names for having an option."""
_OR = "or file:PATH, or keyring:SERVICE/USER"
_OUTPUT = """\
A pipe or a file gets the text of a result in UTF-8, ended by a line feed; with --save DIR byte for
byte. Structured content is printed if a result has no text, and with --json. Output is plain
in a pipe, with NO_COLOR set, and without the extra 'cli' (styles, tables, pictures, and history
and completion in 'shell').
"""


class _Parser(argparse.ArgumentParser):
    """Raises ``UsageError``, so that a mistake is reported like any other error."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see '{self.prog} --help')")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.dest == "command" and action.choices and value not in action.choices:
            names = [*action.choices]
            self.error(f"unknown command {value!r}{near(str(value), names)}")
        super()._check_value(action, value)


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line. Raises ``UsageError``; ``SystemExit`` after ``--help``.

    Options may be anywhere, also before the command and between the arguments of a tool. Words
    after ``--`` are never options.
    """
    known = commands()
    at = place_of_command(words)
    if at is None or words[at] not in known:
        _explain_no_command(words, at, known)
        raise UsageError("no command was given (see 'mcp-client --help')")
    name = words[at]
    command = known[name]
    given, others = _sorted([*words[:at], *words[at + 1 :]], command)
    separator = ["--"] if any(map(_is_option, others)) else []
    options, rest = command.parse_known_args([*given, *separator, *others])
    rest = [word for word in rest if word != "--"]
    if rest:
        command.error(
            f"{name} takes no further argument: {rest[0][:60]!r}; quote a command of several words"
        )
    options.command = name
    return options


def place_of_command(words: Sequence[str]) -> int | None:
    """Return the index of the command: the first word that is neither an option nor its value."""
    actions = _every_option()
    at = 0
    while at < len(words):
        word = words[at]
        if not _is_option(word):
            return at
        if word == "--":
            return at + 1 if at + 1 < len(words) else None
        if word in ("--help", "-h", "--version"):
            return None
        at += 2 if _takes_next(actions.get(word), words[at + 1 : at + 2]) else 1
    return None


@functools.cache
def _every_option() -> dict[str, argparse.Action]:
    """Return the options of all commands."""
    every = commands().values()
    return {k: v for each in every for k, v in each._option_string_actions.items()}


def _explain_no_command(
    words: Sequence[str], at: int | None, known: Mapping[str, argparse.ArgumentParser]
) -> None:
    """Raise ``UsageError``: the word at this place is not a command, or there is no word.

    Raises ``SystemExit`` after ``--help``.
    """
    before = words if at is None else words[:at]
    if not (asked := [word for word in before if word in ("--help", "-h", "--version")]):
        for place, word in enumerate(before):
            option = before[place - 1] if place else ""
            if _is_option(word):
                _check_option(word, _every_option(), _parser())
            elif word in known and _is_option(option):  # which parsed the command as its value
                _check_option(option, known[word]._option_string_actions, known[word])
                known[word].error(f"{option} needs a value: {word!r} after it is a command")
    _parser().parse_args(asked[:1] if at is None else [words[at]])  # which raises


def _sorted(words: Sequence[str], command: argparse.ArgumentParser) -> tuple[list[str], list[str]]:
    """Return the options of the command with their values, and all other words."""
    given: list[str] = []
    others: list[str] = []
    actions = command._option_string_actions
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if word == "--":
            others += words[place:]
            break
        if not _is_option(word):
            others.append(word)
            continue
        _check_option(word, actions, command)
        given.append(word)
        if _takes_next(actions.get(word), words[place : place + 1]):
            given.append(words[place])
            place += 1
    return given, others


def _check_option(
    word: str, actions: Mapping[str, argparse.Action], command: argparse.ArgumentParser
) -> None:
    """Raise ``UsageError`` if the word is not one of the options ``actions`` of ``command``."""
    name = word.partition("=")[0]
    if word == "--" or name in actions or (not word.startswith("--") and word[:2] in actions):
        return
    having = [each for each, its in commands().items() if name in its._option_string_actions]
    close = close_names(name.lstrip("-"), [each[2:] for each in actions if each.startswith("--")])
    meant = f"; did you mean --{close[0]}?" if close else ""
    if having:
        more = ", ..." if len(having) > _MAX_HAVING else ""
        meant = f"; it is one of {', '.join(having[:_MAX_HAVING])}{more}"
    command.error(f"unknown option {name!r} of {command.prog.split()[-1]}{meant}")


def _takes_next(option: argparse.Action | None, following: Sequence[str]) -> bool:
    """Whether the word that follows is the value of ``option``."""
    if option is None or option.nargs == 0:
        return False
    return any(not _is_option(word) for word in following)


def _is_option(word: str) -> bool:
    """Whether it is neither ``-``, which is standard input, nor a negative number."""
    return word[:1] == "-" and word != "-" and not word[1:2].isdigit()


def commands() -> dict[str, argparse.ArgumentParser]:
    """Return every command with its own parser."""
    (group,) = (each for each in _parser()._actions if each.dest == "command")
    return dict(group.choices or {})


@functools.cache
def session_options() -> frozenset[str]:
    """Return the options that define how a session is opened.

    No command in ``shell`` takes them.
    """
    about = _Parser(add_help=False)
    _add_session(about)
    return frozenset(name for action in about._actions for name in action.option_strings)


@functools.cache
def _parser() -> argparse.ArgumentParser:
    top = _Parser(
        prog="mcp-client",
        description="Tools, resources and prompts of MCP servers from a shell.",
        allow_abbrev=False,
        epilog=f"{EXIT_CODES}\n{_OUTPUT}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"mcp-client {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_server_commands(commands)
    _add_file_commands(commands)
    return top


def _add(commands: Any, module: str, name: str, about: str) -> argparse.ArgumentParser:
    """Return a command, which the function of its name in ``module`` runs."""
    examples = "\n".join(f"  mcp-client {name} {each}".rstrip() for each in COMMAND_EXAMPLES[name])
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=f"examples:\n{examples}",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(module=module)
    command.add_argument("--json", action="store_true", help="one JSON document on standard output")
    return command


def _add_server_commands(commands: Any) -> None:
    """Add the commands with a TARGET."""

    def add(
        name: str, about: str, *positionals: tuple[str, str], module: str = "session_commands"
    ) -> argparse.ArgumentParser:
        command = _add(commands, module, name, about)
        for argument, text in (("target", _TARGET), *positionals):
            _add_positional(command, argument, text)
        if name == "call":
            about = "arguments are JSON lines on standard input; each result is a JSON line"
            command.add_argument("--each", action="store_true", help=about)
        if name in ("call", "read", "prompt"):
            about = "save images, audio and other bytes here"
            command.add_argument("--save", metavar="DIR", help=about)
        _add_session(command)
        return command

    add("tools", "list the tools of a server")
    add("describe", "show one tool in full", ("tool?", "its name"))
    add(
        "call",
        "call a tool, if that is approved",
        ("tool?", "its name"),
        (
            "arguments...",
            "key=value, key:=JSON, '{...}', @file.json, or - for JSON on standard input",
        ),
    )
    found = add("search", "find tools by words", ("query...", "what the tool should do"))
    found.add_argument("--limit", type=_count, default=8, metavar="N", help="at most so many")
    add("resources", "list the resources of a server")
    add("read", "read a resource", ("uri?", "its URI"))
    add("prompts", "list the prompts of a server")
    add("prompt", "get a prompt", ("prompt?", "its name"), ("arguments...", "name=value"))
    add(
        "complete",
        "show what the server suggests for an argument",
        ("prompt", "a prompt's name, or a template's URI"),
        ("argument", "name=what is typed so far"),
        ("arguments...", "name=value of the arguments known so far"),
    )
    stubs = add("stubs", "write typed Python for a server's tools", module="file_commands")
    stubs.add_argument("-o", "--output", metavar="FILE", help="instead of standard output")
    about = "run a script of yours that calls tools; without one, show how it calls them"
    script = add("run", about, module="run_command")
    script.add_argument(
        "script", nargs="?", metavar="SCRIPT", help="a Python file, or - for standard input"
    )
    add("shell", "run many commands in one session", module="shell")
    about = "find out what is wrong with a server; no tool is called without --allow"
    add("doctor", about, module="doctor")
    about = "compare a server's tools with a lock file: --pins FILE"
    pins = add("pins", about, module="file_commands")
    pins.add_argument(
        "--accept", action="append", default=[], metavar="TOOL", help="write down what it is now"
    )
    about = "what the program that uses the lock file calls the server"
    pins.add_argument("--name", dest="server_name", metavar="NAME", help=about)


def _add_positional(command: argparse.ArgumentParser, name: str, about: str) -> None:
    """Add one argument, or with ``...`` any number.

    Without a ``name?``, the command reports which names there are.
    """
    if name.endswith("..."):
        command.add_argument(name[:-3], nargs="*", default=[], help=about)
    else:
        nargs = "?" if name.endswith("?") else None
        name = name.removesuffix("?")
        command.add_argument(name, metavar=name.upper(), nargs=nargs, help=about)


def _add_file_commands(commands: Any) -> None:
    """Add the commands without a server."""

    def add(
        name: str, about: str, *actions: str, module: str = "file_commands"
    ) -> argparse.ArgumentParser:
        command = _add(commands, module, name, about)
        if actions:
            command.add_argument("action", choices=actions)
        return command

    verify = add("audit", "verify an audit log, show or export it", "verify", "show", "export")
    verify.add_argument(
        "file", nargs="?", metavar="FILE", help="the log, or the directory to export to"
    )
    _add_state(verify, "the state whose audit is meant")
    about = "show the records of calls with this context only"
    verify.add_argument("--context", metavar="X", help=about)
    verify.add_argument("--key", metavar="env:VAR", help="the key it was written with")
    verify.add_argument("--noted", metavar="HASH", help="the last hash of an earlier time")
    decisions = add("decisions", "list or revoke what was decided", "list", "revoke")
    decisions.add_argument(
        "id", nargs="*", metavar="ID", help="revoke these, each by its beginning"
    )
    decisions.add_argument(
        "--kind", choices=("call", "skill", "start", "sampling"), help="of one kind"
    )
    decisions.add_argument("--server", metavar="NAME", help="of one server")
    decisions.add_argument("--all", action="store_true", help="revoke all of these")
    _add_state(decisions)
    known = add("servers", "list the servers of config files; nothing is started")
    known.add_argument("--config", metavar="FILE", help="this file instead of those found")
    _add_state(known)
    about = "show what a config file starts, and store an approval of it"
    confirm = add("confirm", about, module="decide")
    confirm.add_argument("config", metavar="CONFIG", help="the config file")
    confirm.add_argument("server", metavar="SERVER", nargs="?", help="this server of it")
    about = "approve what was shown with this fingerprint"
    confirm.add_argument("--yes", action="append", default=[], metavar="FINGERPRINT", help=about)
    confirm.add_argument("--audit", metavar="FILE", help="record the approval here")
    _add_state(confirm)
    _add_sandbox(confirm)
    for name, about in (
        ("login", "log in at a server with a browser, and store the login for later commands"),
        ("logout", "revoke and delete the tokens of a login"),
    ):
        login = add(name, about, module="login")
        login.add_argument("url", metavar="URL", help="the server's URL")
        login.add_argument("--headless", action="store_true", help="show the address, open nothing")
        login.add_argument("--timeout", type=_seconds, metavar="S", help="seconds to connect")
        if name == "login":
            about = "an authorization server that you trust although it uses several sites"
            login.add_argument("--issuer", metavar="URL", help=about)
    script = add("completion", "print a script that completes commands", module="completion")
    script.add_argument("shell", choices=("bash", "zsh", "fish"), help="source what is printed")
    about = "serve a page that decides the calls of other programs"
    _add_state(add("desk", about, module="decide"))


def _add_state(command: argparse.ArgumentParser, about: str = "the store of decisions") -> None:
    about = f"{about}: a directory, postgresql://..., env:VAR"
    command.add_argument("--state", metavar="STATE", help=about)


def _add_session(command: argparse.ArgumentParser) -> None:
    """Add the options that define how a session is opened."""
    add = command.add_argument
    # Unlike timeout= of a call, which begins in an open session, this bounds connecting as well.
    about = "seconds that connecting (5 at least) and each request may take"
    add("--timeout", type=_seconds, metavar="S", help=about)
    add(
        "--allow",
        action="append",
        default=[],
        metavar="GLOB",
        help="run these tools without asking",
    )
    kinds: dict[str, Any] = {"action": "append", "default": [], "type": _finding_kind}
    add("--allow-finding", metavar="KIND", help="also if they have this finding", **kinds)
    about = "rules that decide before --allow and before a person is asked (TOML or JSON)"
    add("--policy", metavar="FILE", help=about)
    add("--trust", action="store_true", help="trust the server's annotations of its tools")
    add("--approve", choices=("ask", "deny", "web"), default="ask", help="who is asked")
    add("--audit", metavar="FILE", help="record every call and start here")
    add("--record", metavar="FILE", help="record the session here, to replay it")
    add("--pins", metavar="FILE", help="the lock file of tool definitions")
    _add_state(command)
    about = "the protocol revision to speak; or handshake, stateless or auto (auto)"
    add("--revision", default="auto", metavar="R", type=_revision, help=about)
    secret: dict[str, Any] = {"action": "append", "default": [], "metavar": "NAME=env:VAR"}
    add("--header", help=f"for a URL; {_OR}", **secret)
    add("--env", help=f"for a command; {_OR}", **secret)
    _add_sandbox(command)
    add("--config", metavar="FILE", help="the config file that names TARGET")
    add("--no-input", action="store_true", help="never ask anything at the terminal")


def _add_sandbox(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--sandbox", action="store_true", help="confine a command to itself and what follows")
    grant: dict[str, Any] = {"action": "append", "default": [], "metavar": "PATH"}
    add("--read", help="with --sandbox: it can read this file or directory", **grant)
    add("--write", help="with --sandbox: it can write this file or directory", **grant)
    about = "with --sandbox: the network that it can reach (none)"
    add("--network", choices=("none", "loopback", "all"), help=about)


def _seconds(word: str) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{word!r} is not a number of seconds above 0")
    return seconds


def _finding_kind(word: str) -> str:
    from ..catalog.finding import Finding

    if word not in Finding.KINDS:
        raise argparse.ArgumentTypeError(
            f"{safe_text(word, 60)!r} is not a kind of finding{near(word, Finding.KINDS)}"
        )
    return word


def _revision(word: str) -> str:
    from ..protocol.capabilities import ERAS, HANDSHAKE, STATELESS

    known = (*STATELESS, *HANDSHAKE, *ERAS, "auto")
    if word not in known:
        raise ConfigError(f"--revision {safe_text(word, 60)!r}: give one of {', '.join(known)}")
    return word


def _count(word: str) -> int:
    if not word.isascii() or not word.isdigit() or not 0 < int(word[:9]) < 10**6:
        raise argparse.ArgumentTypeError(f"{word!r} is not a number above 0")
    return int(word)


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
