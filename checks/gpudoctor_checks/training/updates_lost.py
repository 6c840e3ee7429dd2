"""TRAIN006: the steps are smaller than the spacing of half-precision weights."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import demanded, spots
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Cost, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.text import percent


class UpdatesLost(Check):
    """Rounding swallows the updates of half-precision weights.

    What it finds:
        A run that trains bf16 or fp16 weights, whose steps leave most elements bit for bit as they were.
    Why it hurts:
        Neighbours of a bf16 number lie 1/128 to 1/256 of it apart. A step of less than half of that changes
        nothing, however often it comes. The loss still falls a little, by the few elements that are small.
    How it knows:
        From a recording: the probe compares elements of the weights that have a gradient before and after a
        step. It also keeps some, and looks much later whether they still are what they were.
    False alarms:
        An optimizer with a copy in float32, or with stochastic rounding, moves elements after some steps. So both
        shares must be large. Weights in float32 under autocast are not meant.
    Remedies:
        Keep the trained weights in float32 and let autocast do the rest, or use an optimizer with float32 copies.
    References:
        - https://arxiv.org/abs/2010.06192
        - https://docs.pytorch.org/docs/stable/amp.html
    """

    code = Code("TRAIN006")
    name = "updates-lost"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="share",
            default=0.5,
            unit="1",
            source="convention: most of the elements",
            meaning="If this share of the elements does not move, it is a warning.",
        ),
        Threshold(
            name="share_error",
            default=0.95,
            unit="1",
            source="convention: what moves is the exception",
            meaning="This share of the elements or more is an error.",
        ),
        Threshold(
            name="steps",
            default=40,
            unit="{steps}",
            source="convention: a copy in float32 shows in the weight after some steps",
            meaning="Elements that were kept for fewer steps are not judged.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient, self.limit("steps"))
        process = run.lead.process
        seen = of_run.lost_updates(process)
        if seen is None or seen.get("stuck") is None:
            return
        lost, stuck = float(seen.get("lost")), float(seen.get("stuck"))
        steps = int(seen.get("until") or 0) - int(seen.get("since") or 0)
        if min(lost, stuck) < self.limit("share") or steps < self.limit("steps"):
            return
        made = process.of("optimizer")[-1:]
        much = min(lost, stuck) >= self.limit("share_error")
        yield confirmed(
            self,
            (),
            say(
                "A step changes {moved} of the half-precision weights that have a gradient. After {steps} steps, "
                "{stuck} of them are bit for bit what they were.",
                moved=percent(1 - lost),
                steps=steps,
                stuck=percent(stuck),
            ),
            evidence=(
                *spots(patient, *map(of_run.place_of, made)),
                run.measured("updates_lost", lost),
                run.measured("weights_unchanged", stuck),
            ),
            severity=Severity.ERROR if much else Severity.WARNING,
            cost=Cost(breaks=say("the weights hardly learn") if much else None),
        )
