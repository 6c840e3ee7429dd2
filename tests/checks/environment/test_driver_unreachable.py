import pytest

from gpudoctor.model import Absent, Severity
from gpudoctor.model.signs.gpu import DriverState, LostGpu, PciDevice
from gpudoctor.model.signs.job import Job, Profile
from gpudoctor.testing import examine, make_gpu, make_host, make_patient, make_survey, prescribe
from gpudoctor_checks.environment.driver_unreachable import DriverUnreachable
from gpudoctor_rules.advice import advice

NONE = Absent("the driver did not start")


def broken(state, *, driver="nvidia", nodes=("/dev/nvidia0",), devices=1, **changes):
    pci = tuple(
        PciDevice(address=f"0000:{0x1B + i:02x}:00.0", device_id="10de:2330", driver=driver) for i in range(devices)
    )
    return make_survey(
        driver=state,
        cuda_driver_version=NONE,
        pci_devices=pci,
        device_nodes=nodes,
        **{"driver_version": NONE, "kernel_module_version": "570.86.15", **changes},
    )


def remedy_of(survey, **patient):
    one = make_patient(survey=survey, **patient)
    [finding] = examine(DriverUnreachable, one)
    [remedy] = prescribe(advice("environment"), finding, one)
    return remedy


NOUVEAU = broken(DriverState.NO_LIBRARY, driver="nouveau", nodes=(), kernel_module_version=NONE)


@pytest.mark.parametrize(
    ("survey", "words", "remedy"),
    [
        (broken(DriverState.NO_LIBRARY), "libnvidia-ml.so.1", "install"),
        (broken(DriverState.NOT_LOADED), "not loaded", "load"),
        (broken(DriverState.MISMATCH), "different versions", "reboot"),
        (broken(DriverState.NO_PERMISSION), "may not open", "permission"),
        (broken(DriverState.FAILED, driver_error="as NVML says"), "does not start", "reboot"),
        (broken(DriverState.HUNG), "does not answer", "reboot"),
        (broken(DriverState.CRASHED), "crashes", "reboot"),
        (NOUVEAU, "libnvidia-ml.so.1", ""),
        (broken(DriverState.HUNG, devices=0, nodes=()), "does not answer", ""),  # told even where the bus is hidden
        (broken(DriverState.READY, devices=8), "sees none of them", ""),
    ],
)
def test_sick_each_way_a_driver_fails(survey, words, remedy):
    [finding] = examine(DriverUnreachable, make_patient(survey=survey, host=make_host()))
    assert finding.severity is Severity.ERROR and finding.cost.breaks and words in finding.message
    assert remedy_of(survey, host=make_host()).id.startswith(f"ENV001-{remedy}")


def test_sick_a_container_that_was_to_have_gpus():
    survey = broken(DriverState.NO_LIBRARY, nodes=(), kernel_module_version=NONE)
    host = make_host(container="docker")
    for asked in (
        {"environment": {"NVIDIA_VISIBLE_DEVICES": "all"}},
        {"job": Job(profile=Profile.KUBERNETES, gpus_granted=2)},
    ):
        [finding] = examine(DriverUnreachable, make_patient(survey=survey, host=host, **asked))
        assert finding.severity is Severity.ERROR
    assert "--gpus all" in remedy_of(survey, host=host).steps[0]
    lost = broken(DriverState.FAILED, driver_error="Unknown Error")  # while it ran
    assert remedy_of(lost, host=host).id == "ENV001-restart-container"


def test_a_container_without_gpus_is_a_note_when_nothing_asks_for_them():
    survey = broken(DriverState.NO_LIBRARY, nodes=(), kernel_module_version=NONE)
    host = make_host(container="podman")
    for environment in ({}, {"NVIDIA_VISIBLE_DEVICES": "void"}, {"CUDA_VISIBLE_DEVICES": ""}):
        patient = make_patient(survey=survey, host=host, environment=environment)
        [finding] = examine(DriverUnreachable, patient)
        assert finding.severity is Severity.NOTE and finding.cost.breaks is None


@pytest.mark.parametrize(
    "survey",
    [
        pytest.param(make_survey([make_gpu(0)]), id="ready"),
        pytest.param(broken(DriverState.NO_LIBRARY, devices=0, nodes=()), id="no GPU, no driver"),
        pytest.param(broken(DriverState.NOT_LOADED, devices=0, nodes=()), id="a driver left over"),
        pytest.param(broken(DriverState.READY, devices=0, nodes=()), id="a driver and no GPU"),
        pytest.param(broken(DriverState.NO_LIBRARY, driver="vfio-pci", nodes=()), id="given to a virtual machine"),
        pytest.param(broken(DriverState.READY, devices=8, nodes=()), id="no node in this container"),
        pytest.param(broken(DriverState.READY, devices=8, denied_nodes=("/dev/nvidia0",)), id="granted to another job"),
        pytest.param(
            broken(DriverState.READY, lost=(LostGpu(index=0, error="GPU is lost"),)), id="another ailment: lost"
        ),
    ],
)
def test_healthy(survey):
    assert examine(DriverUnreachable, make_patient(survey=survey, host=make_host())) == []


def test_sick_versions_that_differ_are_both_named():
    survey = broken(DriverState.MISMATCH, kernel_module_version="550.54.14", driver_version="570.86.15")
    [finding] = examine(DriverUnreachable, make_patient(survey=survey))
    assert "module (550.54.14)" in finding.message and "library (570.86.15)" in finding.message
    assert "reboot" in remedy_of(survey).steps[0]
    assert remedy_of(survey, host=make_host(container="docker")).id == "ENV001-restart-container"
