"""GPU005 pcie-degraded."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import recorded
from gpudoctor.lang import say, template
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Finding, Patient, Reads, Severity, Threshold, Unavailable
from gpudoctor.model.job_devices import job_gpus
from gpudoctor.model.signs.gpu import Gpu, answering, is_grace, is_server_card
from gpudoctor.model.unavailable import known
from gpudoctor_checks.hardware.card_findings import on_cards

_LEAST_MINUTES = 1.0
"""Minutes below which a rate of replays says nothing."""
_WIDTH = template("{card} at x{now} of x{most}")
_GENERATION = template("{card} at generation {now} of {most}")
_NARROW = template("The PCIe link is narrower than card and slot support: {words}.")
_SLOW = template("The PCIe link is slower than card and slot support while the GPU works: {words}.")
Links: TypeAlias = "Sequence[tuple[Gpu | of_run.SampledGpu, int, int]]"
"""Cards with their width or generation, and the highest one."""
_QUERIES = {"width": "pcie.link.width", "generation": "pcie.link.gen"}


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
    """

    code = "GPU005"
    reads = frozenset({Reads.ENVIRONMENT, Reads.RECORDING, Reads.PROCESS})
    thresholds = (
        Threshold("load", 0.5, "1",
                  "idle GPUs drop to generation 1 (seen at P8 in nvidia-docker#1090)",
                  "gpudoctor judges the generation only if the GPU is at least this busy."),
        Threshold("time_share", 0.5, "1",
                  "convention: after a pause the link needs a moment to speed up",
                  "The link must be slow in this share of the samples of a recorded run."),
        Threshold("replays_per_minute", 8, "1/min",
                  "DCGM: at most 8 replays a minute",
                  "More replays per minute of a recorded run indicate a bad signal."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = recorded(patient)
        sampled = of_run.cards(recording) if recording is not None else []
        cards = [card for card in sampled if recording is not None and of_run.readings(recording, card, "pcie_width")]
        if recording is not None and cards:
            yield from self._recorded(recording, [card for card in cards if not is_grace(card.name)])
            return
        gpus = tuple(gpu for gpu in job_gpus(patient) if not gpu.grace)
        if not gpus:
            raise Unavailable(say("the GPUs reach their host over NVLink-C2C, not PCIe"))
        widths = [
            (gpu, now, known(gpu.pcie_width_max) or 0) for gpu, now in answering(gpus, lambda one: one.pcie_width)
        ]
        busy = [gpu for gpu in gpus if (known(gpu.utilization) or 0.0) >= self.limit("load")]
        generations = [(gpu, known(gpu.pcie_generation) or 0, known(gpu.pcie_generation_max) or 0) for gpu in busy]
        for what, links in (("width", widths), ("generation", generations)):
            command = f"nvidia-smi -i {{}} --query-gpu={_QUERIES[what]}.current,{_QUERIES[what]}.max --format=csv"
            yield from self._slow(what, [(gpu, now, most) for gpu, now, most in links if 0 < now < most], command)

    def _recorded(self, recording: "of_run.Recording", cards: "list[of_run.SampledGpu]") -> Iterator[Finding]:
        """Links as they were while the steps were steady."""
        for what in ("width", "generation"):
            slow = []
            for card in cards:
                rows = of_run.readings(recording, card, "util", f"pcie_{what}")
                values = [
                    int(row[2]) for row in rows if row[2] > 0 and (what == "width" or row[1] >= self.limit("load"))
                ]
                most = int(card.fact(f"pcie_{what}_max") or 0)
                low = [value for value in values if value < most]
                if low and len(low) >= self.limit("time_share") * len(values):
                    slow.append((card, max(set(low), key=low.count), most))
            yield from self._slow(what, slow, recording)
        rates = [(card, _replays_per_minute(recording, card)) for card in cards]
        bad = [(card, rate) for card, rate in rates if rate > self.limit("replays_per_minute")]
        if bad:
            words = [say("{card}: {rate:.0f} a minute", card=card.label, rate=rate) for card, rate in bad]
            yield on_cards(
                self,
                say(
                    "The PCIe link retransmits packets (replays) while the training runs. {words}.",
                    words=concatenated("; ", words),
                ),
                bad,
                "pcie_replays",
                "1/min",
                recording,
                quantity="replays",
                ratio=None,
            )

    def _slow(self, what: str, links: Links, shown: "str | of_run.Recording") -> Iterator[Finding]:
        if not links:
            return
        width, words, ratios = what == "width", [], []
        for card, now, most in links:
            text = _WIDTH if width else _GENERATION
            words.append(say(text, card=card.label, now=now, most=most))
            ratios.append(most / now if width else 2.0 ** (most - now))  # a generation doubles the bandwidth
        # Boards of desktops split the lanes between two slots by design.
        halved = all(not is_server_card(card.name) and now * 2 >= most for card, now, most in links)
        yield on_cards(
            self,
            say(_NARROW if width else _SLOW, words=concatenated("; ", words)),
            [(card, f"{now} of {most}") for card, now, most in links],
            f"pcie_{what}",
            "",
            shown,
            severity=Severity.NOTE if width and halved else Severity.WARNING,
            quantity=what,
            ratio=max(ratios),
        )


def _replays_per_minute(recording: "of_run.Recording", card: "of_run.SampledGpu") -> float:
    """Packets that were sent again; 0 where they were counted too shortly, or the driver was loaded again."""
    rows = of_run.readings(recording, card, "pcie_replays")
    minutes, more = (rows[-1][0] - rows[0][0]) / 60 if rows else 0.0, rows[-1][1] - rows[0][1] if rows else 0.0
    return more / minutes if minutes >= _LEAST_MINUTES and more >= 0 else 0.0
