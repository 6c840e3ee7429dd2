"""Answers GPU012 persistence-off."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class PersistenceOffRule(Rule):
    """The daemon, which survives a reboot."""

    answers = Code("GPU012")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        yield Remedy(
            id=f"{self.answers}-daemon",
            title="start nvidia-persistenced",
            steps=(
                "sudo systemctl enable --now nvidia-persistenced",
                "If there is no such service: sudo nvidia-smi -pm 1   # until the next reboot",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.ADMINISTRATOR,
            references=("https://docs.nvidia.com/deploy/driver-persistence/index.html",),
        )
