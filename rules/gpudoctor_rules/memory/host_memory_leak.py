"""Answers MEM002: by the kind of leak."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, LeakDetail, LeakKind, Patient, Remedy, Rule
from gpudoctor_rules.memory import retained


class HostMemoryLeakRule(Rule):
    """By the kind of leak."""

    answers = Code("MEM002")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        kind = finding.detail_of(LeakDetail).kind
        if kind is LeakKind.WORKERS:
            yield Remedy(
                id="MEM002-arrays",
                title="arrays instead of lists of Python objects in the data set",
                steps=(
                    "self.paths = numpy.array(paths)   # one object: workers share its pages and write to "
                    "none of them",
                    "or multiprocessing.Manager().list, pyarrow, torch tensors; fork copies a page at its "
                    "first reference",
                ),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.SMALL_EDIT,
                references=("https://github.com/pytorch/pytorch/issues/13246",),
            )
            return
        if kind is LeakKind.PROFILER:
            yield Remedy(
                id="MEM002-schedule",
                title="a profiler schedule that ends (repeat=1)",
                steps=("schedule=torch.profiler.schedule(wait=1, warmup=1, active=5, repeat=1)",),
                applicability=Applicability.SAFE,
                effort=Effort.ONE_LINE,
            )
            return
        yield from retained.remedies(
            self.answers,
            "tracemalloc, or gc.get_objects() counted by type between two epochs, shows what keeps it",
            finding,
            patient,
        )
