"""Answers OBS005: take the facility out of the run, or behind a switch that is off."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax import segment
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import (
    Applicability,
    Code,
    Edit,
    Effect,
    EffectOrigin,
    Effort,
    Finding,
    KeywordEdit,
    Patient,
    Remedy,
    Rule,
    TextEdit,
)
from gpudoctor.model.signs.source import Script
from gpudoctor_checks.observability.debug_mode_on import DebugModeOnDetail

OFF = {
    "torch.autograd.set_detect_anomaly": "False",
    "torch.cuda.memory._record_memory_history": "None",
    "torch.cuda.set_sync_debug_mode": '"default"',
}
"""The argument that switches a facility off."""

_ANOMALY = Effect(quantity="throughput", low=1.2, high=4.0, unit="x", provenance=EffectOrigin.PUBLISHED)
"""Small models on a CPU step 2 to 4 times as fast without it (measured with torch 2.13), others less so."""


class DebugModeOnRule(Rule):
    """Switch it off."""

    answers = Code("OBS005")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(DebugModeOnDetail)
        keyword, facility = detail.keyword, detail.facility
        engine = bool(keyword) and facility not in OFF
        edits = _edits(finding, patient, keyword if engine else "", facility)
        text = finding.span.text if finding.span else facility
        yield Remedy(
            id="OBS005-off",
            title=say("remove {tool} from the training run", tool=keyword)
            if engine
            else say("remove {tool} from the training run", tool=facility.rsplit(".", 1)[-1]),
            steps=(
                say("remove the argument {argument}", argument=keyword)
                if engine
                else say("remove or switch off: {setting}", setting=text),
                "keep it for the hunt: a --debug flag that is off by default; replay the failing step with it",
            ),
            applicability=Applicability.SAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
            effect=_ANOMALY if "anomaly" in (facility + keyword) else None,
            override=(("autograd.detect_anomaly", "False"),) if "anomaly" in (facility + keyword) else (),
            sets=((facility, "off"),),
            edits=edits,
            references=("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",),
        )


def _edits(finding: Finding, patient: Patient, keyword: str, facility: str) -> tuple[Edit, ...]:
    span = finding.span
    if span is None:
        return ()
    if keyword:
        return (KeywordEdit(path=span.path, line=span.line, column=span.column, remove=(keyword,)),)
    script = next((item for item in scripts_given(patient).scripts if item.path == span.path), None)
    call = next((item for item in script.calls if item.span == span), None) if script else None
    if script is None or call is None or facility not in OFF:
        return ()
    arguments = [*call.node.args[:1], *(item.value for item in call.node.keywords if item.arg in {"mode", "enabled"})]
    return (_replace(script, arguments[0], OFF[facility]),) if len(arguments) == 1 else ()


def _replace(script: Script, node: ast.expr, new: str) -> TextEdit:
    """Put another expression in the place of one, counted in characters (`ast` counts bytes)."""
    lines = script.text.splitlines()

    def column(line: int, offset: int) -> int:
        return len(lines[line - 1].encode()[:offset].decode(errors="replace")) + 1

    end = node.end_lineno or node.lineno
    return TextEdit(
        path=script.path,
        line=node.lineno,
        column=column(node.lineno, node.col_offset),
        end_line=end,
        end_column=column(end, node.end_col_offset or 0),
        new_text=new,
        expected=segment(script, node),
    )
