"""Answers MEM002: by the kind of leak."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Code, Finding, LeakDetail, LeakKind, Patient, Remedy, Rule
from gpudoctor_rules.memory import retained


class HostMemoryLeakRule(Rule):
    """By the kind of leak."""

    answers = Code("MEM002")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        if finding.detail_of(LeakDetail).kind in (LeakKind.WORKERS, LeakKind.PROFILER):
            return
        yield from retained.remedies(
            self.answers,
            say("tracemalloc, or gc.get_objects() counted by type between two epochs, shows what keeps it"),
            finding,
        )
