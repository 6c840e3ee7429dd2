"""What a machine lets a job have: CPUs, memory, files, disks."""

import pytest
from recordings import make_process, make_recording, record
from scripts import script_patient

from gpudoctor.model import Absent, Confidence, Severity, Unavailable
from gpudoctor.model.signs.host import Disk, Limit, SilentFolder
from gpudoctor.model.signs.job import Job, Launch, Profile
from gpudoctor.testing import GIB, examine, make_gpu, make_host, make_patient, prescribe
from gpudoctor_checks.environment.cpu_budget import CpuBudget
from gpudoctor_checks.environment.disk_too_small import DiskTooSmall
from gpudoctor_checks.environment.host_memory_tight import HostMemoryTight
from gpudoctor_checks.environment.limits_too_low import LimitsTooLow
from gpudoctor_rules.advice import advice
from gpudoctor_rules.environment.host import cpu_budget, disk_too_small, host_memory_tight, limits_too_low


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


MIB = 1 << 20


def disk(role, free, mount="/data", **changes):
    values = {"path": f"{mount}/x", "kind": "ext4", "total": 1000 * GIB} | changes
    return Disk(role=role, mount=mount, free=free, **values)


def host(*disks, **changes):
    return make_host(disks=disks, **changes)


FULL = (("output", 500 * MIB), ("Hugging Face cache", 500 * MIB), ("temporary files", 100 * MIB))


@pytest.mark.parametrize(
    "disks", [*((disk(*row),) for row in FULL), (disk("working folder", MIB), disk("Hugging Face cache", MIB))]
)
def test_sick_all_but_full(disks):
    patient = make_patient(host=host(*disks), gpus=[make_gpu()])
    [finding] = examine(DiskTooSmall, patient)  # one for two roles on one disk
    assert finding.confidence is Confidence.CONFIRMED and disks[0].role in finding.message
    assert prescribe(disk_too_small, finding, patient)


@pytest.mark.parametrize(
    "patient",
    [
        make_patient(host=host(disk("working folder", MIB))),  # no purpose
        make_patient(host=host(disk("Hugging Face cache", 0, read_only=True)), gpus=[make_gpu()]),  # read-only
        make_patient(host=host(disk("temporary files", 2 * GIB)), gpus=[make_gpu()]),  # enough
        make_patient(host=host(disk("output", 0, total=0)), gpus=[make_gpu()]),  # no real disk
    ],
)
def test_healthy_disks(patient):
    assert examine(DiskTooSmall, patient) == []


def test_healthy_a_silent_folder_is_a_skip_and_no_pass():
    silent = SilentFolder(role="output", path="/nfs/out", reason="no answer in 2 s")
    patient = make_patient(host=host(disk("working folder", 9 * GIB), silent_folders=(silent,)))
    with pytest.raises(Unavailable, match="no answer"):
        examine(DiskTooSmall, patient)


def loading(workers, **signs):
    return script_patient(
        f"""
        from torch.utils.data import DataLoader
        loader = DataLoader(data, num_workers={workers})
        """,
        **signs,
    )


def test_sick_ranks_and_workers_do_not_fit():
    patient = loading(8, host=make_host(memory_available=20 * GIB), job=Job(profile=Profile.SLURM, ranks_per_node=8))
    [finding] = examine(HostMemoryTight, patient)
    assert finding.detail.need == 8 * (1.5 * GIB + 8 * 256 * MIB)
    assert finding.cost.bytes == 8 * GIB
    memory, *_ = prescribe((host_memory_tight, *advice("environment")), finding, patient)
    assert memory.steps == ("#SBATCH --mem=56G",)


def test_sick_the_schedulers_grant_is_held_too():
    job = Job(profile=Profile.SLURM, ranks_per_node=4, memory_granted=4 * GIB, script_path="job.sbatch")
    [finding] = examine(HostMemoryTight, make_patient(host=make_host(), job=job, environment={}))
    assert "4 GiB of host memory is left" in finding.message


@pytest.mark.parametrize(
    ("granted", "arguments", "found"),
    [
        (12, "dtype=torch.float32", 1),
        (12, "", 1),
        (24, "", 0),
        (24, "dtype='float32'", 1),
        (12, "device_map='auto'", 0),
        (12, "quantization_config=quant", 0),
        (None, "", 0),
    ],
)
def test_a_model_is_built_in_host_memory(granted, arguments, found):
    text = f"import torch\nfrom transformers import AutoModel\nAutoModel.from_pretrained('meta-llama/Llama-3.1-8B', {arguments})"
    job = Job(profile=Profile.SLURM, memory_granted=granted * GIB if granted else None, script_path="job.sbatch")
    patient = script_patient(text, host=make_host(), job=job, environment={})
    assert len(examine(HostMemoryTight, patient)) == found


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
        loading(8, host=make_host(), gpus=[make_gpu()]),  # plenty
        make_patient(host=make_host(swap_used=GIB, swap_rate=0.0)),  # parked pages
        make_patient(host=make_host(swap_used=GIB, swap_rate=4096.0)),  # a page or two
        make_patient(host=make_host(swap_used=GIB, swap_rate=Absent("no counters"))),  # untold
        make_patient(host=make_host(memory_available=300 * MIB)),  # a laptop
    ],
)
def test_healthy_memory(patient):
    assert examine(HostMemoryTight, patient) == []


LOW = Limit(soft=1024, hard=524288)


def opening(workers, **signs):
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
        (opening(8, host=make_host(open_files=LOW)), W, "may open 1024 files (the limit is 1024), and a loader starts 8 workers.", "ulimit -n 65536"),
        (opening(8, host=make_host(open_files=Limit(soft=1024, hard=4096))), W, "", "ask the administrator for nofile 65536"),
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
        opening(8, host=make_host()),  # high
        opening(0, host=make_host(open_files=LOW)),  # no workers
        opening(8, host=make_host(open_files=Limit(soft=1025, hard=4096))),  # above
        make_patient(host=make_host(open_files=LOW), gpus=[make_gpu()]),  # no script
        rdma(MIB8, MIB8),  # no RDMA
        rdma(MIB8, MIB8, "mlx5_0", roce=("mlx5_0",)),  # Ethernet card on a lone machine
        rdma(MIB8, MIB8, "mlx5_0", job=Job(profile=Profile.SLURM, nodes=1)),  # one node
        rdma(200 * GIB, 200 * GIB, "mlx5_0"),  # generous
    ],
)
def test_healthy_limits(patient):
    assert examine(LimitsTooLow, patient) == []
