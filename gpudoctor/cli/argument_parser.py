"""argparse in the language of now: its own words, its sentences, and where help breaks."""

import argparse
import re
from typing import Any, NoReturn

from gpudoctor.errors import UsageError
from gpudoctor.lang import ENGLISH, SpokenError, current_language, rendered, say, template, tr, word
from gpudoctor.lang.wrapping import wrap

_OWN_WORDS = (
    template("options"),
    template("positional arguments"),
    template("show this help message and exit"),
    template("show program's version number and exit"),
)
"""Heads and helps that argparse adds."""
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

    def _split_lines(self, text: str, width: int) -> list[str]:
        return super()._split_lines(text, width) if text.isascii() else wrap(" ".join(text.split()), width)


class BadValue(SpokenError, argparse.ArgumentTypeError):
    """A value that a flag does not take."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises instead of exiting, so that `main` alone decides exit codes."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": HelpText, "exit_on_error": False, **settings})

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
