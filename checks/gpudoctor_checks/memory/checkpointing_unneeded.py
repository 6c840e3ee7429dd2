"""MEM008: gradient checkpointing is on, and the job fits without it."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.memory_forecasts import checkpoints_needlessly, confidence, describe, evidence, room_words
from gpudoctor.analysis.run.steady_run import judged
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads
from gpudoctor.text import size

_MUCH_MORE = 1.5
"""A measured peak this many times the estimated one: the estimate does not describe this job."""


class CheckpointingUnneeded(Check):
    """Gradient checkpointing recomputes activations that would fit into memory.

    What it finds:
        Gradient checkpointing that is on in a config or in training arguments although the job does not need
        it. The estimated peak without it fits the GPU, with the margin for a peak in the backward pass.
    Why it hurts:
        Every block's forward is computed twice: 20 to 30 % of the step, for memory that the job does not need.
    How it knows:
        The analytic estimate of the same job without checkpointing. It reports only if batch, length, types,
        optimizer and adapters are all given. A guess could lead to an out-of-memory error.
    False alarms:
        A GPU that is shared with other work; rows that are longer than the given length.
    Remedies:
        Turn it off, or keep it and use the memory for a larger batch.
    References:
        - https://arxiv.org/abs/1604.06174
    """

    code = "MEM008"
    reads = frozenset({Reads.CONFIG, Reads.SOURCE, Reads.RECORDING})

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = judged(patient)
        peaks = [item.peak or 0.0 for item in map(of_run.rank_memory, run.recording.ranks if run is not None else ())]
        for finding in self._suspected(patient):
            job = next(item for item in patient.memory if item.title == finding.subject)
            if job.unchecked is None or max(peaks, default=0.0) <= job.now.peak * _MUCH_MORE:
                yield finding  # a run that needs far more than the estimate says leaves no room to do without

    def _suspected(self, patient: Patient) -> Iterator[Finding]:
        for job in patient.memory:
            without = job.unchecked
            if without is None or not checkpoints_needlessly(job):
                continue
            yield self.finding(
                say(
                    "{job}: without gradient checkpointing it needs {peak}, and up to "
                    "{limit} fits with a margin in {room}; with it {checkpointed}.",
                    job=describe(job),
                    peak=size(without.peak),
                    limit=size(job.limit),
                    room=room_words(job),
                    checkpointed=size(job.now.peak),
                ),
                evidence=evidence(job, "checkpointing", "batch", "seq"),
                confidence=confidence(job),
                subject=job.title,
            )
