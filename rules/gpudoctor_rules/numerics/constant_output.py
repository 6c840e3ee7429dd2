"""Answers NUM010: find the layer that gives every sample the same."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class ConstantOutputRule(Rule):
    """Find the layer, then scale the input or lower the rate; give a softmax more than one score."""

    answers = Code("NUM010")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        if finding.fact("how") == "single":
            yield Remedy(
                id="NUM010-single",
                title="give the softmax several scores, or take the sigmoid of one",
                steps=(
                    "An output of one score: leave the softmax out and use binary_cross_entropy_with_logits.",
                    "Weights over the parts of a sample: softmax(scores, dim=1), the dimension of the parts.",
                ),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.ONE_LINE,
                references=("https://docs.pytorch.org/docs/stable/generated/torch.nn.Softmax.html",),
            )
            return
        later = int(str(finding.fact("since") or 0)) > 1
        cures = (
            "lower the learning rate, warm it up, clip the gradients: a step has killed the units"
            if later
            else "scale the inputs to mean 0 and deviation 1, and test the weights that were loaded"
        )
        yield Remedy(
            id="NUM010-layer",
            title="find the first layer whose output is the same for two samples",
            steps=(
                "for layer in model.modules(): layer.register_forward_hook(lambda layer, given, out:",
                "    print(type(layer).__name__, (out[0] - out[1]).abs().max().item()))   # one batch",
                cures,
                "LeakyReLU or GELU for ReLU; normalisation before it",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
            references=("https://arxiv.org/abs/1903.06733",),
        )
