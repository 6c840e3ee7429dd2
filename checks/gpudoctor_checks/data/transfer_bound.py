"""DATA005 transfer-bound."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded, site_spans, sites_of
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Threshold, Trait, Whose
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import duration, percent


class TransferBound(Check):
    """Copying batches to the device takes a part of each step.

    What it finds:
        Copies from host to device that take 10 % of the step or more, by the device's clock.
    Why it hurts:
        Kernels wait for the copy they depend on. The link moves 10 to 60 GB/s; a batch of uncompressed images
        in float32 is hundreds of megabytes.
    How it knows:
        From a recording: pairs of events around the copies, which the probe polls and never waits for. Without
        them the host's clock cannot separate overlapped copies from blocking ones, so the check stays silent.
    False alarms:
        The first copy of the model is in the warm-up. Copies on a separate stream overlap with the kernels:
        only the time that the step's own stream waits is counted.
    Remedies:
        Copy smaller types and convert them on the device; use pinned memory; prefetch the next batch on a
        second stream.
    References:
        - https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html
        - https://github.com/traceopt-ai/traceml
    """

    code = "DATA005"
    traits = frozenset({Trait.INSIDE_PASSES})
    reads = frozenset({Reads.RECORDING})
    thresholds = (
        *Threshold.note_and_warning(
            "Copies of this share of a step are",
            noted=0.10,
            warned=0.20,
            source="TraceML 10 %",
            source_warned="TraceML 20 %",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient)
        if not any(state.known("device_transfer") for state in run.states):
            raise Unavailable(say("the recording has no device times"))
        share = run.share("device_transfer")
        severity = self.level(share)
        if severity is None:
            return
        spans = site_spans(patient, sites_of(run, "transfer")[:3])
        # Overlap hides copies behind the rest of the step; of more than that a smaller type takes half.
        yield of_run.seen_in_run(
            run, share, spans, whose=Whose.DEVICE, worth=min(share, max(1.0 - share, share / 2))
        ).finding(
            self,
            say(
                "Copies to the device take {share} of the step by the device's clock, {per_step} a step{at}.",
                share=percent(share),
                per_step=duration(run.per_step("device_transfer")),
                at=of_run.at(spans),
            ),
            name="device_transfer_share",
            severity=severity,
        )
