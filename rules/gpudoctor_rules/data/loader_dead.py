"""Answers DATA010: see the worker's own error; less memory for each."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class LoaderDeadRule(Rule):
    """See the worker's own error; less memory for each."""

    answers = Code("DATA010")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        yield Remedy(
            id="DATA010-main",
            title="run it once with num_workers=0: the error then comes with its stack",
            steps=("DataLoader(..., num_workers=0)   # until the item that fails is found",),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
        )
        if finding.fact("hangs"):
            yield Remedy(
                id="DATA010-timeout",
                title="DataLoader(..., timeout=120): an error instead of a hang",
                steps=(
                    "DataLoader(..., timeout=120)",
                    "fork after threads were started (OpenCV, tokenizers, CUDA) hangs: "
                    "multiprocessing_context='spawn'",
                ),
                applicability=Applicability.SAFE,
                effort=Effort.ONE_LINE,
            )
            return
        yield Remedy(
            id="DATA010-memory",
            title="fewer workers, prefetch_factor=1",
            steps=("each worker keeps prefetch_factor batches; data sets as arrays, not as lists of objects",),
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
            uses=frozenset(),
        )
