"""GPU005 pcie-degraded."""

from collections.abc import Iterator

from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Finding,
    Measurement,
    Patient,
    Reads,
    Severity,
    Threshold,
    Unavailable,
)
from gpudoctor.model.devices import job_gpus
from gpudoctor.model.signs.gpu import Gpu, answering, list_gpus, name_gpus


class PcieDegraded(Check):
    """The PCIe link of a GPU runs with fewer lanes or at a lower speed than it could.

    What it finds:
        A link that is narrower than card and slot allow; under load also one of a lower generation.
    Why it hurts:
        Half the lanes is half the bandwidth of every copy between host and GPU, and of every collective that
        crosses PCIe. Batches, checkpoints and offloaded weights take twice as long.
    How it knows:
        NVML's current and largest link width. The generation is compared only while the GPU works.
    False alarms:
        An idle GPU drops to generation 1 by design: nothing is said about it then. Desktop boards that split
        16 lanes between two slots run at x8 on purpose: for a GeForce at half width this is a note.
    Remedies:
        Reseat the card, check riser and BIOS, or use another node.
    References:
        - https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html (nvmlDeviceGetCurrPcieLinkWidth)
        - https://github.com/tensorflow/tensor2tensor/issues/390
        - https://github.com/AlexeyAB/darknet/issues/2807 (a riser)
    """

    code = Code("GPU005")
    name = "pcie-degraded"
    reads = frozenset({Reads.ENVIRONMENT, Reads.RECORDING, Reads.PROCESS})
    thresholds = (
        Threshold(name="width_share", default=1.0, unit="1",
                  source="NVML reports the most that card and slot together can do",
                  meaning="A link below this share of its largest width is degraded."),
        Threshold(name="desk_width_share", default=0.5, unit="1",
                  source="desktop chipsets split x16 into two x8",
                  meaning="A desktop card at no less than this share is a note, below it a warning."),
        Threshold(name="load", default=0.5, unit="1",
                  source="idle GPUs drop to generation 1 (seen at P8 in nvidia-docker#1090)",
                  meaning="The generation is judged only when the GPU is at least so busy."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        gpus = tuple(gpu for gpu in job_gpus(patient) if not gpu.grace)
        if not gpus:
            raise Unavailable("the GPUs reach their host over NVLink-C2C, not PCIe")
        yield from self._width(gpus)
        yield from self._generation(gpus)

    def _width(self, gpus: tuple[Gpu, ...]) -> Iterator[Finding]:
        narrow: list[tuple[Gpu, int, int]] = []
        for gpu, width in answering(gpus, lambda gpu: gpu.pcie_width):
            most = gpu.pcie_width_max
            if isinstance(most, int) and 0 < width < most * self.limit("width_share"):
                narrow.append((gpu, width, most))
        if not narrow:
            return
        words = "; ".join(f"{gpu.label} runs at x{width} of x{most}" for gpu, width, most in narrow)
        by_design = all(
            not gpu.server_card and width >= most * self.limit("desk_width_share")
            for gpu, width, most in narrow
        )
        subject = name_gpus(gpu for gpu, _, _ in narrow)
        yield self.finding(
            f"The PCIe link is narrower than card and slot allow: {words}.",
            evidence=tuple(_proof(gpu, "width", width, most) for gpu, width, most in narrow),
            confidence=Confidence.CONFIRMED,
            severity=Severity.NOTE if by_design else Severity.WARNING,
            subject=subject,
            facts=(
                ("gpus", list_gpus(gpu for gpu, _, _ in narrow)),
                ("quantity", "width"),
                ("ratio", max(most / width for _, width, most in narrow)),
            ),
        )

    def _generation(self, gpus: tuple[Gpu, ...]) -> Iterator[Finding]:
        slow: list[tuple[Gpu, int, int]] = []
        for gpu in gpus:
            now, most, load = gpu.pcie_generation, gpu.pcie_generation_max, gpu.utilization
            if not isinstance(now, int) or not isinstance(most, int) or not isinstance(load, int | float):
                continue
            if load >= self.limit("load") and 0 < now < most:
                slow.append((gpu, now, most))
        if not slow:
            return
        words = "; ".join(f"{gpu.label} runs at generation {now} of {most}" for gpu, now, most in slow)
        subject = name_gpus(gpu for gpu, _, _ in slow)
        yield self.finding(
            f"The PCIe link is slower than card and slot allow while the GPU works: {words}.",
            evidence=tuple(_proof(gpu, "generation", now, most) for gpu, now, most in slow),
            confidence=Confidence.CONFIRMED,
            subject=subject,
            facts=(
                ("gpus", list_gpus(gpu for gpu, _, _ in slow)),
                ("quantity", "generation"),
                ("ratio", max(2.0 ** (most - now) for _, now, most in slow)),
            ),
        )


def _proof(gpu: Gpu, what: str, now: int, most: int) -> Measurement:
    query = {"width": "pcie.link.width", "generation": "pcie.link.gen"}[what]
    return Measurement(
        name=f"gpu{gpu.index}_pcie_{what}",
        value=f"{now} of {most}",
        unit="",
        reproduce=f"nvidia-smi -i {gpu.index} --query-gpu={query}.current,{query}.max --format=csv",
    )
