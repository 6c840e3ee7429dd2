"""Rules on the topic: observability."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import judged
from gpudoctor.analysis.source.call_frequency import option_of, step_period
from gpudoctor.analysis.source.periodic_edits import events_at, thinned
from gpudoctor.analysis.source.syntax_edits import replace_node
from gpudoctor.analysis.source.trainer_periods import OVERRIDES, engine_period, period_for
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say, template
from gpudoctor.model import Applicability, Edit, Effort, Facts, Finding, Patient, Remedy, answers
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.records import replace
from gpudoctor.model.remedy import Effect, EffectOrigin
from gpudoctor_checks.declared import PeriodDetail
from gpudoctor_rules.remedies import call_at, published, remedy, source_places

_LOG_EVERY = 50
"""Steps between two writes: the upper end of the catalogue's 10 to 50, and Lightning's default."""


@answers("OBS002")
def logging_too_often(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Write every 50 steps."""
    detail = finding.detail_of(PeriodDetail)
    if detail.engine_loop:
        yield _by_setting(patient, "OBS002", detail.engine_loop, "log", _LOG_EVERY)
        return
    every = period_for(finding, patient, _LOG_EVERY, detail.period, detail.norm)
    places = source_places(finding)
    source = scripts_given(patient)
    edits: tuple[Edit, ...] = ()
    made = [thinned(source, place.path, place.line, place.column, every) for place in places]
    if (detail.calls or 1) == len(places) and all(made):
        edits = tuple(dict.fromkeys(edit for part in made for edit in part))
    yield remedy(
        "OBS002-every",
        say("write every {every} steps", every=every),
        *_launched(patient, finding.span, every),
        f"if step % {every} == 0:",
        *(f"    {place.text}" for place in places[:3]),
        *(() if edits else (say("count the steps: for step, batch in enumerate(loader):"),)),
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


_SELDOM = 500
"""Steps between two saves or evaluations: transformers' default."""


_SAID = {
    "OBS003": (
        "save",
        "save_period",
        template("save every {every} steps"),
        template("if step % {every} == 0:   # around the save, and one more save after the loop"),
    ),
    "OBS004": (
        "eval",
        "evaluation_period",
        template("evaluate every {every} steps"),
        template("if step % {every} == 0:   # around the evaluation, or once after the loop over the batches"),
    ),
}
"""What an engine's setting is about, what is set, and the remedy's words."""


@answers("OBS003", "OBS004")
def less_often(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Save or evaluate every 500 steps."""
    detail, (kind, period, title, step) = finding.detail_of(PeriodDetail), _SAID[finding.code]
    if detail.engine_loop:
        yield _by_setting(patient, finding.code, detail.engine_loop, kind, _SELDOM)
        return
    every = period_for(finding, patient, _SELDOM, detail.period, detail.norm)
    yield remedy(
        f"{finding.code}-every",
        say(title, every=every),
        say(step, every=every),
        effort=Effort.ONE_LINE,
        override=(("every", str(every)),),
        sets=((period, str(every)),),
    )


def _by_setting(patient: Patient, code: str, engine: str, kind: str, default: int) -> Remedy:
    """The setting of an engine with its number; `kind` as in `PHASES`."""
    every = engine_period(patient, kind, 1, default, None)
    title, step = of_run.engine_setting(engine, kind, every)
    override = next((override for field, override in OVERRIDES.items() if title.startswith(f"{field}=")), None)
    return remedy(
        f"{code}-setting",
        title,
        step,
        # Other checkpoints are left behind; evaluations without a period of their own follow the log's.
        effort=Effort.SETTING,
        override=((override, str(every)),) if override is not None else (),
        sets=((f"{kind}_period", str(every)),),
    )


_OFF = {"torch.autograd.set_detect_anomaly": "False", "torch.cuda._record_memory_history": "None"}
"""The argument that switches a facility off."""

_ANOMALY = published(1.0, 4.0)
"""Small models on a CPU step up to 4 times as fast without it (measured with torch 2.13), the example 1.08 times."""


def _without_anomaly(patient: Patient) -> Effect:
    """Of a run no more than the forward and backward pass take: nothing else gets slower."""
    run = judged(patient)
    if run is None:
        return _ANOMALY
    left = max(1 / _ANOMALY.high, 1 - run.share("forward", "backward"))
    return replace(_ANOMALY, high=round(1 / left, 3), provenance=EffectOrigin.BOUND)


@answers("OBS005")
def debug_mode_on(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Switch it off."""
    facility = finding.detail_of(Facts).facility
    edits = tuple(_debug_edits(finding, patient, facility))
    yield remedy(
        "OBS005-off",
        say("remove {tool} from the training run", tool=facility.rpartition(".")[2]),
        say("remove or switch off: {setting}", setting=finding.span.text if finding.span else facility),
        "keep it for the hunt: a --debug flag that is off by default; replay the failing step with it",
        applicability=Applicability.SAFE if edits else Applicability.DISPLAY_ONLY,
        effort=Effort.ONE_LINE,
        effect=_without_anomaly(patient) if "anomaly" in facility else None,
        sets=((facility, "off"),),
        edits=edits,
        references=("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",),
    )


def _debug_edits(finding: Finding, patient: Patient, facility: str) -> Iterator[Edit]:
    """The call's one argument changed."""
    found = call_at(patient, finding.span)
    if found is not None and facility in _OFF and len(found[1].node.args) == 1:
        yield replace_node(found[0], found[1].node.args[0], _OFF[facility])
