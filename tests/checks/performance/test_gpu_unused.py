import pytest
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_gpu, prescribe
from gpudoctor_checks.performance.gpu_unused import GpuUnused
from gpudoctor_rules.performance import gpu_unused

FOLDER = PATIENTS / "PERF009"


@pytest.mark.parametrize("path", sick_scripts("PERF009"), ids=lambda path: path.stem)
def test_sick_script(path):
    assert len(examine(GpuUnused, script_patient(path, gpus=[make_gpu()]))) == 1


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("sick_no_device.py", "never names a device"),
        ("sick_cpu_written.py", "the device is the CPU"),
        ("sick_option_default_cpu.py", "the device is the CPU"),
        ("sick_chosen_never_used.py", "chooses a device"),
    ],
)
def test_sick_message_and_remedy(script, text):
    patient = script_patient(FOLDER / script, gpus=[make_gpu(0), make_gpu(1)])
    [finding] = examine(GpuUnused, patient)
    assert finding.severity is Severity.WARNING
    assert text in finding.message
    assert "2 GPUs (NVIDIA H100 80GB HBM3)" in finding.message
    [remedy] = prescribe(gpu_unused, finding, patient)
    assert any("model.to(device)" in step for step in remedy.steps)
    assert remedy.effect is None


@pytest.mark.parametrize("path", healthy_scripts("PERF009"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(GpuUnused, script_patient(path, gpus=[make_gpu()])) == []


def test_healthy_machine_without_a_gpu_is_no_case():
    with pytest.raises(Unavailable):
        examine(GpuUnused, script_patient(FOLDER / "sick_no_device.py", gpus=[]))


def test_healthy_when_the_launch_line_names_cuda():
    patient = script_patient(FOLDER / "sick_option_default_cpu.py", ["--device", "cuda"], gpus=[make_gpu()])
    assert examine(GpuUnused, patient) == []
