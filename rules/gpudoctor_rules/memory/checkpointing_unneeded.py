"""Answers MEM008: gradient checkpointing off."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effect, EffectOrigin, Effort, Finding, Patient, Remedy, Resource, Rule
from gpudoctor_rules.memory.fields import answer, edits, job_of


class CheckpointingUnneededRule(Rule):
    """Keep the activations: the same numbers without the second forward."""

    answers = Code("MEM008")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        job = job_of(finding, patient)
        made = edits(job, {"checkpointing": "none"}, patient)
        line = answer(job, "checkpointing", "none", patient)
        yield Remedy(
            id="MEM008-off",
            title=line,
            steps=(line,),
            # the same numbers, but an estimate alone does not risk somebody's run
            applicability=Applicability.UNSAFE if made else Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
            effect=Effect(quantity="throughput", low=1.2, high=1.33, unit="x", provenance=EffectOrigin.PUBLISHED),
            sets=(("gradient_checkpointing", "False"),),
            uses=frozenset({Resource.DEVICE_MEMORY}),
            edits=made,
            references=("https://huggingface.co/docs/transformers/perf_train_gpu_one#gradient-checkpointing",),
        )
