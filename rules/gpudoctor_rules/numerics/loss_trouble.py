"""Answers NUM007: slower, or a look at one batch."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class LossTroubleRule(Rule):
    """Slower, or a look at one batch."""

    answers = Code("NUM007")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        if finding.fact("kind") == "stalled":
            yield Remedy(
                id="NUM007-overfit",
                title="train on one batch: a model that cannot learn 16 samples by heart has a bug",
                steps=(
                    "batch = next(iter(loader)); for step in range(1000): ...the step on this batch...",
                    "if it learns: a higher rate, or data whose labels say nothing; if not: the loss, the "
                    "optimizer's "
                    "parameters, a detach",
                ),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.SMALL_EDIT,
                references=("https://karpathy.github.io/2019/04/25/recipe/",),
            )
            return
        yield Remedy(
            id="NUM007-rate",
            title="a third of the rate, warm-up, clipping",
            steps=(
                "a third of the rate; warm-up over the first 1 % of the steps",
                "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)   # after backward, before step",
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
        )
