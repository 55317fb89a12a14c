"""``completion bash|zsh|fish``: a script that completes commands, options, and names.

The script asks ``mcp-client _complete`` at each Tab. Nothing is started, connected to or asked
then: servers are named by config files, their tools, prompts and arguments by what was seen. A name
is offered only if a shell takes it as it is, because a shell inserts it into a line that is run.

The commands ``tools``, ``search``, ``prompts`` and ``shell``, at a terminal, store the names they
saw. The file is ``completion.json`` in the user's cache directory, for its owner alone (0600). It
contains names and the values that schemas list, no descriptions and no URIs. A TARGET is stored as
a digest keyed with the file's own key, because commands and URLs may hold secrets.

``source <(mcp-client completion bash)``; for zsh likewise, after ``compinit``; ``mcp-client
completion fish | source``.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ..errors import ConfigError, McpError
from ..protocol.canonical_json import digest_with
from ..runtime.safe_text import is_invisible
from ..runtime.strict_json import read_json_object
from .exits import DONE
from .parser import commands

if TYPE_CHECKING:
    from ..catalog.tool import Tool

__all__ = [
    "Known",
    "SeenNames",
    "complete_words",
    "completion",
    "is_plain",
    "keep_names",
    "known_of",
    "offered",
    "split_line",
]

_SCRIPTS = {
    "bash": """\
_mcp_client() {
    local IFS=$' \\t\\n'
    COMPREPLY=($(mcp-client _complete line "${COMP_LINE:0:$COMP_POINT}" \\
        "$COMP_WORDBREAKS" 2>/dev/null </dev/null))
    [[ "${COMPREPLY[0]}" == *= ]] && compopt -o nospace 2>/dev/null
}
complete -o default -F _mcp_client mcp-client
""",
    "zsh": """\
#compdef mcp-client
_mcp_client() {
    local -a offered
    offered=("${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}")
    offered=(${(f)"$(mcp-client _complete words "${offered[@]}" 2>/dev/null </dev/null)"})
    compadd -S '' -- ${(M)offered:#*=}
    compadd -- ${offered:#*=} || [[ -n "$offered" ]] || _files
}
compdef _mcp_client mcp-client
""",
    "fish": """\
function __mcp_client_offered
    set -l words (commandline -opc)
    mcp-client _complete described $words[2..-1] (commandline -ct) 2>/dev/null </dev/null
end
complete -c mcp-client -f -n __fish_use_subcommand -a '(__mcp_client_offered)'
complete -c mcp-client -n 'not __fish_use_subcommand' -a '(__mcp_client_offered)'
""",
}
_VERSION = 1
_MAX_TARGETS = 64
_MAX_NAMES = 500
_MAX_ARGUMENTS = 50
_MAX_VALUES = 50
_MAX_NAME_CHARS = 120


class Known(NamedTuple):
    """The names of a server's tools, prompts and resources."""

    tools: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    """The arguments of each tool, each with the values that its schema names."""
    prompts: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """The arguments of each prompt."""
    resources: tuple[str, ...] = ()
    """URIs, and templates of them."""
    secret: frozenset[str] = frozenset()
    """The tools whose schema marks an argument as secret."""


def known_of(
    tools: Iterable[Tool], prompts: Iterable[Any] = (), resources: Iterable[str] = ()
) -> Known:
    """Return the names in the lists of a server."""
    from ..audit.schema_marks import marked  # not at each Tab of a shell

    tools = list(tools)
    return Known(
        {tool.name: _arguments(tool.input_schema) for tool in tools},
        {one.name: tuple(each.name for each in one.arguments) for one in prompts},
        tuple(resources),
        frozenset(tool.name for tool in tools if marked(tool.input_schema)),
    )


def _arguments(schema: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {str(name): _values(its) for name, its in properties.items()}


def _values(schema: Any) -> tuple[str, ...]:
    if not isinstance(schema, Mapping):
        return ()
    if schema.get("type") == "boolean":
        return ("true", "false")
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    allowed = values[:_MAX_VALUES] if isinstance(values, list) else []
    return tuple(
        value if isinstance(value, str) else str(value).lower()
        for value in allowed
        if isinstance(value, str | bool | int | float)
    )


Names: TypeAlias = Callable[[str, "str | None"], Known]
"""A function that returns the names of the server of a TARGET and a ``--config``."""


async def completion(options: argparse.Namespace) -> int:
    """Print the script of a shell."""
    from .output import print_document

    script = _SCRIPTS[options.shell]
    print_document(options, {"script": script}, script.rstrip("\n"))
    return DONE


def complete_words(words: Sequence[str]) -> int:
    """Print the completions of the last word, one a line; nothing if none are known.

    ``words`` are ``line LINE BREAKS``, as bash has it: the line up to the cursor, and the
    characters at which bash divides words; or ``words WORD...``, those after the command's name; or
    ``described WORD...``, which prints after each a tab and its description.
    """
    try:
        how, breaks, about = words[0], "", dict[str, str]()
        if how == "line":
            typed = split_line(words[1])
            breaks = words[2] if len(words) > 2 else ""
        else:
            typed = list(words[1:])
        typed = typed or [""]
        if how == "described":
            about = _descriptions(typed[0])
        for each in offered(typed, _seen):
            text = _after_break(each, typed[-1], breaks)
            print(f"{text}\t{about[each]}" if each in about else text)
    except (McpError, OSError, ValueError, IndexError):
        return DONE  # a shell shows what is printed, and there is nothing to report
    sys.stdout.flush()
    return DONE


def split_line(line: str) -> list[str]:
    """Return the words after the command's name, the last of them the one to complete, maybe empty.

    Raises ``ValueError`` within quotes.
    """
    words = shlex.split(line)[1:]
    if not line or line[-1].isspace():
        words.append("")
    return words


def offered(words: Sequence[str], names: Names) -> list[str]:
    """Return the completions of the last word. ``words`` are those after ``mcp-client``."""
    *before, word = words
    found: Iterable[str]
    if not before:
        found = [*commands(), "--help", "--version"]
    elif before[0] not in commands():
        found = ()
    else:
        found = _following(before[0], before[1:], word, names)
    return [each for each in found if each.startswith(word)]


def _following(command: str, before: Sequence[str], word: str, names: Names) -> Iterable[str]:
    """Return the words that may follow a command and the words ``before``."""
    its = commands()[command]
    values, words, action = _read(its, before)
    if action is None and word.startswith("-"):
        return _option_words(its)
    if action is None:
        places = [each for each in its._actions if not each.option_strings]
        if len(words) < len(places):
            action = places[len(words)]
        elif places and places[-1].nargs == "*":
            action = places[-1]
        else:
            return ()
    if action.choices:
        return action.choices
    config = values.get("config")
    if action.dest == "target":
        return filter(is_plain, _servers(config))
    if not words or not any(each.dest == "target" for each in its._actions):
        return ()
    return filter(is_plain, _named(action.dest, command, words, word, names(words[0], config)))


def _named(
    place: str, command: str, words: Sequence[str], word: str, known: Known
) -> Iterable[str]:
    match place:
        case "tool" | "accept":
            return known.tools
        case "uri":
            return known.resources
        case "prompt":
            return known.prompts
        case "argument" | "arguments" if command == "call":
            return _assignments(known.tools.get(words[1], {}), words[2:], word)
        case "argument" | "arguments":
            arguments = known.prompts.get(words[1], ())
            return _assignments(dict.fromkeys(arguments, ()), words[2:], word)
    return ()


def _assignments(
    arguments: Mapping[str, tuple[str, ...]], words: Sequence[str], word: str
) -> list[str]:
    """Yield ``name=`` of each missing argument, or ``name=value`` of the present one."""
    name, sign, _ = word.partition("=")
    if sign:
        return [f"{name}={value}" for value in arguments.get(name, ())]
    taken = {each.partition("=")[0].removesuffix(":") for each in words}
    return [f"{name}=" for name in arguments if name not in taken]


def _read(
    command: argparse.ArgumentParser, words: Sequence[str]
) -> tuple[dict[str, str], list[str], argparse.Action | None]:
    """Return the values of options, the other words, and the option that still needs a value."""
    options = {name: action for action in command._actions for name in action.option_strings}
    values: dict[str, str] = {}
    others: list[str] = []
    waiting: argparse.Action | None = None
    for word in words:
        name, sign, value = word.partition("=")
        if waiting is not None:
            values[waiting.dest] = word
            waiting = None
        elif name not in options:
            others += [] if name.startswith("--") else [word]
        elif sign:
            values[options[name].dest] = value
        elif options[name].nargs != 0:
            waiting = options[name]
    return values, others, waiting


def _option_words(command: argparse.ArgumentParser) -> dict[str, str]:
    """Return the options of a command, each with what it is for."""
    return {
        max(action.option_strings, key=len): action.help or ""
        for action in command._actions
        if action.option_strings
    }


def _descriptions(command: str) -> dict[str, str]:
    """Return the descriptions of commands, and of the options of the one that was typed."""
    its = commands()
    about = {name: one.description or "" for name, one in its.items()}
    return about | (_option_words(its[command]) if command in its else {})


def _servers(config: str | None) -> list[str]:
    from .target import configs_of

    return [name for each in configs_of(config, quiet=True) for name in each.servers]


def _after_break(found: str, word: str, breaks: str) -> str:
    """Return the text that bash puts in place of the part of the word after its last break."""
    start = max((word.rfind(char) for char in breaks if char in "=:@"), default=-1)
    return found[start + 1 :]


# ---------------------------------------------------------------------- names that were seen


def keep_names(options: argparse.Namespace, known: Known, *lists: str) -> None:
    """Store the names of a server that a person at the terminal had listed.

    ``lists`` names the lists: "tools", "prompts".
    """
    if options.terminal:
        target = _seen_target(options.target, options.config)
        SeenNames(_cache_file()).keep(target, {name: getattr(known, name) for name in lists})


def _seen(target: str, config: str | None) -> Known:
    return SeenNames(_cache_file()).known(_seen_target(target, config))


def _seen_target(target: str, config: str | None) -> str:
    """Return the key of stored names: the words, or the config file and the name in it."""
    from .target import configs_of

    if "://" not in target and len(target.split()) == 1:
        for each in configs_of(config, quiet=True):
            if target in each.servers:
                return f"{each.path}\n{target}"
    return target


def is_plain(word: str) -> bool:
    """Whether a shell takes the word as it is: no quotes, no expansion, nothing invisible.

    Nor is it one that we would read as an option or a file: ``--trust``, ``@notes``.
    """
    return word[:1] not in ("", *"-@=+:,") and all(
        char in "_.,:/@=+-" or (char.isalnum() and not is_invisible(char)) for char in word
    )


def _cache_file() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or ""
    directory = base if os.path.isabs(base) else os.path.expanduser("~/.cache")
    return os.path.join(directory, "mcp-client", "completion.json")


class SeenNames:
    """A file of the names that were seen, by TARGET.

    No method raises: without the file nothing is completed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        from ..runtime.atomic_file import OwnFile  # not at a Tab that completes an option

        self._file = OwnFile(path, "names for completion", "delete it", private=True)

    def known(self, target: str) -> Known:
        """Return the names of a server; none where its lists were not seen."""
        try:
            key, targets = self._read()
        except ConfigError:
            return Known()
        found = targets.get(digest_with(key, target))
        if not isinstance(found, dict):
            return Known()
        tools, prompts = found.get("tools"), found.get("prompts")
        return Known(
            {
                str(name): {str(each): _texts(values) for each, values in _members(its).items()}
                for name, its in _members(tools).items()
            },
            {str(name): _texts(its) for name, its in _members(prompts).items()},
        )

    def keep(self, target: str, lists: Mapping[str, Mapping[str, Any]]) -> None:
        """Write down names of "tools" and "prompts", in place of those of earlier lists."""
        try:
            self._file.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._file.locked():
                key, targets = self._read()
                digest = digest_with(key, target)
                before = _members(targets.get(digest))
                now = {**before, **{name: _bounded(its) for name, its in lists.items()}}
                if now == before:
                    return
                targets.pop(digest, None)
                latest = dict([*targets.items(), (digest, now)][-_MAX_TARGETS:])
                whole = {"version": _VERSION, "key": key.hex(), "targets": latest}
                self._file.replace(json.dumps(whole) + "\n")
        except (ConfigError, OSError):
            return

    def _read(self) -> tuple[bytes, dict[str, Any]]:
        found = self._file.read()
        if found is None:
            return os.urandom(32), {}
        try:
            whole = read_json_object(found[1])
            if whole.get("version") == _VERSION:
                return bytes.fromhex(str(whole.get("key"))), _members(whole.get("targets"))
        except ValueError:
            pass
        return os.urandom(32), {}


def _bounded(names: Mapping[str, Any]) -> dict[str, Any]:
    """Return only so many names, none longer than a person would complete."""
    found: dict[str, Any] = {}
    for name, its in list(names.items())[:_MAX_NAMES]:
        if len(name) > _MAX_NAME_CHARS:
            continue
        if isinstance(its, dict):
            latest = list(its.items())[:_MAX_ARGUMENTS]
            found[name] = {
                each: [value for value in values if len(value) <= _MAX_NAME_CHARS]
                for each, values in latest
                if len(each) <= _MAX_NAME_CHARS
            }
        else:
            found[name] = [each for each in its[:_MAX_ARGUMENTS] if len(each) <= _MAX_NAME_CHARS]
    return found


def _members(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
