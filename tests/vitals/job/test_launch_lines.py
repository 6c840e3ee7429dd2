"""Launch lines as people write them in job scripts."""

import pytest

from gpudoctor.vitals.job import read_job


def launches(tmp_path, text, environment=None):
    path = tmp_path / "job.sh"
    path.write_text(text)
    return read_job(None, environment or {}, [path]).launches


def one(tmp_path, text, environment=None):
    [launch] = launches(tmp_path, text, environment)
    return launch


@pytest.mark.parametrize(
    ("line", "launcher", "target", "arguments", "ranks", "nodes"),
    [
        ("python train.py --lr 3e-4", "python", "train.py", ("--lr", "3e-4"), None, None),
        ("torchrun --nproc_per_node=4 train.py", "torchrun", "train.py", (), 4, None),
        ("torchrun --nproc-per-node 8 --nnodes=2 -m pkg.t --x 1", "torchrun", "pkg.t", ("--x", "1"), 8, 2),
        ("torchrun --nnodes=1:4 --max-restarts 3 train.py cfg", "torchrun", "train.py", ("cfg",), 1, 1),
        ("python -m torch.distributed.launch --nproc_per_node=4 --use_env m.py --a", "torchrun", "m.py", ("--a",), 4, None),
        ("accelerate launch --num_machines 2 --num_processes=16 -m pkg.x --a", "accelerate", "pkg.x", ("--a",), 8, 2),
        ("srun -N 2 --ntasks-per-node=4 --cpu-bind=none python -u t.py", "srun", "t.py", (), 4, 2),
        ("mpirun -np 16 -N 8 -x A=1 --mca btl ^openib python t.py", "mpirun", "t.py", (), 8, None),
        ("gpudoctor run -- torchrun --nproc_per_node=4 t.py", "torchrun", "t.py", (), 4, None),
        ("bash -lc 'cd x && torchrun --nproc_per_node=2 t.py'", "torchrun", "t.py", (), 2, None),
    ],
)  # fmt: skip
def test_one_line(tmp_path, line, launcher, target, arguments, ranks, nodes):
    found = one(tmp_path, f"#!/bin/bash\n{line}\n")
    assert (found.launcher, found.script or found.module) == (launcher, target)
    assert (found.arguments, found.ranks_per_node, found.nodes) == (arguments, ranks, nodes)
    assert found.line == 2


@pytest.mark.parametrize(
    "line",
    [
        "python -m pip install -r requirements.txt",
        "python setup.py install",
        'python -c "import torch; print(torch.__version__)"',
        "torchrun",
        "cat <<-'END'\n\tpython train.py\n\tEND",
    ],
)
def test_lines_that_launch_nothing(tmp_path, line):
    assert launches(tmp_path, line + "\n") == ()


def test_variables_arrays_defaults_and_continuations(tmp_path):
    found = one(
        tmp_path,
        """#!/bin/bash
NPROC=${NPROC:-4}
export NODES=2
ARGS=(
  --lr 3e-4   # the rate
  --name "my run"
)
ARGS+=(--bf16)
OPTS="--bs 8 --epochs 3"
PY=python
torchrun --nproc_per_node=$NPROC \\
    --nnodes "${NODES}" --master_port $((29500 + NODES)) \\
    train.py "${ARGS[@]}" $OPTS --out "$UNKNOWN/x/${NODES}" "$@" \\
    2>&1 | tee log.txt
""",
    )
    assert (found.ranks_per_node, found.nodes, found.line) == (4, 2, 11)
    assert found.arguments == (
        "--lr", "3e-4", "--name", "my run", "--bf16", "--bs", "8", "--epochs", "3", "--out", "$UNKNOWN/x/2",
    )  # fmt: skip
    assert found.text.startswith("torchrun --nproc_per_node=$NPROC --nnodes")
    assert "\n" not in found.text


def test_a_shell_that_is_started_inherits_what_was_exported(tmp_path):
    found = one(
        tmp_path,
        """GPUS=4
LOCAL="--never-seen 1"
export LAUNCHER="python -u -m torch.distributed.launch \\
    --nproc_per_node $GPUS \\
    "
export CMD="train.py --lr 1"
clear; srun --jobid $SLURM_JOBID bash -c '$LAUNCHER --node_rank $SLURM_PROCID $CMD $LOCAL' 2>&1 | tee -a log.txt
""",
    )
    assert (found.launcher, found.script, found.ranks_per_node, found.line) == ("torchrun", "train.py", 4, 7)
    assert found.arguments == ("--lr", "1", "$LOCAL")


def test_secrets_on_the_line_are_masked(tmp_path):
    found = one(tmp_path, "python train.py --hub-token hf_abcdefghijklmnopqrstuvwx --lr 1\n")
    assert found.arguments == ("--hub-token", "***", "--lr", "1")
    assert "hf_abc" not in found.text
