"""PERF014 unexplained-time."""

from collections.abc import Iterator
from statistics import median

from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.reading.recordings.blame import Owner, calling, lines_of, loop_heads, owned, share_of
from gpudoctor.model.reading.recordings.engines import engine_facts, started_at
from gpudoctor.model.reading.recordings.judged import Run, demanded, duration, level, percent, spot
from gpudoctor.model.reading.recordings.pricing import at, confirmed
from gpudoctor.model.reading.recordings.steady import OTHER
from gpudoctor.model.reading.windows.costs import unexplained
from gpudoctor.model.reading.windows.looks import watched

_COMMON = 0.5
"""Of the greatest share, what the other ranks must have of it for it to be the job's and not one rank's."""


class UnexplainedTime(Check):
    """Time of the step goes into the program's own lines, and no other ailment explains it.

    What it finds:
        Lines of the training script that take 15 % or more of a recorded run outside of everything that a step
        is made of: waiting for data, forward, backward, the optimizer, logging, saving, evaluation and the
        like.
    Why it hurts:
        Python code that runs on every step holds the device up as any other work does. It is often forgotten
        there: a statistic, a schedule worked out anew, a walk over all parameters, a copy of a list.
    How it knows:
        From a recording: hooks tell the time of each phase; what is left is told apart by a sampler that looks
        at the training thread's stack some tens of times a second, line by line. Lines that another ailment
        answers for, and those that compute the loss, are set aside.
    False alarms:
        A script whose step is that work: a simulation, a search, an environment that is stepped. The share is
        still what it says. Time of one rank alone is the straggler's (DIST001), and time at which the sampler
        never looked has no line: both are notes.
    Remedies:
        Look at the lines: take the work out of the step, do it less often, or on whole tensors on the device.
    References:
        - https://github.com/traceopt-ai/traceml
        - https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """

    code = Code("PERF014")
    name = "unexplained-time"
    reads = frozenset({Reads.RECORDING, Reads.PROCESS})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="share_noted",
            default=0.15,
            unit="1",
            source="CATALOGUE PERF014; TraceML's RESIDUAL_HEAVY: 10 and 20 %",
            meaning="Unexplained time of this share of a run is a note.",
        ),
        Threshold(
            name="share_warned",
            default=0.30,
            unit="1",
            source="CATALOGUE PERF014",
            meaning="Unexplained time of this share of a run is a warning.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if (window := watched(patient)) is not None:
            yield from unexplained(self, window)
            return
        run = demanded(patient)
        share = self._unexplained(patient, run)
        severity = level(share, self.limit("share_noted"), self.limit("share_warned"))
        if severity is None:
            return
        if share - share_of(patient, run, Owner.ENGINE) < self.limit("share_noted"):
            severity = Severity.NOTE  # a framework's own loop: what it does is not the program's to change
        places = lines_of(patient, run, Owner.NOBODY, Owner.ENGINE)
        if not places or _of_one_rank(run):
            severity = Severity.NOTE
        spans = [spot(patient, place) for place in places]
        spans += [head for span in spans[:2] for head in loop_heads(patient, span)]
        engine = started_at(run, spans)
        if not engine:  # who calls `fit` says nothing
            spans += [spot(patient, place) for span in spans[:1] for place in calling(patient, span)]
        where = at(spans) if spans else "; the sampler saw none of it, so no line is known"
        into = (
            f"goes into the loop of {engine} itself{where}"
            if engine
            else f"goes into lines of the program that nothing else explains{where}"
        )
        yield confirmed(
            self,
            (),
            f"{percent(share)} of the time, {duration(share * run.lead.step_seconds)} of a step of "
            f"{duration(run.lead.step_seconds)}, {into}.",
            facts=tuple(engine_facts(run, spans)),
            share=share,
            spans=list(dict.fromkeys(spans)),
            severity=severity,
            run=run,
            name="unexplained_share",
        )

    def _unexplained(self, patient: Patient, run: Run) -> float:
        """What nobody answers for; all of what is left where the sampler saw nothing."""
        if not owned(patient, run):
            return run.share(OTHER)
        return share_of(patient, run, Owner.NOBODY, Owner.ENGINE)


def _of_one_rank(run: Run) -> bool:
    """Whether one rank alone has most of it: that is DIST001's, which names the rank and its cost."""
    shares = sorted(state.share(OTHER) for state in run.states)
    return len(shares) > 1 and median(shares[:-1]) < _COMMON * shares[-1]
