"""PERF004 recompiling."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded, spot
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.signs.recording import Record
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import duration, percent

_ONE_GUARD = 5
"""Compilations that one guard makes, by which it will do so to the limit, which is 8."""


class Recompiling(Check):
    """torch.compile compiles again after warm-up.

    What it finds:
        Recompilations and graph breaks in steady state: how many, what they cost, their reasons and the
        function. Recompilations that one guard makes again and again count from the first step.
    Why it hurts:
        A compilation takes seconds to minutes; after eight of them for one function torch gives up and runs it
        uncompiled. Each graph break is a return to Python.
    How it knows:
        From a recording: what Dynamo reports about each compilation, its step and its reason. Those of the
        first quarter of the steps are warm-up.
    False alarms:
        The first few shapes, a first evaluation: two recompilations are not reported.
    Remedies:
        Keep shapes constant, or mark them as dynamic; fix the guard that the reason names.
    References:
        - https://github.com/pytorch/pytorch/issues/105279
    """

    code = "PERF004"
    reads = frozenset({Reads.RECORDING})
    thresholds = (
        Threshold(
            "recompiles",
            3,
            "{times}",
            "convention: a first evaluation and a last batch make two",
            "This many recompilations in steady state are a finding.",
        ),
        Threshold(
            "share_warned",
            0.02,
            "1",
            "train-doctor: 2 % for avoidable work",
            "Compiling that takes this share of steady time is a warning, less is a note.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient)
        state = run.lead
        records = state.process.of("compile")
        if not records:
            raise Unavailable(say("nothing was compiled"))
        first = state.values("index")[0]
        late = [
            item
            for item in records
            if int(item.get("step") or 0) >= first and item.get("kind") in {"compile", "recompile"}
        ]
        breaks = [item for item in records if item.get("kind") == "graph-break"]
        again = _again(records)
        late = late if len(late) >= self.limit("recompiles") else again
        seconds = sum(float(item.get("seconds") or 0.0) for item in late)
        if len(late) < self.limit("recompiles"):
            return
        share = min(0.99, seconds / state.seconds) if state.seconds and late is not again else 0.0
        reasons = list(dict.fromkeys(_guard(str(item.get("reason"))) for item in late if item.get("reason")))
        places = list(dict.fromkeys(place for item in late if (place := of_run.place_of(item)) is not None))
        spans = [spot(patient, place) for place in places[:3]]
        why = say(": {reason}", reason="; ".join(reasons[:2])[:160]) if reasons else ""
        broken = say(", and {breaks} graph breaks", breaks=len(breaks)) if breaks else ""
        yield of_run.seen_in_run(run, share, spans).finding(
            self,
            say(
                "{count} compilations{when} took {took}{share}{breaks}{where}{reason}.",
                count=len(late),
                took=duration(seconds),
                when=say(" after warm-up") if late is not again else say(" by one guard"),
                share=say(", {share} of the time", share=percent(share)) if late is not again else "",
                breaks=broken,
                where=of_run.at(spans),
                reason=why,
            ),
            name="recompile_share",
            severity=Severity.WARNING if again or run.worth(share) >= self.limit("share_warned") else Severity.NOTE,
            numbers=(run.measured("recompilations", len(late), "{times}"),),
        )


def _again(records: Iterable[Record]) -> list[Record]:
    """Those that one guard made, whatever its numbers, if they are more than a dynamic shape needs."""
    made = defaultdict(list)
    for item in records:
        if item.get("kind") == "recompile" and item.get("reason"):
            made[re.sub(r"\d+", "#", _guard(str(item.get("reason"))))].append(item)
    most = max(made.values(), key=len, default=[])
    return most if len(most) >= _ONE_GUARD else []


def _guard(reason: str) -> str:
    """The attribute or shape that made it compile again: `0/0: self.scale == 1.0  # line of code` and a stack."""
    return re.sub(r"^\d+/\d+: ", "", reason.splitlines()[0]).partition("  #")[0].strip()
