"""Words of closed lists, which the source has as values of enumerations and not as templates."""

from gpudoctor.lang.message import template

VOCABULARY = (
    template("error"),
    template("warning"),
    template("note"),
    template("suspected"),
    template("probable"),
    template("one line"),
    template("one setting"),
    template("one command"),
    template("a small edit"),
    template("a rewrite"),
    template("an administrator"),
    template("What it finds"),
    template("Why it hurts"),
    template("How it knows"),
    template("False alarms"),
    template("Remedies"),
    template("References"),
    template("environment"),
    template("hardware"),
    template("nodes and links under load"),
    template("input pipeline"),
    template("host-device synchronisation"),
    template("observability cost"),
    template("memory"),
    template("numerics"),
    template("training-loop correctness"),
    template("unused speed"),
    template("distributed training"),
    template("configs"),
    template("how a run died"),
)
"""Severities, confidence, effort, headings of manual pages, topics."""
