"""The faults of the four documents that the project began from (S1 to S4 in the catalogue), each on its line.

`patients/*_sick.*` are written the way those documents write, comments in Chinese included; `# <- CODE` marks the
guilty line. `*_well.*` is the same file repaired, and must be silent about those codes. Left out are the rows that
only a run can show (GPU001, MEM001, NUM001, PERF012, ...), those of the machine alone (ENV009, GPU002), and those
that wait for the estimate (MEM004, MEM007, MEM008, PERF007, CFG004).
"""

import json
import re
from pathlib import Path

import pytest
from configs import config_patient
from scripts import script_patient

from gpudoctor.cli import main
from gpudoctor.engine.registry import load_registry
from gpudoctor.model import Patient, Unavailable
from gpudoctor.testing import examine, make_gpu, make_host

PATIENTS = Path(__file__).parent / "patients"
_MARK = re.compile(r"<- ((?:[A-Z]+\d{3}\b ?)+)")

PLANTED = {
    "S1": "DATA001 DATA002 DATA004 DATA006 DATA011 DATA012 SYNC003 OBS005 MEM011 ENV010 LOOP007 LOOP011 PERF001 "
    "PERF003 CFG007 CFG008 CFG009",
    "S2": "DATA003 DATA004 SYNC002 PERF006 OBS001 CFG001 LOOP009",
    "S3": "DATA004 LOOP005 LOOP007",
    "S4": "OBS001 OBS002 OBS003 OBS004 OBS007 SYNC004 DIST004 CFG006",
}
JOB = {"ENV007", "LOOP009", "LOOP010", "CFG001"}
"""What the job script of S2 adds, with its script and engine file as one patient."""
ENGINE = {("CFG001", 3), ("OBS001", 5)}
"""JSON has no comments: the marks of `s2_engine_sick.json`."""

SICK = sorted(path for path in PATIENTS.glob("*_sick.*") if path.suffix != ".sbatch")


def patient(path: Path) -> Patient:
    machine = {"host": make_host(cpus_affinity=16), "gpus": [make_gpu()], "environment": {}}
    return script_patient(path, **machine) if path.suffix == ".py" else config_patient(path, **machine)


def marks(path: Path) -> set[tuple[str, int]]:
    """Code and line of every planted fault."""
    if path.suffix == ".json":
        return ENGINE
    lines = path.read_text(encoding="utf-8").splitlines()
    return {
        (code, number)
        for number, line in enumerate(lines, 1)
        for found in _MARK.findall(line)
        for code in found.split()
    }


def said(path: Path, codes: set[str]) -> set[tuple[str, int]]:
    """Code and every line of evidence of the findings."""
    checks = load_registry().checks
    found: set[tuple[str, int]] = set()
    for code in codes:
        try:
            findings = examine(checks[code], patient(path))
        except Unavailable:
            continue  # it reads a sign that this patient lacks
        found |= {(code, item.line) for finding in findings for item in finding.evidence if getattr(item, "line", None)}
    return found


@pytest.mark.parametrize("path", SICK, ids=lambda path: path.name)
def test_each_fault_is_found_on_its_line(path):
    planted = {(code, line) for code, line in marks(path) if code != "LOOP009"}  # that takes the job's length
    assert planted
    assert planted - said(path, {code for code, _ in planted}) == set()


@pytest.mark.parametrize("path", SICK, ids=lambda path: path.name)
def test_the_repaired_twin_is_silent_about_them(path):
    twin = path.with_name(path.name.replace("_sick", "_well"))
    assert said(twin, {code for code, _ in marks(path)}) == set()


@pytest.mark.parametrize("document", PLANTED)
def test_every_row_of_the_document_is_planted(document):
    files = [path for path in SICK if path.name.startswith(document.lower())]
    assert {code for path in files for code, _ in marks(path)} == set(PLANTED[document].split())


def test_the_job_is_one_patient(capsys):
    """The launch line leads to the script, its arguments and its DeepSpeed file."""
    main(["check", str(PATIENTS / "s2_job_sick.sbatch"), "--format", "json", "--fail-on", "never"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert {finding["code"] for finding in findings} >= JOB | {"SYNC002", "PERF006", "DATA003"}
    [checkpoint] = [finding for finding in findings if finding["code"] == "LOOP009"]
    assert checkpoint["severity"] == "note"
    files = [Path(item["path"]).name for item in checkpoint["evidence"][:2]]
    assert files == ["s2_train_sick.py", "s2_job_sick.sbatch"]
