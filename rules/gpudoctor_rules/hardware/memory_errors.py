"""Answers GPU003 memory-errors."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Code, Finding, Patient, Remedy, Rule
from gpudoctor_checks.hardware.memory_errors import MemoryErrorsDetail
from gpudoctor_rules.hardware import actions


class MemoryErrorsRule(Rule):
    """Reset or replacement by what the card's records say, and the other GPUs until then."""

    answers = Code("GPU003")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        action = finding.detail_of(MemoryErrorsDetail).action
        if action in {"reset", "replace"}:
            away = actions.leave_out(
                self.answers, finding, patient, say("{subject} has memory errors", subject=finding.subject)
            )
            if away is not None:
                yield away
        if action == "replace":
            yield actions.replace(self.answers, finding)
        elif action in {"reset", "reset-later"}:
            yield actions.reset(self.answers, finding, later=action == "reset-later")
        else:
            yield actions.inspect(
                self.answers,
                say("watch {gpu} and plan a replacement", gpu=finding.subject),
                say("nvidia-smi -q -d ECC,ROW_REMAPPER   # again after the next jobs: do the counts grow?"),
            )
