"""What helps against values that are not finite, wherever they were first seen."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Remedy


def remedies(code: Code, finding: Finding) -> Iterator[Remedy]:
    """By the finding's `cause` (`rate`, `range`, or an operation); then a replay of its `step`."""
    cause = str(finding.fact("cause"))
    if cause == "rate":
        yield Remedy(
            id=f"{code}-rate",
            title="a lower rate, warm-up, and clipping",
            steps=(
                "a third of the rate; warm-up over the first 1 % of the steps",
                "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)   # after backward, before step",
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.SMALL_EDIT,
        )
    elif cause == "range":
        yield Remedy(
            id=f"{code}-bf16",
            title="bf16 instead of fp16, or a GradScaler",
            steps=(
                "torch.autocast('cuda', dtype=torch.bfloat16)   # the range of float32; Ampere or later",
                "before Ampere: scaler = torch.amp.GradScaler('cuda'), around backward and step",
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.SMALL_EDIT,
        )
    else:
        yield Remedy(
            id=f"{code}-epsilon",
            title="keep the operation away from its edge",
            steps=(
                "x.clamp_min(1e-6).sqrt(), torch.log(x + 1e-6), a / (b + 1e-6); log_softmax, logsumexp "
                "for exp and log",
                "the derivative of sqrt is infinite at 0 even where its value is fine; where() does "
                "not help after it",
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
        )
    step = finding.fact("step")
    yield Remedy(
        id=f"{code}-replay",
        title=f"replay step {step} in anomaly mode to see the operation",
        steps=(
            "with torch.autograd.detect_anomaly():   # around forward and backward of that step only",
            "    loss = ...; loss.backward()         # its error names the forward operation",
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
        references=("https://pytorch.org/docs/stable/autograd.html#anomaly-detection",),
    )
