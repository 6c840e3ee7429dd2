"""Runs a scenario the whole way: files, child process, survey, checks."""

import importlib
import os
import pkgutil
from pathlib import Path

from fake_nvml.build import library_folder
from fake_nvml.scenarios import Scenario
from gpudoctor.engine.registry import load_registry
from gpudoctor.model import Check, Finding, Patient, Rule, Unavailable
from gpudoctor.model.signs.gpu import GpuSurvey
from gpudoctor.model.signs.kernel_log import KernelLog, KernelMessage
from gpudoctor.testing import make_host, make_patient


def environment(scenario: Scenario, root: Path, libraries: Path) -> dict[str, str]:
    """Lay the machine out under `root`; the variables that make a process see it."""
    variables = scenario.machine.build(root)
    if scenario.machine.library:
        folder = library_folder(libraries, old_driver=scenario.machine.old_driver)
    else:
        folder = libraries / "none"
    return {**os.environ, **variables, "LD_LIBRARY_PATH": str(folder)}


def survey(scenario: Scenario, root: Path, libraries: Path) -> GpuSurvey:
    """What the reader says of the scenario's machine."""
    from gpudoctor.vitals.nvml.survey import take

    return take(limit=scenario.limit, environment=environment(scenario, root, libraries))


def patient(scenario: Scenario, seen: GpuSurvey) -> Patient:
    """The machine as a patient."""
    log = KernelLog(origin="dmesg", messages=tuple(KernelMessage(text=text, age=600.0) for text in scenario.kernel_log))
    return make_patient(survey=seen, host=make_host(container=scenario.container), kernel_log=log)


def findings(scenario: Scenario, seen: GpuSurvey) -> list[Finding]:
    """What the checks of the driver and the GPUs find, in order of code."""
    found: list[Finding] = []
    one = patient(scenario, seen)
    for check in sorted(of_this_topic("gpudoctor_checks", Check), key=lambda check: check.code):
        try:
            found += check().examine(one)
        except Unavailable:
            continue
    return found


def of_this_topic(package: str, base: type) -> list[type]:
    """The checks or rules of the driver and the GPUs."""
    hardware = importlib.import_module(f"{package}.hardware")
    names = [f"{package}.hardware.{entry.name}" for entry in pkgutil.iter_modules(hardware.__path__)]
    modules = [importlib.import_module(name) for name in [*names, f"{package}.environment.driver_unreachable"]]
    return [
        item
        for module in modules
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, base) and item.__module__ == module.__name__
    ]


def rules_for(finding: Finding) -> list[type[Rule]]:
    """The rules that answer a finding."""
    return list(load_registry().rules.get(finding.code, ()))


def codes(found: list[Finding]) -> tuple[str, ...]:
    """`GPU003 error`, sorted."""
    return tuple(sorted(f"{item.code} {item.severity.value}" for item in found))
