"""Answers NUM004: let the gradient through."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class VanishingGradientsRule(Rule):
    """Let the gradient through."""

    answers = Code("NUM004")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        yield Remedy(
            id="NUM004-activations",
            title="ReLU or GELU instead of sigmoid and tanh, LayerNorm between the layers, residual "
            "connections",
            steps=(
                "x = x + block(norm(x))   # a residual connection hands the gradient on unchanged",
                "nn.init.kaiming_normal_ for ReLU, xavier_normal_ for tanh",
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.SMALL_EDIT,
            references=("https://arxiv.org/abs/1512.03385",),
        )
