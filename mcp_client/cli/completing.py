"""What the scripts of ``completion`` ask for at each Tab: ``mcp-client _complete ...``.

Nothing is started, connected to or asked. Servers are named by config files; their tools, prompts
and arguments by what ``seen_names`` holds. A name is offered only if a shell takes it as it is,
because a shell inserts it into a line that is run.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Sequence

from ..errors import McpError
from .candidates import Known, commands, following, option_words, positionals
from .plain_words import is_plain
from .seen_names import SeenNames, cache_file

__all__ = ["complete_words", "keep_names", "offered", "split_line"]

_ACTIONS = {
    "audit": ("verify", "show"),
    "decisions": ("list", "revoke"),
    "completion": ("bash", "zsh", "fish"),
}


def complete_words(words: Sequence[str]) -> int:
    """Print what the last word may become, a line each; nothing where that is not known.

    ``words`` are ``line LINE BREAKS``, as bash has it: the line up to the cursor, and the
    characters at which bash divides words; or ``words WORD...``, those after the command's name.
    """
    try:
        if words[:1] == ["line"]:
            given = split_line(words[1])
            breaks = words[2] if len(words) > 2 else ""
        else:
            given, breaks = list(words[1:]), ""
        for each in offered(given or [""]):
            print(_after_break(each, (given or [""])[-1], breaks))
    except (McpError, OSError, ValueError, IndexError):
        return 0  # a shell shows what is printed, and there is nothing to say
    sys.stdout.flush()
    return 0


def split_line(line: str) -> list[str]:
    """The words after the command's name, the last of them the one to complete, maybe empty.

    Raises ``ValueError`` within quotes.
    """
    words = shlex.split(line)[1:]
    if not line or line[-1].isspace():
        words.append("")
    return words


def offered(words: Sequence[str]) -> list[str]:
    """What the last of the words after the command's name may become."""
    known = commands()
    if len(words) < 2:
        found: Iterable[str] = [*known, "--help", "--version"]
    elif words[0] not in known:
        return []
    elif words[-1].startswith("-"):
        found = [word for word, _ in option_words(known[words[0]])]
    else:
        found = filter(is_plain, _of_command(words[0], words[1:]))
    return [each for each in found if each.startswith(words[-1])]


def _of_command(command: str, words: Sequence[str]) -> Iterable[str]:
    given = positionals(command, [*words[:-1], "--end"])
    if command in _ACTIONS:
        return () if given else _ACTIONS[command]
    if not any(action.dest == "target" for action in commands()[command]._actions):
        return ()
    config = _value_of("--config", words[:-1])
    if not given:
        ahead = words[-2] if len(words) > 1 else ""
        return following(command, words, SeenNames(cache_file()).known("")) or (
            () if ahead.startswith("--") and not _is_flag(command, ahead) else _servers(config)
        )
    target = given[0]
    rest = list(words)
    rest.remove(target)
    known = SeenNames(cache_file()).known(seen_target(target, config))
    return following(command, rest, known)


def keep_names(options: argparse.Namespace, known: Known, *lists: str) -> None:
    """Write down the names of a server that a person at the terminal had listed.

    ``lists`` says which: "tools", "prompts".
    """
    if not options.terminal:
        return
    target = seen_target(options.target, options.config)
    SeenNames(cache_file()).keep(target, {name: getattr(known, name) for name in lists})


def _is_flag(command: str, option: str) -> bool:
    return "=" in option or any(
        option in action.option_strings and action.nargs == 0
        for action in commands()[command]._actions
    )


def _value_of(option: str, words: Sequence[str]) -> str | None:
    for number, word in enumerate(words):
        if word == option and number + 1 < len(words):
            return words[number + 1]
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


def _servers(config: str | None) -> list[str]:
    from .target import configs_of

    return [name for each in configs_of(config, quiet=True) for name in each.servers]


def seen_target(target: str, config: str | None) -> str:
    """What names are kept under: the words, or the config file and the name in it."""
    from .target import configs_of

    if "://" not in target and len(target.split()) == 1:
        for each in configs_of(config, quiet=True):
            if target in each.servers:
                return f"{each.path}\n{target}"
    return target


def _after_break(found: str, word: str, breaks: str) -> str:
    """What bash puts in place of the part of the word after its last break."""
    start = max((word.rfind(char) for char in breaks if char in "=:@"), default=-1)
    return found[start + 1 :]
