"""What findings may claim to give back: a wait of the host no more than the device is idle."""

from collections.abc import Iterable

from gpudoctor.model import Finding, Whose

_DEVICE, _STEPS, _HOST = Whose.DEVICE, Whose.STEPS, Whose.HOST
NOT_THE_HOSTS = {
    "DATA005": _DEVICE,  # copies that nothing hides, by the device's own clock
    "DATA006": _DEVICE,  # padding that it computes
    "DIST001": _DEVICE,  # the other ranks' devices wait inside of a collective's kernel
    "DIST002": _DEVICE,  # collectives that nothing hides, by the device's own clock
    "DIST004": _DEVICE,  # collectives that the script calls itself
    "OBS004": _DEVICE,  # an evaluation computes
    "PERF005": _DEVICE,  # an unfused optimizer has more kernels; worth the idle time and theirs
    "DATA012": _STEPS,  # the time before the first step
    "GPU009": _STEPS,  # a rank whose steps are slower than those of the others
    "NUM006": _STEPS,  # whole steps that are thrown away
    "OBS001": _STEPS,  # steps with a profiler against steps without
    "OBS005": _STEPS,  # steps with a debug mode against steps without
    "PERF013": _STEPS,  # steps that take longer than the first ones did
}
"""Codes that may claim more than the device's idle share, and why; every other code is a wait of the host."""


def beyond(found: Iterable[Finding], idle: float) -> list[Finding]:
    """Findings that claim more than the whole, more than the idle share for a wait of the host, or another's time."""
    wrong = []
    for item in found:
        whose = item.cost.whose
        allowed = whose in (_HOST, NOT_THE_HOSTS.get(str(item.code)))
        most = idle if whose is _HOST else 1.0
        if not allowed or (item.cost.step_share or 0.0) > most + 1e-6:
            wrong.append(item)
    return wrong
