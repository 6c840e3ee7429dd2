"""PERF005 optimizer-unfused."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded, spot
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Severity, Threshold, Whose
from gpudoctor.model.cuda import numbers
from gpudoctor.text import percent


class OptimizerUnfused(Check):
    """The optimizer updates one parameter after the other, with several launches for each.

    What it finds:
        An optimizer with `foreach=False` and without `fused=True`.
    Why it hurts:
        Adam needs about ten small kernels for each parameter tensor. A network of 300 tensors needs 3,000
        launches of some microseconds each in every step. The foreach form does them in a few launches for all
        tensors together, the fused form in one pass.
    How it knows:
        From a recording: the optimizer's settings and its share of the step. torch.optim's default on CUDA is
        the foreach form since 2.0: that is not a finding, nor is a CPU's default.
    False alarms:
        - Large tensors hide the launches.
        - Foreach needs memory of the parameters' size for its temporaries, which may be why it was turned off.
    Remedies:
        Set fused=True if torch has it, else use the default (foreach).
    References:
        - https://pytorch.org/docs/stable/optim.html#algorithms
    """

    code = "PERF005"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.NOTE
    thresholds = (
        Threshold(
            "share_noted",
            0.05,
            "1",
            "convention: a twentieth of a step is worth a note",
            "An optimizer that takes less of a recorded run is fast enough.",
        ),
        Threshold(
            "share_warned",
            0.15,
            "1",
            "a fused step takes 2 to 5 % of a common one",
            "An optimizer that takes this share is a warning.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient)
        process, share = run.lead.process, run.share("optimizer")
        slow = [item for item in process.of("optimizer") if item.get("foreach") is False and not item.get("fused")]
        # Fused optimizers for the CPU came with torch 2.4.
        version = numbers(str(of_run.torch_fact(process, "version") or ""))[:2]
        old = not of_run.on_gpu(process) and version < (2, 4)
        if not slow or old or share < self.limit("share_noted"):
            return
        spans = [spot(patient, place) for item in slow if (place := of_run.place_of(item)) is not None]
        yield of_run.seen_in_run(
            run, share, spans, whose=Whose.DEVICE, worth=run.worth_with(share, "device_optimizer")
        ).finding(
            self,
            say(
                "The optimizer takes {share} of the time and updates the parameters one by one{where}.",
                share=percent(share),
                where=of_run.at(spans),
            ),
            name="optimizer_share",
            severity=Severity.WARNING if share >= self.limit("share_warned") else Severity.NOTE,
        )
