"""ENV013: CUDA_VISIBLE_DEVICES against the GPUs and the ranks."""

import pytest
from scripts import script_patient

from gpudoctor.model import Absent, Severity, Unavailable
from gpudoctor.model.signs.job import Environment, Job, Launch, Profile
from gpudoctor.model.signs.packages import TorchBuild
from gpudoctor.testing import examine, make_gpu, make_patient, prescribe
from gpudoctor_checks.environment.visible_devices_wrong import VisibleDevicesWrong
from gpudoctor_rules.advice import advice
from gpudoctor_rules.environment.host import visible_devices_wrong

NAME = "CUDA_VISIBLE_DEVICES"
UUIDS = [f"GPU-{index}a1b2c3d-0000-1111-2222-333344445555" for index in range(4)]


def four(**changes):
    return [make_gpu(index, uuid=UUIDS[index], **changes) for index in range(4)]


def shell(value, **signs):
    return make_patient(environment={} if value is None else {NAME: value}, **({"gpus": four()} | signs))


def rocm():
    return TorchBuild(version="2.9.0+rocm6.4", cuda=None, hip="6.4", arch_list=(), cxx11_abi=True, path="/torch")


def job(ranks, **changes):
    return Job(profile=Profile.TORCHRUN, ranks_per_node=ranks, **changes)


@pytest.mark.parametrize(
    ("value", "visible", "words"),
    [
        ("", 0, "empty"),
        (" ", 0, "empty"),
        ("-1", 0, "hides every GPU"),
        ("NoDevFiles", 0, "hides every GPU"),
        ("0,1,9", 2, "names GPU 9"),
        ("4", 0, "names GPU 4"),
        ("0,-1,2", 1, "'-1'"),
        ("0,,1", 1, "empty entry"),
        ("cuda:0", 0, "'cuda:0'"),
        ("1,1", 0, "1 twice"),
        ("0,1,0", 0, "0 twice"),
        ("GPU-ffffffff", 0, "no GPU has"),
        (f"{UUIDS[0]},GPU-ffff,{UUIDS[1]}", 1, "no GPU has"),
        ("GPU-", 0, "fits several"),
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
    patient = script_patient(f'import os\nos.environ["{NAME}"] = "7"\n', environment={}, gpus=four())
    [finding] = examine(VisibleDevicesWrong, patient)
    assert finding.span is not None and finding.span.line == 2
    assert "7" in finding.message


@pytest.mark.parametrize(("value", "ranks", "visible"), [("0,1", 4, 2), (None, 8, 4), (",".join(UUIDS[:3]), 4, 3)])
def test_sick_fewer_than_the_ranks(value, ranks, visible):
    patient = shell(value, job=job(ranks))
    [finding] = examine(VisibleDevicesWrong, patient)
    assert finding.detail.visible == visible
    assert finding.severity is Severity.ERROR
    fewer, _ = prescribe((visible_devices_wrong, *advice("environment")), finding, patient)
    assert fewer.title == f"launch {visible} ranks on this node"


def test_sick_a_value_of_the_script_that_leaves_too_few():
    text = f'import os\nos.environ["{NAME}"] = "0,1"\n'
    patient = script_patient(text, environment={}, gpus=four(), job=job(4))
    [finding] = examine(VisibleDevicesWrong, patient)
    _, unset = prescribe((visible_devices_wrong, *advice("environment")), finding, patient)
    assert "line 2" in unset.steps[0]


def test_sick_a_job_script_that_contradicts_itself():
    environment = Environment(variables={NAME: "0,1"}, exports={NAME: ("job.sbatch", 9)})
    script = Job(profile=Profile.SLURM, ranks_per_node=4, script_path="job.sbatch")
    [finding] = examine(VisibleDevicesWrong, make_patient(environment=environment, job=script))
    assert "4 ranks" in finding.message and "2 GPUs" in finding.message
    asks = Job(profile=Profile.SLURM, ranks_per_node=8, gpus_granted=4, gpus_origin="--gres", script_path="j.sbatch")
    [finding] = examine(VisibleDevicesWrong, make_patient(environment={}, gpus=four(), job=asks))
    assert "--gres grants 4 GPUs" in finding.message


def test_sick_fewer_than_the_scheduler_granted():
    grant = Job(profile=Profile.SLURM, gpus_granted=4, gpus_origin="SLURM_GPUS_ON_NODE")
    patient = make_patient(environment={NAME: "0,1", "SLURM_JOB_ID": "7"}, gpus=four(), job=grant)
    [finding] = examine(VisibleDevicesWrong, patient)
    assert finding.subject == "granted GPUs"


@pytest.mark.parametrize(("ranks", "title"), [(None, "0,1,2,3"), (2, "0,1")])
def test_remedy_names_the_value(ranks, title):
    patient = shell("", job=job(ranks) if ranks else None)
    [finding] = examine(VisibleDevicesWrong, patient)
    [remedy] = prescribe((visible_devices_wrong, *advice("environment")), finding, patient)
    assert remedy.title == f"export {NAME}={title}"


@pytest.mark.parametrize(
    "patient",
    [
        shell(None),
        shell("0"),
        shell(" 3 , 1 "),
        shell("0,1,2,3", job=job(4)),
        shell(None, job=job(4)),
        shell("0,1", job=job(1)),
        shell(UUIDS[2]),
        shell(f"{UUIDS[2][:8]},{UUIDS[1][:9]}"),
        shell("MIG-1", gpus=[make_gpu(mig_enabled=True, mig_instances=("MIG-1", "MIG-2"))]),
        shell(None, job=Job(profile=Profile.SLURM, ranks_per_node=8, gpus_granted=8, script_path="job.sbatch")),
        script_patient(f'import os\nos.environ.setdefault("{NAME}", "9")\n', environment={NAME: "0"}, gpus=four()),
    ],
)
def test_healthy(patient):
    assert examine(VisibleDevicesWrong, patient) == []


@pytest.mark.parametrize("value", [None, "", "-1", "NoDevFiles"])
def test_healthy_a_machine_without_a_gpu_is_a_skip(value):
    with pytest.raises(Unavailable):
        examine(VisibleDevicesWrong, shell(value, gpus=[]))


def trains_on_cuda(text="model.cuda()", **signs):
    return script_patient(f"import torch\nmodel = torch.nn.Linear(2, 2)\n{text}\n", gpus=[], **signs)


def launched(ranks, **changes):
    launch = Launch(launcher="torchrun", script="train.py", module=None, arguments=(), ranks_per_node=ranks, nodes=None)
    return Job(profile=Profile.TORCHRUN, launches=(launch,), ranks_per_node=ranks, **changes)


@pytest.mark.parametrize(
    ("patient", "words"),
    [
        (lambda: shell("2,3", gpus=[]), "names 2 GPUs, and this machine has no GPU"),
        (lambda: shell(None, gpus=[], job=job(1, gpus_granted=8, gpus_origin="--gpus")), "the job has 8 GPUs"),
        (
            lambda: make_patient(
                environment={"SLURM_JOB_ID": "7"},
                gpus=[],
                job=Job(profile=Profile.SLURM, gpus_granted=4, gpus_origin="SLURM_GPUS_ON_NODE"),
            ),
            "SLURM_GPUS_ON_NODE grants 4 GPUs",
        ),
    ],
)
def test_sick_a_machine_without_the_gpus_that_the_job_asks_for(patient, words):
    [finding] = examine(VisibleDevicesWrong, patient())
    assert finding.severity is Severity.ERROR and words in finding.message
    [remedy] = prescribe((visible_devices_wrong, *advice("environment")), finding, patient())
    assert "--gpu H100" in remedy.title


@pytest.mark.parametrize(
    "patient",
    [
        trains_on_cuda(environment={}, job=launched(8)),
        trains_on_cuda("model.to('cuda:1')", environment={}, job=launched(2, script_path="run.sh")),
        make_patient(environment={}, gpus=[], job=Job(profile=Profile.NONE, script_path="go.sh", gpus_granted=4)),
    ],
)
def test_healthy_a_launch_line_read_where_there_are_no_gpus(patient):
    with pytest.raises(Unavailable):
        examine(VisibleDevicesWrong, patient)


def test_sick_fewer_gpus_than_the_user_expects():
    patient = shell(None, gpus=four(), job=job(1, gpus_granted=8, gpus_origin="--gpus"))
    [finding] = examine(VisibleDevicesWrong, patient)
    assert finding.message == "--gpus says that the job has 8 GPUs, and the driver lists 4."


@pytest.mark.parametrize(
    "patient",
    [
        lambda: trains_on_cuda(environment={}),  # a laptop, and nothing says that the job runs on it
        lambda: trains_on_cuda("model.cpu()", environment={}, job=launched(2)),  # gloo
        lambda: trains_on_cuda(environment={}, job=launched(8, card="H100")),
        lambda: shell("0,1", gpus=[], job=job(1, card="80GiB")),
        lambda: shell("0,1", gpus=[], torch=rocm()),
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
