"""DIST007 find-unused."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import demanded, spots
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Severity


class FindUnused(Check):
    """DistributedDataParallel searches for unused parameters in each step, but all are used.

    What it finds:
        A recorded run with `find_unused_parameters=True`, in which every parameter got a gradient.
    Why it hurts:
        After each forward pass DDP searches the whole autograd graph for parameters without gradient. The first
        reduction waits until it is done. That costs some percent of a step, more with many small layers.
    How it knows:
        From a recording: torch's own record of the wrapped model. It has the setting, and whether a parameter was
        unused.
    False alarms:
        A branch of the network that no recorded step took.
    Remedies:
        Remove find_unused_parameters; for graphs that never change, set static_graph=True.
    References:
        - https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
        - https://pytorch.org/docs/stable/notes/ddp.html#internal-design
    """

    code = "DIST007"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.NOTE

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient)
        process = run.lead.process
        if of_run.torch_fact(process, "find_unused") is not True or of_run.torch_fact(process, "unused") is not False:
            return
        model = of_run.wrapped(process, "DDP")
        where = of_run.place_of(model) if model is not None else None
        yield confirmed(
            self,
            (),
            say(
                "find_unused_parameters is on, but all parameters were used in {steps} steps: each step searches the "
                "whole graph for nothing.",
                steps=run.lead.steps,
            ),
            evidence=(*spots(patient, where), run.measured("steps", run.lead.steps, "{steps}")),
            severity=Severity.NOTE,
        )
