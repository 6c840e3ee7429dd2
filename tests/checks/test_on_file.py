"""The scripts and configs of `tests/patients`: the sick ones have the findings of `said.txt`, the healthy ones none."""

import pytest
import said
from cures import after, files_of
from jobs import PATIENTS, job_files, job_patient
from scripts import script_patient, scripts_on_file

from gpudoctor.engine.registry import load_registry
from gpudoctor.model import Unavailable
from gpudoctor.model.signs.job import Job, Profile
from gpudoctor.model.signs.packages import TorchBuild
from gpudoctor.testing import examine, make_gpu, make_host, make_torch

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


PREEMPTED = Job(profile=Profile.SLURM, preemptible=True, script_path="job.sbatch", script_text="#SBATCH --requeue\n")
TORCH_1 = make_torch("1.13.1+cu117")


def card(*capability):
    return {"gpus": [make_gpu(compute_capability=capability)]}


@pytest.mark.parametrize(
    ("code", "name", "found", "words", "signs"),
    [
        ("DATA001", "healthy_command_line", 1, "", {}),
        ("DATA001", "healthy_command_line", 0, "--workers 6", {}),
        ("DATA003", "sick_too_many", 0, "", {"host": make_host(cpus_affinity=64)}),
        ("DATA006", "sick_collate", 0, "--max_length 128", {}),
        ("DIST003", "sick_inner_loop", 0, "--micro-batches 1", {}),
        ("DIST005", "healthy_switch_off", 1, "--data-parallel", {}),
        ("LOOP005", "sick_amp", 0, "", {"torch": make_torch("2.3.1")}),
        ("LOOP009", "sick_nothing", 1, "", {"job": PREEMPTED}),
        ("LOOP009", "sick_trainer_off", 1, "", {"job": PREEMPTED}),
        ("PERF001", "sick_resnet", 0, "", card(6, 1)),
        ("PERF001", "sick_switch_off", 0, "--amp", {}),
        ("PERF002", "sick_matmul", 0, "", card(7, 0)),
        ("PERF003", "sick_resnet", 0, "", {"torch": TORCH_1}),
        ("PERF003", "sick_resnet", 0, "", card(6, 1)),
        ("PERF009", "sick_option_default_cpu", 0, "--device cuda", card(9, 0)),
        ("PERF009", "sick_no_device", None, "", {"gpus": []}),
    ],
)
def test_the_command_line_and_the_machine_change_what_is_found(code, name, found, words, signs):
    patient, check = script_patient(scripts_on_file(code)[name], words.split(), **signs), load_registry().checks[code]
    if found is None:
        with pytest.raises(Unavailable):
            examine(check, patient)
    else:
        assert len(examine(check, patient)) == found


@pytest.mark.parametrize(
    ("code", "name", "more"),
    [
        ("LOOP007", "sick_no_wait", "def use(p):\n    torch.cuda.current_stream().wait_stream(p.stream)\n"),
        ("MEM011", "sick_global", "model = torch.nn.Linear(8, 8).weight.to_sparse_csr()\n"),
        ("PERF006", "sick_from_pretrained", "print(model.config.output_attentions)\n"),
    ],
)
def test_healthy_where_the_program_does_one_thing_more(code, name, more):
    text = scripts_on_file(code)[name].read_text("utf-8") + "\n" + more
    assert examine(load_registry().checks[code], script_patient(text)) == []


@pytest.mark.parametrize(
    ("code", "name", "limit"),
    [
        ("OBS003", "healthy_epochs", {"save_period": 2000}),
        ("SYNC003", "healthy_period", {"period": 200}),
        ("SYNC004", "healthy_seldom", {"metric_period": 100}),
    ],
)
def test_sick_at_the_users_threshold(code, name, limit):
    assert examine(load_registry().checks[code], script_patient(scripts_on_file(code)[name]), **limit)
