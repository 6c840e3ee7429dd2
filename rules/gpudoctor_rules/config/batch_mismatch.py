"""Answers CFG002: one place for the batch size."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.config.batch_mismatch import BatchMismatchDetail
from gpudoctor_rules.config.placing import auto_remedy, settings


class BatchMismatchRule(Rule):
    """Let DeepSpeed take the batch size from the training arguments, or compute it."""

    answers = Code("CFG002")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        cure = finding.detail_of(BatchMismatchDetail).cure
        items = [item for _, item in settings(finding, patient)]
        if cure == "auto" and items:
            yield auto_remedy(finding, patient, items[0].key)
        elif cure == "drop":
            yield Remedy(
                id="CFG002-drop",
                title="drop train_batch_size; DeepSpeed computes it from the other two and the ranks",
                steps=(
                    "remove train_batch_size from the DeepSpeed config, or set it to "
                    "train_micro_batch_size_per_gpu x gradient_accumulation_steps x ranks",
                ),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.SETTING,
            )
        else:
            yield Remedy(
                id="CFG002-one",
                title="keep one of the two",
                steps=(say("remove one of the two settings: {settings}", settings=", ".join(_names(finding))),),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.SETTING,
            )


def _names(finding: Finding) -> list[str]:
    return [f"{getattr(item, 'key', '') or getattr(item, 'text', '')}" for item in finding.evidence[:2]]
