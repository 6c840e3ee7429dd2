"""ENV007: processes and threads against the CPUs."""

import pytest
from recordings import make_process, make_recording, record
from scripts import script_patient

from gpudoctor.model import Confidence, Severity, Unavailable
from gpudoctor.model.signs.job import Job, Launch, Profile
from gpudoctor.testing import examine, make_gpu, make_host, make_patient, prescribe
from gpudoctor_checks.environment.cpu_budget import CpuBudget
from gpudoctor_rules.environment.host import cpu_budget


def script(workers, **signs):
    return script_patient(
        f"""
        from torch.utils.data import DataLoader
        loader = DataLoader(data, num_workers={workers})
        for x in loader:
            model(x).sum().backward()
            optimizer.step()
        """,
        **signs,
    )


def torchrun(ranks, **changes):
    launch = Launch(launcher="torchrun", script="train.py", module=None, arguments=(), ranks_per_node=ranks, nodes=1)
    return Job(profile=Profile.TORCHRUN, launches=(launch,), ranks_per_node=ranks, **changes)


def cpus(number, quota=None):
    return make_host(cpus_affinity=number, cpu_quota=quota)


def omp(number):
    return {"OMP_NUM_THREADS": str(number)}


GRANT = Job(profile=Profile.SLURM, ranks_per_node=4, cpus_granted=4, script_path="job.sbatch")


@pytest.mark.parametrize(
    ("patient", "severity", "words", "titles"),
    [
        (script(8, host=cpus(16), job=torchrun(8), environment={}), Severity.WARNING, "72 on 16 CPUs", ["set num_workers=1 per rank instead of 8"]),
        (script(4, host=cpus(64, quota=8.0), job=torchrun(4), environment=omp(8)), Severity.WARNING, "48 on 8 CPUs", ["export OMP_NUM_THREADS=1", "set num_workers=1 per rank instead of 4"]),
        (script(0, host=cpus(4), environment=omp(64)), Severity.WARNING, "OMP_NUM_THREADS=64", ["export OMP_NUM_THREADS=4"]),
        (script(8, host=cpus(128), environment=omp(1), job=GRANT), Severity.WARNING, "36 on 4 CPUs", ["set num_workers=1 per rank instead of 8"]),
        (make_patient(host=cpus(64, quota=4.0), gpus=[make_gpu()], environment={}), Severity.NOTE, "", ["export OMP_NUM_THREADS=4"]),
    ],
)  # fmt: skip
def test_sick_more_threads_than_cpus_or_threads_that_nobody_chose(patient, severity, words, titles):
    [finding] = examine(CpuBudget, patient)
    assert finding.severity is severity and words in finding.message
    found = prescribe(cpu_budget, finding, patient)
    assert sorted(remedy.title for remedy in found) == titles
    for remedy in found:
        if remedy.title.startswith("set num_workers"):
            assert remedy.sets == (("DataLoader.num_workers", remedy.title[16]),)


def test_sick_threads_that_a_run_has_shown():
    text = "import os, torch\ntorch.set_num_threads(16 * (os.cpu_count() or 1))\nloss.backward()\n"
    recording = make_recording(make_process(records=[record("torch", threads=128)]))
    patient = script_patient(text, host=cpus(8), environment={}, recording=recording)
    [finding] = examine(CpuBudget, patient)
    assert (finding.confidence, finding.span.line) == (Confidence.CONFIRMED, 2)
    [remedy] = prescribe(cpu_budget, finding, patient)
    assert remedy.title == "export OMP_NUM_THREADS=8"


@pytest.mark.parametrize(
    "patient",
    [
        script(4, host=cpus(32), job=torchrun(4), environment={"OMP_NUM_THREADS": "4"}),  # fits
        script(7, host=cpus(64), job=torchrun(8), environment={}),  # torchrun and workers that fill the CPUs
        script(24, host=cpus(8), environment={}),  # one loader is DATA003's
        make_patient(host=cpus(64, quota=2.0), environment={}),  # no purpose
        make_patient(host=cpus(64), job=torchrun(4), environment={"OMP_NUM_THREADS": "1"}),  # the user's own 1
    ],
)
def test_healthy(patient):
    assert examine(CpuBudget, patient) == []


def test_healthy_a_script_read_elsewhere_without_a_grant_is_a_skip():
    job = Job(profile=Profile.SLURM, ranks_per_node=8, script_path="job.sbatch")
    with pytest.raises(Unavailable, match="another machine"):
        examine(CpuBudget, script(8, host=cpus(2), job=job, environment={}))
