"""`gpudoctor completion SHELL`: a script that completes commands, flags, their values and check codes.

It is built from the argument parser, so a new command or flag is completed the day it is added.
"""

import argparse
import re
from collections.abc import Iterable
from dataclasses import dataclass

SHELLS = ("bash", "zsh", "fish")
_SAFE_WORD = re.compile(r"^[A-Za-z0-9_.:+/-]+$")
_CODE_FLAGS = ("--select", "--ignore")
_CODE_COMMAND = "explain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """An option of a command."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    values: tuple[str, ...]
    """The values to offer; empty for a free one (files are offered then)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandWords:
    """A command: its flags and the words that it takes."""

    name: str
    help: str
    flags: tuple[Flag, ...]
    words: tuple[str, ...]
    """Words to offer as arguments; empty when files are offered."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The shell."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that will read the script")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        'bash:  eval "$(gpudoctor completion bash)"            in ~/.bashrc\n'
        'zsh:   eval "$(gpudoctor completion zsh)"             in ~/.zshrc, after compinit\n'
        "fish:  gpudoctor completion fish > ~/.config/fish/completions/gpudoctor.fish"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the script for a shell."""
    from gpudoctor.cli.output import show
    from gpudoctor.cli.parser import build_parser
    from gpudoctor.engine.registry import load_registry

    registry = load_registry()
    codes = tuple(str(code) for code in registry.checks)
    names = tuple(check.name for check in registry.checks.values())
    commands = read_commands(build_parser(), codes, names)
    write = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}[arguments.shell]
    show(write(commands))
    return 0


def read_commands(
    parser: argparse.ArgumentParser, codes: Iterable[str], names: Iterable[str]
) -> tuple[CommandWords, ...]:
    """The commands of a parser; `codes` and `names` are those of the checks."""
    codes, names = tuple(codes), tuple(names)
    commands: list[CommandWords] = []
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, child in action.choices.items():
            words = (*codes, *names) if name == _CODE_COMMAND else _choices_of(child)
            commands.append(
                CommandWords(
                    name=name, help=helps.get(name, ""), flags=_flags(child, codes), words=_safe(words)
                )
            )
    return tuple(commands)


def _choices_of(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    return tuple(
        str(choice)
        for action in parser._actions
        if not action.option_strings
        for choice in action.choices or ()
    )


def _flags(parser: argparse.ArgumentParser, codes: tuple[str, ...]) -> tuple[Flag, ...]:
    flags: list[Flag] = []
    for action in parser._actions:
        if not action.option_strings or action.help == argparse.SUPPRESS:
            continue
        values = (
            codes if set(action.option_strings) & set(_CODE_FLAGS) else tuple(map(str, action.choices or ()))
        )
        flags.append(
            Flag(
                names=tuple(action.option_strings),
                help=(action.help or "").replace("%%", "%"),
                takes_value=action.nargs != 0,
                values=_safe(values),
            )
        )
    return tuple(flags)


def _safe(words: Iterable[str]) -> tuple[str, ...]:
    """Only words that a shell takes as they are: a plugin's strange name must not become a command."""
    return tuple(dict.fromkeys(word for word in words if _SAFE_WORD.match(word)))


def bash_script(commands: tuple[CommandWords, ...]) -> str:
    """A completion function for bash 3.2 and later."""
    names = " ".join(command.name for command in commands)
    lines = [
        "# bash completion for gpudoctor",
        "_gpudoctor_files() {",
        "    local IFS=$'\\n'",  # file names may hold spaces
        '    COMPREPLY=($(compgen -f -- "$1"))',
        "}",
        "_gpudoctor() {",
        "    local current previous command",
        '    current="${COMP_WORDS[COMP_CWORD]}"',
        '    previous="${COMP_WORDS[COMP_CWORD-1]}"',
        '    command="${COMP_WORDS[1]}"',
        "    COMPREPLY=()",
        # bash splits --format=json at the sign
        '    if [ "$current" = "=" ]; then current=""; '
        'elif [ "$previous" = "=" ]; then previous="${COMP_WORDS[COMP_CWORD-2]}"; fi',
        '    if [ "$COMP_CWORD" -eq 1 ]; then',
        f'        COMPREPLY=($(compgen -W "{names} --help --version" -- "$current"))',
        "        return",
        "    fi",
        '    case "$command $previous" in',
    ]
    for command in commands:
        for flag in command.flags:
            if flag.takes_value:
                pattern = " | ".join(f'"{command.name} {name}"' for name in flag.names)
                lines.append(f"        {pattern}) {_bash_offer(flag.values)}; return ;;")
    lines += ["    esac", '    case "$command" in']
    for command in commands:
        flags = " ".join(name for flag in command.flags for name in flag.names)
        lines += [
            f"        {command.name})",
            '            case "$current" in',
            f'                -*) COMPREPLY=($(compgen -W "{flags}" -- "$current")) ;;',
            f"                *) {_bash_offer(command.words)} ;;",
            "            esac ;;",
        ]
    # `filenames` quotes spaces in file names; words that are no files pass through it unchanged.
    lines += ["    esac", "}", "complete -o filenames -F _gpudoctor gpudoctor"]
    return "\n".join(lines) + "\n"


def _bash_offer(words: tuple[str, ...]) -> str:
    if not words:
        return '_gpudoctor_files "$current"'
    return f'COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$current"))'


def zsh_script(commands: tuple[CommandWords, ...]) -> str:
    """A completion function for zsh."""
    lines = [
        "#compdef gpudoctor",
        "# zsh completion for gpudoctor",
        "_gpudoctor() {",
        "    local -a commands",
        "    commands=(",
    ]
    lines += [f"        '{command.name}:{_quoted(command.help)}'" for command in commands]
    lines += [
        "    )",
        "    if (( CURRENT == 2 )); then",
        "        _describe -t commands 'command' commands",
        "        return",
        "    fi",
        '    local command="${words[2]}"',
        "    shift words",
        "    (( CURRENT-- ))",
        '    case "$command" in',
    ]
    for command in commands:
        arguments = [_zsh_flag(flag, name) for flag in command.flags for name in flag.names]
        arguments.append(f"'*:argument:({' '.join(command.words)})'" if command.words else "'*:file:_files'")
        lines.append(f"        {command.name})")
        lines.append("            _arguments " + " \\\n                ".join(arguments) + " ;;")
    lines += [
        "    esac",
        "}",
        'if [ "$funcstack[1]" = "_gpudoctor" ]; then _gpudoctor "$@"; else compdef _gpudoctor gpudoctor; fi',
    ]
    return "\n".join(lines) + "\n"


def _zsh_flag(flag: Flag, name: str) -> str:
    text = _quoted(flag.help).replace("[", "\\[").replace("]", "\\]")
    action = ""
    if flag.takes_value:
        action = f":value:({' '.join(flag.values)})" if flag.values else ":file:_files"
    return f"'*{name}[{text}]{action}'"


def fish_script(commands: tuple[CommandWords, ...]) -> str:
    """Completions for fish."""
    lines = [
        "# fish completion for gpudoctor",
        "complete -c gpudoctor -n __fish_use_subcommand -f -l help -l version",
    ]
    for command in commands:
        lines.append(
            f"complete -c gpudoctor -n __fish_use_subcommand -f -a {command.name} -d '{_quoted(command.help)}'"
        )
    for command in commands:
        here = f"complete -c gpudoctor -n '__fish_seen_subcommand_from {command.name}'"
        if command.words:
            lines.append(f"{here} -f -a '{' '.join(command.words)}'")
        for flag in command.flags:
            names = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names
            )
            value = ""
            if flag.takes_value:
                value = f" -x -a '{' '.join(flag.values)}'" if flag.values else " -r"
            lines.append(f"{here} {names}{value} -d '{_quoted(flag.help)}'")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Text inside single quotes of any of the shells, on one line; a colon would end a description in zsh."""
    return " ".join(text.split()).replace("\\", "").replace("'", "").replace(": ", ", ").replace(":", "")
