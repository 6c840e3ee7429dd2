"""Answers FAIL003: look at labels and indices; run it blocking once."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class DeviceAssertRule(Rule):
    """Look at labels and indices; run it blocking once."""

    answers = Code("FAIL003")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        if finding.fact("cure"):
            cure = str(finding.fact("cure"))
            yield Remedy(
                id="FAIL003-outside",
                title=cure,
                steps=(cure,),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.ONE_LINE,
            )
        if finding.fact("assert"):
            yield Remedy(
                id="FAIL003-labels",
                title="test labels and indices before they reach the device",
                steps=(
                    "assert 0 <= labels.min() and labels.max() < num_classes   # on the CPU, before "
                    ".to(device)",
                    "assert input_ids.max() < model.get_input_embeddings().num_embeddings   # added "
                    "tokens, not resized",
                ),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.ONE_LINE,
            )
        yield Remedy(
            id="FAIL003-blocking",
            title="run the failing step with CUDA_LAUNCH_BLOCKING=1",
            steps=(
                "CUDA_LAUNCH_BLOCKING=1 python train.py ...   # the stack is then that of the guilty call; "
                "slow",
                "compute-sanitizer python train.py ...        # for illegal accesses in extensions of "
                "one's own",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.COMMAND,
        )
