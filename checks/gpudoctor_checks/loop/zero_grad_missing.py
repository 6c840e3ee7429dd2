"""LOOP001: gradients are never cleared between optimizer steps."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import demanded, spots
from gpudoctor.lang import say
from gpudoctor.model import Check, Cost, Finding, Patient, Reads, Severity, Threshold


class ZeroGradMissing(Check):
    """Gradients are never cleared between optimizer steps.

    What it finds:
        In a recording: training steps whose first backward pass finds the gradients that the last optimizer
        step used.
    Why it hurts:
        `backward()` adds to `.grad`. Without clearing, each update uses the sum of the gradients of all steps
        so far. It grows with the run, and the loss plateaus or diverges. No error is raised.
    How it knows:
        From a recording: the recorder compares the gradients after an optimizer step with those that the next
        backward pass finds.
    False alarms:
        Gradient accumulation (cleared where the optimizer steps) is not a finding.
    Remedies:
        Call `optimizer.zero_grad()` right after each `optimizer.step()`.
    References:
        - https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html
    """

    code = "LOOP001"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.ERROR
    thresholds = (
        Threshold(
            "cycles",
            20,
            "{steps}",
            "convention: correctness counts in events; two accumulations of eight and a rest",
            "Fewer examined optimizer steps in a recording are not judged.",
        ),
        Threshold(
            "uncleared_share",
            0.8,
            "1",
            "convention: a loop that clears now and then accumulates on purpose",
            "This share of the cycles must begin with used gradients.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient, 1)
        readings = of_run.numerics(run.lead.process, "uncleared")
        looked = int(readings[-1].get("steps") or 0) if readings else 0
        found = int(readings[-1].get("found") or 0) if readings else 0
        if looked < self.limit("cycles") or found < self.limit("uncleared_share") * looked:
            return
        yield confirmed(
            self,
            (),
            say(
                "In {found} of {looked} steps the first backward pass found the gradients that the last optimizer step "
                "had used. The program never clears them, and each step uses the sum of all earlier ones.",
                found=found,
                looked=looked,
            ),
            evidence=(
                *spots(patient, of_run.place_of(readings[-1])),
                run.measured("uncleared_cycles", found, "{steps}"),
            ),
            severity=Severity.ERROR,
            cost=Cost(breaks=say("each update uses the sum of all gradients so far")),
        )
