"""What a saved `nvidia-smi -q` does not hold of the GPUs of the machine that wrote it."""

from collections.abc import Mapping

from gpudoctor.lang import say
from gpudoctor.model.signs.gpu import GpuSurvey
from gpudoctor.model.unavailable import Absent

NOT_HELD = Absent("the file does not hold it")
"""A reading that a file lacks; one that the card lacks is absent with the card's reason."""
NEEDED: Mapping[str, str] = {
    "ecc_uncorrected_volatile": say("memory errors"),
    "event_reasons": say("the reasons for lower clocks"),
    "temperature": "temperatures",
    "power_limit": say("power limits"),
    "pcie_width": say("the PCIe link"),
}
"""What no card is called well without; by field of `Gpu`."""
_MORE: Mapping[str, str] = {
    "row_remap": say("remapped rows"),
    "retired_pages": say("retired pages"),
    "recovery_action": say("the recovery action"),
    "persistence": say("persistence mode"),
    "compute_mode": say("compute mode"),
    "mig_enabled": say("MIG mode"),
    "processes": "processes",
    "nvlinks": say("NVLink ports"),
}


def not_held(survey: GpuSurvey, *, needed: bool = False) -> list[str]:
    """What the file says of no GPU and a check would look at; with `needed`, only what a verdict needs."""
    names = NEEDED if needed else {**NEEDED, **_MORE}
    return [
        words
        for name, words in names.items()
        if survey.gpus and all(getattr(gpu, name) == NOT_HELD for gpu in survey.gpus)
    ]
