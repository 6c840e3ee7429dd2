"""MEM007: the job uses a small part of its GPU's memory."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.memory_forecasts import (
    FEW_TOKENS,
    checkpoints_needlessly,
    confidence,
    describe,
    evidence,
    room_words,
    sure,
    tokens,
)
from gpudoctor.analysis.observation import confirmed, suspicions
from gpudoctor.analysis.run.steady_run import judged
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.text import percent, size


class HeadroomUnused(Check):
    """More than half of the GPU's memory is unused, and a larger batch would fit.

    What it finds:
        A job whose peak stays under half of its GPU. Twice the micro batch or more would fit.
    Why it hurts:
        Each step pays kernel launches, the optimizer and, on several GPUs, the gradient exchange for fewer rows
        than possible. The job loses throughput as long as the GPU is not fully busy.
    How it knows:
        From configs and scripts the analytic estimate; a note, since only a run shows whether the GPU is busy
        already. It reports only if batch, length, types, optimizer and adapters are all given. MEM008 reports
        instead if gradient checkpointing is unnecessary, and PERF007 if a step has few tokens. From a
        recording: the allocator's peak and the device's size. The card must be busy for less than 70 % of the
        time, with no other explanation. Gpudoctor assumes that the memory above the bytes allocated between
        steps grows with the batch.
    False alarms:
        A batch that is small on purpose: small data, or contrastive or reinforcement learning with a chosen
        batch. A GPU that several jobs share.
    Remedies:
        Use the next micro batch that fits, and lower accumulation by the same factor. If there is accumulation,
        nothing else changes. Otherwise check the learning rate again.
    References:
        - https://huggingface.co/docs/transformers/perf_train_gpu_one#batch-size-choice
    """

    code = "MEM007"
    reads = frozenset({Reads.RECORDING, Reads.ENVIRONMENT, Reads.CONFIG, Reads.SOURCE})
    severity = Severity.NOTE
    thresholds = (
        Threshold(
            "used_share", 0.5, "1",
            "catalogue MEM007: a peak under half of the device",
            "Estimated peak as a share of the GPU's memory; below this the rest counts as unused."
        ),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = judged(patient)
        rank = of_run.fullest(run) if run is not None else None
        if run is None or rank is None or not of_run.cards_in_use(run):
            if rank is None or of_run.used(rank) < self.limit("used_share"):
                yield from self._suspected(patient)
            return
        found = of_run.room(run)
        few = found is not None and found.tokens is not None and found.tokens < FEW_TOKENS
        if found is not None and found.share < self.limit("used_share") and not few:
            yield confirmed(
                self,
                suspicions(lambda: self._suspected(patient), run),
                say(
                    "The run's peak is {peak}, {share} of {device}, and the GPU is busy for {busy} of the time{grows}.",
                    peak=size(int(found.peak)),
                    share=percent(found.share),
                    device=size(int(found.device)),
                    busy=percent(found.busy),
                    grows=of_run.grows(found),
                ),
                evidence=of_run.room_evidence(found, run),
                severity=Severity.NOTE,
                detail=of_run.room_detail(found),
            )

    def _suspected(self, patient: Patient) -> Iterator[Finding]:
        for job in patient.memory:
            roomy = job.now.peak < self.limit("used_share") * job.device_bytes and bool(job.batches)
            told = checkpoints_needlessly(job) or tokens(job) < FEW_TOKENS  # MEM008 and PERF007
            if sure(job) and "batch" in job.places and roomy and not told:
                greatest, share = job.batches[-1], job.now.peak / job.device_bytes
                yield self.finding(
                    say(
                        "{job}: its peak of {peak} is {share} of {room}; a micro batch of {batch} fits "
                        "({larger_peak}).",
                        job=describe(job),
                        peak=size(job.now.peak),
                        share=percent(share),
                        room=room_words(job),
                        batch=greatest.changes["batch"],
                        larger_peak=size(greatest.peak),
                    ),
                    evidence=evidence(job, "batch", "seq", "accumulate"),
                    confidence=confidence(job),
                    subject=job.title,
                    detail=of_run.HeadroomDetail(),
                )
