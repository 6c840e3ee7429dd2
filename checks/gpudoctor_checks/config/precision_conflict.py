"""CFG001: mixed precision is declared twice, and the two disagree."""

from collections.abc import Iterator

from gpudoctor.analysis.source.config_links import links
from gpudoctor.model import Check, Finding, Patient, Reads, Severity
from gpudoctor_checks.config.conflicts import conflicts
from gpudoctor_checks.config.disagreement import PRECISION, mismatch_finding, mismatches


class PrecisionConflict(Check):
    """Mixed precision is declared in two places that disagree.

    What it finds:
        - `fp16` and `bf16` both on in one set of training arguments or one DeepSpeed config.
        - DeepSpeed's fp16 or bf16 against the training arguments'.
        - `mixed_precision` in an accelerate config that also names a DeepSpeed file.
        - A model loaded in one half precision and trained in the other.
    Why it hurts:
        Most of these stop the run when it starts. The others scale the loss twice, or train in an unintended
        precision. Gradients in fp16 without a scaler underflow to zero.
    How it knows:
        It reads the switches of all linked files and the arguments of the calls in the script. "auto" is
        resolved to the training arguments. What the readers of these files refuse is an error; the rest is a
        warning.
    False alarms:
        A wrapper that rewrites one of the files before the run.
    Remedies:
        Keep one: bf16 on cards that have it (Ampere and later), and "auto" in the DeepSpeed config.
    References:
        - https://huggingface.co/docs/transformers/deepspeed
        - https://www.deepspeed.ai/docs/config-json/#fp16-training-options
    """

    code = "CFG001"
    reads = frozenset({Reads.CONFIG, Reads.SOURCE})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        yield from conflicts(self, patient)
        for link in links(patient):
            if link.arguments.on("fp16") and link.arguments.on("bf16"):
                continue  # said already
            both = sorted(mismatches(link, PRECISION), key=lambda item: not item.engine.on)
            if both:  # fp16 here and bf16 there is one conflict
                yield mismatch_finding(self, *both)
