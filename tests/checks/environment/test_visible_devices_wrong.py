"""ENV013: CUDA_VISIBLE_DEVICES against the GPUs and the ranks."""

import pytest
from scripts import script_patient

from gpudoctor.model import Absent, Severity, Unavailable
from gpudoctor.model.signs.job import Job, Launch, Profile
from gpudoctor.testing import examine, make_gpu, make_patient, prescribe
from gpudoctor.vitals.job import read_job
from gpudoctor_checks.environment.visible_devices_wrong import VisibleDevicesWrong
from gpudoctor_rules.advice import advice
from gpudoctor_rules.environment.host import visible_devices_wrong

NAME = "CUDA_VISIBLE_DEVICES"
UUIDS = [f"GPU-{index}a1b2c3d-0000-1111-2222-333344445555" for index in range(4)]


def four(**changes):
    return [make_gpu(index, uuid=UUIDS[index], **changes) for index in range(4)]


def shell(value, **signs):
    return make_patient(environment={} if value is None else {NAME: value}, **({"gpus": four()} | signs))


def job(ranks, **changes):
    return Job(profile=Profile.TORCHRUN, ranks_per_node=ranks, **changes)


@pytest.mark.parametrize(
    ("value", "visible", "words"),
    [
        ("", 0, "empty"),
        ("-1", 0, "hides every GPU"),
        ("0,1,9", 2, "names GPU 9"),
        ("0,-1,2", 1, "'-1'"),
        ("0,,1", 1, "empty entry"),
        ("1,1", 0, "1 twice"),
        ("GPU-ffffffff", 0, "no GPU has"),
        ("MIG-11111111-2222", 0, "not a MIG device"),
    ],
)
def test_sick_values(value, visible, words):
    [finding] = examine(VisibleDevicesWrong, shell(value))
    assert finding.severity is Severity.ERROR
    assert finding.cost.breaks
    assert finding.detail.visible == visible
    assert words in finding.message


def test_sick_a_value_that_the_script_sets():
    text = f'import os\nos.environ["{NAME}"] = "7"\n'
    [finding] = examine(VisibleDevicesWrong, script_patient(text, environment={}, gpus=four()))
    assert finding.span is not None and finding.span.line == 2 and "7" in finding.message
    few = script_patient(text.replace("7", "0,1"), environment={}, gpus=four(), job=job(4))
    [finding] = examine(VisibleDevicesWrong, few)
    assert "line 2" in prescribe(visible_devices_wrong, finding, few)[1].steps[0]


@pytest.mark.parametrize(("value", "ranks", "visible"), [("0,1", 4, 2), (None, 8, 4), (",".join(UUIDS[:3]), 4, 3)])
def test_sick_fewer_than_the_ranks(value, ranks, visible):
    patient = shell(value, job=job(ranks))
    [finding] = examine(VisibleDevicesWrong, patient)
    assert finding.detail.visible == visible
    assert finding.severity is Severity.ERROR
    fewer, _ = prescribe((visible_devices_wrong, *advice("environment")), finding, patient)
    assert fewer.title == f"launch {visible} ranks on this node"


SLURM = {"SLURM_JOB_ID": "7"}


@pytest.mark.parametrize(
    ("environment", "gpus", "asked", "words"),
    [
        ({NAME: "0,1", **SLURM}, 4, {"profile": Profile.SLURM, "gpus_granted": 4, "gpus_origin": "SLURM_GPUS_ON_NODE"}, "was granted 4 GPUs, and it sees 2 GPUs"),
        ({}, 4, {"gpus_granted": 8, "gpus_origin": "--gpus"}, "was granted 8 GPUs, and it sees 4 GPUs."),
        ({}, 0, {"gpus_granted": 8, "gpus_origin": "--gpus"}, "8 GPUs, and this machine has no GPU"),
    ],
)  # fmt: skip
def test_sick_fewer_than_the_job_asks_for(environment, gpus, asked, words):
    signs = {} if gpus is None else {"gpus": four()[:gpus]}
    patient = make_patient(environment=environment, job=Job(**{"profile": Profile.TORCHRUN, **asked}), **signs)
    [finding] = examine(VisibleDevicesWrong, patient)
    assert finding.severity is Severity.ERROR and words in finding.message
    titles = [item.title for item in prescribe((visible_devices_wrong, *advice("environment")), finding, patient)]
    assert any("--gpu H100" in title for title in titles) == (gpus == 0)


@pytest.mark.parametrize(
    "patient",
    [
        shell(None),
        shell("0,1,2,3", job=job(4)),
        shell(f"{UUIDS[2][:8]},{UUIDS[1][:9]}"),
        shell("MIG-1", gpus=[make_gpu(mig_enabled=True, mig_instances=("MIG-1", "MIG-2"))]),
        script_patient(f'import os\nos.environ.setdefault("{NAME}", "9")\n', environment={NAME: "0"}, gpus=four()),
    ],
)
def test_healthy(patient):
    assert examine(VisibleDevicesWrong, patient) == []


def trains_on_cuda(text="model.cuda()", **signs):
    return script_patient(f"import torch\nmodel = torch.nn.Linear(2, 2)\n{text}\n", gpus=[], **signs)


def launched(ranks, **changes):
    launch = Launch(launcher="torchrun", script="train.py", module=None, arguments=(), ranks_per_node=ranks, nodes=None)
    return Job(profile=Profile.TORCHRUN, launches=(launch,), ranks_per_node=ranks, **changes)


@pytest.mark.parametrize(
    "patient",
    [
        *(lambda value=value: shell(value, gpus=[]) for value in (None, "", "-1", "NoDevFiles")),
        lambda: trains_on_cuda(environment={}, job=launched(8)),
        lambda: make_patient(
            environment={}, gpus=[], job=Job(profile=Profile.NONE, script_path="go.sh", gpus_granted=4)
        ),
        lambda: trains_on_cuda(environment={}),  # a laptop, and nothing says that the job runs on it
        lambda: script_patient(f'import os\nos.environ["{NAME}"] = "1"\n', environment={}, gpus=[]),
        lambda: shell(
            None,
            gpus=[],
            job=Job(profile=Profile.SLURM, gpus_granted=8, gpus_origin="#SBATCH", script_path="job.sbatch"),
        ),
    ],
)
def test_healthy_a_job_that_does_not_ask_this_machine_for_gpus(patient):
    with pytest.raises(Unavailable):
        examine(VisibleDevicesWrong, patient())


def test_healthy_gpus_that_do_not_tell_their_names_are_a_skip():
    with pytest.raises(Unavailable, match="UUID"):
        examine(VisibleDevicesWrong, shell(UUIDS[0], gpus=[make_gpu(uuid=Absent("no permission"))]))


SBATCH = "#SBATCH --nodes={}\n#SBATCH --ntasks-per-node={}\n#SBATCH --gres=gpu:8\n"
MEETS = "srun torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint={}:29500 t.py"


def judged(patient):
    try:
        return examine(VisibleDevicesWrong, patient)
    except Unavailable:
        return []


def kinds(tmp_path, text, program="", name="job.sbatch"):
    path = tmp_path / name
    path.write_text(text + "\n")
    job = read_job(None, {}, [path])
    patient = script_patient(program, job=job, environment={}) if program else make_patient(job=job, environment={})
    found = judged(patient)
    assert all(
        prescribe((visible_devices_wrong, *advice("environment")), item, patient)
        for item in found
        if item.detail.kind not in SILENT
    )
    return " ".join(finding.detail.kind for finding in found)


SILENT = ("index", "idle", "no-gpu")
TWO = "CUDA_VISIBLE_DEVICES={} torchrun {} --nproc_per_node=2 t.py &\nCUDA_VISIBLE_DEVICES={} torchrun {} --nproc_per_node=2 u.py"
ARRAY = "#SBATCH --array=0-7\n#SBATCH --ntasks=1\n#SBATCH --gres=gpu:2\n{}"
VERL = "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.tensor_model_parallel_size={} trainer.n_gpus_per_node=4 trainer.nnodes={}"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (SBATCH.format(2, 8) + "srun torchrun --standalone --nproc_per_node=8 t.py", "ranks"),
        (SBATCH.format(1, 1) + "CUDA_VISIBLE_DEVICES=6,9 torchrun --nproc_per_node=2 t.py", "index"),
        (SBATCH.format(1, 1) + "torchrun --nproc_per_node=4 t.py", "idle"),
        (SBATCH.format(2, 1) + "torchrun --nnodes=2 --nproc_per_node=8 t.py", "missing"),
        (SBATCH.format(2, 1) + MEETS.format("localhost"), "meets"),
        (SBATCH.format(2, 1) + "H=$(head)\nif [ $R = 0 ]; then H=localhost; fi\n" + MEETS.format("$H"), ""),
        ("#SBATCH --nodes=1\nmodule load cuda\n#SBATCH --gres=gpu:2\npython t.py", "no-gpu"),
        ("torchrun --nproc_per_node=2 t.py &\ntorchrun --nproc_per_node=2 u.py | tee log &\nwait", "port"),
        ("for s in 1 2; do\n  deepspeed --num_gpus 2 t.py --seed $s &\ndone\nwait", "port"),
        ("torchrun --nproc_per_node=2 t.py &\nwait\ntorchrun --nproc_per_node=2 u.py", ""),
        (TWO.format("0,1", "--standalone", "2,3", "--standalone"), ""),
        (TWO.format("0,1", "", "2,3", "--master_port 29501"), ""),
        (TWO.format("0,1", "--standalone", "1,2", "--standalone"), "sharing"),
        (TWO.format("$A", "--standalone", "$B", "--standalone"), ""),
        ("trl vllm-serve --model m --tensor_parallel_size 2 &\ntorchrun --nproc_per_node=2 t.py", "sharing"),
        ("CUDA_VISIBLE_DEVICES=2,3 vllm serve m -tp 2 &\nCUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 t.py", ""),
        ("accelerate launch --num_processes 2 t.py &\naccelerate launch --num_processes 2 u.py", "sharing"),
        ("vllm serve m -tp 2 &\nserver=$!\npython ask.py\nkill $server\ntorchrun --nproc_per_node=2 t.py", ""),
        ("vllm serve m --tensor-parallel-size 2 &\nwait\ntorchrun --nproc_per_node=2 t.py", ""),
        ("CUDA_VISIBLE_DEVICES=1 deepspeed --num_gpus 1 t.py", "dropped"),
        ("CUDA_VISIBLE_DEVICES=0,1 deepspeed --num_gpus 2 t.py", ""),
        ("CUDA_VISIBLE_DEVICES=1 deepspeed t.py", ""),
        ("deepspeed --include localhost:1 t.py", ""),
        (ARRAY.format("") + "srun torchrun --nproc_per_node=2 t.py", "array"),
        (ARRAY.format("").replace("0-7", "0-7%1") + "srun torchrun --nproc_per_node=2 t.py", ""),
        ("#SBATCH --time=72\n#SBATCH --signal=B:USR1@90\npython t.py --max-hours 70", ""),
        (ARRAY.format("#SBATCH --exclusive\n") + "srun torchrun --nproc_per_node=2 t.py", ""),
        (ARRAY.format("") + "srun torchrun --standalone --nproc_per_node=2 t.py", ""),
        (ARRAY.format("").replace("gpu:2", "gpu:8") + "srun torchrun --nproc_per_node=8 t.py", ""),
        (ARRAY.format("") + "torchrun --master_port=$((20000 + SLURM_ARRAY_TASK_ID)) --nproc_per_node=2 t.py", ""),
        (VERL.format(8, 1), "parallel"),
        (VERL.format(8, 2), ""),
        (VERL.format(4, 1), ""),
        (VERL.format("$TP", 1), ""),
        (VERL.format(8, "$NODES"), ""),
        ("trl vllm-serve --trust_remote_code --tensor_parallel_size 2 &\ntorchrun --nproc_per_node=2 t.py", "sharing"),
        (SBATCH.format(2, 1) + "srun torchrun --nnodes=2 --nproc_per_node=8 --master_addr=$HEAD t.py", "same-rank"),
        (SBATCH.format(2, 1) + "srun torchrun --nnodes=2 --nproc_per_node=8 --node_rank=$R --master_addr=$H t.py", ""),
        ("#SBATCH --time=72\npython t.py --max-hours 70", "time"),
        ("#SBATCH --time=72:00:00\npython t.py --max-hours 70", ""),
        ("#SBATCH --nodes=1\nexport OUT=$SLURM_TMPDIR/run\npython t.py", "local"),
        ("#SBATCH --nodes=1\npython t.py --output_dir /tmp/run", "tmp"),
        ("#SBATCH --nodes=1\nexport OUT=$SLURM_TMPDIR/run\npython t.py\ncp -r $OUT $HOME/runs/", ""),
        ("#SBATCH --nodes=1\nexport DATA=$SLURM_TMPDIR/data\npython t.py", ""),
        ("#SBATCH --nodes=1\ncp $HOME/a.ckpt $SLURM_TMPDIR/\npython t.py --checkpoint $SLURM_TMPDIR/a.ckpt", ""),
        ("#SBATCH --nodes=1\npython t.py --load-run $SLURM_TMPDIR/old", ""),
        ("#SBATCH --nodes=1\npython t.py --checkpoint-dir $SLURM_TMPDIR/new", "local"),
        (SBATCH.format(2, 1) + "srun torchrun --nnodes=2 --nproc_per_node=8 --node_rank=$SLURM_NODEID t.py", "same-rank"),
        ("#SBATCH --nodes=1\npython t.py --run.max_time 01:00:00:00", ""),
        ("#SBATCH --time=12:00:00\npython t.py --trainer.max_time 01:00:00:00", "time"),
        ("#SBATCH --time=12:00:00\npython t.py --trainer.max_time 00:11:30:00", ""),
        (SBATCH.format(2, 1) + "srun bash -c '" + MEETS[5:].format("$(hostname)") + "'", "own-host"),
        (SBATCH.format(2, 1) + MEETS.format("$(hostname)"), ""),
        ("torchrun --nproc_per_node 8 t.py --tensor-model-parallel-size 4 --pipeline-model-parallel-size 3", "parallel"),
        ("torchrun --nproc_per_node 8 t.py --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2", ""),
        ("#SBATCH --gres=gpu:4\npython t.py --tensor-parallel-size 8", "parallel-cards"),
        ("#PBS -l select=2:ngpus=8\ntorchrun --nnodes=$(wc -l < $HOSTS) --nproc_per_node=8 t.py", "alone"),
        (SBATCH.format(2, 1) + "srun torchrun --rdzv_backend=c10d --nnodes=$(wc -l < $HOSTS) --nproc_per_node=8 t.py", ""),
        (SBATCH.format(2, 1) + "srun torchrun --standalone --nnodes=2 --nproc_per_node=8 t.py", "standalone"),
        ("torchrun --standalone --nproc_per_node=8 t.py", ""),
        ("mpirun -np 8 -H a,b python t.py", "slots"),
        ("mpirun -np 8 -H a:4,b:4 python t.py", ""),
        ("docker run --gpus device=2,3 i python t.py", "split"),
        ("docker run --gpus '\"device=2,3\"' i python t.py", ""),
        ("#SBATCH --signal=USR1@90\npython t.py", "unsignalled"),
        ("#SBATCH --signal=USR1@90\nsrun python t.py", ""),
        ("#SBATCH --signal=B:USR1@90\npython t.py", ""),
    ],
)  # fmt: skip
def test_what_does_not_fit_in_the_launch_table(tmp_path, text, kind):
    assert kinds(tmp_path, text) == kind


ALL_ON_ONE = """
    import torch
    from torch.nn.parallel import DistributedDataParallel
    torch.distributed.init_process_group("nccl")
    model = DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
    torch.save(model.state_dict(), "x.pt")
"""
OWN = ALL_ON_ONE.replace("    torch.dist", "    torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n    torch.dist")
RAY = "from ray.train import ScalingConfig\nscaling = ScalingConfig(num_workers=8{})\n"
LATE = "import os, torch\n{}\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\n"
BOUND = "import os, torch\ntorch.cuda.set_device(int(os.environ['SLURM_LOCALID']){})\n"
ONE_EACH = "#SBATCH --nodes=1 --ntasks-per-node=8 --gpus-per-task=1{}\nsrun python train.py"
LIGHTNING = "import lightning as L\nL.Trainer(devices=%d, num_nodes=2).fit(model)\n"


@pytest.mark.parametrize(
    ("line", "program", "kind"),
    [
        ("torchrun --nproc_per_node=4 train.py", ALL_ON_ONE, "one-card"),
        ("torchrun --nproc_per_node=4 train.py", OWN, ""),
        ("torchrun --nproc_per_node=4 other.py", ALL_ON_ONE, ""),
        ("torchrun --nproc_per_node=4 --max-restarts=3 train.py", OWN, "restart"),
        ("#SBATCH --requeue\ntorchrun --nproc_per_node=4 train.py", OWN, "requeue"),
        ("torchrun --nproc_per_node=4 --max-restarts=3 train.py", OWN + "    torch.load('x.pt')\n", ""),
        ("python train.py", LATE.format("torch.cuda.set_device(0)"), "late"),
        ("python train.py", LATE.format("torch.manual_seed(0)"), ""),
        (SBATCH.format(2, 1) + "srun python train.py", LIGHTNING % 8, "lightning"),
        (SBATCH.format(2, 8) + "srun python train.py", LIGHTNING % 8, ""),
        (
            SBATCH.format(1, 8) + "#SBATCH --ntasks=1\nsrun python train.py",
            (LIGHTNING % 8).replace("=2", "=1"),
            "lightning",
        ),
        (ONE_EACH.format(""), BOUND.format(""), "one-gpu"),
        (ONE_EACH.format(""), BOUND.format(" % torch.cuda.device_count()"), ""),
        (ONE_EACH.format(" --gpu-bind=none"), BOUND.format(""), ""),
        (SBATCH.format(1, 1) + "python train.py", RAY.format(""), "cpu"),
        (SBATCH.format(1, 1) + "python train.py", RAY.format(", use_gpu=True"), ""),
        (SBATCH.format(1, 1) + "python train.py", RAY.format(", use_gpu=args.gpu"), ""),
        (SBATCH.format(1, 1) + "python train.py", RAY.format(", **options"), ""),
        (SBATCH.format(1, 1) + "python train.py", RAY.format("") + "big = ScalingConfig(use_gpu=True)\n", ""),
        ("#SBATCH --nodes=1\npython train.py", RAY.format(""), ""),
    ],
)
def test_what_does_not_fit_between_launch_and_program(tmp_path, line, program, kind):
    assert kinds(tmp_path, line, program) == kind


POD = """apiVersion: v1
kind: Pod
spec:
  containers:
    - command: [torchrun, --nproc_per_node=8, train.py, --out, {}]
      resources: {{limits: {{nvidia.com/gpu: 8}}}}
      volumeMounts: [{{name: a, mountPath: /dev/shm}}, {{name: b, mountPath: /ckpt}}, {{name: c, mountPath: /runs}}]
  volumes: [{{name: a, emptyDir: {{medium: Memory}}}}, {{name: b, emptyDir: {{}}}}, {{name: c, persistentVolumeClaim: {{claimName: r}}}}]
"""
SKY = """resources: {{accelerators: A100:8, use_spot: {}}}
file_mounts: {{/ckpt: {{name: bucket, mode: {}}}}}
run: torchrun --standalone --nproc_per_node=8 train.py --out /ckpt/run
"""


@pytest.mark.parametrize(
    ("text", "program", "found"),
    [
        (POD.format("/ckpt/run"), OWN, "local"),
        (POD.format("/runs/run"), OWN, ""),
        (POD.format("/ckpt-of-team/run"), OWN, ""),
        (POD.format("/ckpt/run"), OWN + "    model.push_to_hub('x')\n", ""),
        (SKY.format("true", "COPY"), OWN, "requeue local"),
        (SKY.format("true", "MOUNT"), OWN + "    torch.load('x')\n", ""),
        (SKY.format("false", "COPY"), OWN, ""),
    ],
)
def test_output_that_ends_with_the_job(tmp_path, text, program, found):
    assert kinds(tmp_path, text, program, "job.yaml") == found


@pytest.mark.parametrize(
    ("line", "keys", "kind"),
    [
        (
            "srun accelerate launch --config_file a.yaml train.py",
            "machine_rank: 0\nrdzv_backend: static\n",
            "same-rank",
        ),
        ("srun accelerate launch --config_file a.yaml train.py", "machine_rank: 0\nrdzv_backend: c10d\n", ""),
        ("srun accelerate launch --config_file a.yaml --machine_rank $R train.py", "machine_rank: 0\n", ""),
        ("srun accelerate launch --config_file a.yaml train.py", "main_process_ip: localhost\n", "meets"),
    ],
)
def test_what_a_config_of_the_launcher_says(tmp_path, line, keys, kind):
    (tmp_path / "a.yaml").write_text("num_machines: 2\nnum_processes: 16\n" + keys)
    assert kinds(tmp_path, SBATCH.format(2, 1) + line) == kind
