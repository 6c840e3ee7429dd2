"""Answers OBS002: write every N steps."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.run.trainer_engines import engine_setting
from gpudoctor.analysis.source.call_frequency import option_of, step_period
from gpudoctor.analysis.source.control_flow import enclosing, loop_node
from gpudoctor.analysis.source.loop_counters import LoopCounter, counter_at
from gpudoctor.analysis.source.periodic_edits import events_at, own_lines, thinned
from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.analysis.source.syntax_edits import put_under
from gpudoctor.analysis.source.trainer_periods import period_for, transformers_period
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule, SourceSpan
from gpudoctor.model.signs.source import Script
from gpudoctor_checks.observability.logging_too_often import LoggingTooOftenDetail
from gpudoctor_rules.observability.settings import by_setting

EVERY = 50
"""Steps between two writes: the upper end of the catalogue's 10 to 50, and Lightning's default."""


class LoggingTooOftenRule(Rule):
    """Write every 50 steps."""

    answers = Code("OBS002")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(LoggingTooOftenDetail)
        every, edits = transformers_period(patient, "log", EVERY)
        setting = engine_setting(detail.engine_loop, "log", every)
        if setting is not None:
            yield by_setting("OBS002", setting, "log", every, edits)
            return
        every = period_for(finding, patient, EVERY, detail.period, detail.norm)
        places = [item for item in finding.evidence if isinstance(item, SourceSpan)]
        found = _found(finding, patient, places)
        edits = _together(*found, every) if found else ()
        if not edits and finding.span is not None and (detail.calls or 1) == 1:
            span = finding.span
            edits = thinned(scripts_given(patient), span.path, span.line, span.column, every)
        yield Remedy(
            id="OBS002-every",
            title=say("write every {every} steps", every=every),
            steps=(
                *_launched(patient, finding.span, every),
                f"if {found[2].name if found else 'step'} % {every} == 0:",
                *(f"    {place.text}" for place in places[:3]),
                *(() if found else (say("count the steps: for step, batch in enumerate(loader):"),)),
            ),
            applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE if len(places) == 1 else Effort.SMALL_EDIT,
            override=(("every", str(every)),),
            sets=(("log_period", str(every)),),
            edits=edits,
        )


def _launched(patient: Patient, place: SourceSpan | None, every: int) -> Iterator[str]:
    """The command-line option that the period comes from, where there is one: no file needs to change."""
    for _, _, event in events_at(scripts_given(patient), place.path, place.line) if place is not None else ():
        option = option_of(event) if (step_period(event) or every) < every else ""
        if option:
            yield say("Launch with {option} {every}, or write in the script:", option=option, every=every)
            return


def _found(
    finding: Finding, patient: Patient, places: list[SourceSpan]
) -> tuple[Script, list[ast.stmt], LoopCounter] | None:
    """The script, the statements at the places and what counts their passes; None unless all are told."""
    detail = finding.detail_of(LoggingTooOftenDetail)
    if detail.calls != len(places):
        return None
    for script, loop in scripts_given(patient).training_loops:
        head = loop_node(script, loop)
        if head is None or loop.span.line != detail.loop_line or script.path != places[0].path:
            continue
        wanted = {place.line for place in places}
        here = [node for node in nodes(script, ast.Expr) if node.lineno in wanted and own_lines(script, node)]
        counters = [counter_at(script, loop, head, node) for node in here]
        if {node.lineno for node in here} == wanted and not any(_guarded(script, node, head) for node in here):
            return (script, list(here), counters[0]) if counters[0] and len(set(counters)) == 1 else None
    return None


def _guarded(script: Script, node: ast.stmt, head: ast.AST) -> bool:
    """Whether a period stands between a statement and its loop already."""
    for above in enclosing(script, node):
        if above is head:
            return False
        if isinstance(above, ast.If) and "%" in ast.unparse(above.test):
            return True
    return True


def _together(script: Script, here: list[ast.stmt], found: LoopCounter, every: int) -> tuple[Edit, ...]:
    """The statements under `if step % 50 == 0:`, neighbours under one."""
    groups: list[list[ast.stmt]] = []
    for node in sorted(here, key=lambda item: item.lineno):
        last = groups[-1][-1] if groups else None
        if last is not None and last.end_lineno == node.lineno - 1 and last.col_offset == node.col_offset:
            groups[-1].append(node)
        else:
            groups.append([node])
    line = f"if {found.name} % {every} == 0:"
    return (*found.edits, *(put_under(script, group, line) for group in groups))
