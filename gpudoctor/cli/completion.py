"""`gpudoctor completion SHELL`: completes commands, flags, their values, codes and files.

`shtab` makes the script from the argument parser, so a new command or flag is completed the day it is added.
"""

import argparse
import os
import re
from collections.abc import Iterable

from gpudoctor.errors import UsageError
from gpudoctor.lang import say, template

SHELLS = ("bash", "zsh", "fish")
_SAFE_WORD = re.compile(r"^[A-Za-z0-9_.:+/-]+$")


def configure(parser: argparse.ArgumentParser) -> None:
    """The shell."""
    parser.usage = "gpudoctor completion [bash|zsh|fish]"
    parser.add_argument("shell", nargs="?", choices=SHELLS, help="the shell that will read the script (default: yours)")
    parser.epilog = template(
        'bash:  eval "$(gpudoctor completion bash)"            in ~/.bashrc\n'
        'zsh:   eval "$(gpudoctor completion zsh)"             in ~/.zshrc, after compinit\n'
        "fish:  gpudoctor completion fish > ~/.config/fish/completions/gpudoctor.fish"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the script for a shell."""
    from gpudoctor.cli.output import show

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
            if name in ("--select", "--ignore"):
                action.choices = codes
            elif command == "explain" and not action.option_strings:
                action.choices = (*codes, *_safe(names))
            elif action.nargs != 0 and not action.choices:
                action.complete = shtab.FILE
    script = shtab.complete(parser, shell)
    return f"{script.rstrip()}\n"


def _safe(words: Iterable[str]) -> tuple[str, ...]:
    """Only words that a shell takes as they are: a plugin's strange name must not become a command."""
    return tuple(dict.fromkeys(word for word in words if _SAFE_WORD.match(word)))
