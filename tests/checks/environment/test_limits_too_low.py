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


def script(workers, **signs):
    return script_patient(
        f"""
        import sys
        from torch.utils.data import DataLoader
        loader = DataLoader(data, num_workers={workers})
        """,
        **signs,
    )


def rdma(soft, hard, *cards, roce=(), **signs):
    host = make_host(locked_memory=Limit(soft=soft, hard=hard), infiniband=cards, roce=roce)
    return make_patient(host=host, **signs)


RULES = (limits_too_low, *advice("environment"))
TWO_NODES = Job(profile=Profile.SLURM, nodes=2)
MIB8, W, N = 8 << 20, Severity.WARNING, Severity.NOTE


@pytest.mark.parametrize(
    ("patient", "severity", "words", "title"),
    [
        (script(8, host=make_host(open_files=LOW)), W, "may open 1024 files (the limit is 1024), and a loader starts 8 workers.", "ulimit -n 65536"),
        (script(8, host=make_host(open_files=Limit(soft=1024, hard=4096))), W, "", "ask the administrator for nofile 65536"),
        (rdma(MIB8, MIB8, "mlx5_0", "mlx5_1"), W, "limited to 8 MiB, and RDMA over mlx5_0, mlx5_1 has to", ""),
        (rdma(65536, None, "mlx5_0"), W, "", "ulimit -l unlimited"),
        (rdma(MIB8, MIB8, "mlx5_0", roce=("mlx5_0",), job=TWO_NODES), W, "", ""),
    ],
)  # fmt: skip
def test_sick_limits(patient, severity, words, title):
    [finding] = examine(LimitsTooLow, patient)
    assert finding.severity is severity and words in finding.message
    first, *others = prescribe(RULES, finding, patient)
    assert title in first.title
    if finding.subject == "open files" and title.startswith("ulimit"):
        assert "file_system" in others[0].title
    if finding.subject == "locked memory":
        assert first.sets == (("RLIMIT_MEMLOCK", "unlimited"),)


@pytest.mark.parametrize(
    "patient",
    [
        script(8, host=make_host()),  # high
        script(0, host=make_host(open_files=LOW)),  # no workers
        script(8, host=make_host(open_files=Limit(soft=1025, hard=4096))),  # above
        make_patient(host=make_host(open_files=LOW), gpus=[make_gpu()]),  # no script
        rdma(MIB8, MIB8),  # no RDMA
        rdma(MIB8, MIB8, "mlx5_0", roce=("mlx5_0",)),  # Ethernet card on a lone machine
        rdma(MIB8, MIB8, "mlx5_0", job=Job(profile=Profile.SLURM, nodes=1)),  # one node
        rdma(200 * GIB, 200 * GIB, "mlx5_0"),  # generous
    ],
)
def test_healthy(patient):
    assert examine(LimitsTooLow, patient) == []
