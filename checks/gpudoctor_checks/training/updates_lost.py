"""TRAIN006: the steps are smaller than the spacing of half-precision weights."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import demanded, spots
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Cost, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.text import percent

_STEPS, _NEARLY_ALL = 40, 0.9
"""Steps in which a finer copy shows in the weights; share of unchanged elements that is an error."""


class UpdatesLost(Check):
    """Rounding swallows the updates of half-precision weights.

    What it finds:
        A run that trains bf16 or fp16 weights of which most elements stay bit for bit as they were.
    Why it hurts:
        Neighbours of a bf16 number lie 1/128 to 1/256 of it apart. A step of less than half of that changes
        nothing, however often it comes. The loss still falls a little, by the few elements that are small.
    How it knows:
        From a recording: the probe keeps some elements of the weights that have a gradient. Much later it looks
        whether they still are what they were.
    False alarms:
        An optimizer with a copy in float32, or with stochastic rounding, moves elements after some steps. Weights in
        float32 under autocast are not meant.
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
    judges = "parameters"
    thresholds = (
        Threshold(
            name="share",
            default=0.5,
            unit="1",
            source="convention: most of the elements",
            meaning="If this share of the elements does not move, it is a warning.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient, _STEPS)
        process = run.lead.process
        seen = of_run.stuck(process)
        share = float(seen.get("stuck")) if seen is not None else 0.0
        steps = int(seen.get("until")) - int(seen.get("since")) if seen is not None else 0
        if steps < _STEPS or share < self.limit("share"):
            return
        much = share >= _NEARLY_ALL
        yield confirmed(
            self,
            (),
            say(
                "After {steps} steps, {share} of the half-precision weights with a gradient are bit for bit what they "
                "were. The steps are smaller than half of what lies between two such numbers.",
                steps=steps,
                share=percent(share),
            ),
            evidence=(
                *spots(patient, *map(of_run.place_of, process.of("optimizer")[-1:])),
                run.measured("weights_unchanged", share),
            ),
            severity=Severity.ERROR if much else Severity.WARNING,
            cost=Cost(breaks=say("the weights hardly learn") if much else None),
        )
