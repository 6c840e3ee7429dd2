"""Answers NUM003: clip, and go slower."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class ExplodingGradientsRule(Rule):
    """Clip, and go slower."""

    answers = Code("NUM003")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        yield Remedy(
            id="NUM003-clip",
            title="clip_grad_norm_(model.parameters(), 1.0) after backward",
            steps=(
                "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)   # after backward, before "
                "optimizer.step()",
                "with a GradScaler: scaler.unscale_(optimizer) before it",
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            references=("https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html",),
        )
        yield Remedy(
            id="NUM003-rate",
            title="a third of the rate, and a warm-up",
            steps=("a third of the rate; warm-up over the first 1 % of the steps",),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
        )
