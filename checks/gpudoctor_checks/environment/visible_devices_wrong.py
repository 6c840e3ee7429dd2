"""ENV013 visible-devices-wrong."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.model import (
    Absent,
    Check,
    Code,
    Confidence,
    Cost,
    Evidence,
    Finding,
    Measurement,
    Patient,
    Provenance,
    Reads,
    Severity,
    Unavailable,
)
from gpudoctor.model.amounts import count
from gpudoctor.model.budget import ranks_here
from gpudoctor.model.reading.assignments import assigned
from gpudoctor.model.signs.gpu import GpuSurvey
from gpudoctor.model.workload import in_allocation, optional, runs_here

_NUMBER = re.compile(r"\+?\d+")
VARIABLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """The variable's value and where it was read."""

    value: str
    evidence: Evidence
    where: str
    """`environment`, `job script` or `source`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What CUDA makes of the value."""

    gpus: int
    """GPUs that remain visible."""
    fault: str = ""
    """What is wrong with it, as a clause; "" when nothing is."""
    listed: int = 0
    """Entries in the list."""


class VisibleDevicesWrong(Check):
    """CUDA_VISIBLE_DEVICES hides the GPUs that the job needs, or there are fewer GPUs than ranks.

    What it finds:
        A CUDA_VISIBLE_DEVICES that is empty or -1 although a GPU is there; entries that name no GPU of this
        machine, are no number or stand twice; and fewer visible (or granted) GPUs than ranks on the node.
    Why it hurts:
        CUDA stops reading at the first entry that names no GPU, without a message, and sees nothing at all
        when one stands twice: training falls back to the CPU or to fewer GPUs. A rank without a GPU dies with
        "invalid device ordinal".
    How it knows:
        The variable in this shell, the job script or the script, read as CUDA and torch read it, against the
        GPUs that the driver lists; ranks and granted GPUs from the launch line and the scheduler.
    False alarms:
        Hiding every GPU on purpose for a run on the CPU. Several ranks that share a GPU on purpose (MPS).
        A scheduler's job script that is read outside its allocation is held against what it asks for.
    Remedies:
        The value to set, or the number of ranks.
    References:
        - https://docs.nvidia.com/cuda/cuda-c-programming-guide/#environment-variables
        - https://github.com/pytorch/pytorch/blob/main/torch/cuda/__init__.py (_parse_visible_devices)
    """

    code = Code("ENV013")
    name = "visible-devices-wrong"
    reads = frozenset({Reads.ENVIRONMENT, Reads.CONFIG, Reads.SOURCE})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        given = self._given(patient)
        survey = optional(lambda: patient.gpu_survey)
        here = runs_here(patient) and survey is not None and bool(survey.gpus)
        seen = _Seen(gpus=-1)
        if survey is not None and here:
            seen = _resolve(given.value, survey) if given is not None else _Seen(gpus=len(survey.gpus))
            if given is not None and seen.fault:
                yield self._faulty(given, seen, survey)
        else:
            job = optional(lambda: patient.job)
            if job is None or ranks_here(patient) < 2 or (given is None and not job.gpus_granted):
                raise Unavailable(survey.absence if survey is not None else "the GPUs were not examined")
            if given is not None:
                seen = _Seen(gpus=_entries(given.value))
        yield from self._too_few(patient, given, seen, survey if here else None)

    def _given(self, patient: Patient) -> _Given | None:
        environment, source = optional(lambda: patient.environment), optional(lambda: patient.source)
        own = assigned(source, VARIABLE)
        outside = environment.get(VARIABLE) if environment is not None else None
        if own is not None and own.value is not None and not (own.default and outside is not None):
            return _Given(value=own.value, evidence=own.span, where="source")
        if environment is None or outside is None:
            return None
        where = "job script" if VARIABLE in environment.exports else "environment"
        return _Given(value=outside, evidence=environment.evidence(VARIABLE), where=where)

    def _faulty(self, given: _Given, seen: _Seen, survey: GpuSurvey) -> Finding:
        there = len(survey.gpus)
        left = "no GPU" if seen.gpus == 0 else f"{seen.gpus} of {count(seen.listed, 'GPU')} listed"
        return self.finding(
            f"{VARIABLE}={given.value!r} {seen.fault}: CUDA sees {left}, and the driver lists "
            f"{count(there, 'GPU')}.",
            evidence=(
                given.evidence,
                Measurement(name="gpus_listed", value=there, unit="{GPUs}", reproduce="nvidia-smi -L"),
            ),
            confidence=Confidence.SUSPECTED if given.where == "source" else Confidence.CONFIRMED,
            cost=Cost(
                breaks="CUDA sees no GPU" if seen.gpus == 0 else "the job sees fewer GPUs than it was given"
            ),
            subject=VARIABLE,
            facts=(("kind", "value"), ("gpus", there), ("visible", seen.gpus), ("where", given.where)),
        )

    def _too_few(
        self, patient: Patient, given: _Given | None, seen: _Seen, survey: GpuSurvey | None
    ) -> Iterator[Finding]:
        """Ranks against GPUs, and GPUs seen against GPUs granted."""
        job = optional(lambda: patient.job)
        if job is None or seen.fault:
            return
        ranks, granted = ranks_here(patient), job.gpus_granted
        visible, words = seen.gpus, f"{VARIABLE} leaves" if given is not None else "the driver lists"
        evidence: list[Evidence] = [given.evidence] if given is not None else []
        if survey is None and granted and (visible < 0 or granted < visible):
            visible, words = granted, f"{job.gpus_origin or 'the scheduler'} grants"
        if survey is not None:
            evidence.append(
                Measurement(name="gpus_visible", value=visible, unit="{GPUs}", reproduce="nvidia-smi -L")
            )
        elif granted:
            evidence.append(
                Measurement(name="gpus_granted", value=granted, unit="{GPUs}", provenance=Provenance.DECLARED)
            )
        if 0 <= visible < ranks and ranks > 1 and evidence:
            yield self.finding(
                f"{ranks} ranks are launched on this node, and {words} {count(visible, 'GPU')}.",
                evidence=tuple(evidence),
                confidence=Confidence.CONFIRMED if survey is not None else Confidence.SUSPECTED,
                cost=Cost(breaks="ranks without a GPU of their own die or share one"),
                subject="ranks",
                facts=(("kind", "ranks"), ("gpus", visible), ("ranks", ranks), ("visible", visible)),
            )
        elif survey is not None and granted and visible < granted and self._inside(patient):
            yield self.finding(
                f"{job.gpus_origin or 'The scheduler'} grants {count(granted, 'GPU')}, and {words} {visible}.",
                evidence=tuple(evidence),
                confidence=Confidence.CONFIRMED,
                cost=Cost(breaks="the job sees fewer GPUs than it was granted"),
                subject="granted GPUs",
                facts=(("kind", "granted"), ("gpus", granted), ("ranks", ranks), ("visible", visible)),
            )

    def _inside(self, patient: Patient) -> bool:
        environment = optional(lambda: patient.environment)
        return environment is not None and in_allocation(environment)


def _entries(value: str) -> int:
    """GPUs that a list names, where no GPU is at hand to ask."""
    text = value.strip()
    return 0 if text in {"", "-1", "NoDevFiles", "none"} else len(text.split(","))


def _resolve(value: str, survey: GpuSurvey) -> _Seen:
    """What is visible, by the rules of CUDA and of torch.cuda._parse_visible_devices."""
    text = value.strip()
    if not text:
        return _Seen(gpus=0, fault="is set and empty")
    entries = [entry.strip() for entry in text.split(",")]
    if text in {"-1", "NoDevFiles", "none"}:
        return _Seen(gpus=0, fault="hides every GPU", listed=len(entries))
    if entries[0].startswith("MIG-"):
        return _resolve_mig(entries, survey)
    uuids = [gpu.uuid for gpu in survey.gpus]
    by_uuid = entries[0].startswith("GPU-")
    if by_uuid and any(isinstance(uuid, Absent) for uuid in uuids):
        raise Unavailable("the GPUs do not tell their UUIDs")
    names = [uuid for uuid in uuids if not isinstance(uuid, Absent)]
    total = len(survey.gpus) + len(survey.lost)
    chosen: list[str] = []
    for entry in entries:
        found, fault = _by_uuid(entry, names) if by_uuid else _by_number(entry, total)
        if fault:
            return _Seen(gpus=len(chosen), fault=fault, listed=len(entries))
        if found in chosen:
            return _Seen(gpus=0, fault=f"names {entry} twice", listed=len(entries))
        chosen.append(found)
    return _Seen(gpus=len(chosen), listed=len(entries))


def _by_number(entry: str, total: int) -> tuple[str, str]:
    match = _NUMBER.match(entry)  # "1x" is 1: strtoul
    if match is None:
        return "", f"has the entry {entry!r}, which is no GPU" if entry else "has an empty entry"
    index = int(match.group())
    return (str(index), "") if index < total else ("", f"names GPU {index}")


def _by_uuid(entry: str, names: list[str]) -> tuple[str, str]:
    found = [name for name in names if name.lower().startswith(entry.lower())] if entry else []
    if len(found) == 1:
        return found[0], ""
    return "", f"names {entry or 'an empty entry'}, which {'no GPU has' if not found else 'fits several GPUs'}"


def _resolve_mig(entries: list[str], survey: GpuSurvey) -> _Seen:
    """A process uses one MIG instance, the first that is listed."""
    known = [
        uuid for gpu in survey.gpus if not isinstance(gpu.mig_instances, Absent) for uuid in gpu.mig_instances
    ]
    if entries[0].startswith("MIG-GPU-"):  # the form before driver 470: MIG-GPU-<uuid>/<instance>/<slice>
        raise Unavailable("MIG devices named by the GPU they are cut from are not resolved")
    if entries[0] not in known:
        return _Seen(gpus=0, fault=f"names {entries[0]}, which is no MIG device here", listed=len(entries))
    return _Seen(gpus=1, listed=len(entries))
