"""What is not run is not an ailment: sick scripts behind a constant that is off, and in functions never called."""

import textwrap

import pytest
from scripts import PATIENTS, read_script

from gpudoctor.engine.registry import load_registry
from gpudoctor.model import Code, PatientKind, Unavailable
from gpudoctor.testing import make_patient, make_torch

TOPICS = ("DATA", "DIST", "LOOP", "MEM", "NUM", "OBS", "PERF", "SYNC")
SICK = [path for path in sorted(PATIENTS.glob("*/sick_*.py")) if path.parent.name.startswith(TOPICS)]
WELL = """import torch
net_ = torch.nn.Linear(3, 3)
optimizer_ = torch.optim.SGD(net_.parameters(), lr=0.01)
def main_():
    for x_ in torch.utils.data.DataLoader(list(range(9))):
        optimizer_.zero_grad()
        net_(x_).sum().backward()
        optimizer_.step()
main_()
"""
OFF = "def never_called_():\n{body}\nDEBUG_ = False\nif DEBUG_:\n{body}\n"
CHECKS = load_registry().checks


def inside(path, text):
    """Findings of the folder's check that name a line of the sick part."""
    patient = make_patient(kind=PatientKind.SCRIPT, source=read_script(text), torch=make_torch("2.13.0+cpu"))
    check = CHECKS[Code(path.parent.name)]
    first, last = len(WELL.splitlines()), 10**6
    try:
        found = list(check().examine(patient))
    except Unavailable:
        return []
    return [finding.message for finding in found if finding.span is not None and first < finding.span.line <= last]


@pytest.mark.parametrize("path", SICK, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_healthy_a_sick_script_that_nothing_runs(path):
    body = textwrap.indent(path.read_text(encoding="utf-8"), "    ")
    assert inside(path, WELL + OFF.format(body=body)) == []


@pytest.mark.slow
def test_sick_the_same_scripts_when_they_run():
    """The net above catches something: most of these scripts are sick behind a switch that is on, too."""
    ill = 0
    for path in SICK:
        body = textwrap.indent(path.read_text(encoding="utf-8"), "    ")
        ill += bool(inside(path, WELL + "DEBUG_ = True\nif DEBUG_:\n" + body))
    assert ill > 0.6 * len(SICK)
