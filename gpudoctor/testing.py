"""Helpers for tests of checks and rules, ours and those of plugin authors.

    patient = make_patient(gpus=[make_gpu(row_remap=RowRemap(...))])
    [finding] = examine(MemoryErrors, patient)
    remedies = prescribe(MemoryErrorsRule, finding, patient)

`make_gpu`, `make_survey`, `make_host` start from a healthy machine and take the fields to change.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeAlias

from gpudoctor.model import Absent, Advice, Check, Finding, Patient, PatientKind, Remedy, Rule, Sign, Signs, rules_of
from gpudoctor.model.check import track_record
from gpudoctor.model.rule import Prescriber
from gpudoctor.model.signs.gpu import DriverState, Gpu, GpuSurvey, PciDevice, RowRemap
from gpudoctor.model.signs.host import Disk, Host, Limit
from gpudoctor.model.signs.job import Environment
from gpudoctor.model.signs.packages import Distribution, Packages, TorchBuild

GIB = 1 << 30
Given: TypeAlias = type[Rule] | Advice | Prescriber

_UNASKED = Absent("not supported by this card")

_HOST = Host(
    cpus_affinity=32, cpu_quota=None, memory_total=256 * GIB, memory_available=200 * GIB, memory_limit=None,
    swap_used=0, swap_rate=0.0, shm_total=128 * GIB,
    open_files=Limit(soft=1048576, hard=1048576), locked_memory=Limit(soft=None, hard=None),
    processes=Limit(soft=None, hard=None), infiniband=(), container=None, system="Linux 6.8 x86_64", hostname="node-1",
    disks=(
        Disk(role="working folder", path="/data/job", mount="/data", kind="ext4", total=4000 * GIB, free=2000 * GIB),
    ),
)  # fmt: skip
_GPU = Gpu(
    index=0, name="NVIDIA H100 80GB HBM3", uuid="GPU-00000000-0000-0000-0000-000000000000", pci_address="0000:1b:00.0",
    memory_total=80 * GIB, memory_used=600 * (1 << 20), compute_capability=(9, 0), utilization=0.0,
    ecc_uncorrected_volatile=0, row_remap=RowRemap(uncorrectable=0, pending=False, failure=False),
    retired_pages=_UNASKED, recovery_action=0,
    event_reasons=1, power=70.0, power_limit=700.0, power_limit_default=700.0,
    temperature=32.0, temperature_slowdown=90.0, temperature_max=87.0, temperature_memory=40.0,
    temperature_memory_max=95.0, temperature_margin=50.0, pcie_width=16, pcie_width_max=16, pcie_generation=5,
    pcie_generation_max=5, nvlinks=(), fabric_state=3, fabric_unhealthy=False, persistence=True, compute_mode=0,
    mig_enabled=False, mig_instances=(), processes=(), display_active=False,
)  # fmt: skip


def make_gpu(index: int = 0, **changes: object) -> Gpu:
    """A healthy H100, with the fields to change."""
    return replace(_GPU, index=index, pci_address=f"0000:{0x1B + index:02x}:00.0", **changes)  # type: ignore[arg-type]


def make_survey(gpus: Iterable[Gpu] = (), **changes: object) -> GpuSurvey:
    """A ready driver that sees the GPUs, with the fields to change."""
    cards = tuple(gpus)
    survey = GpuSurvey(
        driver=DriverState.READY,
        driver_version="570.86.15",
        cuda_driver_version=(12, 8),
        kernel_module_version="570.86.15",
        pci_devices=tuple(
            PciDevice(address=str(gpu.pci_address), device_id="10de:2330", driver="nvidia") for gpu in cards
        ),
        device_nodes=tuple(f"/dev/nvidia{gpu.index}" for gpu in cards),
        gpus=cards,
    )
    return replace(survey, **changes)  # type: ignore[arg-type]


def make_host(**changes: object) -> Host:
    """A healthy 32-core node, with the fields to change."""
    return replace(_HOST, **changes)  # type: ignore[arg-type]


def make_packages(
    python: str = "3.11.7", requires: Mapping[str, Iterable[str]] | None = None, **versions: str
) -> Packages:
    """An environment with these distributions, `make_packages(torch="2.5.1", huggingface_hub="0.30.0")`.

    `requires` gives a distribution's `Requires-Dist` lines by its normalised name.
    """
    lines = requires or {}
    names = {name.replace("_", "-"): version for name, version in versions.items()}
    place = "/env/lib/site-packages"
    found = {
        name: Distribution(name=name, version=version, requires=tuple(lines.get(name, ())), location=place)
        for name, version in names.items()
    }
    return Packages(prefix="/env", python=python, executable="/env/bin/python", distributions=found)


def make_torch(version: str = "2.9.1+cu128", **changes: object) -> TorchBuild:
    """A CUDA build of torch, with the fields to change."""
    built, path = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"), "/env/lib/site-packages/torch"
    build = TorchBuild(version=version, cuda="12.8", hip=None, arch_list=built, cxx11_abi=True, path=path)
    return replace(build, **changes)  # type: ignore[arg-type]


def make_patient(
    *,
    gpus: Iterable[Gpu] | None = None,
    survey: GpuSurvey | None = None,
    environment: Mapping[str, str] | Environment | None = None,
    kind: PatientKind = PatientKind.MACHINE,
    **signs: object,
) -> Patient:
    """A patient with the signs that are given, by the names of `Signs`; the others are unavailable."""
    if survey is None and gpus is not None:
        survey = make_survey(gpus)
    if environment is not None and not isinstance(environment, Environment):
        environment = Environment(variables=dict(environment))
    signs |= {"gpu_survey": survey, "environment": environment}
    taken: dict[str, Sign[Any]] = {}
    for name in {**dict.fromkeys(field.name for field in fields(Signs)), **signs}:
        title, value = f"the {name.replace('_', ' ')}", signs.get(name)
        taken[name] = Sign.missing(title, f"{title} was not given") if value is None else Sign.of(title, value)
    return Patient(kind, "a patient", Signs(**taken))


def examine(check: type[Check], patient: Patient, **overrides: float) -> list[Finding]:
    """The findings of one check; `overrides` are its thresholds. `Unavailable` passes through."""
    record = track_record(check)
    return [said for item in check(overrides).examine(patient) if (said := record.said(item, preview=True))]


def prescribe(rule: Given | Iterable[Given], finding: Finding, patient: Patient) -> list[Remedy]:
    """The remedies of a rule, a function marked `@answers`, or rows, or of several (`(its_rule, *ADVICE)`)."""
    given = tuple(rule) if isinstance(rule, Iterable) else (rule,)
    rules: list[type[Rule]] = [item for item in given if isinstance(item, type)]
    rules += rules_of((item for item in given if not isinstance(item, type)), __name__)
    return [item for one in rules if one.answers == finding.code for item in one().prescribe(finding, patient)]
