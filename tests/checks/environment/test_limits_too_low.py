"""ENV008: open files, locked memory, processes."""

import pytest
from scripts import script_patient

from gpudoctor.model import Severity
from gpudoctor.model.signs.host import Limit
from gpudoctor.model.signs.job import Job, Profile
from gpudoctor.testing import GIB, examine, make_gpu, make_host, make_patient, prescribe
from gpudoctor_checks.environment.limits_too_low import LimitsTooLow
from gpudoctor_rules.advice import advice
from gpudoctor_rules.environment.host import limits_too_low

LOW = Limit(soft=1024, hard=524288)
SMALL = Limit(soft=8 << 20, hard=8 << 20)


def script(workers, **signs):
    return script_patient(
        f"""
        import sys
        from torch.utils.data import DataLoader
        loader = DataLoader(data, num_workers={workers})
        """,
        **signs,
    )


def test_sick_open_files_with_workers():
    patient = script(8, host=make_host(open_files=LOW))
    [finding] = examine(LimitsTooLow, patient)
    assert finding.severity is Severity.WARNING
    assert "1024" in finding.message and "8 workers" in finding.message
    first, second = prescribe((limits_too_low, *advice("environment")), finding, patient)
    assert first.title == "ulimit -n 65536"
    assert "file_system" in second.title
    [finding] = examine(LimitsTooLow, script("int(sys.argv[1])", host=make_host(open_files=LOW)))
    assert finding.severity is Severity.NOTE  # only a run tells


@pytest.mark.parametrize(
    ("container", "title"),
    [("docker", "docker run --ulimit nofile=65536:65536"), (None, "ask the administrator for nofile 65536")],
)
def test_sick_open_files_under_a_low_hard_limit(container, title):
    patient = script(8, host=make_host(open_files=Limit(soft=1024, hard=4096), container=container))
    [finding] = examine(LimitsTooLow, patient)
    assert prescribe((limits_too_low, *advice("environment")), finding, patient)[0].title == title


def test_sick_locked_memory_with_infiniband():
    patient = make_patient(host=make_host(locked_memory=SMALL, infiniband=("mlx5_0", "mlx5_1")))
    [finding] = examine(LimitsTooLow, patient)
    assert "8 MiB" in finding.message and "mlx5_0" in finding.message
    [remedy] = prescribe((limits_too_low, *advice("environment")), finding, patient)
    assert remedy.sets == (("RLIMIT_MEMLOCK", "unlimited"),)
    soft_only = make_patient(host=make_host(locked_memory=Limit(soft=65536, hard=None), infiniband=("mlx5_0",)))
    [finding] = examine(LimitsTooLow, soft_only)
    assert prescribe((limits_too_low, *advice("environment")), finding, soft_only)[0].title == "ulimit -l unlimited"


def test_sick_locked_memory_over_ethernet_for_a_job_of_several_nodes():
    host = make_host(locked_memory=SMALL, infiniband=("mlx5_0",), roce=("mlx5_0",))
    assert examine(LimitsTooLow, make_patient(host=host, job=Job(profile=Profile.SLURM, nodes=2)))


def test_sick_processes():
    host = make_host(processes=Limit(soft=512, hard=512), container="docker")
    patient = script(8, host=host, job=Job(profile=Profile.TORCHRUN, ranks_per_node=8), environment={})
    [finding] = examine(LimitsTooLow, patient)
    need = 8 * (1 + 64 + 8 * 4)
    assert finding.detail.need == need
    [remedy] = prescribe((limits_too_low, *advice("environment")), finding, patient)
    assert remedy.title == "docker run --pids-limit=4096"


@pytest.mark.parametrize(
    "patient",
    [
        script(8, host=make_host()),  # high
        script(0, host=make_host(open_files=LOW)),  # no workers
        script(8, host=make_host(open_files=Limit(soft=1025, hard=4096))),  # above
        make_patient(host=make_host(open_files=LOW), gpus=[make_gpu()]),  # no script
        make_patient(host=make_host(locked_memory=SMALL)),  # no RDMA
        make_patient(
            host=make_host(locked_memory=SMALL, infiniband=("mlx5_0",), roce=("mlx5_0",))
        ),  # Ethernet card on a lone machine
        make_patient(
            host=make_host(locked_memory=SMALL, infiniband=("mlx5_0",)), job=Job(profile=Profile.SLURM, nodes=1)
        ),  # one node
        make_patient(
            host=make_host(locked_memory=Limit(soft=200 * GIB, hard=200 * GIB), infiniband=("mlx5_0",))
        ),  # generous
        script(8, host=make_host(processes=Limit(soft=4096, hard=4096)), environment={}),  # processes enough
    ],
)
def test_healthy(patient):
    assert examine(LimitsTooLow, patient) == []
