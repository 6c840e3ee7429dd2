"""ENV010 debug-switch-on."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gpudoctor.analysis.source.environment_assignments import assignments
from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Confidence, Detail, Finding, Patient, Reads, Severity, Unavailable

_OFF = {"", "0", "false", "off", "no"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Switch:
    """One line of the table."""

    name: str
    values: frozenset[str] | None
    """Upper-case values that switch it on; None takes what `anything` says."""
    anything: bool
    """Without `values`: True when being set is enough, False when it has to be other than 0, false, off."""
    severity: Severity
    cost: str
    source: str

    def is_on(self, value: str) -> bool:
        """Whether this value switches it on."""
        text = value.strip()
        if self.values is not None:
            return text.upper() in self.values
        # libraries differ in how they read "0" for a variable that only has to be set: an empty one is unset
        return bool(text) if self.anything else text.lower() not in _OFF


@lru_cache(maxsize=1)
def _table() -> tuple[_Switch, ...]:
    text = Path(__file__).with_name("debug_switches.json").read_text(encoding="utf-8")
    return tuple(
        _Switch(
            name=row["name"],
            values=frozenset(item.upper() for item in row["on"]) if isinstance(row["on"], list) else None,
            anything=row["on"] == "set",
            severity=Severity(row["severity"]),
            cost=row["cost"],
            source=row["source"],
        )
        for row in json.loads(text)["switches"]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugSwitchOnDetail(Detail):
    """What the rule reads."""

    variable: str
    reference: str
    """The page that says so."""


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
        - https://github.com/NVIDIA/DCGM (Software.cpp: bad environment variables)
    """

    code = Code("ENV010")
    name = "debug-switch-on"
    reads = frozenset({Reads.ENVIRONMENT, Reads.SOURCE})
    severity = Severity.WARNING

    def examine(self, patient: Patient) -> Iterator[Finding]:
        source = optional(lambda: patient.source)
        forced = set()
        for place in assignments(source) if source is not None else ():
            if place.conditional or place.value is None:
                continue
            if not place.default:
                forced.add(place.name)
            for switch in _table():
                if switch.name == place.name and switch.is_on(place.value):
                    yield self.finding(
                        say(
                            "The script sets {variable}={value}: {cost}.",
                            variable=place.name,
                            value=place.value,
                            cost=switch.cost,
                        ),
                        evidence=(place.span,),
                        confidence=Confidence.SUSPECTED,
                        severity=switch.severity,
                        subject=f"{place.span.path}:{place.span.line}",
                        detail=DebugSwitchOnDetail(variable=place.name, reference=switch.source),
                    )
        environment = optional(lambda: patient.environment)
        if environment is None and source is None:
            raise Unavailable(say("neither an environment nor a script was given"))
        for switch in _table() if environment is not None else ():
            value = environment.get(switch.name) if environment is not None else None
            if environment is None or value is None or switch.name in forced or not switch.is_on(value):
                continue
            yield self.finding(
                say("{switch}={value} is set: {cost}.", switch=switch.name, value=value, cost=switch.cost),
                evidence=(environment.evidence(switch.name),),
                confidence=Confidence.CONFIRMED,
                severity=switch.severity,
                subject=switch.name,
                detail=DebugSwitchOnDetail(variable=switch.name, reference=switch.source),
            )
