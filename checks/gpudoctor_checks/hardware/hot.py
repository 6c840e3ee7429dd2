"""GPU011 hot."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpudoctor.analysis.run.recorded_gpus import SampledGpu, cards, numbers_here, readings
from gpudoctor.analysis.run.steady_run import measured, recorded
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Code, Confidence, Finding, Patient, Reads, Threshold
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.job_devices import CardsDetail, job_gpus
from gpudoctor.model.signs.gpu import Gpu, list_gpus, name_gpus
from gpudoctor.model.signs.recording import Recording
from gpudoctor.model.unavailable import Absent, Unavailable
from gpudoctor.text import percent


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTemperature:
    """Temperatures of one GPU in steady state, degrees Celsius, a sample each."""

    card: SampledGpu
    core: tuple[float, ...]
    margins: tuple[float, ...]
    """What the card says is left until its slowdown."""
    memory: tuple[float, ...]

    @property
    def highest(self) -> float | None:
        """The highest temperature of the GPU; None where it tells none."""
        return max(self.core, default=None)

    def above(self) -> float:
        """Share of the samples in which the GPU was above its operating maximum."""
        return _above(self.core, self.card.fact("temperature_max"))

    def nearer_than(self, degrees: float) -> tuple[float, float] | None:
        """Least margin to the slowdown, and share of the samples nearer than so; None where never.

        The card's own margin where it can be believed (some report none above zero while cold), else the
        threshold's.
        """
        slowdown = self.card.fact("temperature_slowdown")
        left = [margin for margin in self.margins if margin > 0]
        if len(left) < len(self.margins) or not left:
            left = [slowdown - core for core in self.core] if slowdown is not None else []
        near = [margin for margin in left if margin < degrees]
        return (min(near), len(near) / len(left)) if near else None

    def memory_above(self) -> float:
        """Share of the samples in which the memory was above its maximum."""
        return _above(self.memory, self.card.fact("temperature_memory_max"))


class Hot(Check):
    """A GPU or its memory is at the temperature where it slows down.

    What it finds:
        - A GPU within 5 °C of the temperature at which it slows down, or above its highest operating
          temperature.
        - Memory (HBM) above its own.
    Why it hurts:
        At that temperature the card lowers its clocks on and off, and the slow rank delays all the others. Long
        heat also wears memory and links.
    How it knows:
        NVML's thermal margin if the card has one, else the temperature and the slowdown threshold. For a
        recorded run, the samples during it, so that only heat under load counts.
    False alarms:
        gpudoctor ignores a margin of zero or less (some H100 report one while cold): the thresholds decide
        then. A card that has just finished a job cools down within a minute. In a recording, single peaks do
        not count. A card must be hot in 5 % of the samples during the steady steps.
    Remedies:
        Check air flow, fans, dust and room temperature; lower the power limit until then, or use another node.
    References:
        - https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html (temperature thresholds)
        - https://github.com/NVIDIA/DCGM
        - https://github.com/leptonai/gpud (margin on H100)
    """

    code = Code("GPU011")
    name = "hot"
    reads = frozenset({Reads.ENVIRONMENT, Reads.RECORDING, Reads.PROCESS})
    thresholds = (
        Threshold("margin", 5.0, "Cel",
                  "leptonai/gpud uses the margin; 5 °C is a load peak or a warm day",
                  "A card closer than this to its slowdown temperature is hot."),
        Threshold("time_share", 0.05, "1",
                  "convention, as for throttled: a load peak now and then costs nothing",
                  "A card that is hot in this share of a recorded run's samples is hot."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = recorded(patient)
        warm = _warmth(recording) if recording is not None else ()
        if recording is not None and warm:
            yield from self._recorded(recording, warm)
            return
        gpus = job_gpus(patient)
        if all(isinstance(gpu.temperature, Absent) and isinstance(gpu.temperature_memory, Absent) for gpu in gpus):
            raise Unavailable(say("the cards report no temperature"))
        hot = [(gpu, words) for gpu in gpus if (words := self._verdict(gpu))]
        if not hot:
            return
        yield self.finding(
            say("{cards}.", cards=_listed([(gpu.label, words) for gpu, words in hot])),
            evidence=tuple(
                Measurement(
                    f"gpu{gpu.index}_temperature",
                    gpu.temperature if isinstance(gpu.temperature, int | float) else ", ".join(words),
                    "Cel" if isinstance(gpu.temperature, int | float) else "",
                    reproduce=f"nvidia-smi -q -d TEMPERATURE -i {gpu.index}",
                )
                for gpu, words in hot
            ),
            confidence=Confidence.CONFIRMED,
            subject=name_gpus(gpu for gpu, _ in hot),
            detail=CardsDetail(gpus=list_gpus(gpu for gpu, _ in hot)),
        )

    def _recorded(self, recording: Recording, warm: tuple[GpuTemperature, ...]) -> Iterator[Finding]:
        """The heat while the steps were steady."""
        hot = [(found, words) for found in warm if (words := self._was_hot(found))]
        if not hot:
            return
        yield self.finding(
            say("While the training ran: {cards}.", cards=_listed([(found.card.label, words) for found, words in hot])),
            evidence=tuple(
                measured(f"gpu{found.card.number}_temperature", found.highest, "Cel", recording)
                if found.highest is not None
                else measured(f"gpu{found.card.number}_temperature", ", ".join(words), "", recording)
                for found, words in hot
            ),
            confidence=Confidence.CONFIRMED,
            subject=", ".join(found.card.label for found, _ in hot),
            detail=CardsDetail(gpus=numbers_here([found.card for found, _ in hot])),
        )

    def _was_hot(self, found: GpuTemperature) -> list[str]:
        words, over = [], found.above()
        near = found.nearer_than(self.limit("margin"))
        up_to = say("up to {highest:.0f} °C, ", highest=found.highest) if found.highest is not None else ""
        if over >= self.limit("time_share"):
            most = found.card.fact("temperature_max")
            words.append(
                say(
                    "{up_to}above its operating maximum of {most:.0f} °C {over} of the time",
                    up_to=up_to,
                    most=most,
                    over=percent(over),
                )
            )
        elif near is not None and near[1] >= self.limit("time_share"):
            least, share = near
            within = say(
                "within {limit:.0f} °C of its slowdown {share} of the time",
                limit=self.limit("margin"),
                share=percent(share),
            )
            words.append(
                say(
                    "{up_to}{within} ({least:.0f} °C at the nearest)", up_to=up_to, within=within, least=max(least, 0.0)
                )
            )
        share = found.memory_above()
        if share >= self.limit("time_share"):
            most = found.card.fact("temperature_memory_max")
            words.append(
                say("memory above its maximum of {most:.0f} °C {share} of the time", most=most, share=percent(share))
            )
        return words

    def _verdict(self, gpu: Gpu) -> list[str]:
        words = []
        core = gpu.temperature
        if isinstance(core, int | float):
            most = gpu.temperature_max
            margin = _margin(gpu, float(core))
            if isinstance(most, int | float) and 0 < most < core:
                words.append(say("{core:.0f} °C, above its operating maximum of {most:.0f} °C", core=core, most=most))
            elif margin is not None and margin < self.limit("margin"):
                words.append(say("{core:.0f} °C, {margin:.0f} °C below its slowdown", core=core, margin=max(margin, 0)))
        memory, most = gpu.temperature_memory, gpu.temperature_memory_max
        if isinstance(memory, int | float) and isinstance(most, int | float) and 0 < most < memory:
            words.append(say("memory {memory:.0f} °C, above its maximum of {most:.0f} °C", memory=memory, most=most))
        return words


def _margin(gpu: Gpu, core: float) -> float | None:
    """Degrees to the slowdown: the card's own margin where it can be believed, else the threshold's."""
    if isinstance(gpu.temperature_margin, int | float) and gpu.temperature_margin > 0:
        return float(gpu.temperature_margin)
    slowdown = gpu.temperature_slowdown
    return slowdown - core if isinstance(slowdown, int | float) and slowdown > 0 else None


def _warmth(recording: Recording) -> tuple[GpuTemperature, ...]:
    """The heat of the sampled GPUs whose limits the driver told; empty where it told none."""
    found = [
        GpuTemperature(
            card=card,
            core=_of(recording, card, "temperature"),
            margins=_of(recording, card, "margin"),
            memory=_of(recording, card, "memory_temperature"),
        )
        for card in cards(recording)
    ]
    limits = ("temperature_slowdown", "temperature_max", "temperature_memory_max")
    return tuple(
        one for one in found
        if (one.core or one.memory) and (one.margins or any(one.card.fact(name) for name in limits))
    )  # fmt: skip


def _of(recording: Recording, card: SampledGpu, name: str) -> tuple[float, ...]:
    return tuple(value for _, value in readings(recording, card, name))


def _above(values: tuple[float, ...], most: float | None) -> float:
    if most is None or not values:
        return 0.0
    return sum(value > most for value in values) / len(values)


def _listed(hot: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Cards with what is hot about each."""
    return concatenated(
        "; ", [say("{card}: {words}", card=card, words=concatenated(", ", words)) for card, words in hot]
    )
