"""Answers LOOP006: logits for the loss."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.loop.double_softmax import DoubleSoftmaxDetail

_CROSS_ENTROPY = "https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html"
_LOG_SOFTMAX = "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.log_softmax.html"


class DoubleSoftmaxRule(Rule):
    """Take one of the two away."""

    answers = Code("LOOP006")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        detail = finding.detail_of(DoubleSoftmaxDetail)
        if detail.loss == "nll_loss":
            yield _log_probabilities(detail.how)
            return
        yield Remedy(
            id="LOOP006-logits",
            title=say("pass raw logits to {loss}", loss=detail.loss),
            steps=(
                "give it the logits",
                "If you need probabilities (metrics, inference), apply softmax or sigmoid there.",
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            references=(_CROSS_ENTROPY,),
        )


def _log_probabilities(how: str) -> Remedy:
    """Normalise over the classes, once."""
    over = say("dim=1 for (N, classes) and (N, classes, height, width), dim=-1 where the classes come last")
    return Remedy(
        id="LOOP006-log-probabilities",
        title=say("apply log_softmax over the classes")
        if how == "dimension"
        else say("use cross_entropy on the scores"),
        steps=(
            say("give log_softmax the dimension of the classes: {over}", over=over)
            if how == "dimension"
            else say("leave softmax out and call torch.nn.functional.cross_entropy: it is log_softmax and nll_loss"),
        ),
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
        references=(_LOG_SOFTMAX if how == "dimension" else _CROSS_ENTROPY,),
    )
