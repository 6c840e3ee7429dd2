"""`gpudoctor completion SHELL`: completes commands, flags, their values, codes, pids and recordings.

It is built from the argument parser, so a new command or flag is completed the day it is added. Pids and names
of recordings change, so the script asks for them (`gpudoctor completion --ask pids`), which imports no check.
"""

import argparse
import os
import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gpudoctor.errors import UsageError
from gpudoctor.lang import say, template

SHELLS = ("bash", "zsh", "fish")
_SAFE_WORD = re.compile(r"^[A-Za-z0-9_.:+/-]+$")
_CODE_FLAGS = ("--select", "--ignore")
_CODE_COMMAND = "explain"
_MARK = "# completion of gpudoctor"
_SHOWN = 60
"""Characters of a description."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """An option of a command."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    values: tuple[str, ...]
    """The values to offer; empty for a free one (files are offered then)."""
    asked: str = ""
    """What the script asks for when TAB is pressed, instead of values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandWords:
    """A command: its flags and the words that it takes."""

    name: str
    help: str
    flags: tuple[Flag, ...]
    words: tuple[str, ...]
    """Words to offer as arguments; empty when files are offered."""
    asked: str = ""
    """What the script asks for when TAB is pressed, instead of words."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The shell."""
    parser.usage = "gpudoctor completion [--install] [bash|zsh|fish]"
    parser.add_argument("shell", nargs="?", choices=SHELLS, help="the shell that will read the script (default: yours)")
    parser.add_argument(
        "--install", action="store_true", help="write the script where your shell finds it, and say where"
    )
    parser.add_argument("--ask", choices=tuple(_ASKED), help=argparse.SUPPRESS)
    parser.epilog = template(
        "gpudoctor completion --install     one command for the shell that you use\n"
        "By hand:\n"
        'bash:  eval "$(gpudoctor completion bash)"            in ~/.bashrc\n'
        'zsh:   eval "$(gpudoctor completion zsh)"             in ~/.zshrc, after compinit\n'
        "fish:  gpudoctor completion fish > ~/.config/fish/completions/gpudoctor.fish"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the script for a shell."""
    from gpudoctor.cli.output import show

    if arguments.ask is not None:
        show("".join(f"{line}\n" for line in _ASKED[arguments.ask]()))
        return 0
    shell = arguments.shell or _own_shell()
    script = script_for(shell)
    show(installed(shell, script) if arguments.install else script)
    return 0


def script_for(shell: str) -> str:
    """The script for a shell, with the codes of every check that is installed."""
    from gpudoctor.cli.parser import build_parser
    from gpudoctor.engine.registry import load_registry

    registry = load_registry()
    codes = tuple(str(code) for code in registry.checks)
    names = tuple(check.name for check in registry.checks.values())
    commands = read_commands(build_parser(), codes, names)
    return {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}[shell](commands)


def _own_shell() -> str:
    """The user's login shell. Raises `UsageError` for one that has no script."""
    name = os.path.basename(os.environ.get("SHELL", ""))
    if name not in SHELLS:
        raise UsageError(
            say("SHELL is {name}; name the shell: gpudoctor completion bash|zsh|fish", name=name or say("not set"))
        )
    return name


def installed(shell: str, script: str) -> str:
    """Write the script, and a line in the shell's start-up file where it needs one; returns what was done."""
    home = Path.home()
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        path = config / "fish" / "completions" / "gpudoctor.fish"
        _write(path, script)
        return f"written: {path}\nopen a new shell, type: gpudoctor <TAB>\n"
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    path = data / "gpudoctor" / f"completion.{shell}"
    _write(path, script)
    start = home / ".bashrc" if shell == "bash" else Path(os.environ.get("ZDOTDIR") or home) / ".zshrc"
    quoted = shlex.quote(str(path))
    line = f"[ -r {quoted} ] && . {quoted}  {_MARK}"
    if shell == "zsh":
        line = f"(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit }}; {line}"
    try:
        before = start.read_text(encoding="utf-8") if start.exists() else ""
        if line not in before.splitlines():
            kept = [each for each in before.splitlines(keepends=True) if not each.rstrip().endswith(_MARK)]
            text = "".join(kept)
            text += ("" if not text or text.endswith("\n") else "\n") + line + "\n"
            start.resolve().write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(
            say(
                "{start}: cannot be changed ({error}); add this line by hand: {line}",
                start=start,
                error=error,
                line=line,
            )
        ) from None
    return f"written: {path}\nloaded by a line in {start}\nopen a new shell, type: gpudoctor <TAB>\n"


def _write(path: Path, text: str) -> None:
    from gpudoctor.cli.output import write_file

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            say("{parent}: cannot be made: {error}", parent=path.parent, error=error.strerror or error)
        ) from None
    write_file(path, text, "--install")


def _pids() -> list[str]:
    """Pids of training processes, each with a tab and its command."""
    from gpudoctor.cli.recordings import short_command
    from gpudoctor.model.redaction import mask_arguments
    from gpudoctor.vitals.process.torch_processes import torch_processes

    return [f"{pid}\t{_described(short_command(tuple(mask_arguments(words))))}" for pid, words in torch_processes()]


def _recordings() -> list[str]:
    """Names of recordings, the newest first."""
    from gpudoctor.recorder.kept_recordings import recording_folders

    return [folder.name for folder in reversed(recording_folders())]


def _described(text: str) -> str:
    """A description that a shell shows as it is."""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:_SHOWN]


_ASKED: "dict[str, Callable[[], list[str]]]" = {"pids": _pids, "recordings": _recordings}
_ASKING = {"watch": "pids", "report": "recordings", "compare": "recordings"}
"""Commands whose arguments change from day to day."""
_ASKING_FLAGS = {("recordings", "--remove"): "recordings", ("check", "--pid"): "pids"}
"""Flags whose values do."""


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
                    name=name,
                    help=helps.get(name, ""),
                    flags=_flags(name, child, codes),
                    words=_safe(words),
                    asked=_ASKING.get(name, ""),
                )
            )
    return tuple(commands)


def _choices_of(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    return tuple(
        str(choice) for action in parser._actions if not action.option_strings for choice in action.choices or ()
    )


def _flags(command: str, parser: argparse.ArgumentParser, codes: tuple[str, ...]) -> tuple[Flag, ...]:
    flags: list[Flag] = []
    for action in parser._actions:
        if not action.option_strings or action.help == argparse.SUPPRESS:
            continue
        values = codes if set(action.option_strings) & set(_CODE_FLAGS) else tuple(map(str, action.choices or ()))
        flags.append(
            Flag(
                names=tuple(action.option_strings),
                help=(action.help or "").replace("%%", "%"),
                takes_value=action.nargs != 0,
                values=_safe(values),
                asked=next(
                    (asked for name in action.option_strings if (asked := _ASKING_FLAGS.get((command, name), ""))), ""
                ),
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
        "_gpudoctor_ask() {",
        "    local line",
        # a command line has slashes, of which a list of files would show what follows the last
        '    [ "$1" != pids ] || compopt +o filenames 2>/dev/null',
        "    while IFS= read -r line; do",
        '        case "$line" in "$2"*) COMPREPLY+=("${line/$\'\\t\'/  }") ;; esac',
        '    done < <(gpudoctor completion --ask "$1" 2>/dev/null)',
        '    [ "$1" = pids ] || while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$2")',
        # the description is for choosing only: of one match its first word is inserted
        '    if [ "${#COMPREPLY[@]}" -eq 1 ]; then COMPREPLY[0]="${COMPREPLY[0]%%  *}"; fi',
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
                lines.append(f"        {pattern}) {_bash_offer(flag.values, flag.asked)}; return ;;")
    lines += ["    esac", '    case "$command" in']
    for command in commands:
        flags = " ".join(name for flag in command.flags for name in flag.names)
        lines += [
            f"        {command.name})",
            '            case "$current" in',
            f'                -*) COMPREPLY=($(compgen -W "{flags}" -- "$current")) ;;',
            f"                *) {_bash_offer(command.words, command.asked)} ;;",
            "            esac ;;",
        ]
    # `filenames` quotes spaces in file names; words that are no files pass through it unchanged.
    lines += ["    esac", "}", "complete -o filenames -F _gpudoctor gpudoctor"]
    return "\n".join(lines) + "\n"


def _bash_offer(words: tuple[str, ...], asked: str = "") -> str:
    if asked:
        return f'_gpudoctor_ask {asked} "$current"'
    if not words:
        return '_gpudoctor_files "$current"'
    return f'COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$current"))'


def zsh_script(commands: tuple[CommandWords, ...]) -> str:
    """A completion function for zsh."""
    lines = [
        "#compdef gpudoctor",
        "# zsh completion for gpudoctor",
        "_gpudoctor_ask() {",
        "    local -a found",
        '    found=(${(f)"$(gpudoctor completion --ask $1 2>/dev/null)"})',
        "    found=(${found//:/ })",
        "    found=(${found//$'\\t'/:})",
        "    _describe -t $1 $1 found",
        '    if [ "$1" != pids ]; then _files; fi',
        "}",
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
        offered = f"'*:argument:({' '.join(command.words)})'" if command.words else "'*:file:_files'"
        arguments.append(f"'*:argument:_gpudoctor_ask {command.asked}'" if command.asked else offered)
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
        action = f":value:_gpudoctor_ask {flag.asked}" if flag.asked else action
    return f"'*{name}[{text}]{action}'"


def fish_script(commands: tuple[CommandWords, ...]) -> str:
    """Completions for fish."""
    lines = ["# fish completion for gpudoctor", "complete -c gpudoctor -n __fish_use_subcommand -f -l help -l version"]
    for command in commands:
        lines.append(
            f"complete -c gpudoctor -n __fish_use_subcommand -f -a {command.name} -d '{_quoted(command.help)}'"
        )
    for command in commands:
        here = f"complete -c gpudoctor -n '__fish_seen_subcommand_from {command.name}'"
        if command.asked:
            files = " -f" if command.asked == "pids" else ""
            lines.append(f"{here}{files} -a '(gpudoctor completion --ask {command.asked} 2>/dev/null)'")
        elif command.words:
            lines.append(f"{here} -f -a '{' '.join(command.words)}'")
        for flag in command.flags:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names)
            value = ""
            if flag.takes_value:
                value = f" -x -a '{' '.join(flag.values)}'" if flag.values else " -r"
                if flag.asked:
                    value = f" -x -a '(gpudoctor completion --ask {flag.asked} 2>/dev/null)'"
            lines.append(f"{here} {names}{value} -d '{_quoted(flag.help)}'")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Text inside single quotes of any of the shells, on one line; a colon would end a description in zsh."""
    return " ".join(text.split()).replace("\\", "").replace("'", "").replace(": ", ", ").replace(":", "")
