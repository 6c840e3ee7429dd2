"""What findings may claim to give back: a wait of the host no more than the device is idle."""

from collections.abc import Iterable

from gpudoctor.model import Finding

ITS_OWN_WORK = frozenset({
    "DATA005", "DATA006",  # copies by the device's clock, and padding that it computes
    "DIST001", "DIST002",  # collectives that it waits in
    "GPU009", "NUM006", "PERF013",  # whole steps that are slower, or thrown away
    "OBS001", "OBS004", "OBS005",  # an evaluation computes; profilers and anomaly mode slow kernels down
    "PERF005",  # an unfused optimizer has more kernels
})  # fmt: skip
"""Findings whose cure takes work from the device, too: they are no waits of the host."""


def beyond(found: Iterable[Finding], idle: float) -> list[Finding]:
    """Findings that claim more than the whole, or waits that claim more than the device's idle share."""
    claims = [(item, item.cost.step_share or 0.0) for item in found]
    return [item for item, share in claims if share > (1.0 if item.code in ITS_OWN_WORK else idle) + 1e-6]
