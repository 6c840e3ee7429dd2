"""Answers OBS006: seldom, gradients only, or scalars."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.periodic_edits import thinned
from gpudoctor.analysis.source.syntax_edits import replace_node, settable
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
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
    Setting,
    SourceSpan,
)
from gpudoctor.model.signs.source import Script
from gpudoctor_checks.observability.model_watch import ModelWatchDetail

EVERY = 1000
"""wandb's own default for `log_freq`."""


class ModelWatchRule(Rule):
    """Gradients every 1,000 steps, or norms."""

    answers = Code("OBS006")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(ModelWatchDetail)
        how = detail.how
        edits = _edits(finding, patient)
        title = {
            "watch": say('log="gradients", log_freq={every}', every=EVERY),
            "config": f"{detail.key}: {EVERY}",
            "variable": "WANDB_WATCH=false",
        }.get(str(how), say("log histograms every {every} steps", every=EVERY))
        yield Remedy(
            id="OBS006-every",
            title=title,
            steps=(
                title
                if how != "loop"
                else say("if step % {every} == 0:   # around the loop over the parameters", every=EVERY),
            ),
            applicability=Applicability.DISPLAY_ONLY
            if not edits
            else Applicability.UNSAFE
            if how == "loop"
            else Applicability.SAFE,
            effort=Effort.ONE_LINE,
            override=(("every", str(EVERY)),) if how == "loop" else (),
            sets=(("watch_period", str(EVERY)),),
            edits=edits,
        )


def _edits(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    detail = finding.detail_of(ModelWatchDetail)
    span, how = finding.span, detail.how
    if how == "config":
        return _in_config(finding, patient)
    if span is None:
        return ()
    if how == "watch":
        keywords = (("log_freq", str(EVERY)), *((("log", '"gradients"'),) if detail.every else ()))
        if not settable(scripts_given(patient), span, *(name for name, _ in keywords), method="watch", free=2):
            return ()
        return (KeywordEdit(path=span.path, line=span.line, column=span.column, set=keywords, method="watch"),)
    script = next((item for item in scripts_given(patient).scripts if item.path == span.path), None)
    if how == "variable":
        return _variable(script, span)
    return thinned(scripts_given(patient), span.path, span.line, span.column, EVERY)


def _in_config(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    for setting in finding.evidence:
        if isinstance(setting, Setting):
            for file in patient.configs.files:
                entry = file.entries.get(setting.key) if file.path == setting.path else None
                edit = file.edit(entry, str(EVERY)) if entry is not None else None
                if edit is not None:
                    return (edit,)
    return ()


def _variable(script: Script | None, span: SourceSpan) -> tuple[Edit, ...]:
    for node in ast.walk(script.tree) if script is not None else ():
        if isinstance(node, ast.Constant) and node.value == "all" and node.lineno == span.line:
            return (replace_node(script, node, '"false"'),) if script is not None else ()
    return ()
