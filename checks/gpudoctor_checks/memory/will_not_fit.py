"""MEM004: the job needs more memory than its GPU has."""

from collections.abc import Iterator

from gpudoctor.analysis.memory_forecasts import (
    UNSHARDED,
    bound,
    confidence,
    describe,
    evidence,
    sharding_is_asked,
    short_words,
    stage_that_fits,
)
from gpudoctor.lang import say
from gpudoctor.model import Check, Confidence, Cost, Finding, Patient, Reads, Resource, Severity
from gpudoctor.model.signs.memory import Holds, JobMemory


class WillNotFit(Check):
    """The job will run out of GPU memory.

    What it finds:
        A training config, or a script with its training arguments, that will not fit. The estimated peak is
        more than the GPU has after the CUDA context and the communicators. The GPU is the one named with
        `--gpu`, the one that the job script requests, or this machine's smallest.
    Why it hurts:
        The run dies with `CUDA out of memory`. It dies at once if the load or the first step is too large. It
        dies after hours at the longest batch or the first step with optimizer state.
    How it knows:
        The analytic estimate of `gpudoctor estimate`: weights, gradients, optimizer, activations and the loss,
        at the instant that needs most. For settings that are not given, it uses the smallest values (rows of
        256 tokens, one row, checkpointing, 16-bit weights). It reports only if no choice could fit. The finding
        is then suspected, and its message names the assumed values. A peak inside the margin for fragmentation
        ("uncertain") is not a finding here.
    False alarms:
        - Settings that the program changes at run time.
        - A model whose code differs from the published architecture of its name.
        - Layers frozen by code that gpudoctor cannot read.
    Remedies:
        Choose what fits, in order of cost:
        - adapters instead of full fine-tuning
        - gradient checkpointing
        - a chunked loss
        - an 8-bit optimizer
        - a smaller micro batch
        - a quantized base
        - sharding

        Each with the bytes that it saves. If no single change is enough, the remedy names the fewest that
        together are.
    References:
        - https://arxiv.org/abs/1910.02054
    """

    code = "MEM004"
    reads = frozenset({Reads.CONFIG, Reads.SOURCE, Reads.ENVIRONMENT})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        for job in patient.memory:
            if job.now.holds is Holds.NOT and not (sharding_is_asked(job) and stage_that_fits(job)):
                yield self._found(job)

    def _found(self, job: JobMemory) -> Finding:
        taken = bound(job)
        message = say(
            "{job}{taken}: {short_words}.",
            job=describe(job),
            taken=", " + taken if taken else "",
            short_words=short_words(job),
        )
        if UNSHARDED in job.guessed:
            message += say(" No file that was read shards it over several GPUs.")
        counted = "gpus" not in job.guessed
        return self.finding(
            message,
            severity=Severity.ERROR if counted else Severity.WARNING,
            evidence=evidence(job, "model", "batch", "seq", "checkpointing", "method", "dtype"),
            confidence=Confidence.SUSPECTED if UNSHARDED in job.guessed else confidence(job),
            cost=Cost(bytes=job.now.peak - job.room, breaks=say("it runs out of GPU memory") if counted else None),
            subject=job.title,
            scarce=Resource.DEVICE_MEMORY,
        )
