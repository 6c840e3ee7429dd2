"""Answers OBS001: measure once, outside the run that matters."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import bound_to
from gpudoctor.analysis.source.periodic_edits import entered_seldom, thinned
from gpudoctor.analysis.source.syntax import nodes
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
from gpudoctor.model.signs.source import Call, Script
from gpudoctor_checks.observability.profiler_in_loop import ProfilerInLoopDetail

PERIOD = 500
"""Steps between two measurements that still cost nothing (the catalogue's S4)."""

SCHEDULE = "torch.profiler.schedule(wait=5, warmup=2, active=5, repeat=1)"

_OFF = (("profiler.enabled", "False"),)
"""What a trial shows: the run without the profiler, which such a schedule comes close to."""

_REFERENCES = ("https://docs.pytorch.org/docs/stable/profiler.html#torch.profiler.schedule",)


class ProfilerInLoopRule(Rule):
    """Count once before the loop; give the profiler a schedule that ends."""

    answers = Code("OBS001")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(ProfilerInLoopDetail)
        edits = _less_often(finding, patient) if detail.how == "step" else ()
        if edits:
            yield _seldom(edits)
        if detail.how == "config":
            yield from _in_config(finding, patient)
        elif detail.kind == "flops":
            yield _count_once()
        elif detail.how == "engine":
            yield _without(finding)
        else:
            yield _schedule(finding, patient)
        if detail.how == "step" and not edits:
            yield _seldom(())


def _in_config(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """The key's new value, written where it stands."""
    value = str(finding.detail_of(ProfilerInLoopDetail).new_value)
    for setting in finding.evidence:
        if not isinstance(setting, Setting):
            continue
        file = next((item for item in patient.configs.files if item.path == setting.path), None)
        key = setting.key.removesuffix(".class_path")  # the whole block goes, by hand
        entry = file.entries.get(key) if file is not None else None
        edit = file.edit(entry, value) if file is not None and entry is not None else None
        yield Remedy(
            id="OBS001-config",
            title=f"{key}: {value}",
            steps=(
                say(
                    "in {path}, line {line}: set {key} to {value}",
                    path=setting.path,
                    line=setting.line,
                    key=key,
                    value=value,
                ),
                "profile apart from the run that matters: the same config with 20 to 50 steps",
            ),
            applicability=Applicability.SAFE if edit is not None else Applicability.DISPLAY_ONLY,
            effort=Effort.SETTING,
            sets=((key, value),),
            edits=(edit,) if edit is not None else (),
        )


def _count_once() -> Remedy:
    return Remedy(
        id="OBS001-once",
        title="count FLOPs once, before the loop, and keep the number",
        steps=(
            "move the counter before the loop; the count depends on the shapes, not on the step:",
            "flops_per_step = count(model, next(iter(loader)))   # your counter, called once",
            "in the loop use the number: flops_per_step / step_seconds",
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
        override=_OFF,
        sets=(("profile_period", "once"),),
    )


def _seldom(edits: tuple[Edit, ...]) -> Remedy:
    return Remedy(
        id="OBS001-period",
        title=say("measure every {period} steps instead", period=PERIOD),
        steps=(
            say("if step % {period} == 0:   # around the profiled block; run the plain block otherwise", period=PERIOD),
        ),
        applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
        effort=Effort.ONE_LINE if edits else Effort.SMALL_EDIT,
        sets=(("profile_period", str(PERIOD)),),
        edits=edits,
    )


def _less_often(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    """The block entered, or the count made, every so many steps."""
    source = scripts_given(patient)
    for span in (part for part in finding.evidence if isinstance(part, SourceSpan)):
        place = (source, span.path, span.line, span.column, PERIOD)
        edits = entered_seldom(*place) or thinned(*place)
        if edits:
            return edits
    return ()


def _without(finding: Finding) -> Remedy:
    span = finding.span
    edits: tuple[Edit, ...] = ()
    if span is not None:
        edits = (KeywordEdit(path=span.path, line=span.line, column=span.column, remove=("profiler",)),)
    return Remedy(
        id="OBS001-trainer",
        title="remove the profiler from the training; profile 50 steps of a separate run",
        steps=("remove the profiler argument of Trainer", 'profile apart: Trainer(profiler="pytorch", max_steps=50)'),
        applicability=Applicability.SAFE,
        effort=Effort.ONE_LINE,
        sets=(("profile_period", "once"),),
        edits=edits,
    )


def _schedule(finding: Finding, patient: Patient) -> Remedy:
    edits = _schedule_edits(finding, patient)
    return Remedy(
        id="OBS001-schedule",
        title="record 5 steps once, with a schedule that ends (repeat=1)",
        steps=(
            say("with torch.profiler.profile(schedule={schedule},", schedule=SCHEDULE),
            '        on_trace_ready=torch.profiler.tensorboard_trace_handler("traces")) as prof:',
            "    for step, batch in enumerate(loader):",
            "        ...   # the training step, with no profiler of its own",
            "        prof.step()",
        ),
        applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
        effort=Effort.ONE_LINE if edits else Effort.SMALL_EDIT,
        override=_OFF,
        sets=(("profile_period", "once"),),
        edits=edits,
        references=_REFERENCES,
    )


def _schedule_edits(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    """`repeat=1` on a schedule that never ends, or a schedule on a profiler whose loop calls `step()`."""
    detail = finding.detail_of(ProfilerInLoopDetail)
    span = finding.span
    script = next((item for item in scripts_given(patient).scripts if span and item.path == span.path), None)
    if span is None or script is None or detail.how != "around":
        return ()
    schedules = list(script.calls_to(".schedule"))
    if detail.period != 1:
        target = schedules[0] if len(schedules) == 1 else None
        return (_keywords(target, ("repeat", "1")),) if target else ()
    profiler = next((call for call in script.calls if call.span == span), None)
    if profiler is None or not profiler.name.startswith("torch.profiler.") or not _stepped(script, profiler):
        return ()
    return (_keywords(profiler, ("schedule", SCHEDULE)),) if "torch" in script.imports else ()


def _stepped(script: Script, profiler: Call) -> bool:
    names = {bound_to(script, profiler.node), *_as_names(script, profiler)} - {""}
    return any(call.method == "step" and call.receiver in names for call in script.calls)


def _as_names(script: Script, profiler: Call) -> Iterator[str]:
    for node in nodes(script, ast.With, ast.AsyncWith):
        for item in node.items:
            if item.context_expr is profiler.node and item.optional_vars is not None:
                yield ast.unparse(item.optional_vars)


def _keywords(call: Call, *pairs: tuple[str, str]) -> KeywordEdit:
    return KeywordEdit(path=call.span.path, line=call.span.line, column=call.span.column, set=pairs)
