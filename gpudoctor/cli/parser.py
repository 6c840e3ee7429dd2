"""The argument parser: every command's module configures its own part."""

import argparse
from collections.abc import Sequence
from importlib import import_module

from gpudoctor import __version__
from gpudoctor.cli.argument_parser import Parser
from gpudoctor.errors import UsageError
from gpudoctor.lang import LANGUAGES, say, template, term
from gpudoctor.text import capitalised

COMMANDS: dict[str, str] = {
    "check": template("examine this machine, scripts, configs and job scripts; runs no user code"),
    "estimate": template("predict the GPU memory of a training job: fits, uncertain or does not fit"),
    "run": template("run a command unchanged, record its training, and diagnose what is slow or broken"),
    "verify": template("test the remedies on a command in pairs of bounded runs; print the proven patch"),
    "apply": template("write the edits of a saved JSON report: those that trials have proven, or named ones"),
    "report": template("report on a recorded run, in any format; join the recordings of several nodes"),
    "recordings": template("list the recordings on this machine: date, command, verdict, size; remove them"),
    "autopsy": template("find what killed a job first, from the logs that it left behind"),
    "preflight": template("measure nodes, cards, links and the network before the job does; names the bad one"),
    "watch": template("examine a running process, no preparation needed: what it waits for, what to do"),
    "compare": template("compare two recordings: step time with an interval, phases, memory; for CI too"),
    "explain": template("print the manual page of a check"),
    "list": template("list every check: code, name, what it reads"),
    "init": template("write a settings section with comments for this project"),
    "mcp": template("serve coding agents: the Model Context Protocol on standard input and output"),
    "setup": template("register the server and a skill with Claude Code, Codex, Cursor or VS Code"),
    "completion": template("print a shell completion script"),
}
"""Command, which is the name of its module, and its one-line help."""

GROUPS = {
    template("before the job"): "check estimate preflight",
    template("while it runs"): "run watch",
    template("after it"): "autopsy report recordings compare",
    template("mend it"): "explain list verify apply",
    template("set up"): "init setup mcp completion",
}
"""Title of a group of commands, and its commands."""

EPILOG = template("""\
examples:
  gpudoctor check train.py                  a script; nothing is run
  gpudoctor estimate --model 7b --gpu 24    does it fit?
  gpudoctor run -- python train.py          what is slow or wrong in it?
  gpudoctor watch                           what does a running job wait for?
  gpudoctor autopsy job.log                 what killed it?
  gpudoctor verify -- python train.py       which remedy helps, and how much?
exit codes: 0 nothing at or above --fail-on, 1 findings, 2 wrong usage, 3 examination incomplete.
gpudoctor never sends your data anywhere.""")
LANGUAGE_FLAG = "--lang"


def add_language(parser: argparse.ArgumentParser) -> None:
    """`--lang`, before a command or after it."""
    parser.add_argument(
        LANGUAGE_FLAG,
        choices=tuple(LANGUAGES),
        default=argparse.SUPPRESS,
        help="language of texts for people (default: GPUDOCTOR_LANG, then the locale)",
    )


def named_language(words: Sequence[str]) -> str | None:
    """The value of `--lang` among the words before `--`: the parser's own help has a language, too."""
    found = None
    for place, word in enumerate(words):
        if word == "--":
            break
        if word == LANGUAGE_FLAG and place + 1 < len(words):
            found = words[place + 1]
        elif word.startswith(LANGUAGE_FLAG + "="):
            found = word.partition("=")[2]
    return found


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser, all commands configured, or only the one that will run: no other is imported then.

    If `only` is a command, the parser has no other one.
    """
    parser = Parser(
        prog="gpudoctor",
        description="A doctor for deep-learning training: names the cause with evidence, ranks the remedies.",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"gpudoctor {__version__}")
    add_language(parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    for name, summary in COMMANDS.items():
        if only in COMMANDS and name != only:
            continue
        command = commands.add_parser(
            name, help=summary, description=say("{summary}.", summary=capitalised(term(summary)))
        )
        add_language(command)
        if only is None or name == only:
            implementation = import_module(f"gpudoctor.cli.{name}")
            implementation.configure(command)
            command.set_defaults(run=implementation.run, command=name)
    if only not in COMMANDS:
        shown = {action.dest: action for action in commands._choices_actions}
        for title, names in GROUPS.items():
            parser.add_argument_group(title)._group_actions += [shown[name] for name in names.split()]
        parser._action_groups[2]._group_actions.clear()  # argparse's one list of them all
    return parser


def _near_flag(parser: argparse.ArgumentParser, command: str, left: Sequence[str]) -> str:
    """A clause that names the flag which an unknown one resembles."""
    from difflib import get_close_matches

    flags = [
        flag
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction) and command in action.choices
        for flag in action.choices[command]._option_string_actions
    ]
    near = get_close_matches(left[0].partition("=")[0], flags, n=1, cutoff=0.7)
    return say("; did you mean {near}?", near=near[0]) if near else ""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line. What follows `--` belongs to the user's script: `arguments.script_arguments`."""
    words = list(argv)
    if words[:1] == [LANGUAGE_FLAG] and len(words) > 2:
        words = [*words[2:], *words[:2]]  # `--lang zh check`: the command decides what is loaded
    elif words[:1] and words[0].startswith(f"{LANGUAGE_FLAG}=") and len(words) > 1:
        words = [*words[1:], words[0]]
    rest: list[str] = []
    if "--" in words:
        cut = words.index("--")
        words, rest = words[:cut], words[cut + 1 :]
    if not words or words in ([LANGUAGE_FLAG, named_language(words)], [f"{LANGUAGE_FLAG}={named_language(words)}"]):
        start_here = import_module("gpudoctor.cli.start_here")
        return argparse.Namespace(run=lambda _: start_here.run(), command="", script_arguments=tuple(rest))
    if not words[0].startswith("-") and words[0] not in COMMANDS:
        from gpudoctor.cli.front_door import meant_command

        words = meant_command(words, COMMANDS)
    if words[0] == "check":
        from gpudoctor.cli.front_door import of_command, own_arguments

        if sentence := of_command(words[1:]):  # `gpudoctor check torchrun ...`
            raise UsageError("check takes files, not a command; {sentence}", sentence=sentence)
    parser = build_parser(only=words[0])
    arguments, left = parser.parse_known_args(words)
    if left and hasattr(arguments, "targets") and not any(word.startswith("-") for word in left):
        arguments.targets += left  # argparse leaves targets that come after a flag
    elif left:
        if words[0] == "check" and (sentence := own_arguments([*words[1:], *rest])):
            raise UsageError(sentence)
        near = _near_flag(parser, words[0], left)
        raise UsageError(
            "unknown {arguments}: {left}{near}; see: gpudoctor {words} --help",
            arguments=say("argument") if len(left) == 1 else say("arguments"),
            left=" ".join(left),
            near=near,
            words=words[0],
        )
    arguments.script_arguments = tuple(rest)
    return arguments
