"""GPU005 pcie-degraded."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpudoctor.analysis.run.recorded_gpus import SampledGpu, cards, numbers_here, readings
from gpudoctor.analysis.run.steady_run import measured, recorded
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Code, Confidence, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.job_devices import CardsDetail, job_gpus
from gpudoctor.model.signs.gpu import Gpu, answering, is_grace, is_server_card, list_gpus, name_gpus
from gpudoctor.model.signs.recording import Recording
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import percent

_LEAST_MINUTES = 1.0
"""Minutes below which a rate of replays says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLink:
    """The link of one GPU, with its samples in steady state."""

    card: SampledGpu
    width: tuple[int, ...]
    """Lanes in use, a sample each."""
    loaded: tuple[tuple[float, int], ...]
    """How busy the GPU was (0..1), and the generation of its link."""
    replays: tuple[tuple[float, float], ...]
    """Seconds, and packets that were sent again up to then."""

    def most(self, what: str) -> float | None:
        """The greatest `width` or `generation` that card and slot together can do."""
        return self.card.fact(f"pcie_{what}_max")

    def below(self, what: str, values: Iterable[int], share: float = 1.0) -> tuple[int, float] | None:
        """The usual value of those below a share of the most, and how often it was below; None where never."""
        most, every = self.most(what), [value for value in values if value > 0]
        low = [value for value in every if most is not None and value < most * share]
        return (max(set(low), key=low.count), len(low) / len(every)) if low else None

    def busy_generation(self, load: float) -> list[int]:
        """Generations of the samples in which the GPU was at least so busy: an idle one saves power."""
        return [generation for busy, generation in self.loaded if busy >= load]

    def replays_per_minute(self) -> float | None:
        """None where they were not counted for long enough."""
        if len(self.replays) < 2:
            return None
        (begin, before), (end, after) = self.replays[0], self.replays[-1]
        minutes = (end - begin) / 60
        # The driver's counter begins anew when it is loaded again.
        return (after - before) / minutes if minutes >= _LEAST_MINUTES and after >= before else None


_ALWAYS = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieDegradedDetail(CardsDetail):
    """What the rule reads."""

    quantity: str
    """`width`, `generation` or `replays`."""
    ratio: float | None = None
    """Bandwidth at best, by that of now."""


class PcieDegraded(Check):
    """The PCIe link of a GPU runs with fewer lanes or at a lower speed than it could.

    What it finds:
        - A link that is narrower than card and slot support.
        - Under load also one of a lower generation.
        - In a recorded run one that retransmits many packets (replays).
    Why it hurts:
        Half the lanes give half the bandwidth for every host-GPU copy and for every collective that crosses
        PCIe. Batches, checkpoints and offloaded weights take twice as long.
    How it knows:
        NVML's current and maximum link width. The generation is compared only while the GPU works. In a
        recording: the samples during the steady steps, and the replay counter at the first and last of them.
    False alarms:
        An idle GPU drops to generation 1 by design: gpudoctor does not report that. Desktop boards that split
        16 lanes between two slots run at x8 on purpose. For a GeForce at half width this is a note.
    Remedies:
        Reseat the card, check riser and BIOS, or use another node.
    References:
        - https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html (nvmlDeviceGetCurrPcieLinkWidth)
        - https://github.com/tensorflow/tensor2tensor/issues/390
        - https://github.com/AlexeyAB/darknet/issues/2807 (a riser)
        - https://github.com/NVIDIA/DCGM (dcgm_gpu_hardware_limits.h: replays a minute)
    """

    code = Code("GPU005")
    name = "pcie-degraded"
    reads = frozenset({Reads.ENVIRONMENT, Reads.RECORDING, Reads.PROCESS})
    thresholds = (
        Threshold("width_share", 1.0, "1",
                  "NVML reports the maximum of card and slot together",
                  "A link below this share of its maximum width is degraded."),
        Threshold("desk_width_share", 0.5, "1",
                  "desktop chipsets split x16 into two x8",
                  "A desktop card at this share or more is a note, below it a warning."),
        Threshold("load", 0.5, "1",
                  "idle GPUs drop to generation 1 (seen at P8 in nvidia-docker#1090)",
                  "gpudoctor judges the generation only if the GPU is at least this busy."),
        Threshold("time_share", 0.05, "1",
                  "convention, as for throttled: a link that retrains to a lower speed recovers by "
                      "itself",
                  "A link that is too narrow in this share of a recorded run's samples is degraded."),
        Threshold("busy_time_share", 0.5, "1",
                  "convention: after a pause the link needs a moment to speed up",
                  "The link must be slow in this share of the samples of a recorded run in which "
                      "the GPU works."),
        Threshold("replays_per_minute", 8, "1/min",
                  "DCGM: at most 8 replays a minute",
                  "More replays per minute of a recorded run indicate a bad signal."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = recorded(patient)
        sampled = _links(recording) if recording is not None else ()
        if recording is not None and sampled:
            yield from self._recorded(recording, sampled)
            return
        gpus = tuple(gpu for gpu in job_gpus(patient) if not gpu.grace)
        if not gpus:
            raise Unavailable(say("the GPUs reach their host over NVLink-C2C, not PCIe"))
        yield from self._width(gpus)
        yield from self._generation(gpus)

    def _recorded(self, recording: Recording, sampled: tuple[GpuLink, ...]) -> Iterator[Finding]:
        """Links as they were while the steps were steady."""
        below = [(link, link.below("width", link.width, self.limit("width_share"))) for link in sampled]
        narrow = [(link, *found) for link, found in below if found and found[1] >= self.limit("time_share")]
        if narrow:
            yield self._seen(recording, "width", narrow)
        load = self.limit("load")
        below = [(link, link.below("generation", link.busy_generation(load))) for link in sampled]
        slow = [(link, *found) for link, found in below if found and found[1] >= self.limit("busy_time_share")]
        if slow:
            yield self._seen(recording, "generation", slow)
        yield from self._replays(recording, sampled)

    def _seen(self, recording: Recording, what: str, found: list[tuple[GpuLink, int, float]]) -> Finding:
        """The finding of links that can do more: each with what it did, and in which share of the samples."""
        steps = [(link, now, link.most(what) or float(now)) for link, now, _ in found]
        by_design = what == "width" and all(
            not is_server_card(link.card.name) and now >= most * self.limit("desk_width_share")
            for link, now, most in steps
        )
        return self.finding(
            say(
                "The PCIe link was narrower than card and slot support: {found}."
                if what == "width"
                else "The PCIe link was slower than card and slot support while the GPU worked: {found}.",
                found=concatenated("; ", [_did(what, link, now, share) for link, now, share in found]),
            ),
            evidence=tuple(
                measured(
                    f"gpu{link.card.number}_pcie_{what}", say("{now} of {most:.0f}", now=now, most=most), "", recording
                )
                for link, now, most in steps
            ),
            confidence=Confidence.CONFIRMED,
            severity=Severity.NOTE if by_design else Severity.WARNING,
            subject=", ".join(link.card.label for link, _, _ in found),
            detail=PcieDegradedDetail(
                gpus=numbers_here([link.card for link, _, _ in found]),
                quantity=what,
                ratio=max(most / now if what == "width" else 2.0 ** (most - now) for _, now, most in steps),
            ),
        )

    def _replays(self, recording: Recording, sampled: tuple[GpuLink, ...]) -> Iterator[Finding]:
        most = self.limit("replays_per_minute")
        bad = [(link.card, rate) for link in sampled if (rate := link.replays_per_minute() or 0.0) > most]
        if not bad:
            return
        words = [say("{card}: {rate:.0f} a minute", card=card.label, rate=rate) for card, rate in bad]
        yield self.finding(
            say(
                "The PCIe link retransmits packets (replays) while the training runs. {words}.",
                words=concatenated("; ", words),
            ),
            evidence=tuple(measured(f"gpu{card.number}_pcie_replays", rate, "1/min", recording) for card, rate in bad),
            confidence=Confidence.CONFIRMED,
            subject=", ".join(card.label for card, _ in bad),
            detail=PcieDegradedDetail(gpus=numbers_here([card for card, _ in bad]), quantity="replays"),
        )

    def _width(self, gpus: tuple[Gpu, ...]) -> Iterator[Finding]:
        narrow: list[tuple[Gpu, int, int]] = []
        for gpu, width in answering(gpus, lambda gpu: gpu.pcie_width):
            most = gpu.pcie_width_max
            if isinstance(most, int) and 0 < width < most * self.limit("width_share"):
                narrow.append((gpu, width, most))
        if not narrow:
            return
        words = [
            say("{gpu} runs at x{width} of x{most}", gpu=gpu.label, width=width, most=most)
            for gpu, width, most in narrow
        ]
        by_design = all(
            not gpu.server_card and width >= most * self.limit("desk_width_share") for gpu, width, most in narrow
        )
        yield self.finding(
            say("The PCIe link is narrower than card and slot support: {words}.", words=concatenated("; ", words)),
            evidence=tuple(_proof(gpu, "width", width, most) for gpu, width, most in narrow),
            confidence=Confidence.CONFIRMED,
            severity=Severity.NOTE if by_design else Severity.WARNING,
            subject=name_gpus(gpu for gpu, _, _ in narrow),
            detail=PcieDegradedDetail(
                gpus=list_gpus(gpu for gpu, _, _ in narrow),
                quantity="width",
                ratio=max(most / width for _, width, most in narrow),
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
        words = [
            say("{gpu} runs at generation {now} of {most}", gpu=gpu.label, now=now, most=most)
            for gpu, now, most in slow
        ]
        yield self.finding(
            say(
                "The PCIe link is slower than card and slot support while the GPU works: {words}.",
                words=concatenated("; ", words),
            ),
            evidence=tuple(_proof(gpu, "generation", now, most) for gpu, now, most in slow),
            confidence=Confidence.CONFIRMED,
            subject=name_gpus(gpu for gpu, _, _ in slow),
            detail=PcieDegradedDetail(
                gpus=list_gpus(gpu for gpu, _, _ in slow),
                quantity="generation",
                ratio=max(2.0 ** (most - now) for _, now, most in slow),
            ),
        )


def _did(what: str, link: GpuLink, now: int, share: float) -> str:
    most = f"{link.most(what):.0f}"
    words = (
        say("x{now} of x{most}", now=now, most=most)
        if what == "width"
        else say("generation {now} of {most}", now=now, most=most)
    )
    often = "" if share > _ALWAYS else say(" for {share} of the time", share=percent(share))
    return say("{card} ran at {words}{often}", card=link.card.label, words=words, often=often)


def _proof(gpu: Gpu, what: str, now: int, most: int) -> Measurement:
    query = {"width": "pcie.link.width", "generation": "pcie.link.gen"}[what]
    return Measurement(
        f"gpu{gpu.index}_pcie_{what}",
        f"{now} of {most}",
        "",
        reproduce=f"nvidia-smi -i {gpu.index} --query-gpu={query}.current,{query}.max --format=csv",
    )


def _links(recording: Recording) -> tuple[GpuLink, ...]:
    """The links that were sampled; those of cards that reach their host over NVLink-C2C are none."""
    found = [
        GpuLink(
            card=card,
            width=tuple(int(width) for _, width in readings(recording, card, "pcie_width")),
            loaded=tuple((busy, int(value)) for _, busy, value in readings(recording, card, "util", "pcie_generation")),
            replays=tuple((t, count) for t, count in readings(recording, card, "pcie_replays")),
        )
        for card in cards(recording)
        if not is_grace(card.name)
    ]
    return tuple(link for link in found if link.width or link.loaded)
