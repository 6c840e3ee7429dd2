"""GPU005 pcie-degraded."""

from collections.abc import Iterator, Sequence

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import recorded
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity, Threshold, Unavailable
from gpudoctor.model.job_devices import CardsDetail, job_gpus
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.gpu import Gpu, answering, is_grace, is_server_card
from gpudoctor.model.unavailable import known
from gpudoctor.text import percent
from gpudoctor_checks.hardware.card_findings import on_cards, on_recorded_cards

_LEAST_MINUTES = 1.0
"""Minutes below which a rate of replays says nothing."""


_ALWAYS = 0.95
_QUERIES = {"width": "pcie.link.width", "generation": "pcie.link.gen"}


@frozen
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
        sampled = (
            [card for card in of_run.cards(recording) if _is_sampled(recording, card)] if recording is not None else []
        )
        if recording is not None and sampled:
            yield from self._recorded(recording, sampled)
            return
        gpus = tuple(gpu for gpu in job_gpus(patient) if not gpu.grace)
        if not gpus:
            raise Unavailable(say("the GPUs reach their host over NVLink-C2C, not PCIe"))
        share, load = self.limit("width_share"), self.limit("load")
        widths = answering(gpus, lambda gpu: gpu.pcie_width)
        links = [(gpu, now, known(gpu.pcie_width_max) or 0) for gpu, now in widths]
        narrow = [(gpu, now, most) for gpu, now, most in links if 0 < now < most * share]
        if narrow:
            words = concatenated(
                "; ",
                [
                    say("{gpu} runs at x{width} of x{most}", gpu=gpu.label, width=now, most=most)
                    for gpu, now, most in narrow
                ],
            )
            yield self._now(
                say("The PCIe link is narrower than card and slot support: {words}.", words=words), "width", narrow
            )
        busy = [gpu for gpu in gpus if (known(gpu.utilization) or 0.0) >= load]
        links = [(gpu, known(gpu.pcie_generation) or 0, known(gpu.pcie_generation_max) or 0) for gpu in busy]
        slow = [(gpu, now, most) for gpu, now, most in links if 0 < now < most]
        if slow:
            words = concatenated(
                "; ",
                [
                    say("{gpu} runs at generation {now} of {most}", gpu=gpu.label, now=now, most=most)
                    for gpu, now, most in slow
                ],
            )
            message = say(
                "The PCIe link is slower than card and slot support while the GPU works: {words}.", words=words
            )
            yield self._now(message, "generation", slow)

    def _now(self, message: str, what: str, links: list[tuple[Gpu, int, int]]) -> Finding:
        return on_cards(
            self,
            message,
            [(gpu, f"{now} of {most}") for gpu, now, most in links],
            f"pcie_{what}",
            "",
            f"nvidia-smi -i {{}} --query-gpu={_QUERIES[what]}.current,{_QUERIES[what]}.max --format=csv",
            severity=self._severity(what, links),
            detail=PcieDegradedDetail,
            quantity=what,
            ratio=_ratio(what, links),
        )

    def _severity(self, what: str, links: "Sequence[tuple[Gpu | of_run.SampledGpu, int, float]]") -> Severity:
        """A note for desktop cards with half of their lanes: boards split them by design."""
        share = self.limit("desk_width_share")
        halved = all(not is_server_card(card.name) and now >= most * share for card, now, most in links)
        return Severity.NOTE if what == "width" and halved else Severity.WARNING

    def _recorded(self, recording: "of_run.Recording", sampled: "list[of_run.SampledGpu]") -> Iterator[Finding]:
        """Links as they were while the steps were steady."""
        load = self.limit("load")  # an idle card saves power
        for what, share, often in (
            ("width", self.limit("width_share"), self.limit("time_share")),
            ("generation", 1.0, self.limit("busy_time_share")),
        ):
            found = []
            for card in sampled:
                rows = of_run.readings(recording, card, *(("util",) if what == "generation" else ()), f"pcie_{what}")
                values = [int(row[-1]) for row in rows if row[-1] > 0 and (what == "width" or row[1] >= load)]
                most = card.fact(f"pcie_{what}_max") or 0.0
                low = [value for value in values if value < most * share]
                if low and len(low) >= often * len(values):
                    found.append((card, max(set(low), key=low.count), most, len(low) / len(values)))
            if found:
                yield self._seen(recording, what, found)
        rates = [(card, _replays_per_minute(recording, card)) for card in sampled]
        bad = [(card, rate) for card, rate in rates if rate > self.limit("replays_per_minute")]
        if bad:
            words = [say("{card}: {rate:.0f} a minute", card=card.label, rate=rate) for card, rate in bad]
            yield on_recorded_cards(
                self,
                say(
                    "The PCIe link retransmits packets (replays) while the training runs. {words}.",
                    words=concatenated("; ", words),
                ),
                bad,
                "pcie_replays",
                "1/min",
                recording,
                detail=PcieDegradedDetail,
                quantity="replays",
            )

    def _seen(
        self, recording: "of_run.Recording", what: str, found: "list[tuple[of_run.SampledGpu, int, float, float]]"
    ) -> Finding:
        """The finding of links that can do more: each with what it did, and in which share of the samples."""
        links = [(card, now, most) for card, now, most, _ in found]
        return on_recorded_cards(
            self,
            say(
                "The PCIe link was narrower than card and slot support: {found}."
                if what == "width"
                else "The PCIe link was slower than card and slot support while the GPU worked: {found}.",
                found=concatenated("; ", [_did(what, *link) for link in found]),
            ),
            [(card, say("{now} of {most:.0f}", now=now, most=most)) for card, now, most in links],
            f"pcie_{what}",
            "",
            recording,
            severity=self._severity(what, links),
            detail=PcieDegradedDetail,
            quantity=what,
            ratio=_ratio(what, links),
        )


def _ratio(what: str, links: "Sequence[tuple[Gpu | of_run.SampledGpu, int, float]]") -> float:
    """How many times the bandwidth the worst link could have: a generation doubles it."""
    return max(most / now if what == "width" else 2.0 ** (most - now) for _, now, most in links)


def _did(what: str, card: "of_run.SampledGpu", now: int, most: float, share: float) -> str:
    words = (
        say("x{now} of x{most}", now=now, most=f"{most:.0f}")
        if what == "width"
        else say("generation {now} of {most}", now=now, most=f"{most:.0f}")
    )
    often = "" if share > _ALWAYS else say(" for {share} of the time", share=percent(share))
    return say("{card} ran at {words}{often}", card=card.label, words=words, often=often)


def _is_sampled(recording: "of_run.Recording", card: "of_run.SampledGpu") -> bool:
    """Whether a card's link was sampled; one that reaches its host over NVLink-C2C has none."""
    return not is_grace(card.name) and bool(
        of_run.readings(recording, card, "pcie_width") or of_run.readings(recording, card, "util", "pcie_generation")
    )


def _replays_per_minute(recording: "of_run.Recording", card: "of_run.SampledGpu") -> float:
    """Packets that were sent again; 0 where they were counted too shortly, or the driver was loaded again."""
    rows = of_run.readings(recording, card, "pcie_replays")
    minutes, more = (rows[-1][0] - rows[0][0]) / 60 if rows else 0.0, rows[-1][1] - rows[0][1] if rows else 0.0
    return more / minutes if minutes >= _LEAST_MINUTES and more >= 0 else 0.0
