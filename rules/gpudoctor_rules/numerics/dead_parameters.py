"""Answers NUM005: use them, or freeze them."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.numerics.dead_parameters import DeadParametersDetail


class DeadParametersRule(Rule):
    """Use them, or freeze them."""

    answers = Code("NUM005")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        detail = finding.detail_of(DeadParametersDetail)
        if called := detail.module:
            yield from _called_without(called)
            return
        name = detail.parameter
        module = name.rpartition(".")[0] or name
        yield Remedy(
            id="NUM005-use",
            title=f"let the gradient reach {module}",
            steps=(
                f"look at how forward uses {module}: a detach(), a no_grad() block, an argmax or a branch "
                "never taken",
                "hard choices: torch.nn.functional.gumbel_softmax(logits, hard=True) instead of argmax",
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.SMALL_EDIT,
        )
        yield Remedy(
            id="NUM005-freeze",
            title=f"freeze {module}, if it is meant to stay as it is",
            steps=(
                f"model.{module}.requires_grad_(False)   # before the optimizer is made",
                "optimizer = ...(p for p in model.parameters() if p.requires_grad)",
            ),
            applicability=Applicability.SAFE,
            effort=Effort.SMALL_EDIT,
        )


def _called_without(module: str) -> Iterator[Remedy]:
    """For a module that runs under no_grad() and is in the optimizer."""
    yield Remedy(
        id="NUM005-grad",
        title=f"Call {module} with gradients",
        steps=(f"Move the call of {module} out of torch.no_grad(), if it is meant to be trained.",),
        applicability=Applicability.UNSAFE,
        effort=Effort.SMALL_EDIT,
    )
    yield Remedy(
        id="NUM005-leave-out",
        title=f"Leave {module} out of the optimizer, if it is meant to stay as it is",
        steps=(
            "Call requires_grad_(False) on it before the optimizer is made.",
            "optimizer = ...(p for p in model.parameters() if p.requires_grad)",
        ),
        applicability=Applicability.SAFE,
        effort=Effort.SMALL_EDIT,
    )
