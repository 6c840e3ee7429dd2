"""What phases, lines and calls cost in a recorded run, as a share of the step."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from gpudoctor.analysis.observation import Observation, Recurrence
from gpudoctor.analysis.run.line_costs import Site
from gpudoctor.analysis.run.line_ownership import lines_of, share_of
from gpudoctor.analysis.run.statement_effects import LineOwner
from gpudoctor.analysis.run.steady_run import Run, dear, measured, period, site_spans, sites_of, spot
from gpudoctor.analysis.run.steady_state import PARTS
from gpudoctor.analysis.run.trainer_engines import started_at
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.finding import Whose
from gpudoctor.model.patient import Patient
from gpudoctor.text import duration, percent


def price(
    patient: Patient,
    run: Run,
    *,
    phases: Sequence[str] = (),
    owners: Sequence[LineOwner] = (),
    wanted: Callable[[Site], bool] | None = None,
    whose: Whose = Whose.HOST,
) -> Observation:
    """What a run shows of the cost of phases, of the lines of owners, of sites, or of several of them.

    `wanted` takes the sites that count: with phases, their part of these phases' time; without, their own
    seconds in whatever phase they stand. A share of the host's time is no more than the device is idle, where
    that is known.
    """
    every = sites_of(run, *(phases or PARTS))
    found = [site for site in every if (wanted is None and phases) or (wanted is not None and wanted(site))]
    mine = sum(site.seconds for site in found)
    if phases:
        all_of = sum(site.seconds for site in every)
        share = run.share(*phases) * (mine / all_of if all_of else float(wanted is None))
    else:
        share = mine / run.lead.whole_seconds if run.lead.whole_seconds else 0.0
    beside = share_of(patient, run, *owners) if owners else 0.0
    spans = site_spans(patient, dear(found, beside=beside * run.lead.whole_seconds))
    lines = [spot(patient, place) for place in lines_of(patient, run, *owners)] if owners else []
    spans = [*lines, *spans] if beside > share else [*spans, *lines]
    calls = sum(site.calls for site in found)
    steps = run.lead.steps + run.lead.warm_up_steps
    whole = min(1.0, share + beside)
    share = run.worth(whole, *(() if owners else phases)) if whose is Whose.HOST else whole
    seen = seen_in_run(run, share, list({(span.path, span.line): span for span in spans}.values()), whose=whose)
    return replace(
        seen,
        host=whole,
        sites=tuple(found),
        calls=calls / steps if steps else 0.0,
        seconds=mine / calls if calls else 0.0,
    )


def seen_in_run(
    run: Run, share: float, spans: Sequence[SourceSpan] = (), *, whose: Whose = Whose.HOST, worth: float | None = None
) -> Observation:
    """A share of a recorded run's time, and where it goes.

    A share of the host's time gives back no more than the device is idle, unless it is said what it is `worth`.
    """
    step = run.lead.step_seconds
    if worth is None:
        worth = run.worth(share) if whose is Whose.HOST else share
    return Observation(
        share=share,
        least=share,
        worth=worth,
        whose=whose,
        words=say("{share} of the time", share=percent(share)),
        of_a_step=say(", {share} of a step of {step}", share=duration(share * step), step=duration(step)),
        where=at(spans),
        spans=tuple(dict.fromkeys(spans)),
        recording=run.recording,
        reproduce=f"gpudoctor report {run.recording.path}",
        engine=started_at(run, spans) or None,
    )


def recurring_in_run(run: Run, seen: Observation, phase: str, name: str = "") -> Observation:
    """The same of what comes now and then, in a phase of its own; `name` is what one of them is called."""
    times = run.events(phase)
    each, every = seen.share * run.lead.seconds / max(1, times), run.lead.steps / max(1, times)
    return replace(
        seen,
        recurrence=Recurrence(
            times=times,
            words=say(": {period}, {each} each", period=period(every), each=duration(each)),
            measurement=measured(f"seconds_per_{name or phase}", each, "s", run.recording),
            steps=round(every, 2),
        ),
    )


def meanwhile(run: Run, cost: Observation) -> str:
    """Where the host waits longer than the device is idle: what the device does, as a clause; else ""."""
    idle = run.idle
    if idle is None or cost.host <= idle:
        return ""
    return say("; the device works meanwhile, and is idle for {idle} of the time at most", idle=percent(idle))


def at(spans: Sequence[SourceSpan]) -> str:
    """Where, as a clause: ` (train.py:41 and net.py:7)`; "" where nobody knows."""
    named = [f"{span.path}:{span.line}" for span in spans[:2]]
    return say(" ({named})", named=concatenated(" and ", named)) if named else ""
