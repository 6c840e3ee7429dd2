"""PERF007: a micro batch of so few tokens that the GPU waits for its weights, with memory to spare."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.memory_forecasts import FEW_TOKENS, confidence, describe, evidence, room_words, sure, tokens
from gpudoctor.analysis.observation import confirmed, suspicions
from gpudoctor.analysis.run.steady_run import judged
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.text import percent, size


class BatchTooSmall(Check):
    """The micro batch is too small to keep the GPU busy, and a larger one fits into its memory.

    What it finds:
        A job whose micro batch has fewer tokens than a GPU needs for its arithmetic peak. Twice the rows or
        more fit into its memory.
    Why it hurts:
        Below that number the step spends its time on reading weights and launching kernels. This costs the same
        for one row as for eight.
    How it knows:
        From configs and scripts: rows x tokens against the cards' ratio of arithmetic to memory bandwidth. The
        analytic estimate shows what fits. A note, since only a run shows how busy the GPU is. It reports only
        if batch, length, types, optimizer and adapters are all given. From a recording: the counted tokens of a
        backward pass. The card must be busy for less than 70 % of the time without another explanation. It must
        have room for twice as many.
    False alarms:
        Rows that are actually longer than the given length; a batch that is small on purpose.
    Remedies:
        Use a larger micro batch. If gradients are accumulated, lower accumulation by the same factor: the
        effective batch stays the same.
    References:
        - https://huggingface.co/docs/transformers/perf_train_gpu_one#batch-size-choice
    """

    code = "PERF007"
    reads = frozenset({Reads.RECORDING, Reads.ENVIRONMENT, Reads.CONFIG, Reads.SOURCE})
    severity = Severity.NOTE
    thresholds = (
        Threshold(
            "few_tokens", FEW_TOKENS, "{token}",
            "roofline: 156 (A100) to 295 (H100) operations a byte; near the peak from a few times that",
            "Tokens in a micro batch on one GPU; with fewer it waits for weights."
        ),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = judged(patient)
        if run is None or of_run.fullest(run) is None or not of_run.cards_in_use(run):
            yield from self._suspected(patient)
            return
        found = of_run.room(run)
        if found is None or found.tokens is None or found.factor < 2:
            return
        if found.tokens < self.limit("few_tokens"):
            yield confirmed(
                self,
                suspicions(lambda: self._suspected(patient), run),
                say(
                    "{tokens:,.0f} tokens at a time on one GPU. It is busy for {busy} of the time, "
                    "with {free} of its memory free{grows}.",
                    tokens=found.tokens,
                    busy=percent(found.busy),
                    free=percent(1 - found.share),
                    grows=of_run.grows(found),
                ),
                evidence=of_run.room_evidence(found, run),
                severity=Severity.NOTE,
                detail=of_run.room_detail(found),
            )

    def _suspected(self, patient: Patient) -> Iterator[Finding]:
        for job in patient.memory:
            few = tokens(job) < self.limit("few_tokens")
            if not (few and job.batches and sure(job) and "batch" in job.places):
                continue
            greatest = job.batches[-1]
            yield self.finding(
                say(
                    "{job}: {tokens:,} tokens at a time on one GPU; a micro batch of {batch} fits ({peak} of {room}).",
                    job=describe(job),
                    tokens=tokens(job),
                    batch=greatest.changes["batch"],
                    peak=size(greatest.peak),
                    room=room_words(job),
                ),
                evidence=evidence(job, "batch", "seq", "accumulate"),
                confidence=confidence(job),
                subject=job.title,
                detail=of_run.HeadroomDetail(),
            )
