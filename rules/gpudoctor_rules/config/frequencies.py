"""Answers CFG006: the period to set."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.trainer_periods import OVERRIDES, engine_period
from gpudoctor.lang import say
from gpudoctor.model import (
    Applicability,
    Code,
    Edit,
    Effort,
    Finding,
    KeywordEdit,
    Measurement,
    Patient,
    Remedy,
    Rule,
    Setting,
    SourceSpan,
)
from gpudoctor_checks.config.frequencies import FrequenciesDetail

PERIODS = {"log": 50, "eval": 500, "save": 500}
"""Steps: the catalogue's 10 to 50 for logs, transformers' default of 500 for the others."""


class FrequenciesRule(Rule):
    """Set a period that suits the run's length."""

    answers = Code("CFG006")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(FrequenciesDetail)
        key, kind, run = detail.key, detail.kind, detail.run
        norm = int(detail.norm or 1)
        declared = next(part.value for part in finding.evidence if isinstance(part, Measurement))
        period = engine_period(patient, kind, float(declared), PERIODS[kind], run or None, norm)
        if not detail.never and period <= float(declared):
            return  # the run is too short for a period that cures
        override = OVERRIDES.get(key)
        span = finding.span
        edits = _edits(patient, span, key, period) if span is not None else _in_config(patient, finding, period)
        line = f"{key}={period}" if span is not None else _line(finding, key, period)
        yield Remedy(
            id=f"CFG006-{kind}",
            title=line,
            steps=(
                say("{setting}   # {times} times in the run's {run} steps", setting=line, times=run // period, run=run)
                if run
                else line,
            ),
            # Other checkpoints are left behind, and early stopping sees other evaluations: those of the
            # period of the log, if they have none of their own.
            applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.SETTING,
            override=((override, str(period)),) if override is not None else (),
            sets=((key, str(period)),),
            edits=edits,
        )


def _edits(patient: Patient, span: SourceSpan, key: str, period: int) -> tuple[Edit, ...]:
    """The keyword of the call around the argument's place."""
    script = next((item for item in patient.source.scripts if item.path == span.path), None)
    for call in script.calls if script is not None else ():
        for keyword in call.node.keywords:
            literal = isinstance(keyword.value, ast.Constant)
            if keyword.arg == key and (keyword.lineno, keyword.col_offset + 1) == (span.line, span.column) and literal:
                place = call.span
                return (KeywordEdit(path=span.path, line=place.line, column=place.column, set=((key, str(period)),)),)
    return ()


def _in_config(patient: Patient, finding: Finding, period: int) -> tuple[Edit, ...]:
    """The value of the config's key."""
    for setting in finding.evidence:
        if isinstance(setting, Setting):
            for file in patient.configs.files:
                entry = file.entries.get(setting.key) if file.path == setting.path else None
                edit = file.edit(entry, str(period)) if entry is not None else None
                if edit is not None:
                    return (edit,)
    return ()


def _line(finding: Finding, key: str, period: int) -> str:
    """The line to write, in the language of the config file."""
    setting = next((item for item in finding.evidence if isinstance(item, Setting)), None)
    name = key.rpartition(".")[2]
    suffix = (setting.path or "").rpartition(".")[2].lower() if setting is not None else ""
    if suffix in {"json", "jsonc"}:
        return f'"{name}": {period}'
    return f"{name} = {period}" if suffix == "toml" else f"{name}: {period}"
