"""ENV009: host memory against what the job takes."""

import pytest
from scripts import script_patient

from gpudoctor.model import Absent, Confidence
from gpudoctor.model.signs.job import Job, Profile
from gpudoctor.testing import GIB, examine, make_gpu, make_host, make_patient, prescribe
from gpudoctor_checks.environment.host_memory_tight import HostMemoryTight
from gpudoctor_rules.advice import advice
from gpudoctor_rules.environment.host import host_memory_tight

MIB = 1 << 20


def script(workers, **signs):
    return script_patient(
        f"""
        from torch.utils.data import DataLoader
        loader = DataLoader(data, num_workers={workers})
        """,
        **signs,
    )


def test_sick_ranks_and_workers_do_not_fit():
    patient = script(8, host=make_host(memory_available=20 * GIB), job=Job(profile=Profile.SLURM, ranks_per_node=8))
    [finding] = examine(HostMemoryTight, patient)
    assert finding.detail.need == 8 * (1.5 * GIB + 8 * 256 * MIB)
    assert finding.cost.bytes == 8 * GIB
    memory, *_ = prescribe((host_memory_tight, *advice("environment")), finding, patient)
    assert memory.steps == ("#SBATCH --mem=56G",)


def test_sick_the_schedulers_grant_is_held_too():
    job = Job(profile=Profile.SLURM, ranks_per_node=4, memory_granted=4 * GIB, script_path="job.sbatch")
    [finding] = examine(HostMemoryTight, make_patient(host=make_host(), job=job, environment={}))
    assert "4 GiB of host memory is left" in finding.message


def test_sick_swapping():
    host = make_host(swap_used=3 * GIB, swap_rate=40.0 * MIB)
    patient = make_patient(host=host)
    [finding] = examine(HostMemoryTight, patient)
    assert finding.confidence is Confidence.CONFIRMED
    assert "40 MiB a second" in finding.message
    assert len(prescribe((host_memory_tight, *advice("environment")), finding, patient)) == 1


@pytest.mark.parametrize(
    "patient",
    [
        script(8, host=make_host(), gpus=[make_gpu()]),  # plenty
        make_patient(host=make_host(swap_used=GIB, swap_rate=0.0)),  # parked pages
        make_patient(host=make_host(swap_used=GIB, swap_rate=4096.0)),  # a page or two
        make_patient(host=make_host(swap_used=GIB, swap_rate=Absent("no counters"))),  # untold
        make_patient(host=make_host(memory_available=300 * MIB)),  # a laptop
    ],
)
def test_healthy(patient):
    assert examine(HostMemoryTight, patient) == []
