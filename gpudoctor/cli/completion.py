"""`gpudoctor completion SHELL`: completes commands, flags, their values, codes, pids and recordings.

`shtab` makes the script from the argument parser, so a new command or flag is completed the day it is added. Pids and
names of recordings change, so the script asks for them (`gpudoctor completion --ask pids`), which imports no check.
"""

import argparse
import os
import re
from collections.abc import Callable, Iterable

from gpudoctor.errors import UsageError
from gpudoctor.lang import say, template

SHELLS = ("bash", "zsh", "fish")
_SAFE_WORD = re.compile(r"^[A-Za-z0-9_.:+/-]+$")
_SHOWN = 60
"""Characters of a description."""
_ASKED_BY = {
    ("watch", "targets"): "pids", ("check", "--pid"): "pids", ("report", "targets"): "recordings",
    ("compare", "before"): "recordings", ("compare", "after"): "recordings", ("recordings", "--remove"): "recordings",
}  # fmt: skip
"""Command and argument whose values change from day to day."""
_PREAMBLE = {
    "bash": """\
_gpudoctor_pids() { compgen -W "$(gpudoctor completion --ask pids 2>/dev/null | cut -f 1)" -- "$1"; }
_gpudoctor_recordings() {
    compgen -W "$(gpudoctor completion --ask recordings 2>/dev/null)" -- "$1"
    compgen -f -- "$1"
}
""",
    "zsh": """\
_gpudoctor_pids() {
    local -a found
    found=(${(f)"$(gpudoctor completion --ask pids 2>/dev/null)"})
    found=(${found//:/ })
    found=(${found//$'\\t'/:})
    _describe -t pids pids found
}
_gpudoctor_recordings() {
    local -a found
    found=(${(f)"$(gpudoctor completion --ask recordings 2>/dev/null)"})
    compadd -a found
    _files
}
""",
    "fish": "",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """The shell."""
    parser.usage = "gpudoctor completion [bash|zsh|fish]"
    parser.add_argument("shell", nargs="?", choices=SHELLS, help="the shell that will read the script (default: yours)")
    parser.add_argument("--ask", choices=tuple(_ASKED), help=argparse.SUPPRESS)
    parser.epilog = template(
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
    shell = arguments.shell or os.path.basename(os.environ.get("SHELL", ""))
    if shell not in SHELLS:
        raise UsageError(
            "SHELL is {name}; name the shell: gpudoctor completion bash|zsh|fish", name=shell or say("not set")
        )
    from gpudoctor.engine.registry import load_registry

    checks = load_registry().checks
    script = script_for(shell, map(str, checks), (check.name for check in checks.values()))
    show(script)
    return 0


def script_for(shell: str, codes: Iterable[str], names: Iterable[str]) -> str:
    """The script for a shell; `codes` and `names` are those of the checks."""
    import shtab

    from gpudoctor.cli.parser import build_parser

    codes = _safe(codes)
    parser = build_parser()
    for command, child in next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction)).choices.items():
        for action in child._actions:
            name = action.option_strings[-1] if action.option_strings else action.dest
            if asked := _ASKED_BY.get((command, name)):
                given = f"_gpudoctor_{asked}"
                fish = f"(gpudoctor completion --ask {asked} 2>/dev/null)"
                action.complete = {"bash": given, "zsh": given, "fish": fish}
            elif name in ("--select", "--ignore"):
                action.choices = codes
            elif command == "explain" and not action.option_strings:
                action.choices = (*codes, *_safe(names))
            elif action.nargs != 0 and not action.choices:
                action.complete = shtab.FILE
    script = shtab.complete(parser, shell, preamble=_PREAMBLE)  # type: ignore[arg-type]  # a text for each shell
    return f"{script.rstrip()}\n"


def _safe(words: Iterable[str]) -> tuple[str, ...]:
    """Only words that a shell takes as they are: a plugin's strange name must not become a command."""
    return tuple(dict.fromkeys(word for word in words if _SAFE_WORD.match(word)))


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
