"""GPU002 throttled."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpudoctor.analysis.live import stack_shares
from gpudoctor.analysis.live.stack_shares import watched
from gpudoctor.analysis.run.recorded_gpus import SampledGpu, cards, numbers_here
from gpudoctor.analysis.run.run_numbers import reasons
from gpudoctor.analysis.run.steady_run import measured, recorded
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Code, Confidence, Finding, Measurement, Patient, Reads, Threshold, Unavailable
from gpudoctor.model.job_devices import CardsDetail, each_card, job_gpus
from gpudoctor.model.signs.gpu import Gpu, answering, list_gpus, name_gpus
from gpudoctor.model.signs.process import ProcessWindow
from gpudoctor.model.signs.recording import Recording
from gpudoctor.text import percent

_IDLE = 0x1
_REASONS = {
    0x08: say("hardware slowdown"),
    0x20: say("software thermal slowdown"),
    0x40: say("hardware thermal slowdown"),
    0x80: say("power brake"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottledDetail(CardsDetail):
    """What the rule reads."""

    heat: bool
    power: bool


class Throttled(Check):
    """A GPU is throttled by heat or by its power supply.

    What it finds:
        A GPU whose clock event reasons show a slowdown by hardware, by heat or by the power brake.
    Why it hurts:
        A hardware slowdown halves the clocks or worse. In a job of several GPUs all of them wait for the
        slowest one in every step.
    How it knows:
        NVML's clocks event reasons (throttle reasons on older drivers), masked with 0xE8 as DCGM does. The
        current and the maximum clock.
    False alarms:
        An idle GPU lowers its clocks by design: while the idle reason is set, the check stays silent. It is
        also silent about the power cap alone, which is normal under load (GPU010 reports a lowered power
        limit). Clocks that a person has set are not reported either.
    Remedies:
        Repair the node's cooling or power; until then use another GPU or another node.
    References:
        - https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
        - https://github.com/mlfoundations/open_clip/discussions/703
        - https://github.com/NVIDIA/DCGM
    """

    code = Code("GPU002")
    name = "throttled"
    reads = frozenset({Reads.ENVIRONMENT, Reads.RECORDING, Reads.PROCESS})
    thresholds = (
        Threshold(
            "bad_reasons",
            0xE8,
            "{mask}",
            "DCGM: 0x8 hardware slowdown, 0x20 and 0x40 thermal, 0x80 power brake",
            "Clock event reasons that mean an involuntary slowdown, as a bit mask.",
        ),
        Threshold(
            "share",
            0.05,
            "1",
            "convention: a load peak now and then costs nothing",
            "A card with reduced clocks in this share of a recorded run's samples is throttled.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if (window := watched(patient)) is not None:
            if not window.gpus:
                raise Unavailable(say("no GPU answers"))
            yield from self._watched(_held_down(window, int(self.limit("bad_reasons"))))
            return
        recording = recorded(patient)
        masks = reasons(recording) if recording is not None else {}
        if recording is None or not masks:
            yield from self._now(job_gpus(patient), saved=patient.gpu_survey.saved)
            return
        yield from self._recorded(recording, masks)

    def _watched(self, held: Mapping[int, tuple[int, float]]) -> Iterator[Finding]:
        """The share of a window's ticks in which a card was held down."""
        sick = {index: found for index, found in held.items() if found[1] >= self.limit("share")}
        if not sick:
            return
        words = concatenated(
            "; ",
            [
                say("GPU {gpu}: {reason} {share} of the time", gpu=index, reason=_name(bits), share=percent(share))
                for index, (bits, share) in sick.items()
            ],
        )
        indices = ",".join(map(str, sick))
        yield self.finding(
            say("The GPU is throttled while the training runs. {words}.", words=words),
            evidence=tuple(
                Measurement(
                    f"gpu{index}_throttled_share",
                    round(share, 4),
                    "1",
                    reproduce=f"nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE -i {index}",
                )
                for index, (_, share) in sick.items()
            ),
            confidence=Confidence.CONFIRMED,
            subject=f"GPU {', '.join(map(str, sick))}",
            detail=ThrottledDetail(
                gpus=indices,
                heat=any(bits & 0x60 for bits, _ in sick.values()),
                power=any(bits & 0x80 for bits, _ in sick.values()),
            ),
        )

    def _recorded(self, recording: Recording, masks: Mapping[int, Sequence[int]]) -> Iterator[Finding]:
        """The share of a run's samples in which a card was held down, its idle ones left out."""
        wanted = int(self.limit("bad_reasons"))
        sick: list[tuple[SampledGpu, float, int]] = []
        known = {card.column: card for card in cards(recording)}
        for index, values in masks.items():
            busy = [mask for mask in values if not mask & _IDLE]
            bad = [mask & wanted for mask in busy if mask & wanted]
            if busy and len(bad) >= self.limit("share") * len(busy):
                sick.append((known[index], len(bad) / len(busy), max(set(bad), key=bad.count)))
        if not sick:
            return
        words = concatenated(
            "; ",
            [
                say("{card}: {reason} {share} of the time", card=card.label, reason=_name(bits), share=percent(share))
                for card, share, bits in sick
            ],
        )
        yield self.finding(
            say("The GPU was throttled while the training ran. {words}.", words=words),
            evidence=tuple(
                measured(f"gpu{card.number}_throttled_share", share, "1", recording) for card, share, _ in sick
            ),
            confidence=Confidence.CONFIRMED,
            subject=", ".join(card.label for card, _, _ in sick),
            detail=ThrottledDetail(
                gpus=numbers_here([card for card, _, _ in sick]),
                heat=any(bits & 0x60 for _, _, bits in sick),
                power=any(bits & 0x80 for _, _, bits in sick),
            ),
        )

    def _now(self, gpus: tuple[Gpu, ...], *, saved: bool) -> Iterator[Finding]:
        mask = int(self.limit("bad_reasons"))
        sick = [
            (gpu, reasons & mask)
            for gpu, reasons in answering(gpus, lambda gpu: gpu.event_reasons)
            if reasons & mask and not reasons & _IDLE
        ]
        if not sick:
            return
        words = concatenated(
            "; ",
            [
                say("{card}: {reason}{clocks}", card=gpu.label, reason=_name(bits), clocks=_clocks(gpu))
                for gpu, bits in sick
            ],
        )
        heat = any(bits & 0x60 for _, bits in sick)
        subject = name_gpus(gpu for gpu, _ in sick)
        yield self.finding(
            say("The GPU was throttled then. {words}." if saved else "The GPU is throttled now. {words}.", words=words),
            evidence=each_card(
                "clocks_event_reasons",
                [(gpu, f"0x{bits:x} ({_name(bits)})") for gpu, bits in sick],
                "",
                "nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE -i {}",
            ),
            confidence=Confidence.CONFIRMED,
            subject=subject,
            detail=ThrottledDetail(
                gpus=list_gpus(gpu for gpu, _ in sick), heat=heat, power=any(bits & 0x80 for _, bits in sick)
            ),
        )


def _name(bits: int) -> str:
    named = [text for bit, text in _REASONS.items() if bits & bit]
    # A thermal or power reason explains the general "hardware slowdown" that is set with it.
    if len(named) > 1 and "hardware slowdown" in named:
        named.remove("hardware slowdown")
    return concatenated(", ", named) or say("reason 0x{bits:x}", bits=bits)


def _clocks(gpu: Gpu) -> str:
    parts = []
    if isinstance(gpu.clock_sm, int) and isinstance(gpu.clock_sm_max, int):
        parts.append(say("{clock} of {most} MHz", clock=gpu.clock_sm, most=gpu.clock_sm_max))
    if isinstance(gpu.temperature, int | float):
        parts.append(f"{gpu.temperature:.0f} °C")
    return say(" ({parts})", parts=concatenated(", ", parts)) if parts else ""


def _held_down(window: ProcessWindow, mask: int) -> Mapping[int, tuple[int, float]]:
    """GPU index to the bad reasons that held its clocks down, and the share of the window of the worst one."""
    found = {}
    for gpu in stack_shares.job_gpus(window) or window.gpus:
        bad = {bit: share for bit, share in gpu.reasons.items() if bit & mask}
        if bad:
            found[gpu.index] = (sum(bad), max(bad.values()))
    return found
