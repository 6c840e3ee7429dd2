"""The argument parser: every command's module configures its own part; hints for commands given to `check`."""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from gpudoctor import __version__
from gpudoctor.errors import UsageError

# What somebody meant who gave `gpudoctor check` a command in place of files.


def meant_instead(words: Sequence[str]) -> str:
    """What to type, as a sentence; "" where the words after `gpudoctor check` hold no command."""
    for place, word in enumerate(words):
        if word.startswith("-") or os.path.isfile(word):
            if word.endswith(".py") and (rest := words[place + 1 :]):
                return _arguments(word, rest)
            continue
        if found := _command(words[place:]):
            return found
    return ""


def starts_a_command(words: Sequence[str]) -> bool:
    """Whether the first word is a launcher or an interpreter, and no file or folder of that name is there."""
    return bool(words) and not os.path.exists(words[0]) and bool(_command(words))


def _command(words: Sequence[str]) -> str:
    from gpudoctor.vitals.job.launch import find_launch

    found = None if words[0].endswith((".py", ".sh", ".bash", ".sbatch")) else find_launch(words)
    script = found and (found.script or found.shell_script or _module_file(found.module))
    if not found or not script:
        return ""
    run = shlex.join(("gpudoctor", "run", "--", *words))
    check = shlex.join(("gpudoctor", "check", script, *(("--", *found.arguments) if found.arguments else ())))
    return f"check takes files, not a command; examine the script: `{check}`, or run the command: `{run}`"


def _module_file(module: str | None) -> str | None:
    """The file that `python -m` starts, where it lies below this folder, else where it would."""
    if not module:
        return None
    path = module.replace(".", "/")
    return f"{path}/__main__.py" if os.path.isfile(f"{path}/__main__.py") else f"{path}.py"


def _arguments(script: str, rest: Sequence[str]) -> str:
    check = shlex.join(("gpudoctor", "check", script, "--", *rest))
    return f"put the arguments of {script} after --: `{check}`"


COMMANDS: dict[str, tuple[str, str]] = {
    "check": (
        "gpudoctor.cli.check",
        "examine this machine, scripts, configs and job scripts; runs no user code",
    ),
    "estimate": (
        "gpudoctor.cli.estimate",
        "predict the GPU memory of a training job: fits, tight or does not fit",
    ),
    "run": (
        "gpudoctor.cli.run",
        "run a command unchanged, record its training, and diagnose what is slow or broken",
    ),
    "verify": (
        "gpudoctor.cli.verify",
        "test the remedies on a command in pairs of bounded runs; print the proven patch",
    ),
    "apply": (
        "gpudoctor.cli.apply",
        "write the edits of a saved JSON report: those that trials have proven, or named ones",
    ),
    "report": (
        "gpudoctor.cli.report",
        "report on a recorded run, in any format; join the recordings of several nodes",
    ),
    "autopsy": (
        "gpudoctor.cli.autopsy",
        "find what killed a job first, from the logs that it left behind",
    ),
    "preflight": (
        "gpudoctor.cli.preflight",
        "measure nodes, cards, links and the network before the job does; names the bad one",
    ),
    "watch": (
        "gpudoctor.cli.watch",
        "examine a running process, no preparation needed: what it waits for, what to do",
    ),
    "compare": (
        "gpudoctor.cli.compare",
        "compare two recordings: step time with an interval, phases, memory; for CI too",
    ),
    "explain": ("gpudoctor.cli.explain", "print the manual page of a check"),
    "list": ("gpudoctor.cli.list", "list every check: code, name, what it reads"),
    "mcp": (
        "gpudoctor.cli.mcp",
        "serve coding agents: the Model Context Protocol on standard input and output",
    ),
    "setup": (
        "gpudoctor.cli.setup",
        "register the server and a skill with Claude Code, Codex, Cursor or VS Code",
    ),
    "completion": ("gpudoctor.cli.completion", "print a shell completion script"),
}
"""Command name to its module and its one-line help."""

EPILOG = """\
exit codes: 0 nothing at or above --fail-on, 1 findings, 2 wrong usage, 3 examination incomplete.
gpudoctor never sends your data anywhere."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises instead of exiting, so that `main` alone decides exit codes."""

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError` with argparse's sentence and where to look."""
        raise UsageError(f"{message}; see: {self.prog} --help")


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser, all commands configured, or only the one that will run: no other is imported then.

    If `only` is a command, the parser has no other one.
    """
    parser = Parser(
        prog="gpudoctor",
        description="A doctor for deep-learning training: names the cause with evidence, ranks the remedies.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gpudoctor {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    for name, (module, summary) in COMMANDS.items():
        if only in COMMANDS and name != only:
            continue
        command = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if only is None or name == only:
            implementation = import_module(module)
            implementation.configure(command)
            command.set_defaults(run=implementation.run, command=name)
    return parser


def _with_negatives(words: list[str]) -> list[str]:
    """The words with `--gpu -3GiB` as `--gpu=-3GiB`: argparse takes such a value for a flag and its sentence
    says that nothing was given, so that the one who knows what is allowed never sees it."""
    joined: list[str] = []
    for word in words:
        if (
            joined
            and word[:1] == "-"
            and word[1:2].isdigit()
            and joined[-1][:2] == "--"
            and "=" not in joined[-1]
        ):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _refuse_a_command(words: Sequence[str]) -> None:
    """Say what to type to somebody who wrote `gpudoctor check torchrun ...`."""
    if words[0] != "check" or len(words) < 2 or words[1].startswith("-"):
        return

    if starts_a_command(words[1:]):
        raise UsageError(meant_instead(words[1:]))


def _meant(words: Sequence[str]) -> str:

    return meant_instead(words)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line. What follows `--` belongs to the user's script: `arguments.script_arguments`."""
    words = list(argv)
    rest: list[str] = []
    if "--" in words:
        cut = words.index("--")
        words, rest = words[:cut], words[cut + 1 :]
    if not words:
        build_parser().print_help(sys.stderr)
        raise UsageError("no command was given; start with: gpudoctor check")
    _refuse_a_command(words)
    words = _with_negatives(words)
    parser = build_parser(only=words[0])
    arguments, left = parser.parse_known_args(words)
    if left and hasattr(arguments, "targets") and not any(word.startswith("-") for word in left):
        arguments.targets += left  # argparse leaves targets that come after a flag
    elif left:
        if words[0] == "check" and (sentence := _meant([*words[1:], *rest])):
            raise UsageError(sentence)
        raise UsageError(f"unknown arguments: {' '.join(left)}; see: gpudoctor {words[0]} --help")
    arguments.script_arguments = tuple(rest)
    return arguments
