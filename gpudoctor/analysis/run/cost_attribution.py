"""What the source suspects, priced by the recording: confirmed with its measured share, or refuted."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gpudoctor.analysis.observation import Observation, Recurrence, stated
from gpudoctor.analysis.run.line_costs import Site
from gpudoctor.analysis.run.line_ownership import LineOwner, lines_of, share_of
from gpudoctor.analysis.run.steady_run import Run, dear, measured, period, site_spans, sites_of, spot
from gpudoctor.analysis.run.steady_state import PARTS
from gpudoctor.analysis.run.trainer_engines import started_at
from gpudoctor.model.check import Check
from gpudoctor.model.evidence import Evidence, SourceSpan
from gpudoctor.model.finding import Cost, Detail, Finding, Severity, Whose
from gpudoctor.model.patient import Patient
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import duration, percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What an ailment costs in a recorded run."""

    share: float
    """What it can give back, of step time (0..1): no more than the device is idle, where that is known."""
    host: float
    """The host's time in it, of step time (0..1): its phases and the lines beside them."""
    spans: tuple[SourceSpan, ...]
    """The user's places, dearest first."""
    sites: tuple[Site, ...]
    """What hooks saw there, dearest first."""
    calls: float
    """Calls a step."""
    seconds: float
    """Seconds a call; 0 where none was counted."""

    @property
    def what(self) -> str:
        """What was called, the dearest first: `torch.save`; "" where hooks saw none."""
        return " and ".join(dict.fromkeys(site.what for site in self.sites[:2]))


def price(
    patient: Patient,
    run: Run,
    *,
    phases: Sequence[str] = (),
    owners: Sequence[LineOwner] = (),
    wanted: Callable[[Site], bool] | None = None,
    device: bool = False,
) -> Price:
    """The price of phases, of the lines of owners, of sites, or of several of them.

    `wanted` takes the sites that count: with phases, their part of these phases' time; without, their own
    seconds in whatever phase they stand. `device`: what goes with it is work of the device's, too.
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
    return Price(
        share=whole if device else run.worth(whole, *(() if owners else phases)),
        host=whole,
        spans=tuple({(span.path, span.line): span for span in spans}.values()),
        sites=tuple(found),
        calls=calls / steps if steps else 0.0,
        seconds=mine / calls if calls else 0.0,
    )


def suspicions(
    read: Callable[[], Iterable[Finding]], run: Run | None, *, refuted: bool = False
) -> list[Finding]:
    """What the source suspects; nothing where no source was given and a run can speak instead.

    `refuted`: a recording, which may be too short for `run`, shows that the ailment cannot be there.
    """
    if refuted:
        return []
    try:
        return list(read())
    except Unavailable:
        if run is None:
            raise
        return []


def confirmed(
    check: Check,
    suspected: Sequence[Finding],
    message: str,
    *,
    share: float | None,
    spans: Sequence[SourceSpan],
    severity: Severity,
    run: Run,
    numbers: Iterable[Evidence] = (),
    name: str = "step_share",
    detail: Detail | None = None,
    breaks: str | None = None,
    whose: Whose = Whose.HOST,
    worth: float | None = None,
) -> Finding:
    """The finding of a measured ailment: the suspicion that it confirms, grown, or a new one.

    A share of the host's time costs no more than the device is idle, unless it is said what it is `worth`.
    """
    evidence: list[Evidence] = list(spans)
    if share is not None:
        evidence.append(measured(name, share, "1", run.recording))
    evidence += numbers
    if worth is None:
        worth = run.worth(share) if share is not None and whose is Whose.HOST else share
    return stated(
        check,
        suspected,
        message,
        spans=spans,
        evidence=evidence,
        severity=severity,
        cost=Cost(step_share=worth, whose=whose, breaks=breaks),
        subject=f"{spans[0].path}:{spans[0].line}" if spans else "",
        detail=detail,
    )


def seen_in_run(run: Run, cost: Price, *, whose: Whose = Whose.HOST) -> Observation:
    """What a recorded run shows of a price."""
    step = run.lead.step_seconds
    return Observation(
        share=cost.share,
        least=cost.share,
        worth=run.worth(cost.share) if whose is Whose.HOST else cost.share,
        whose=whose,
        words=f"{percent(cost.share)} of the time",
        of_a_step=f", {duration(cost.share * step)} of a step of {duration(step)}",
        where=at(cost.spans),
        spans=cost.spans,
        recording=run.recording,
        reproduce=f"gpudoctor report {run.recording.path}",
        engine=started_at(run, cost.spans) or None,
    )


def recurring_in_run(run: Run, seen: Observation, phase: str, name: str = "") -> Observation:
    """The same of what comes now and then, in a phase of its own; `name` is what one of them is called."""
    times = run.events(phase)
    each, every = seen.share * run.lead.seconds / max(1, times), run.lead.steps / max(1, times)
    return replace(
        seen,
        recurrence=Recurrence(
            times=times,
            words=f": {period(every)}, {duration(each)} each",
            measurement=measured(f"seconds_per_{name or phase}", each, "s", run.recording),
            steps=round(every, 2),
        ),
    )


def meanwhile(run: Run, cost: Price) -> str:
    """Where the host waits longer than the device is idle: what the device does, as a clause; else ""."""
    idle = run.idle
    if idle is None or cost.host <= (cost.share if run.traced else idle):
        return ""
    if run.traced:
        return f"; the device is idle meanwhile for {percent(cost.share)} of the time"
    return f"; the device works meanwhile, and is idle for {percent(idle)} of the time at most"


def at(spans: Sequence[SourceSpan]) -> str:
    """Where, as a clause: ` (train.py:41 and net.py:7)`; "" where nobody knows."""
    named = [f"{span.path}:{span.line}" for span in spans[:2]]
    return f" ({' and '.join(named)})" if named else ""


def unless_measured(run: Run | None, suspected: Iterable[Finding]) -> Iterator[Finding]:
    """Suspicions that stand as they are where nothing was run."""
    if run is None:
        yield from suspected
