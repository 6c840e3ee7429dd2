"""CFG004: a ZeRO stage or an offload beyond what the job needs, or short of it."""

from collections.abc import Iterator

from gpudoctor.analysis.memory_forecasts import (
    change_words,
    confidence,
    describe,
    evidence,
    layout_cost,
    room_words,
    sharding_is_asked,
    short_words,
    stage_that_fits,
    sure,
)
from gpudoctor.lang import say
from gpudoctor.model import Check, Cost, Finding, Patient, Reads, Resource, Severity
from gpudoctor.model.signs.memory import Choice, Holds
from gpudoctor.text import size


class ZeroStageMisfit(Check):
    """The ZeRO stage or the offload does not suit the job's size.

    What it finds:
        - A DeepSpeed config with stage 3 or an offload if a setting with less communication also fits with its
          margin.
        - A stage that is too low for the job to fit, while a higher stage or an offload fits.
    Why it hurts:
        Stage 3 gathers every weight twice a step, half as much traffic again as stages 1 and 2. An offload
        moves gradients and states over PCIe at every step and computes the update on the CPU. Too low a stage
        runs out of memory.
    How it knows:
        The analytic estimate of the same job under each stage, with and without offload. The launch line, the
        scheduler or `--gpus` gives the number of GPUs. It reports "more than needed" only if batch, length,
        types and optimizer are all given. It reports "less than needed" also if the job fails with the smallest
        possible values.
    False alarms:
        An offload kept on purpose, to leave the GPU to something else; links between nodes so slow that they
        dominate.
    Remedies:
        The fastest stage that fits, with the bytes that it needs.
    References:
        - https://www.deepspeed.ai/docs/config-json/#zero-optimizations-for-fp16-training
        - https://arxiv.org/abs/1910.02054
    """

    code = "CFG004"
    reads = frozenset({Reads.CONFIG, Reads.ENVIRONMENT})

    def examine(self, patient: Patient) -> Iterator[Finding]:
        for job in patient.memory:
            better = stage_that_fits(job) if sharding_is_asked(job) else None
            if better is None:
                continue
            present: dict[str, Choice] = {name: job.values[name] for name in ("parallel", "offload")}
            short = job.now.holds is Holds.NOT
            if not short and not (sure(job) and layout_cost(present) > layout_cost(better)):
                continue
            if short:
                message = say(
                    "{job} under {setting}: {shortage}; {fitting} fits.",
                    job=describe(job),
                    setting=change_words(present),
                    shortage=short_words(job),
                    fitting=change_words(better),
                )
            else:
                projected = job.projected(**better)
                message = say(
                    "{job}: {setting} needs {peak}; {fitting} fits{needs} in {room} and moves less.",
                    job=describe(job),
                    setting=change_words(present),
                    peak=size(job.now.peak),
                    fitting=change_words(better),
                    needs=say(" with {peak}", peak=size(projected.peak)) if projected is not None else "",
                    room=room_words(job),
                )
            breaks = Cost(bytes=job.now.peak - job.room, breaks=say("it runs out of GPU memory"))
            yield self.finding(
                message,
                evidence=evidence(job, "parallel", "offload", "batch", "seq"),
                confidence=confidence(job),
                severity=Severity.ERROR if short else Severity.WARNING,
                cost=breaks if short else None,
                subject=job.title,
                scarce=Resource.DEVICE_MEMORY if short else None,
            )
