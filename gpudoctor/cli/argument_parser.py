"""argparse in the language of now: its own words, its sentences, and where help breaks."""

import argparse
import re
import sys
from typing import Any, NoReturn

from gpudoctor.errors import UsageError
from gpudoctor.lang import ENGLISH, SpokenError, current_language, rendered, say, template, tr, word
from gpudoctor.lang.wrapping import cells, padded, wrap

_OWN_WORDS = (
    template("options"),
    template("positional arguments"),
    template("-h: short, with examples; --help: all of it, explained"),
    template("show program's version number and exit"),
)
"""Heads and helps that argparse adds, and its help flag, which is ours."""
_SCREEN = 30
"""Lines."""
_SENTENCES = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"the following arguments are required: (?P<names>.+)", template("give {names}")),
        (r"invalid choice: (?P<value>.+) \(choose from (?P<choices>.+)\)", template("{value} is not one of {choices}")),
        (r"expected one argument", template("a value is missing")),
        (r"expected at least one argument", template("at least one value is missing")),
        (r"not allowed with argument (?P<other>.+)", template("does not go together with {other}")),
        (
            r"ambiguous option: (?P<option>\S+) could match (?P<matches>.+)",
            template("{option} is ambiguous: {matches}"),
        ),
        (r"invalid \w+ value: (?P<value>.+)", template("{value} is not a valid value")),
        (r"ignored explicit argument (?P<value>.+)", template("takes no value, and {value} was given")),
    )
)
"""What argparse says in English, and what other languages make of it; English readers get argparse's own."""


class HelpText(argparse.RawDescriptionHelpFormatter):
    """Help in the language of now."""

    def start_section(self, heading: str | None) -> None:
        """A group of arguments with its translated title."""
        super().start_section(word(heading) if heading else heading)

    def add_text(self, text: str | None) -> None:
        """A description or an epilog, translated."""
        super().add_text(rendered(text) if text and text is not argparse.SUPPRESS else text)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return rendered(action.help) if action.help else action.help

    def _format_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None) -> str:
        return super()._format_usage(usage, actions, groups, tr("usage: ") if prefix is None else prefix)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Sentences wrapped anew; an example stays whole, with its comment under it where both do not fit."""
        rows: list[str] = []
        for line in re.sub(r"(?m)^(\S.*[\w,;)`])\n(?=[\w`])", r"\1 ", text).splitlines():
            example = re.fullmatch(r"(  \S+(?: \S+)*)  +(\S.*)", line)
            if cells(line) <= width or re.fullmatch(r"  \S+(?: \S+)*", line):
                rows.append(line)
            elif example:
                rows += [example[1], *wrap(f"      {example[2]}", width, hang=6)]
            else:
                rows += wrap(line, width)
        return "\n".join(indent + row for row in rows)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return super()._split_lines(text, width) if text.isascii() else wrap(" ".join(text.split()), width)


class HelpFlag(argparse.Action):
    """`-h`: one screen; `--help`, or where one screen holds it all: everything."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        """Print it and end."""
        del namespace, values
        whole = parser.format_help()
        if option_string == "-h" and whole.count("\n") > _SCREEN:
            whole = parser.short_help()
        parser._print_message(whole, sys.stdout)
        parser.exit()


class BadValue(SpokenError, argparse.ArgumentTypeError):
    """A value that a flag does not take."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises instead of exiting, so that `main` alone decides exit codes."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": HelpText, "exit_on_error": False, "add_help": False, **settings})
        told = "-h: short, with examples; --help: all of it, explained"
        self.add_argument("-h", "--help", action=HelpFlag, nargs=0, default=argparse.SUPPRESS, help=told)

    def short_help(self) -> str:
        """Names of arguments in their groups, a line for each, and the examples.

        What an argument means is in the whole help: who needs it for one flag looks for its name.
        """
        text = self._get_formatter()
        text.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        text.add_text(self.description)
        groups = [group for group in self._action_groups if group._group_actions]
        titles = [re.split(r"[,(\uff0c\uff08]", word(group.title or ""))[0].strip() for group in groups]
        column = max(map(cells, titles)) + 2
        rows: list[str] = []
        for title, group in zip(titles, groups, strict=True):
            line = padded(title, column)
            for action in group._group_actions:
                names = action.option_strings or [str(action.metavar or action.dest)]
                line += names[-1] + "  "
            rows += wrap(line, text._width, hang=column)
        text.add_text("\n".join(rows))
        # The examples are the first lines, up to one that is not indented.
        examples = re.match(r".*(\n .*)*", rendered(self.epilog or ""))
        text.add_text(examples and examples[0])
        text.add_text(say("all of it, explained: {command} --help", command=self.prog))
        return text.format_help()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse's, but what is wrong with an argument is said in the language of now."""
        try:
            return super().parse_known_args(args, namespace)
        except argparse.ArgumentError as error:
            problem = _sentence(error.message)
            if error.argument_name is None:
                self.error(problem)
            self.error(say("argument {name}: {problem}", name=error.argument_name, problem=problem))

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError` with argparse's sentence and where to look."""
        raise UsageError("{message}; see: {command} --help", message=_sentence(message), command=self.prog)


def _sentence(message: str) -> str:
    """A sentence of argparse as a message, where its kind is known."""
    if current_language() == ENGLISH or type(message) is not str:
        return message
    for pattern, text in _SENTENCES:
        if found := pattern.fullmatch(message):
            return say(text, **found.groupdict())
    return message
