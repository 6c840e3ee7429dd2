"""The scripts and configs of `tests/patients`: the sick ones have the findings of `said.txt`, the healthy ones none."""

import pytest
import said
from cures import after, files_of
from jobs import PATIENTS, job_files, job_patient

from gpudoctor.engine.registry import load_registry
from gpudoctor.model.signs.job import Job, Profile
from gpudoctor.model.signs.packages import TorchBuild
from gpudoctor.testing import examine, make_gpu, make_host

TEXT = "#!/bin/bash\n#SBATCH --time=04:00:00\nsrun python train.py\n"
LIMITED = Job(profile=Profile.SLURM, time_limit=4 * 3600.0, script_path="job.sbatch", script_text=TEXT)
SIGNS = {
    "DATA003": {"host": make_host(cpus_affinity=16)},
    "LOOP005": {"torch": TorchBuild(version="2.13.0", cuda="12.8", hip=None, arch_list=(), cxx11_abi=True, path="t")},
    "LOOP009": {"job": LIMITED},
    "LOOP010": {"job": LIMITED},
    "PERF009": {"gpus": [make_gpu()]},
}
"""What is known beside the files."""
CODES = sorted({path.name for kind in ("source", "configs") for path in (PATIENTS / kind).iterdir() if path.is_dir()})
JOBS = [
    (code, name.partition("-")[2] if "config" not in name else name, paths)
    for code in CODES
    for state in ("sick", "healthy")
    for name, paths in job_files(code, state)
    if name != "source-healthy_command_line"  # with its arguments alone
]


def line_of(finding, patient):
    """The place, what is found, and the first remedy with the lines that it adds."""
    place = getattr(finding.span or finding.evidence[0], "line", None)
    found = f"line {place}, {finding.confidence.value} {finding.severity.value}: {finding.message}"
    rules = load_registry().rules.get(finding.code, ())
    remedy = next((item for rule in rules for item in rule().prescribe(finding, patient)), None)
    if remedy is None:
        return found
    texts = files_of(patient)
    new = after(texts, finding, remedy) if remedy.edits else {}
    added = [line.strip() for path in new for line in new[path].splitlines() if line not in texts[path].splitlines()]
    return " | ".join([found, f"{remedy.applicability.value}: {remedy.title}", *added])


@pytest.mark.parametrize(("code", "name", "paths"), JOBS, ids=[f"{code}-{name}" for code, name, _ in JOBS])
def test_sick_and_healthy_patients_on_file(code, name, paths):
    patient = job_patient(paths, **SIGNS.get(code, {}))
    found = examine(load_registry().checks[code], patient)
    assert bool(found) is ("sick_" in name)
    said.compare_whole(code, name, {line_of(finding, patient) for finding in found})
