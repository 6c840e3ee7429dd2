"""Answers CFG006: the period to set."""

import ast
from collections.abc import Iterator

from gpudoctor.model import (
    Applicability,
    Code,
    Edit,
    Effort,
    Finding,
    KeywordEdit,
    Patient,
    Remedy,
    Rule,
    SourceSpan,
)

PERIODS = {"log": 50, "eval": 500, "save": 500}
"""Steps: the catalogue's 10 to 50 for logs, transformers' default of 500 for the others."""

OCCASIONS = 20
"""How often something happens in a run whose length is known."""


class FrequenciesRule(Rule):
    """Set a period that suits the run's length."""

    answers = Code("CFG006")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        key, kind, run = str(finding.fact("key")), str(finding.fact("kind")), int(finding.fact("run") or 0)
        period = PERIODS[kind]
        if run:
            period = max(1, min(period, run // OCCASIONS))
        span = finding.span
        edits = _edits(patient, span, key, period) if span is not None else ()
        yield Remedy(
            id=f"CFG006-{kind}",
            title=f"{key}={period}",
            steps=(f"{key}={period}" + (f"   # {OCCASIONS} times in the run's {run} steps" if run else ""),),
            applicability=Applicability.SAFE if edits and kind == "log" else Applicability.DISPLAY_ONLY,
            effort=Effort.SETTING,
            sets=((key, str(period)),),
            edits=edits,
        )


def _edits(patient: Patient, span: SourceSpan, key: str, period: int) -> tuple[Edit, ...]:
    """The keyword of the call around the argument's place."""
    script = next((item for item in patient.source.scripts if item.path == span.path), None)
    for call in script.calls if script is not None else ():
        for keyword in call.node.keywords:
            literal = isinstance(keyword.value, ast.Constant)
            if (
                keyword.arg == key
                and (keyword.lineno, keyword.col_offset + 1) == (span.line, span.column)
                and literal
            ):
                place = call.span
                return (
                    KeywordEdit(
                        path=span.path, line=place.line, column=place.column, set=((key, str(period)),)
                    ),
                )
    return ()
