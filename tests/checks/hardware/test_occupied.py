import pytest

from gpudoctor.model import Absent, PatientKind, Resource, Severity
from gpudoctor.model.signs.gpu import GpuProcess
from gpudoctor.model.signs.job import Job, Profile
from gpudoctor.testing import GIB, examine, make_gpu, make_patient, make_survey, prescribe
from gpudoctor_checks.hardware.occupied import Occupied
from gpudoctor_rules.advice import advice
from gpudoctor_rules.hardware import leave_out

MIB = 1 << 20


def process(pid, memory=10 * GIB, kind="compute", name="python", ours=False):
    return GpuProcess(pid=pid, memory=memory, kind=kind, name=name, ours=ours)


def busy(index, *processes, **changes):
    return make_gpu(index, processes=processes, **changes)


def titles(finding, patient):
    return [remedy.title for remedy in prescribe((leave_out, *advice("hardware")), finding, patient)]


def test_sick_somebody_elses_process():
    patient = make_patient(gpus=[make_gpu(0), busy(1, process(4711)), make_gpu(2)])
    [finding] = examine(Occupied, patient)
    assert finding.severity is Severity.WARNING and finding.subject == "GPU 1"
    assert "pid 4711 (python) uses 10 GiB" in finding.message
    assert finding.scarce == {Resource.DEVICE_MEMORY}
    assert titles(finding, patient) == ["CUDA_VISIBLE_DEVICES=0,2", "end the other program (pid 4711)"]


def test_sick_memory_that_nobody_visible_holds():
    [finding] = examine(Occupied, make_patient(gpus=[make_gpu(0, memory_used=30 * GIB)]))
    assert "no visible process (GPU 0: 30 GiB)" in finding.message


PROHIBITED, EXCLUSIVE = {"compute_mode": 2}, {"compute_mode": 3}
SPLIT = {"mig_enabled": True, "mig_instances": ("MIG-a", "MIG-b")}


def ranks(number):
    return Job(profile=Profile.TORCHRUN, ranks_per_node=number)


@pytest.mark.parametrize(
    ("gpus", "job", "severity", "words"),
    [
        ([make_gpu(0, **PROHIBITED)], None, Severity.ERROR, "no program may compute on it"),
        ([make_gpu(0, **EXCLUSIVE), make_gpu(1, **EXCLUSIVE)], ranks(4), Severity.ERROR, "has to share it"),
        ([busy(0, process(9), **EXCLUSIVE)], None, Severity.ERROR, "has to share it"),
        ([make_gpu(0, **SPLIT)], ranks(2), Severity.WARNING, "sees one slice of it"),
        ([make_gpu(0, **SPLIT)], None, Severity.NOTE, "sees one slice of it"),
    ],
)
def test_sick_modes(gpus, job, severity, words):
    patient = make_patient(gpus=gpus, job=job)
    finding = examine(Occupied, patient)[-1]
    assert finding.severity is severity and words in finding.message
    assert (finding.cost.breaks is not None) == (severity is Severity.ERROR)
    assert any("compute mode default" in title or "MIG" in title for title in titles(finding, patient))


@pytest.mark.parametrize(
    "gpu",
    [
        pytest.param(busy(0, process(1, ours=True)), id="the job's own process"),
        pytest.param(busy(0, process(1, 14 * MIB)), id="less than a context"),
        pytest.param(busy(0, process(1, 30 * MIB, name="nvidia-cuda-mps-server")), id="the MPS daemon"),
        pytest.param(busy(0, process(1, 3 * GIB, "graphics", "Xorg"), memory_used=4 * GIB), id="a display server"),
        pytest.param(
            busy(0, process(1, 2 * GIB, "graphics", "firefox"), process(1, 2 * GIB, name="firefox")),
            id="a browser that computes too",
        ),
        pytest.param(make_gpu(0, memory_used=900 * MIB), id="the driver's own reserve"),
        pytest.param(busy(0, process(1, 500 * MIB), display_active=True), id="a small context on a desktop"),
        pytest.param(make_gpu(0, memory_used=Absent("no permission"), processes=Absent("no permission")), id="silent"),
    ],
)
def test_healthy(gpu):
    assert examine(Occupied, make_patient(gpus=[gpu])) == []


CONTAINED = make_survey([busy(0, process(4711, name=None), memory_used=40 * GIB)], pids_visible=False)
OWN = busy(0, process(1, 30 * GIB, ours=True), memory_used=30 * GIB + 700 * MIB)


@pytest.mark.parametrize(
    "patient",
    [
        make_patient(gpus=[OWN], kind=PatientKind.PROCESS),
        make_patient(survey=CONTAINED, kind=PatientKind.PROCESS),  # a running job cannot be told from others
        make_patient(gpus=[make_gpu(0), busy(1, process(4711))], environment={"CUDA_VISIBLE_DEVICES": "0"}),
        make_patient(gpus=[make_gpu(0, **SPLIT)], environment={"CUDA_VISIBLE_DEVICES": "MIG-a"}),
        make_patient(gpus=[make_gpu(0, name="NVIDIA GH200 480GB", memory_used=30 * GIB)]),  # the host's pages
    ],
)
def test_healthy_patients(patient):
    assert examine(Occupied, patient) == []


def test_sick_in_a_container_the_pid_is_not_named():
    survey = make_survey([busy(0, process(4711, name=None))], pids_visible=False)
    patient = make_patient(survey=survey)
    [finding] = examine(Occupied, patient)
    assert "gpudoctor cannot look them up in this container" in finding.message
    assert titles(finding, patient) == ["find which process uses GPU 0 from the host"]
