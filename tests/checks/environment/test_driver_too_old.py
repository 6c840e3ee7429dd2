import json
from importlib import resources

import pytest

from gpudoctor.model import Absent, Severity, Unavailable
from gpudoctor.model.signs.gpu import DriverState
from gpudoctor.testing import examine, make_gpu, make_packages, make_patient, make_survey, make_torch, prescribe
from gpudoctor_checks.environment.driver_too_old import DriverTooOld
from gpudoctor_rules.environment.installs import driver_too_old


def patient(version, cuda, driver, speaks, gpu=None, **survey):
    return make_patient(
        survey=make_survey([gpu or make_gpu()], driver_version=driver, cuda_driver_version=speaks, **survey),
        torch=make_torch(version, cuda=cuda),
        packages=make_packages(torch=version),
    )


OLD, SILENT = Absent("this driver is too old"), Absent("not answered")
COMPAT = "/usr/local/cuda/compat/libcuda.so.1"
JETSON = make_gpu(name="Orin (nvgpu)", compute_capability=(8, 7))


@pytest.mark.parametrize(
    ("cuda", "driver", "speaks", "floor"),
    [
        ("13.0", "570.86.15", (12, 8), "580.65.06"),
        ("12.8", "470.57.02", (11, 4), "525.60.13"),
        ("11.8", "440.33", (10, 2), "450.80.02"),
        ("12.8", "525.53", OLD, "525.60.13"),
    ],
)
def test_sick_a_driver_below_the_floor(cuda, driver, speaks, floor):
    [finding] = examine(DriverTooOld, patient("2.x", cuda, driver, speaks))
    assert finding.severity is Severity.ERROR and finding.cost.breaks and finding.detail.floor == floor
    assert f"needs {floor} or newer; the driver is {driver}" in finding.message


@pytest.mark.parametrize(
    "one",
    [
        patient("2.x", "12.8", "525.60.13", (12, 0)),
        patient("2.x", "13.2", "580.65.06", (13, 0)),
        patient("2.x", "14.0", "700.10", (14, 1)),
        patient("2.x", "14.0", "700.10", SILENT),
        patient("2.x", "12.4", "999.1.1", SILENT),
        patient("2.9.1+cu130", "13.0", "550.54.14", (12, 4), compat_libcuda=COMPAT),
        patient("2.9.1+cpu", None, "470.1", (11, 4)),
        patient("2.5.0", "13.0", "540.4.0", (12, 6), JETSON),
    ],
)
def test_healthy_drivers(one):
    assert examine(DriverTooOld, one) == []


def test_healthy_without_a_driver_or_its_version_it_is_skipped():
    torch, packages = make_torch(), make_packages(torch="2.9.1")
    with pytest.raises(Unavailable):
        examine(
            DriverTooOld, make_patient(survey=make_survey([], driver=DriverState.HUNG), torch=torch, packages=packages)
        )
    with pytest.raises(Unavailable, match="no permission"):
        examine(DriverTooOld, patient("2.9", "13.0", Absent("no permission"), Absent("no permission")))


def test_an_older_torch_is_named_as_such():
    card = make_gpu(name="NVIDIA GeForce RTX 3090", compute_capability=(8, 6))
    one = patient("2.9.1+cu128", "12.8", "470.57.02", (11, 4), card)
    [finding] = examine(DriverTooOld, one)
    build, _ = prescribe(driver_too_old, finding, one)
    assert "an older torch, 2.7.1" in build.title


def test_the_two_tables_agree_and_have_sources():
    def table(package, name):
        return json.loads(resources.files(package).joinpath(name).read_text("utf-8"))

    floors = table("gpudoctor_checks.environment", "driver_floors.json")
    builds = table("gpudoctor_rules.environment", "torch_builds.json")
    assert builds["floors"].items() <= floors["floors"].items()
    assert floors["sources"] and builds["sources"]
    assert all(tag[2:-1] in builds["floors"] for item in builds["releases"] for tag in item["builds"])


def test_the_remedies_name_the_build_the_driver_and_the_package():
    one = patient("2.9.1+cu130", "13.0", "550.54.14", (12, 4))
    [finding] = examine(DriverTooOld, one)
    build, driver = prescribe(driver_too_old, finding, one)
    assert build.steps[0].startswith("pip install torch==2.9.1+cu126 --index-url ")
    assert "550.54.14" in build.title
    assert driver.title == "ask the administrator for driver 580.65.06 or newer"
    assert all(remedy.effect is None for remedy in (build, driver))
