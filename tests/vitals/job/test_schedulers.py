"""What schedulers grant: directives, their variables, manifests; and the environment that a script gives."""

import pytest

from gpudoctor.model import Unavailable
from gpudoctor.model.signs.job import Environment, Profile
from gpudoctor.vitals.job import detect_profile, read_job
from gpudoctor.vitals.job.scripts import job_environment

GIB = 1 << 30


def slurm(tmp_path, *lines, then="srun python train.py"):
    path = tmp_path / "job.sbatch"
    path.write_text("\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in lines), then, ""]))
    return read_job(None, {}, [path])


def test_sbatch_lines(tmp_path):
    job = slurm(
        tmp_path, "--job-name=x -N 2", "--ntasks-per-node=4", "--gres=gpu:a100:4", "-c 8   # cores", "--mem=64G",
        "-t 1-12", "--signal=B:USR1@120", "--requeue",
    )  # fmt: skip
    assert job.profile is Profile.SLURM
    assert (job.gpus_granted, job.nodes, job.ranks_per_node) == (4, 2, 4)
    assert job.gpus_origin.startswith("--gres=gpu:a100:4 in ")
    assert (job.cpus_granted, job.cpus_per_task, job.memory_granted) == (32.0, 8, 64 * GIB)
    assert (job.time_limit, job.preemptible, job.signal) == (129600.0, True, "B:USR1@120")


@pytest.mark.parametrize(
    ("lines", "gpus"),
    [
        (("--gres=gpu:2",), 2),
        (("--gres=gpu:h100:8,nvme:1",), 8),
        (("--gpus-per-node=a100:4",), 4),
        (("-G 8", "--nodes=2"), 4),
        (("--gpus-per-task=1", "--ntasks-per-node=4"), 4),
        ((), None),
    ],
)
def test_gpus_on_a_node(tmp_path, lines, gpus):
    assert slurm(tmp_path, *lines).gpus_granted == gpus


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800), ("30:15", 1815), ("2:00:00", 7200), ("1-0", 86400), ("1-12:30", 131400), ("2-01:02:03", 176523),
        ("0", None), ("UNLIMITED", None), ("soon", None),
    ],
)  # fmt: skip
def test_time_forms(tmp_path, text, seconds):
    assert slurm(tmp_path, f"--time={text}").time_limit == seconds


def test_the_running_job_by_its_variables():
    variables = {
        "SLURM_JOB_ID": "1", "SLURM_GPUS_ON_NODE": "4", "SLURM_CPUS_ON_NODE": "32", "SLURM_MEM_PER_NODE": "65536",
        "SLURM_NNODES": "2", "SLURM_TASKS_PER_NODE": "4(x2)", "SLURM_CPUS_PER_TASK": "8",
    }  # fmt: skip
    job = read_job(None, variables)
    assert (job.profile, job.gpus_granted, job.gpus_origin) == (Profile.SLURM, 4, "SLURM_GPUS_ON_NODE")
    assert (job.cpus_granted, job.cpus_per_task, job.memory_granted) == (32.0, 8, 64 * GIB)
    assert (job.nodes, job.ranks_per_node) == (2, 4)
    alone = read_job(None, {**variables, "SLURM_TASKS_PER_NODE": "1(x2)"})
    assert alone.ranks_per_node is None  # torchrun will start them


def test_flags_count_most(tmp_path):
    path = tmp_path / "job.sh"
    path.write_text("torchrun --nproc_per_node 4 t.py\n")
    job = read_job(Profile.TORCHRUN, {"LOCAL_WORLD_SIZE": "2"}, [path], ranks=8, gpus=8)
    assert (job.profile, job.ranks_per_node, job.gpus_granted, job.gpus_origin) == (Profile.TORCHRUN, 8, 8, "--gpus")


@pytest.mark.parametrize(
    ("variables", "profile"),
    [
        ({}, Profile.NONE),
        ({"SLURM_JOB_ID": "1", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}, Profile.SLURM),
        ({"TORCHELASTIC_RUN_ID": "x"}, Profile.TORCHRUN),
        ({"RANK": "0", "LOCAL_WORLD_SIZE": "4"}, Profile.TORCHRUN),
        ({"SLURM_CONF": "/etc/slurm.conf"}, Profile.NONE),
    ],
)
def test_profiles(variables, profile):
    assert detect_profile(variables) is profile
    assert read_job(None, variables).profile is profile


MANIFEST = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: x}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          containers:
            - name: pytorch
              image: x
              command: ["/bin/bash", "-c"]
              args:
                - |
                  pip install -r r.txt
                  export NCCL_P2P_DISABLE=1
                  torchrun --nproc_per_node=4 train.py \\
                     --lr 1
              env:
                - name: NCCL_DEBUG
                  value: INFO
                - {name: S, valueFrom: {secretKeyRef: {name: a, key: b}}}
              resources: {limits: {nvidia.com/gpu: 4, cpu: 7500m, memory: 64Gi}}
              volumeMounts: [{name: shm, mountPath: /dev/shm}]
          volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 2Gi}}]
    Worker: {replicas: 3, template: {spec: {}}}
"""


def test_a_kubernetes_manifest(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(MANIFEST)
    job = read_job(None, {}, [path])
    assert (job.profile, job.gpus_granted, job.cpus_granted) == (Profile.KUBERNETES, 4, 7.5)
    assert (job.memory_granted, job.shared_memory_granted) == (64 * GIB, 2 * GIB)
    assert (job.nodes, job.ranks_per_node) == (4, 4)
    [launch] = job.launches
    assert (launch.script, launch.arguments, launch.line) == ("train.py", ("--lr", "1"), 13)
    environment = job_environment(path, Environment(variables={}))
    assert environment.variables == {"NCCL_DEBUG": "INFO", "NCCL_P2P_DISABLE": "1"}
    assert environment.exports["NCCL_DEBUG"] == (str(path), 22)


def test_the_environment_that_a_script_gives(tmp_path):
    path = tmp_path / "job.sh"
    path.write_text(
        """export OMP_NUM_THREADS=8 WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567
NCCL_DEBUG=INFO
export NCCL_DEBUG
export LD_LIBRARY_PATH=/opt/lib:$LD_LIBRARY_PATH
export MASTER_ADDR=$(hostname)
export CUDA_VISIBLE_DEVICES=$(pick-gpus)
if [ -n "$DEBUG" ]; then
  export CUDA_LAUNCH_BLOCKING=1
fi
[ -f x ] && export TORCH_LOGS=all
[ -d y ] || export A=1
unset HTTP_PROXY
LOCAL=1
TOKENIZERS_PARALLELISM=false python train.py
"""
    )
    base = Environment(variables={"HTTP_PROXY": "x", "HOME": "/home/me", "CUDA_VISIBLE_DEVICES": "3"})
    found = job_environment(path, base)
    assert found.variables == {
        "HOME": "/home/me",
        "OMP_NUM_THREADS": "8",
        "WANDB_API_KEY": "***",
        "NCCL_DEBUG": "INFO",
        "LD_LIBRARY_PATH": "/opt/lib:",
        "TOKENIZERS_PARALLELISM": "false",
    }
    assert found.exports["NCCL_DEBUG"] == (str(path), 3)
    assert found.evidence("OMP_NUM_THREADS").line == 1
    assert base.variables["HTTP_PROXY"] == "x"


def test_the_script_never_runs(tmp_path):
    trap = tmp_path / "trap"
    path = tmp_path / "job.sh"
    path.write_text(f"touch {trap}\nX=$(touch {trap})\npython `touch {trap}` t.py ${{Y:=$(touch {trap})}}\n")
    read_job(None, {}, [path])
    job_environment(path, Environment(variables={}))
    assert not trap.exists()


@pytest.mark.parametrize("name", ["missing.sh", "folder.sh", "binary.sh"])
def test_what_cannot_be_read_is_a_sentence(tmp_path, name):
    (tmp_path / "folder.sh").mkdir()
    (tmp_path / "binary.sh").write_bytes(b"\x7fELF\0\0")
    with pytest.raises(Unavailable, match=name):
        read_job(None, {}, [tmp_path / name])
