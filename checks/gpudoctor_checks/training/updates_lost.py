"""TRAIN006: the steps are smaller than the spacing of half-precision weights."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded
from gpudoctor.analysis.run.training import told
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity
from gpudoctor.text import percent

_STEPS, _MOST, _NEARLY_ALL = 40, 0.5, 0.9
"""Steps in which a finer copy shows in the weights; shares of unchanged elements that are a warning, and an error."""


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

    def examine(self, patient: Patient) -> Iterator[Finding]:
        process = demanded(patient, _STEPS).lead.process
        share, steps = of_run.stuck(process) or (0.0, 0)
        if steps < _STEPS or share < _MOST:
            return
        text = say(
            "After {steps} steps, {share} of the half-precision weights with a gradient are bit for bit what they "
            "were. The steps are smaller than half of what lies between two such numbers.",
            steps=steps,
            share=percent(share),
        )
        breaks = say("the weights hardly learn") if share >= _NEARLY_ALL else ""
        places = map(of_run.place_of, process.of("optimizer")[-1:])
        yield told(self, patient, "unchanged", text, share, *places, breaks=breaks)
