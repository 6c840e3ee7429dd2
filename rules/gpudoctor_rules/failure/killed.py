"""Answers FAIL002: memory, time, or the one who sent it."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class KilledRule(Rule):
    """Memory, time, or the one who sent it."""

    answers = Code("FAIL002")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        if finding.fact("memory"):
            yield Remedy(
                id="FAIL002-memory",
                title="less host memory, or more of it",
                steps=(
                    "fewer loader workers, or prefetch_factor=1: each worker keeps its own batches",
                    "data sets memory-mapped (numpy.load(..., mmap_mode='r')) instead of lists of Python "
                    "objects",
                    "Slurm: --mem; Kubernetes: resources.limits.memory; Docker: --memory",
                ),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.SETTING,
            )
            return
        yield Remedy(
            id="FAIL002-limit",
            title="find who sent it: a time limit, a preemption, a script",
            steps=(
                "Slurm: sacct -j JOBID -o state,exitcode,elapsed,timelimit; ask for a signal before it: "
                "--signal=B:USR1@120",
                "save a checkpoint on that signal, and resume from it",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
        )
