"""Answers DATA005: less to copy, earlier."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class TransferBoundRule(Rule):
    """Less to copy, earlier."""

    answers = Code("DATA005")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        yield Remedy(
            id="DATA005-smaller",
            title="copy bytes, convert on the device",
            steps=(
                "images as uint8: x.to(device, non_blocking=True).float().div_(255)   # a quarter of float32",
            ),
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
        )
        yield Remedy(
            id="DATA005-prefetch",
            title="copy the next batch on a stream of its own while this one is trained",
            steps=(
                "stream = torch.cuda.Stream(); with torch.cuda.stream(stream): next_x = next_x.to(device, "
                "non_blocking=True)",
                "torch.cuda.current_stream().wait_stream(stream) before it is used; pin_memory=True in the "
                "loader",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
        )
