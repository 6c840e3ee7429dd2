"""ENV007: processes and threads against the CPUs."""

import pytest
from edits import apply_edits
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
    return make_host(cpus_installed=number, cpus_affinity=number, cpu_quota=quota)


def test_sick_eight_ranks_of_eight_workers_on_sixteen_cpus():
    patient = script(8, host=cpus(16), job=torchrun(8), environment={})
    [finding] = examine(CpuBudget, patient)
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.PROBABLE)
    assert "72 on 16 CPUs" in finding.message
    [remedy] = prescribe(cpu_budget, finding, patient)
    assert remedy.sets == (("DataLoader.num_workers", "1"),)


def test_sick_the_quota_counts_and_not_the_cpus():
    patient = script(4, host=cpus(64, quota=8.0), job=torchrun(4), environment={"OMP_NUM_THREADS": "8"})
    [finding] = examine(CpuBudget, patient)
    assert "48 on 8 CPUs" in finding.message
    assert {remedy.title for remedy in prescribe(cpu_budget, finding, patient)} == {
        "export OMP_NUM_THREADS=1",
        "set num_workers=1 per rank instead of 4",
    }


def test_sick_threads_that_do_not_know_of_the_quota():
    patient = make_patient(host=cpus(64, quota=4.0), gpus=[make_gpu()], environment={})
    [finding] = examine(CpuBudget, patient)
    assert finding.severity is Severity.NOTE
    [remedy] = prescribe(cpu_budget, finding, patient)
    assert remedy.title == "export OMP_NUM_THREADS=4"


def test_sick_one_thread_a_rank_from_torchrun():
    patient = make_patient(host=cpus(64), job=torchrun(4), environment={})
    [finding] = examine(CpuBudget, patient)
    assert finding.severity is Severity.NOTE
    [remedy] = prescribe(cpu_budget, finding, patient)
    assert remedy.title == "export OMP_NUM_THREADS=16"
    with_workers = script(12, host=cpus(64), job=torchrun(4), environment={})
    [finding] = examine(CpuBudget, with_workers)
    assert prescribe(cpu_budget, finding, with_workers)[0].title == "export OMP_NUM_THREADS=4"


@pytest.mark.parametrize(
    ("patient", "words"),
    [
        (script(0, host=cpus(4), environment={"OMP_NUM_THREADS": "64"}), "OMP_NUM_THREADS=64"),
        (script(8, host=cpus(128), environment={"OMP_NUM_THREADS": "1"}, job=Job(
            profile=Profile.SLURM, ranks_per_node=4, cpus_granted=4, script_path="job.sbatch")), "36 on 4 CPUs"),
    ],
)  # fmt: skip
def test_sick_threads_or_a_grant_that_is_written(patient, words):
    [finding] = examine(CpuBudget, patient)
    assert finding.severity is Severity.WARNING and words in finding.message


def test_sick_threads_that_a_run_has_shown():
    text = "import os, torch\ntorch.set_num_threads(16 * (os.cpu_count() or 1))\nloss.backward()\n"
    recording = make_recording(make_process(records=[record("torch", threads=128)]))
    patient = script_patient(text, host=cpus(8), environment={}, recording=recording)
    [finding] = examine(CpuBudget, patient)
    assert (finding.confidence, finding.span.line) == (Confidence.CONFIRMED, 2)
    [remedy] = prescribe(cpu_budget, finding, patient)
    assert "torch.set_num_threads(8)" in apply_edits(text, remedy.edits)
    assert remedy.override == (("torch.num_threads", "8"),)


@pytest.mark.parametrize(
    "patient",
    [
        script(4, host=cpus(32), job=torchrun(4), environment={"OMP_NUM_THREADS": "4"}),  # fits
        script(7, host=cpus(64), job=torchrun(8), environment={}),  # torchrun and workers that fill the CPUs
        script(24, host=cpus(8), environment={}),  # one loader is DATA003's
        make_patient(host=cpus(64), environment={}),  # no job
        make_patient(host=cpus(64, quota=2.0), environment={}),  # no purpose
        make_patient(host=cpus(8), gpus=[make_gpu()], environment={}),  # a workstation
        make_patient(host=cpus(64), job=torchrun(4), environment={"OMP_NUM_THREADS": "1"}),  # the user's own 1
        make_patient(host=cpus(8), job=torchrun(4), environment={}),  # one spare CPU
    ],
)
def test_healthy(patient):
    assert examine(CpuBudget, patient) == []


def test_healthy_a_script_read_elsewhere_without_a_grant_is_a_skip():
    job = Job(profile=Profile.SLURM, ranks_per_node=8, script_path="job.sbatch")
    with pytest.raises(Unavailable, match="another machine"):
        examine(CpuBudget, script(8, host=cpus(2), job=job, environment={}))


def test_the_threshold_is_the_users():
    patient = script(8, host=cpus(16), job=torchrun(8), environment={"OMP_NUM_THREADS": "1"})
    assert examine(CpuBudget, patient)
    assert examine(CpuBudget, patient, oversubscription=5.0) == []
