import pytest

from gpudoctor.model import Absent, PatientKind, Resource, Severity
from gpudoctor.model.signs.gpu import GpuProcess
from gpudoctor.model.signs.job import Job, Profile
from gpudoctor.testing import GIB, examine, make_gpu, make_patient, make_survey, prescribe
from gpudoctor_checks.hardware.occupied import Occupied
from gpudoctor_rules.hardware import occupied

MIB = 1 << 20


def process(pid, memory=10 * GIB, kind="compute", name="python", ours=False):
    return GpuProcess(pid=pid, memory=memory, kind=kind, name=name, ours=ours)


def busy(index, *processes, **changes):
    return make_gpu(index, processes=processes, **changes)


def titles(finding, patient):
    return [remedy.title for remedy in prescribe(occupied, finding, patient)]


def test_sick_somebody_elses_process():
    patient = make_patient(gpus=[make_gpu(0), busy(1, process(4711)), make_gpu(2)])
    [finding] = examine(Occupied, patient)
    assert finding.severity is Severity.WARNING and finding.subject == "GPU 1"
    assert "pid 4711 (python) uses 10 GiB" in finding.message
    assert finding.scarce == {Resource.DEVICE_MEMORY}
    assert titles(finding, patient) == ["CUDA_VISIBLE_DEVICES=0,2", "end the other program (pid 4711)"]


def test_sick_a_small_context_on_a_server_card():
    [finding] = examine(Occupied, make_patient(gpus=[busy(0, process(7, 300 * MIB))]))
    assert "300 MiB" in finding.message and finding.scarce == frozenset()


def test_sick_in_a_container_the_pid_is_not_named():
    survey = make_survey([busy(0, process(4711, name=None))], pids_visible=False)
    patient = make_patient(survey=survey)
    [finding] = examine(Occupied, patient)
    assert "gpudoctor cannot look them up in this container" in finding.message
    assert titles(finding, patient) == ["find which process uses GPU 0 from the host"]


def test_sick_memory_that_nobody_visible_holds():
    [finding] = examine(Occupied, make_patient(gpus=[make_gpu(0, memory_used=30 * GIB)]))
    assert "no visible process (GPU 0: 30 GiB)" in finding.message


def test_sick_a_large_program_on_a_desktop_card():
    gpu = busy(0, process(1, 400 * MIB, "graphics", "Xorg"), process(2, 6 * GIB, name="ollama"), display_active=True)
    [finding] = examine(Occupied, make_patient(gpus=[gpu]))
    assert "ollama" in finding.message and "Xorg" not in finding.message


def test_sick_compute_mode_prohibited():
    patient = make_patient(gpus=[make_gpu(0, compute_mode=2)])
    [finding] = examine(Occupied, patient)
    assert finding.severity is Severity.ERROR and finding.cost.breaks
    assert titles(finding, patient) == ["compute mode default on GPU 0"]


def test_sick_exclusive_mode_with_more_ranks_than_gpus():
    job = Job(profile=Profile.TORCHRUN, ranks_per_node=4)
    gpus = [make_gpu(0, compute_mode=3), make_gpu(1, compute_mode=3)]
    [finding] = examine(Occupied, make_patient(gpus=gpus, job=job))
    assert "4 ranks share 2 GPUs" in finding.message


def test_sick_exclusive_mode_that_is_taken():
    findings = examine(Occupied, make_patient(gpus=[busy(0, process(9), compute_mode=3)]))
    assert [finding.severity for finding in findings] == [Severity.WARNING, Severity.ERROR]


def test_sick_mig_with_several_ranks():
    gpu = make_gpu(0, mig_enabled=True, mig_instances=("MIG-a", "MIG-b"))
    patient = make_patient(gpus=[gpu], job=Job(profile=Profile.TORCHRUN, ranks_per_node=2))
    [finding] = examine(Occupied, patient)
    assert finding.severity is Severity.WARNING and "2 ranks" in finding.message


def test_sick_mig_without_an_instance():
    [finding] = examine(Occupied, make_patient(gpus=[make_gpu(0, mig_enabled=True)]))
    assert finding.severity is Severity.ERROR and "no instance" in finding.message


def test_mig_is_a_note_when_the_job_is_not_known_and_silent_when_it_asks_for_a_slice():
    gpu = make_gpu(0, mig_enabled=True, mig_instances=("MIG-a",))
    [finding] = examine(Occupied, make_patient(gpus=[gpu]))
    assert finding.severity is Severity.NOTE
    assert examine(Occupied, make_patient(gpus=[gpu], environment={"CUDA_VISIBLE_DEVICES": "MIG-a"})) == []


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
        pytest.param(busy(0, process(1, 500 * MIB), display_active=True), id="a small context on a desktop"),
        pytest.param(make_gpu(0, compute_mode=3), id="exclusive mode alone"),
        pytest.param(make_gpu(0, memory_used=900 * MIB), id="the driver's own reserve"),
        pytest.param(make_gpu(0, memory_used=Absent("no permission"), processes=Absent("no permission")), id="silent"),
    ],
)
def test_healthy(gpu):
    assert examine(Occupied, make_patient(gpus=[gpu])) == []


def test_healthy_the_same_gpu_with_its_own_process_counted_once():
    gpu = busy(0, process(1, 30 * GIB, ours=True), memory_used=30 * GIB + 700 * MIB)
    assert examine(Occupied, make_patient(gpus=[gpu], kind=PatientKind.PROCESS)) == []


def test_healthy_a_running_job_in_a_container_cannot_be_told_from_others():
    survey = make_survey([busy(0, process(4711, name=None), memory_used=40 * GIB)], pids_visible=False)
    assert examine(Occupied, make_patient(survey=survey, kind=PatientKind.PROCESS)) == []


def test_healthy_a_busy_gpu_that_the_job_leaves_out():
    patient = make_patient(gpus=[make_gpu(0), busy(1, process(4711))], environment={"CUDA_VISIBLE_DEVICES": "0"})
    assert examine(Occupied, patient) == []


def test_healthy_the_memory_of_a_grace_module_may_hold_the_hosts_pages():
    assert examine(Occupied, make_patient(gpus=[make_gpu(0, name="NVIDIA GH200 480GB", memory_used=30 * GIB)])) == []
