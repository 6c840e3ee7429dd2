"""What a job's description says will exist: nodes, tasks, processes, cards, the world that each process is told."""

import pytest

from gpudoctor.analysis.workload import launch_words
from gpudoctor.vitals.job import read_job

SLURM = "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node={}\n#SBATCH --gres=gpu:8\n#SBATCH --cpus-per-task=16\n"
TORCHRUN = "{containers: [{command: [torchrun, --nproc_per_node=4, t.py], resources: {limits: {nvidia.com/gpu: 4}}}]}"
POD = f"apiVersion: v1\nkind: Pod\nspec: {TORCHRUN}\n"
COMPOSE = "services:\n  a:\n    image: x\n    command: torchrun --nproc_per_node=2 t.py\n    shm_size: 8gb\n"
SKY = "resources: {accelerators: A100:8}\nnum_nodes: 2\nrun: |\n  torchrun --nnodes=$SKYPILOT_NUM_NODES --nproc_per_node=8 t.py\n"
JOBSET = f"apiVersion: x\nkind: JobSet\nspec: {{replicatedJobs: [{{template: {{spec: {{parallelism: 4, template: {{spec: {TORCHRUN}}}}}}}}}]}}\n"


@pytest.mark.parametrize(
    ("name", "text", "row", "world"),
    [
        ("j.sh", SLURM.format(8) + "srun torchrun --standalone --nproc_per_node=8 t.py", "2 nodes x 8 tasks x 8 processes = 128 processes for 16 GPUs", 8),
        ("j.sh", SLURM.format(1) + "srun torchrun --nnodes=2 --nproc_per_node=8 t.py", "2 nodes x 1 task x 8 processes = 16 processes for 16 GPUs", 16),
        ("j.sh", SLURM.format(1) + "srun torchrun --nproc_per_node=gpu t.py", "2 nodes x 1 task x 8 processes = 16 processes for 16 GPUs", 8),
        ("j.sh", SLURM.format(8) + "srun python t.py", "2 nodes x 8 processes = 16 processes for 16 GPUs", 16),
        ("j.sh", SLURM.format(8) + "srun bash -c 'python t.py'", "2 nodes x 8 processes = 16 processes for 16 GPUs", 16),
        ("j.sh", SLURM.format(1) + "srun --ntasks=$SLURM_NNODES deepspeed --num_gpus 4 t.py", "2 nodes x 1 task x 4 processes = 8 processes for 16 GPUs", 8),
        ("j.sh", "#PBS -l select=2:ncpus=32:ngpus=4\nmpirun -np 8 -npernode 4 python t.py", "2 nodes x 4 processes = 8 processes for 8 GPUs", 8),
        ("j.sh", "torchrun --nnodes=$N --nproc_per_node=8 t.py", "$N nodes x 8 processes", None),
        ("j.sh", "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=4 t.py", "4 processes for 2 GPUs", 4),
        ("j.sh", "docker run --gpus 2 --shm-size=1g img accelerate launch --num_processes 2 t.py", "2 processes for 2 GPUs", 2),
        ("j.sh", "deepspeed --hostfile hosts t.py", "2 nodes x 4 processes = 8 processes for 8 GPUs", 8),
        ("j.sh", "accelerate launch --config_file a.yaml t.py", "2 nodes x 4 processes = 8 processes", 8),
        ("j.sh", "ssh node1 'cd x && torchrun --nproc_per_node=2 t.py'", "1 task x 2 processes = 2 processes", None),
        ("j.yaml", POD, "4 processes for 4 GPUs", 4),
        ("j.yaml", COMPOSE, "2 processes", 2),
        ("j.yaml", SKY, "2 nodes x 1 task x 8 processes = 16 processes for 16 GPUs", 16),
        ("j.yaml", JOBSET, "4 processes for 4 GPUs", 4),
    ],
)  # fmt: skip
def test_a_row(tmp_path, monkeypatch, name, text, row, world):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts").write_text("# nodes\na slots=4\nb slots=4\n")
    (tmp_path / "a.yaml").write_text("num_machines: 2\nnum_processes: 8\n")
    (tmp_path / name).write_text(text + "\n")
    [launch] = read_job(None, {}, [tmp_path / name]).launches
    assert (launch_words(launch), launch.world) == (row, world)
