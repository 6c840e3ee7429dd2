"""GPU011 hot."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import recorded
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Threshold, Unavailable
from gpudoctor.model.job_devices import job_gpus
from gpudoctor.model.signs.gpu import Gpu
from gpudoctor.model.unavailable import known
from gpudoctor.text import percent
from gpudoctor_checks.hardware.card_findings import listed, on_cards


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
        recorded run, the samples during it.
    False alarms:
        A card that has just finished a job cools down within a minute. In a recording, single peaks do not
        count. A card must be hot in 5 % of the samples during the steady steps.
    Remedies:
        Check air flow, fans, dust and room temperature; lower the power limit until then, or use another node.
    References:
        - https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html (temperature thresholds)
        - https://github.com/NVIDIA/DCGM
    """

    code = "GPU011"
    reads = frozenset({Reads.ENVIRONMENT, Reads.RECORDING, Reads.PROCESS})
    thresholds = (
        Threshold("margin", 5.0, "Cel",
                  "convention: 5 °C is a load peak or a warm day",
                  "A card closer than this to its slowdown temperature is hot."),
        Threshold("time_share", 0.05, "1",
                  "convention, as for throttled: a load peak now and then costs nothing",
                  "A card that is hot in this share of a recorded run's samples is hot."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = recorded(patient)
        sampled = [card for card in of_run.cards(recording) if _told(recording, card)] if recording is not None else []
        if recording is not None and sampled:
            warm = [(card, words) for card in sampled if (words := self._was_hot(recording, card))]
            if warm:
                highest = [
                    (card, max(_of(recording, card, "temperature") or _of(recording, card, "memory_temperature")))
                    for card, _ in warm
                ]
                message = say("While the training ran: {cards}.", cards=listed(warm))
                yield on_cards(self, message, highest, "temperature", "Cel", recording)
            return
        gpus = job_gpus(patient)
        told = {gpu.index: known(gpu.temperature) or known(gpu.temperature_memory) for gpu in gpus}
        if not any(told.values()):
            raise Unavailable(say("the cards report no temperature"))
        hot = [(gpu, words) for gpu in gpus if (words := self._is_hot(gpu))]
        if hot:
            rows = [(gpu, told[gpu.index] or 0.0) for gpu, _ in hot]
            command = "nvidia-smi -q -d TEMPERATURE -i {}"
            yield on_cards(self, say("{cards}.", cards=listed(hot)), rows, "temperature", "Cel", command)

    def _was_hot(self, recording: "of_run.Recording", card: "of_run.SampledGpu") -> list[str]:
        """What was hot about a card while the steps were steady."""
        words, core = [], _of(recording, card, "temperature")
        most, slowdown = card.fact("temperature_max"), card.fact("temperature_slowdown")
        left = _of(recording, card, "margin")
        if not left or min(left) <= 0:  # some H100 report no margin above zero while cold
            left = [slowdown - degrees for degrees in core] if slowdown is not None else []
        near = sum(margin < self.limit("margin") for margin in left) / len(left) if left else 0.0
        over = _above(core, most)
        if over >= self.limit("time_share"):
            words.append(
                say("above its operating maximum of {most:.0f} °C {over} of the time", most=most, over=percent(over))
            )
        elif near >= self.limit("time_share"):
            limit, often = self.limit("margin"), percent(near)
            words.append(say("within {limit:.0f} °C of its slowdown {share} of the time", limit=limit, share=often))
        most = card.fact("temperature_memory_max")
        share = _above(_of(recording, card, "memory_temperature"), most)
        if share >= self.limit("time_share"):
            words.append(
                say("memory above its maximum of {most:.0f} °C {share} of the time", most=most, share=percent(share))
            )
        return words

    def _is_hot(self, gpu: Gpu) -> list[str]:
        """What is hot about a card now."""
        words, core, most = [], known(gpu.temperature), known(gpu.temperature_max)
        margin, slowdown = known(gpu.temperature_margin) or 0.0, known(gpu.temperature_slowdown)
        if core is not None and margin <= 0:
            margin = slowdown - core if slowdown else self.limit("margin")
        if core is not None and most and most < core:
            words.append(say("{core:.0f} °C, above its operating maximum of {most:.0f} °C", core=core, most=most))
        elif core is not None and margin < self.limit("margin"):
            words.append(say("{core:.0f} °C, {margin:.0f} °C below its slowdown", core=core, margin=max(margin, 0)))
        memory, most = known(gpu.temperature_memory), known(gpu.temperature_memory_max)
        if memory is not None and most and most < memory:
            words.append(say("memory {memory:.0f} °C, above its maximum of {most:.0f} °C", memory=memory, most=most))
        return words


def _told(recording: "of_run.Recording", card: "of_run.SampledGpu") -> bool:
    """Whether a card was sampled, and its driver told the limits."""
    limits = ("temperature_slowdown", "temperature_max", "temperature_memory_max")
    sampled = _of(recording, card, "temperature") or _of(recording, card, "memory_temperature")
    return bool(sampled and (_of(recording, card, "margin") or any(card.fact(name) for name in limits)))


def _of(recording: "of_run.Recording", card: "of_run.SampledGpu", name: str) -> list[float]:
    return [value for _, value in of_run.readings(recording, card, name)]


def _above(values: list[float], most: float | None) -> float:
    """Share of the samples above a limit."""
    return sum(value > most for value in values) / len(values) if most is not None and values else 0.0
