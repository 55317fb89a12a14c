"""``completion bash|zsh|fish``: a script that completes commands, options, and names.

Commands and options stand in the script. For servers, tools, arguments and values it asks
``mcp-client _complete``, which starts no server (see ``completing``).

``source <(mcp-client completion bash)``; for zsh likewise, after ``compinit``;
``mcp-client completion fish | source``.
"""

from __future__ import annotations

import argparse

from .candidates import commands, option_words
from .exits import DONE
from .output import print_json, print_text

__all__ = ["completion"]

_BASH = """\
_mcp_client() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" offered="" IFS=$' \\t\\n'
    if [ "$COMP_CWORD" -eq 1 ]; then
        offered="{commands} --help --version"
    elif [[ "$word" == -* ]]; then
        case "${{COMP_WORDS[1]}}" in
{cases}
        esac
    else
        COMPREPLY=($(mcp-client _complete line "${{COMP_LINE:0:$COMP_POINT}}" \\
            "$COMP_WORDBREAKS" 2>/dev/null </dev/null))
        [[ "${{COMPREPLY[0]}}" == *= ]] && compopt -o nospace 2>/dev/null
        return
    fi
    COMPREPLY=($(compgen -W "$offered" -- "$word"))
}}
complete -o default -F _mcp_client mcp-client
"""
_ZSH = """\
#compdef mcp-client
_mcp_client() {{
    local -a offered
    if (( CURRENT == 2 )); then
        offered=({commands} --help --version)
    elif [[ "$PREFIX" == -* ]]; then
        case "$words[2]" in
{cases}
        esac
    else
        offered=("${{(@Q)words[2,CURRENT-1]}}" "${{(Q)PREFIX}}")
        offered=(${{(f)"$(mcp-client _complete words "${{offered[@]}}" 2>/dev/null </dev/null)"}})
    fi
    compadd -S '' -- ${{(M)offered:#*=}}
    compadd -- ${{offered:#*=}} || [[ -n "$offered" ]] || _files
}}
compdef _mcp_client mcp-client
"""
_FISH = """\
function __mcp_client_offered
    set -l words (commandline -opc)
    mcp-client _complete words $words[2..-1] (commandline -ct) 2>/dev/null </dev/null
end
complete -c mcp-client -n 'not __fish_use_subcommand' -a '(__mcp_client_offered)'
"""


async def completion(options: argparse.Namespace) -> int:
    text = {"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell]()
    if options.json:
        print_json({"script": text})
    else:
        print_text(text.rstrip("\n"), whole=True)
    return DONE


def _bash() -> str:
    known = commands()
    cases = "\n".join(
        f'        {name}) offered="{" ".join(word for word, _ in option_words(its))}" ;;'
        for name, its in known.items()
    )
    return _BASH.format(commands=" ".join(known), cases=cases)


def _zsh() -> str:
    known = commands()
    cases = "\n".join(
        f"        {name}) offered=({' '.join(word for word, _ in option_words(its))}) ;;"
        for name, its in known.items()
    )
    return _ZSH.format(commands=" ".join(known), cases=cases)


def _fish() -> str:
    lines = ["complete -c mcp-client -n __fish_use_subcommand -l version"]
    for name, command in commands().items():
        about = _quoted(command.description or "")
        lines.append(f"complete -c mcp-client -f -n __fish_use_subcommand -a {name} -d {about}")
        for word, text in option_words(command):
            lines.append(
                f"complete -c mcp-client -n '__fish_seen_subcommand_from {name}' "
                f"-l {word.lstrip('-')} -d {_quoted(text)}"
            )
    return "\n".join(lines) + "\n" + _FISH


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
