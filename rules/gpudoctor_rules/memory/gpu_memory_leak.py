"""Answers MEM001: let go of what each step leaves behind."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Code, Finding, Patient, Remedy, Rule
from gpudoctor_rules.memory import retained


class GpuMemoryLeakRule(Rule):
    """Let go of what each step leaves behind."""

    answers = Code("MEM001")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        yield from retained.remedies(
            self.answers,
            say(
                "torch.cuda.memory._record_memory_history(); "
                "torch.cuda.memory._dump_snapshot('mem.pickle')   # what keeps it"
            ),
            finding,
        )
