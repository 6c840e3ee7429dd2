import pytest

from gpudoctor.model import Absent, Applicability, Severity, Unavailable
from gpudoctor.model.signs.gpu import DriverState
from gpudoctor.testing import (
    examine,
    make_gpu,
    make_host,
    make_packages,
    make_patient,
    make_survey,
    make_torch,
    prescribe,
)
from gpudoctor_checks.environment.torch_cpu_build import TorchCpuBuild
from gpudoctor_rules.environment.installs import torch_cpu_build

CPU = {"cuda": None, "arch_list": ()}


def patient(version="2.9.1+cpu", gpus=None, python="3.11.7", packages=None, **survey):
    cards = [make_gpu()] if gpus is None else gpus
    return make_patient(
        survey=make_survey(cards, **survey),
        torch=make_torch(version, **CPU),
        packages=packages or make_packages(python, torch=version),
    )


def test_sick_a_cpu_build_beside_a_gpu():
    [finding] = examine(TorchCpuBuild, patient())
    assert finding.severity is Severity.ERROR
    assert finding.cost.breaks
    assert finding.message.startswith("torch 2.9.1+cpu is built without CUDA, and this machine has a GPU (NVIDIA H100")


VOLTA = make_gpu(compute_capability=(7, 0), name="Tesla V100-SXM2-16GB")
COMPANIONS = make_packages(torch="2.5.1+cpu", torchvision="0.20.1+cpu", torchaudio="2.5.1+cpu")
WHEELS = "--index-url https://download.pytorch.org/whl/"


@pytest.mark.parametrize(
    ("version", "driver", "speaks", "more", "line"),
    [
        ("2.9.1+cpu", "570.86.15", (12, 8), {}, f"torch==2.9.1+cu128 {WHEELS}cu128"),
        # CUDA 12.6 runs on any driver for CUDA 12, and no newer one is known to this driver.
        ("2.13.0+cpu", "535.54.03", (12, 2), {}, f"torch==2.13.0+cu126 {WHEELS}cu126"),
        # A driver for CUDA 11 has no build of torch 2.9: the newest that has one.
        ("2.9.1+cpu", "470.57.02", (11, 4), {}, f"torch==2.7.1+cu118 {WHEELS}cu118"),
        # A nightly has no wheel of the same name.
        ("2.10.0.dev20251201+cpu", "580.65.06", (13, 0), {}, f"torch==2.10.0+cu130 {WHEELS}cu130"),
        ("2.14.0+cpu", "580.65.06", (13, 0), {"gpus": [VOLTA]}, f"torch==2.14.0+cu126 {WHEELS}cu126"),
        ("2.5.1+cpu", "550.54.14", (12, 4), {"packages": COMPANIONS}, f"torch==2.5.1+cu124 torchvision==0.20.1+cu124 torchaudio==2.5.1+cu124 {WHEELS}cu124"),
        ("2.13.0+cpu", "570.86.15", (12, 8), {"python": "3.9.18"}, f"torch==2.8.0+cu128 {WHEELS}cu128"),
    ],
)  # fmt: skip
def test_the_install_line_for_this_driver_and_card(version, driver, speaks, more, line):
    one = patient(version, driver_version=driver, cuda_driver_version=speaks, **more)
    [finding] = examine(TorchCpuBuild, one)
    [remedy] = prescribe(torch_cpu_build, finding, one)
    assert remedy.applicability is Applicability.DISPLAY_ONLY
    assert remedy.steps[0].partition("   #")[0] == f"pip install {line}"


@pytest.mark.parametrize(
    "one",
    [
        patient(driver_version="390.157", cuda_driver_version=(9, 1)),
        make_patient(
            survey=make_survey([make_gpu()]),
            torch=make_torch("2.9.1+cpu", **CPU),
            packages=make_packages(torch="2.9.1+cpu"),
            host=make_host(system="Linux 6.8 aarch64"),
        ),
    ],
)
def test_where_no_build_is_known_the_selector_is_named(one):
    [finding] = examine(TorchCpuBuild, one)
    [remedy] = prescribe(torch_cpu_build, finding, one)
    assert remedy.id == "ENV002-select"
    assert "pip install" not in " ".join(remedy.steps)


def test_healthy_cuda_and_rocm_builds():
    for build in (make_torch(), make_torch("2.9.0+rocm6.4", cuda=None, hip="6.4", arch_list=("gfx942",))):
        one = make_patient(gpus=[make_gpu()], torch=build, packages=make_packages(torch=build.version))
        assert examine(TorchCpuBuild, one) == []


def test_healthy_a_card_too_old_for_any_build():
    old = make_gpu(name="NVIDIA GeForce GT 710", compute_capability=(3, 5))
    assert examine(TorchCpuBuild, patient(gpus=[old])) == []
    for other in (make_gpu(1), make_gpu(1, compute_capability=Absent("no"))):
        assert examine(TorchCpuBuild, patient(gpus=[old, other]))


def test_healthy_without_an_answering_gpu_or_torch_it_is_skipped():
    gone = make_survey([], driver=DriverState.HUNG, pci_devices=(), device_nodes=())
    torch, packages = make_torch("2.13.0+cpu", **CPU), make_packages(torch="2.13.0+cpu")
    for one in (
        make_patient(survey=gone, torch=torch, packages=packages),
        make_patient(gpus=[make_gpu()], packages=make_packages()),
    ):
        with pytest.raises(Unavailable):
            examine(TorchCpuBuild, one)
