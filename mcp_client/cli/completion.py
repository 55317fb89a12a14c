"""``completion bash|zsh|fish``: a script that completes commands and options.

``source <(mcp-client completion bash)``; for zsh likewise, after ``compinit``;
``mcp-client completion fish | source``.
"""

from __future__ import annotations

import argparse

from .exits import DONE
from .output import print_json, print_text
from .words import parser

__all__ = ["completion"]

_BASH = """\
_mcp_client() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands} --help --version"
    else
        case "${{COMP_WORDS[1]}}" in
{cases}
        esac
    fi
    if [[ "$word" == -* || "$COMP_CWORD" -eq 1 ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$word"))
    fi
}}
complete -o default -F _mcp_client mcp-client
"""
_ZSH = """\
#compdef mcp-client
autoload -U +X bashcompinit && bashcompinit
"""


async def completion(options: argparse.Namespace) -> int:
    text = {"bash": _bash, "zsh": lambda: _ZSH + _bash(), "fish": _fish}[options.shell]()
    if options.json:
        print_json({"script": text})
    else:
        print_text(text.rstrip("\n"), whole=True)
    return DONE


def _commands() -> dict[str, argparse.ArgumentParser]:
    (group,) = (each for each in parser()._actions if each.dest == "command")
    return dict(group.choices or {})


def _options(command: argparse.ArgumentParser) -> list[tuple[str, str]]:
    return [
        (max(action.option_strings, key=len), action.help or "")
        for action in command._actions
        if action.option_strings
    ]


def _bash() -> str:
    commands = _commands()
    cases = "\n".join(
        f'        {name}) words="{" ".join(word for word, _ in _options(command))}" ;;'
        for name, command in commands.items()
    )
    return _BASH.format(commands=" ".join(commands), cases=cases)


def _fish() -> str:
    lines = ["complete -c mcp-client -n __fish_use_subcommand -l version"]
    for name, command in _commands().items():
        about = _quoted(command.description or "")
        lines.append(f"complete -c mcp-client -f -n __fish_use_subcommand -a {name} -d {about}")
        for word, text in _options(command):
            lines.append(
                f"complete -c mcp-client -n '__fish_seen_subcommand_from {name}' "
                f"-l {word.lstrip('-')} -d {_quoted(text)}"
            )
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
