"""GPU010 power-limited."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.job_devices import job_gpus
from gpudoctor.model.signs.gpu import Gpu, answering
from gpudoctor_checks.hardware.card_findings import on_cards


class PowerLimited(Check):
    """The power limit of a GPU has been set below its default.

    What it finds:
        An enforced power limit below the card's default limit.
    Why it hurts:
        Training draws close to the limit, so a lower one lowers the clocks. How much depends on the work. Power
        grows faster than the clock, so 20 % less power costs less than 20 % of the speed. One limited GPU slows
        down all ranks.
    How it knows:
        NVML's enforced limit and its default limit.
    False alarms:
        A limit that the operator has set on purpose, to save power: the finding is still true. Laptops, whose
        firmware changes the limit all the time, are not reported, nor are cards without a configurable limit.
    Remedies:
        Ask an administrator to restore the default with `nvidia-smi -pl`.
    References:
        - https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html (power limits)
    """

    code = "GPU010"
    reads = frozenset({Reads.ENVIRONMENT, Reads.PROCESS})
    thresholds = (
        Threshold("share", 0.99, "1", "limits are read in milliwatts and rounded",
                  "A limit below this share of the default is a note."),
        Threshold("share_warning", 0.9, "1",
                  "the last tenth buys little: power grows with clock and voltage squared",
                  "A limit below this share of the default is a warning."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        limited: list[tuple[Gpu, float, float]] = []
        for gpu, limit in answering(job_gpus(patient), lambda gpu: gpu.power_limit):
            default = gpu.power_limit_default
            if isinstance(default, int | float) and not gpu.laptop and 0 < limit < default * self.limit("share"):
                limited.append((gpu, limit, default))
        if not limited:
            return
        lowest = min(limit / default for _, limit, default in limited)
        words = [
            say("{gpu} {limit:.0f} W of {default:.0f} W", gpu=gpu.label, limit=limit, default=default)
            for gpu, limit, default in limited
        ]
        yield on_cards(
            self,
            say("The power limit is below the default: {words}.", words=concatenated("; ", words)),
            [(gpu, limit) for gpu, limit, _ in limited],
            "power_limit",
            "W",
            "nvidia-smi -i {} --query-gpu=enforced.power.limit,power.default_limit --format=csv",
            severity=Severity.WARNING if lowest < self.limit("share_warning") else Severity.NOTE,
            default=max(default for _, _, default in limited),
            ratio=1 / lowest,
        )
