"""GPU011 hot."""

from collections.abc import Iterator

from gpudoctor.model import (
    Absent,
    Check,
    Code,
    Confidence,
    Finding,
    Measurement,
    Patient,
    Reads,
    Threshold,
    Unavailable,
)
from gpudoctor.model.devices import job_gpus
from gpudoctor.model.signs.gpu import Gpu, list_gpus, name_gpus


class Hot(Check):
    """A GPU or its memory is at the temperature where it slows down.

    What it finds:
        A GPU within 5 °C of the temperature at which it slows down, or above its highest operating
        temperature; memory (HBM) above its own.
    Why it hurts:
        From there on the card lowers its clocks, in steps that come and go: a slow rank for all the others.
        Heat that lasts also wears memory and links.
    How it knows:
        NVML's thermal margin where the card has one, else the temperature beside the slowdown threshold.
    False alarms:
        A margin of zero or less is not believed (some H100 report one while cold): the thresholds decide
        then. A card that has just finished a job cools down within a minute.
    Remedies:
        Air flow, fans, dust, room; a lower power limit until then; another node.
    References:
        - https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html (temperature thresholds)
        - https://github.com/NVIDIA/DCGM
        - https://github.com/leptonai/gpud (margin on H100)
    """

    code = Code("GPU011")
    name = "hot"
    reads = frozenset({Reads.ENVIRONMENT, Reads.RECORDING, Reads.PROCESS})
    thresholds = (
        Threshold(name="margin", default=5.0, unit="Cel",
                  source="leptonai/gpud judges by the margin; 5 °C are a load peak or a warm day",
                  meaning="Less than so far from the slowdown is hot."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        gpus = job_gpus(patient)
        if all(
            isinstance(gpu.temperature, Absent) and isinstance(gpu.temperature_memory, Absent) for gpu in gpus
        ):
            raise Unavailable("the cards tell no temperature")
        hot = [(gpu, words) for gpu in gpus if (words := self._verdict(gpu))]
        if not hot:
            return
        subject = name_gpus(gpu for gpu, _ in hot)
        yield self.finding(
            "; ".join(f"{gpu.label}: {', '.join(words)}" for gpu, words in hot) + ".",
            evidence=tuple(
                Measurement(
                    name=f"gpu{gpu.index}_temperature",
                    value=gpu.temperature if isinstance(gpu.temperature, int | float) else ", ".join(words),
                    unit="Cel" if isinstance(gpu.temperature, int | float) else "",
                    reproduce=f"nvidia-smi -q -d TEMPERATURE -i {gpu.index}",
                )
                for gpu, words in hot
            ),
            confidence=Confidence.CONFIRMED,
            subject=subject,
            facts=(("gpus", list_gpus(gpu for gpu, _ in hot)),),
        )

    def _verdict(self, gpu: Gpu) -> list[str]:
        words = []
        core = gpu.temperature
        if isinstance(core, int | float):
            most = gpu.temperature_max
            margin = _margin(gpu, float(core))
            if isinstance(most, int | float) and 0 < most < core:
                words.append(f"{core:.0f} °C, above its operating maximum of {most:.0f} °C")
            elif margin is not None and margin < self.limit("margin"):
                words.append(f"{core:.0f} °C, {max(margin, 0):.0f} °C below its slowdown")
        memory, most = gpu.temperature_memory, gpu.temperature_memory_max
        if isinstance(memory, int | float) and isinstance(most, int | float) and 0 < most < memory:
            words.append(f"memory {memory:.0f} °C, above its maximum of {most:.0f} °C")
        return words


def _margin(gpu: Gpu, core: float) -> float | None:
    """Degrees to the slowdown: the card's own margin where it can be believed, else the threshold's."""
    if isinstance(gpu.temperature_margin, int | float) and gpu.temperature_margin > 0:
        return float(gpu.temperature_margin)
    slowdown = gpu.temperature_slowdown
    return slowdown - core if isinstance(slowdown, int | float) and slowdown > 0 else None
