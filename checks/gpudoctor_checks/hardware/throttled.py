"""GPU002 throttled."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import recorded, watched
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Finding, Measurement, Patient, Reads, Threshold, Unavailable
from gpudoctor.model.job_devices import CardsDetail, job_gpus
from gpudoctor.model.signs.gpu import Gpu, answering
from gpudoctor.text import percent
from gpudoctor_checks.hardware.card_findings import listed, on_cards

_COMMAND = "nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE -i {}"
_IDLE = 0x1
_REASONS = {
    0x08: say("hardware slowdown"),
    0x20: say("software thermal slowdown"),
    0x40: say("hardware thermal slowdown"),
    0x80: say("power brake"),
}


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
    """

    code = "GPU002"
    reads = frozenset({Reads.ENVIRONMENT, Reads.RECORDING, Reads.PROCESS})
    thresholds = (
        Threshold("bad_reasons", 0xE8, "{mask}", "DCGM: 0x8 hardware slowdown, 0x20 and 0x40 thermal, 0x80 power brake",
                  "Clock event reasons that mean an involuntary slowdown, as a bit mask."),
        Threshold("share", 0.05, "1", "convention: a load peak now and then costs nothing",
                  "A card with reduced clocks in this share of a recorded run's samples is throttled."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        window, recording = watched(patient), recorded(patient)
        masks = of_run.reasons(recording) if recording is not None else {}
        if window is not None:
            yield from self._watched(window)
        elif recording is not None and masks:
            yield from self._recorded(recording, masks)
        else:
            yield from self._now(job_gpus(patient))

    def _watched(self, window: "of_run.ProcessWindow") -> Iterator[Finding]:
        """The share of a window's ticks in which a card was held down, by the worst reason."""
        if not window.gpus:
            raise Unavailable(say("no GPU answers"))
        sick: list[tuple[int, int, float]] = []
        for gpu in of_run.job_gpus(window) or window.gpus:
            bad = {bit: share for bit, share in gpu.reasons.items() if bit & int(self.limit("bad_reasons"))}
            if bad and max(bad.values()) >= self.limit("share"):
                sick.append((gpu.index, sum(bad), max(bad.values())))
        if sick:
            numbers = [str(index) for index, _, _ in sick]
            yield self.finding(
                _message((f"GPU {index}", bits, share) for index, bits, share in sick),
                evidence=tuple(
                    Measurement(f"gpu{index}_throttled_share", round(share, 4), "1", reproduce=_COMMAND.format(index))
                    for index, _, share in sick
                ),
                subject=f"GPU {', '.join(numbers)}",
                detail=CardsDetail(gpus=",".join(numbers), **_causes(bits for _, bits, _ in sick)),
            )

    def _recorded(self, recording: "of_run.Recording", masks: Mapping[int, Sequence[int]]) -> Iterator[Finding]:
        """The share of a run's samples in which a card was held down, its idle ones left out."""
        wanted = int(self.limit("bad_reasons"))
        sick: list[tuple[of_run.SampledGpu, int, float]] = []
        sampled = {card.column: card for card in of_run.cards(recording)}
        for index, values in masks.items():
            busy = [mask for mask in values if not mask & _IDLE]
            bad = [mask & wanted for mask in busy if mask & wanted]
            if busy and len(bad) >= self.limit("share") * len(busy):
                sick.append((sampled[index], max(set(bad), key=bad.count), len(bad) / len(busy)))
        if sick:
            yield on_cards(
                self,
                _message((card.label, bits, share) for card, bits, share in sick),
                [(card, share) for card, _, share in sick],
                "throttled_share",
                "1",
                recording,
                **_causes(bits for _, bits, _ in sick),
            )

    def _now(self, gpus: tuple[Gpu, ...]) -> Iterator[Finding]:
        mask = int(self.limit("bad_reasons"))
        asked = answering(gpus, lambda gpu: gpu.event_reasons)
        sick = [(gpu, bits & mask) for gpu, bits in asked if bits & mask and not bits & _IDLE]
        if sick:
            yield on_cards(
                self,
                say("The GPU is throttled now. {words}.", words=listed((gpu, [_name(bits)]) for gpu, bits in sick)),
                [(gpu, f"0x{bits:x}") for gpu, bits in sick],
                "clocks_event_reasons",
                "",
                _COMMAND,
                **_causes(bits for _, bits in sick),
            )


def _message(cards: Iterable[tuple[str, int, float]]) -> str:
    words = [
        say("{card}: {reason} {share} of the time", card=card, reason=_name(bits), share=percent(share))
        for card, bits, share in cards
    ]
    return say("The GPU was throttled while the training ran. {words}.", words=concatenated("; ", words))


def _causes(masks: Iterable[int]) -> dict[str, Any]:
    """Whether heat or power holds a card down, as the detail has it."""
    every = reduce(or_, masks)
    return {"heat": bool(every & 0x60), "power": bool(every & 0x80)}


def _name(bits: int) -> str:
    return concatenated(", ", [text for bit, text in _REASONS.items() if bits & bit]) or f"0x{bits:x}"
