"""Rules on the topic: observability."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.source.call_frequency import option_of, step_period
from gpudoctor.analysis.source.periodic_edits import events_at, thinned
from gpudoctor.analysis.source.syntax_edits import replace_node, settable, without
from gpudoctor.analysis.source.trainer_periods import OVERRIDES, engine_period, period_for
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Edit, Effort, Finding, Patient, Remedy, answers
from gpudoctor.model.evidence import Setting, SourceSpan
from gpudoctor_checks.observability.checkpoint_too_often import CheckpointTooOftenDetail
from gpudoctor_checks.observability.debug_mode_on import DebugModeOnDetail
from gpudoctor_checks.observability.evaluation_too_often import EvaluationTooOftenDetail
from gpudoctor_checks.observability.log_flush import LogFlushDetail
from gpudoctor_checks.observability.logging_too_often import LoggingTooOftenDetail
from gpudoctor_checks.observability.profiler_in_loop import ProfilerInLoopDetail
from gpudoctor_rules.remedies import config_edit, keyword_edit, published, remedy, script_of, source_places

_PROFILE_EVERY = 500
"""Steps between two measurements that still cost nothing (the catalogue's S4)."""

_SCHEDULE = "torch.profiler.schedule(wait=5, warmup=2, active=5, repeat=1)"

_NO_PROFILER = (("every", "0"),)
"""What a trial shows: the run without the profiler, which such a schedule comes close to."""

_SCHEDULES = ("https://docs.pytorch.org/docs/stable/profiler.html#torch.profiler.schedule",)


@answers("OBS001")
def profiler_in_loop(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Count once before the loop; give the profiler a schedule that ends."""
    detail = finding.detail_of(ProfilerInLoopDetail)
    if detail.how == "config":
        yield from _profiler_in_config(finding, patient)
    elif detail.kind == "flops":
        yield _count_once()
    else:
        yield _schedule()
    if detail.how == "step":
        yield _seldom()


def _profiler_in_config(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """The key's new value, written where it stands."""
    value = str(finding.detail_of(ProfilerInLoopDetail).new_value)
    for setting in (item for item in finding.evidence if isinstance(item, Setting)):
        key, edits = setting.key, config_edit(finding, patient, value)
        where = {"path": setting.path, "line": setting.line, "key": key, "value": value}
        yield remedy(
            "OBS001-config",
            f"{key}: {value}",
            say("in {path}, line {line}: set {key} to {value}", **where),
            "profile apart from the run that matters: the same config with 20 to 50 steps",
            applicability=Applicability.SAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.SETTING,
            sets=((key, value),),
            edits=edits,
        )


def _count_once() -> Remedy:
    return remedy(
        "OBS001-once",
        "count FLOPs once, before the loop, and keep the number",
        "move the counter before the loop; the count depends on the shapes, not on the step:",
        "flops_per_step = count(model, next(iter(loader)))   # your counter, called once",
        "in the loop use the number: flops_per_step / step_seconds",
        override=_NO_PROFILER,
        sets=(("profile_period", "once"),),
    )


def _seldom() -> Remedy:
    return remedy(
        "OBS001-period",
        say("measure every {period} steps instead", period=_PROFILE_EVERY),
        say(
            "if step % {period} == 0:   # around the profiled block; run the plain block otherwise",
            period=_PROFILE_EVERY,
        ),
        sets=(("profile_period", str(_PROFILE_EVERY)),),
    )


def _schedule() -> Remedy:
    return remedy(
        "OBS001-schedule",
        "record 5 steps once, with a schedule that ends (repeat=1)",
        say("with torch.profiler.profile(schedule={schedule},", schedule=_SCHEDULE),
        '        on_trace_ready=torch.profiler.tensorboard_trace_handler("traces")) as prof:',
        "    for step, batch in enumerate(loader):",
        "        ...   # the training step, with no profiler of its own",
        "        prof.step()",
        override=_NO_PROFILER,
        sets=(("profile_period", "once"),),
        references=_SCHEDULES,
    )


_LOG_EVERY = 50
"""Steps between two writes: the upper end of the catalogue's 10 to 50, and Lightning's default."""


@answers("OBS002")
def logging_too_often(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Write every 50 steps."""
    detail = finding.detail_of(LoggingTooOftenDetail)
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


_SAVE_EVERY = 500
"""Steps between two saves: transformers' default."""
_SAVE_NEAR = 50
"""An edit does not save once more at the end. With the check's limit no more steps than that are lost."""


@answers("OBS003")
def checkpoint_too_often(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Save every 500 steps; write in the background."""
    detail = finding.detail_of(CheckpointTooOftenDetail)
    if detail.engine_loop:
        yield _by_setting(patient, "OBS003", detail.engine_loop, "save", _SAVE_EVERY)
        return
    every, option = period_for(finding, patient, _SAVE_EVERY, detail.period, detail.norm), (detail.option or "")
    closer, span = period_for(finding, patient, _SAVE_NEAR, detail.period, detail.norm), finding.span
    edits: tuple[Edit, ...] = ()
    if span is not None:
        edits = thinned(scripts_given(patient), span.path, span.line, span.column, closer)
    every = closer if edits else every
    steps = [say("if step % {every} == 0:   # around the save, and one more save after the loop", every=every)]
    if option:
        steps.insert(0, say("launch with {option} {every}", option=option, every=every))
    yield remedy(
        "OBS003-every",
        say(
            "save every {every} steps ({option} {every})" if option else "save every {every} steps",
            every=every,
            option=option,
        ),
        *steps,
        # The files that a run leaves behind are other ones: not the same result.
        effort=Effort.ONE_LINE,
        override=(("every", str(every)),),
        sets=(("save_period", str(every)),),
        edits=edits,
    )


_EVALUATE_EVERY = 500
"""Steps between two evaluations: transformers' default."""


@answers("OBS004")
def evaluation_too_often(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Evaluate every 500 steps, or a part of the set."""
    detail = finding.detail_of(EvaluationTooOftenDetail)
    if detail.engine_loop:
        yield _by_setting(patient, "OBS004", detail.engine_loop, "eval", _EVALUATE_EVERY)
        return
    every = period_for(finding, patient, _EVALUATE_EVERY, detail.period, detail.norm)
    option = detail.option or ""
    edits = _evaluation_edits(finding, patient, every)
    yield remedy(
        "OBS004-every",
        say(
            "evaluate every {every} steps ({option} {every})" if option else "evaluate every {every} steps",
            every=every,
            option=option,
        ),
        *((say("launch with {option} {every}", option=option, every=every),) if option else ()),
        say("if step % {every} == 0:   # around the evaluation, or once after the loop over the batches", every=every),
        # Early stopping and schedulers that look at the metric see it less often.
        effort=Effort.ONE_LINE,
        override=(("every", str(every)),),
        sets=(("evaluation_period", str(every)),),
        edits=edits,
    )


def _evaluation_edits(finding: Finding, patient: Patient, every: int) -> tuple[Edit, ...]:
    """The number of the guard around the evaluation, or a guard around it, where the loop reaches it."""
    detail = finding.detail_of(EvaluationTooOftenDetail)
    places = [(part.path, part.line, part.column) for part in finding.evidence if isinstance(part, SourceSpan)]
    if detail.event_line:
        inside = str(detail.event_path), int(detail.event_line or 0)
        places.insert(0, (*inside, int(detail.event_column or 0)))
    for path, line, column in places:
        edits = thinned(scripts_given(patient), path, line, column, every, block=True)
        if edits:
            return edits
    return ()


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


_OFF = {
    "torch.autograd.set_detect_anomaly": "False",
    "torch.cuda.memory._record_memory_history": "None",
    "torch.cuda.set_sync_debug_mode": '"default"',
}
"""The argument that switches a facility off."""

_ANOMALY = published(1.2, 4.0)
"""Small models on a CPU step 2 to 4 times as fast without it (measured with torch 2.13), others less so."""


@answers("OBS005")
def debug_mode_on(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Switch it off."""
    detail = finding.detail_of(DebugModeOnDetail)
    keyword, facility = detail.keyword, detail.facility
    engine = bool(keyword) and facility not in _OFF
    edits = _debug_edits(finding, patient, keyword if engine else "", facility)
    text = finding.span.text if finding.span else facility
    yield remedy(
        "OBS005-off",
        say("remove {tool} from the training run", tool=keyword)
        if engine
        else say("remove {tool} from the training run", tool=facility.rsplit(".", 1)[-1]),
        say("remove the argument {argument}", argument=keyword)
        if engine
        else say("remove or switch off: {setting}", setting=text),
        "keep it for the hunt: a --debug flag that is off by default; replay the failing step with it",
        applicability=Applicability.SAFE if edits else Applicability.DISPLAY_ONLY,
        effort=Effort.ONE_LINE,
        effect=_ANOMALY if "anomaly" in (facility + keyword) else None,
        sets=((facility, "off"),),
        edits=edits,
        references=("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",),
    )


def _debug_edits(finding: Finding, patient: Patient, keyword: str, facility: str) -> tuple[Edit, ...]:
    span = finding.span
    if span is None:
        return ()
    if keyword:
        return (keyword_edit(span, remove=(keyword,)),)
    script = script_of(patient, span)
    call = next((item for item in script.calls if item.span == span), None) if script else None
    if script is None or call is None or facility not in _OFF:
        return ()
    arguments = [*call.node.args[:1], *(item.value for item in call.node.keywords if item.arg in {"mode", "enabled"})]
    return (replace_node(script, arguments[0], _OFF[facility]),) if len(arguments) == 1 else ()


_WATCH_EVERY = 1000
"""wandb's own default for `log_freq`."""


@answers("OBS006")
def model_watch(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Gradients every 1,000 steps, or norms."""
    from gpudoctor_checks.observability.model_watch import ModelWatchDetail

    detail = finding.detail_of(ModelWatchDetail)
    how = detail.how
    edits = _watch_edits(finding, patient, how, bool(detail.every))
    title = {
        "watch": say('log="gradients", log_freq={every}', every=_WATCH_EVERY),
        "config": f"{detail.key}: {_WATCH_EVERY}",
    }.get(str(how), say("log histograms every {every} steps", every=_WATCH_EVERY))
    yield remedy(
        "OBS006-every",
        title,
        title
        if how != "loop"
        else say("if step % {every} == 0:   # around the loop over the parameters", every=_WATCH_EVERY),
        applicability=Applicability.DISPLAY_ONLY
        if not edits
        else Applicability.UNSAFE
        if how == "loop"
        else Applicability.SAFE,
        effort=Effort.ONE_LINE,
        override=(("every", str(_WATCH_EVERY)),) if how == "loop" else (),
        sets=(("watch_period", str(_WATCH_EVERY)),),
        edits=edits,
    )


def _watch_edits(finding: Finding, patient: Patient, how: str, every: bool) -> tuple[Edit, ...]:
    span = finding.span
    if how == "config":
        return config_edit(finding, patient, str(_WATCH_EVERY))
    if span is None:
        return ()
    if how == "watch":
        keywords = (("log_freq", str(_WATCH_EVERY)), *((("log", '"gradients"'),) if every else ()))
        if not settable(scripts_given(patient), span, *(name for name, _ in keywords), method="watch", free=2):
            return ()
        return (keyword_edit(span, set=keywords, method="watch"),)
    return thinned(scripts_given(patient), span.path, span.line, span.column, _WATCH_EVERY)


_STEPS = {
    "sync": say("Delete the fsync: the operating system writes the file within seconds, and at close."),
    "flush": say("Delete the flush: the buffer is written when it is full and when the file is closed."),
    "print": say("print(...) without flush=True; `python -u` or PYTHONUNBUFFERED=1 where lines must show at once."),
    "open": say('log = open(path, "a", buffering=1 << 16)   # once, before the loop; log.write(...) in it'),
}


_TITLES = {"open": say("open the log once, before the loop")}


@answers("OBS007")
def log_flush(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """No flush in the step; one open file."""
    detail = finding.detail_of(LogFlushDetail)
    places = source_places(finding)
    edits = tuple(edit for place in places if (edit := _flush_edit(patient, place)) is not None)
    whole = len(edits) == detail.calls
    kind = detail.kind
    yield remedy(
        "OBS007-buffer",
        _TITLES.get(kind, say("remove the flush from the step")),
        _STEPS[kind],
        "log.flush() once an epoch, or every few hundred steps, if you need it.",
        effort=Effort.SMALL_EDIT if kind == "open" else Effort.ONE_LINE,
        override=(("every", "50"),) if kind in {"sync", "flush"} else (),
        edits=edits if whole else (),
    )


def _flush_edit(patient: Patient, place: SourceSpan) -> Edit | None:
    script = script_of(patient, place)
    if script is None:
        return None
    if settable(scripts_given(patient), place, method="print", remove=("flush",)):
        return keyword_edit(place, remove=("flush",))
    return without(script, place)
