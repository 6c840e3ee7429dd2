"""Answers FAIL005: more shared memory, or another way of sharing."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class BusErrorRule(Rule):
    """More shared memory, or another way of sharing."""

    answers = Code("FAIL005")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        if finding.fact("small"):
            yield Remedy(
                id="FAIL005-shm",
                title="--shm-size=8g for the container",
                steps=(
                    "docker run --shm-size=8g ...   (or --ipc=host)",
                    "Kubernetes: an emptyDir volume with medium: Memory, mounted at /dev/shm",
                ),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.SETTING,
            )
        yield Remedy(
            id="FAIL005-files",
            title='torch.multiprocessing.set_sharing_strategy("file_system")',
            steps=('torch.multiprocessing.set_sharing_strategy("file_system")   # at the top of the script',),
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
        )
