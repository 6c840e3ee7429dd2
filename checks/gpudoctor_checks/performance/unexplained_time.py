"""PERF014 unexplained-time."""

from collections.abc import Iterator
from statistics import median

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import Run, demanded, spot, watched
from gpudoctor.lang import say
from gpudoctor.model import OWN_CHOICE, Check, Detail, Finding, Patient, Reads, Severity, Threshold, Trait
from gpudoctor.model.records import frozen
from gpudoctor.text import duration, percent

_ONE_RANK = say("one rank")
"""Kinds of time that have remedies of their own."""
_NO_LINE = say("; no stack sample caught it, so its line is unknown")
_PLACES = 3
_EXPLAINED = ("metric", "sleep", "debugger")
"""Kinds of samples of a watched process that other findings name, or that wait on purpose."""
_COMMON = 0.5
"""Of the greatest share, what the other ranks must have of it for it to be the job's and not one rank's."""


@frozen
class UnexplainedTimeDetail(Detail):
    """What the rule reads."""

    nature: str = ""
    """What the time is; the module names the natures."""
    engine_loop: str = ""
    """The framework whose own loop it is."""
    loop: str = ""
    """Place of the Python loop."""


class UnexplainedTime(Check):
    """Time of the step goes into the program's own lines, and no other finding explains it.

    What it finds:
        Lines of the training script outside all known phases that use 15 % or more of a recorded run. Known
        phases are data, forward, backward, optimizer, logging, saving, evaluation and the like.
    Why it hurts:
        Python code in the step delays the device like any other work. It is often forgotten: a statistic, a
        schedule computed again, a loop over all parameters, a copy of a list.
    How it knows:
        From a recording: hooks time each phase. A sampler reads the training thread's stack some tens of times
        a second and attributes the rest to lines. Lines that another finding explains, and those that compute
        the loss or call the passes, are excluded.
    False alarms:
        A script whose step is that work: a simulation, a search. The share is still correct. Lines that step an
        environment are the job's own work. Time of only one rank belongs to DIST001. If that finding is reported,
        this check is silent, otherwise it is a note. Time without a stack sample, which has no line, is also a
        note.
    Remedies:
        Read the lines. Remove the work from the step, do it less often, or do it on whole tensors on the device.
    References:
        - https://github.com/traceopt-ai/traceml
    """

    code = "PERF014"
    traits = frozenset({Trait.UNEXPLAINED})
    reads = frozenset({Reads.RECORDING, Reads.PROCESS})
    thresholds = (
        *Threshold.note_and_warning(
            "Unexplained time of this share of a run is",
            noted=0.15,
            warned=0.30,
            source="TraceML's RESIDUAL_HEAVY: 10 and 20 %",
            source_warned=OWN_CHOICE,
        ),
        Threshold(
            "seconds_noted",
            0.0005,
            "s",
            "convention: a few lines of Python, and the recorder itself, take some 0.1 ms a step",
            "Less per step is not a note; only its share decides about a warning.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if (window := watched(patient)) is not None:
            yield from self._live(window)
            return
        run = demanded(patient)
        # All of what is left where the sampler saw nothing.
        seen = of_run.owned(patient, run)
        left = (
            of_run.share_of(patient, run, of_run.LineOwner.NOBODY, of_run.LineOwner.ENGINE)
            if seen
            else run.share(of_run.OTHER)
        )
        share = run.worth(left, of_run.OTHER)
        severity = self.level(share)
        brief = share * run.lead.step_seconds < self.limit("seconds_noted")
        if severity is None or (severity is Severity.NOTE and brief):
            return
        if share - of_run.share_of(patient, run, of_run.LineOwner.ENGINE) < self.limit("share_noted"):
            severity = Severity.NOTE  # a framework's own loop: what it does is not the program's to change
        places = of_run.lines_of(patient, run, of_run.LineOwner.NOBODY, of_run.LineOwner.ENGINE)
        if not places or _of_one_rank(run):
            late = of_run.straggler(run.recording)
            told = (
                late is not None and late.share >= self.limit("share_noted") and next(iter(late.parts)) == of_run.OTHER
            )
            if told and _of_one_rank(run):
                return  # DIST001 names the rank and its lines
            severity = Severity.NOTE
        spans = [spot(patient, place) for place in places]
        heads = [head for span in spans[:2] for head in of_run.loop_heads(patient, span)]
        spans += heads
        engine = of_run.started_at(run, spans)
        if not engine:  # who calls `fit` says nothing
            spans += of_run.callers(patient, spans[:1])
        place = of_run.at(spans) if spans else _NO_LINE
        into = (
            say("goes into the loop of {engine} itself{place}", engine=engine, place=place)
            if engine
            else say("goes into lines of the program that no other finding explains{place}", place=place)
        )
        nature = _ONE_RANK if _of_one_rank(run) else ""
        loop = f"{heads[0].path}:{heads[0].line}" if heads else ""
        yield of_run.seen_in_run(run, share, spans).finding(
            self,
            say("{cost}, {into}.", cost=_time(run, share), into=into),
            name="unexplained_share",
            severity=severity,
            detail=UnexplainedTimeDetail(engine_loop=of_run.started_at(run, spans), nature=nature, loop=loop),
        )

    def _live(self, window: "of_run.ProcessWindow") -> Iterator[Finding]:
        """Samples on lines that are no known phase and no known ailment."""
        seen = of_run.seen_live(window, lambda place: place.phase == of_run.OTHER and place.kind not in _EXPLAINED)
        severity = seen.level(self)
        if severity is None or of_run.hidden(window):
            return
        yield seen.finding(
            self,
            say(
                "{cost} fall on lines of the program that are not part of a training step and that "
                "nothing else explains{where}.",
                cost=seen.words,
                where=of_run.where(seen.places),
            ),
            name="unexplained_share",
            severity=severity,
            detail=UnexplainedTimeDetail(),
        )


def _time(run: Run, share: float) -> str:
    step = run.lead.step_seconds
    return say(
        "{share} of the time, {took} of a step of {step}",
        share=percent(share),
        took=duration(share * step),
        step=duration(step),
    )


def _of_one_rank(run: Run) -> bool:
    """Whether one rank alone has most of it: that is DIST001's, which names the rank and its cost."""
    shares = sorted(state.share(of_run.OTHER) for state in run.states)
    return len(shares) > 1 and median(shares[:-1]) < _COMMON * shares[-1]
