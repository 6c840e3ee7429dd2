"""ENV010 debug-switch-on."""

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity
from gpudoctor_checks.environment.variables import all_set

_OFF = {"", "0", "false", "off", "no"}


@cache
def _table() -> list[dict[str, Any]]:
    """The switches: name, the values that switch it on, severity, cost, source."""
    text = files(__package__).joinpath("debug_switches.json").read_text("utf-8")
    return list(json.loads(text)["switches"])


def _is_on(on: list[str] | str, value: str) -> bool:
    """Whether a value is one of a list, or anything at all (`set`), or else anything but off."""
    text = value.strip()
    if isinstance(on, list):
        return text.upper() in {item.upper() for item in on}
    # libraries differ in how they read "0" for a variable that only has to be set: an empty one is unset
    return bool(text) if on == "set" else text.lower() not in _OFF


class DebugSwitchOn(Check):
    """A debugging switch was left on in the environment or in the script.

    What it finds:
        - Environment variables that make CUDA, NCCL, torch, accelerate or Python check, log or wait more than
          training needs. Examples: CUDA_LAUNCH_BLOCKING=1, TORCH_DISTRIBUTED_DEBUG=DETAIL, and NVIDIA's own
          list of bad CUDA variables.
        - In the shell, the job script or set by the script itself.
    Why it hurts:
        The finding names each cost: from a noisy log to a CPU that waits for every kernel. People set them to
        find a bug, and they stay in a profile, an image or a copied script.
    How it knows:
        The variables of this shell or of the process (`--pid`). Exports of a job script, and assignments to
        os.environ in the script. The table with costs and sources is a data file beside the check.
    False alarms:
        A debugging run. An assignment under a condition (`if args.debug`) is not counted, nor is a switch that
        is set to its off value.
    Remedies:
        Unset the variable, or remove the line.
    References:
        - https://github.com/Lightning-AI/pytorch-lightning/issues/12344
        - https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """

    code = "ENV010"
    reads = frozenset({Reads.ENVIRONMENT, Reads.SOURCE})

    def examine(self, patient: Patient) -> Iterator[Finding]:
        for item in all_set(patient):
            for row in _table() if item.value is not None and not item.conditional else ():
                if row["name"] == item.name and _is_on(row["on"], item.value or ""):
                    told = {"switch": item.name, "value": item.value, "cost": row["cost"]}
                    yield self.finding(
                        say("{switch}={value} is set: {cost}.", **told),
                        evidence=(item.evidence,),
                        confidence=item.sure,
                        severity=Severity(row["severity"]),
                        subject=item.subject,
                        detail=Facts(variable=item.name, reference=row["source"]),
                    )
