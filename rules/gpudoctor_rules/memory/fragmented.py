"""Answers MEM006: expandable segments; stable shapes."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class FragmentedRule(Rule):
    """Expandable segments; stable shapes."""

    answers = Code("MEM006")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        yield Remedy(
            id="MEM006-segments",
            title="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            steps=("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",),
            applicability=Applicability.SAFE,
            effort=Effort.SETTING,
            sets=(("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),),
            references=(
                "https://pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf",
            ),
        )
        yield Remedy(
            id="MEM006-shapes",
            title="few different lengths: pad to a multiple of 64, the longest batch first",
            steps=(
                "pad_to_multiple_of=64 in the collator; one batch of the greatest length before the first step",
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.SMALL_EDIT,
        )
