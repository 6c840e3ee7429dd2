import pytest

from gpudoctor.model import Absent, Severity, Unavailable
from gpudoctor.model.cuda import runs_on
from gpudoctor.testing import examine, make_gpu, make_packages, make_patient, make_survey, make_torch, prescribe
from gpudoctor_checks.environment.gpu_arch_unsupported import GpuArchUnsupported
from gpudoctor_rules.environment.installs import gpu_arch_unsupported

CU126 = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")
CU130 = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120")


def patient(arches, *capabilities, version="2.9.1+cu126", names=(), **survey):
    gpus = [
        make_gpu(index, compute_capability=card, name=names[index] if names else f"card {card}")
        for index, card in enumerate(capabilities)
    ]
    return make_patient(
        survey=make_survey(gpus, **survey),
        torch=make_torch(version, cuda="12.6", arch_list=arches),
        packages=make_packages(torch=version),
    )


@pytest.mark.parametrize(
    ("arches", "card", "found"),
    [
        (CU126, (12, 0), 1),
        (CU130, (7, 0), 1),
        (("sm_80",), (7, 5), 1),
        (("sm_90a",), (9, 1), 1),
        (("sm_100a",), (10, 3), 1),
        (("compute_90",), (8, 0), 1),
        (("compute_90a",), (10, 0), 1),
        (CU126, (9, 0), 0),
        (CU126, (8, 9), 0),  # sm_86 runs on Ada
        (CU130, (12, 1), 0),  # sm_120 runs on 12.1
        (CU130, (13, 0), 0),  # compiled by the driver from compute_120
        (("sm_100f",), (10, 3), 0),
        (("sm_90a",), (9, 0), 0),
    ],
)
def test_sick_and_healthy_cards(arches, card, found):
    findings = examine(GpuArchUnsupported, patient(arches, card))
    assert [finding.severity for finding in findings] == [Severity.ERROR] * found
    for finding in findings:
        assert finding.cost.breaks and f"compute capability {card[0]}.{card[1]}" in finding.message


def test_healthy_jetson_cpu_and_rocm():
    assert examine(GpuArchUnsupported, patient(("sm_80",), (7, 2), names=["Xavier (nvgpu)"])) == []
    for build in (
        make_torch("2.9.1+cpu", cuda=None, arch_list=()),
        make_torch("2.9.1+rocm6.4", cuda=None, hip="6.4", arch_list=("gfx942",)),
    ):
        one = make_patient(gpus=[make_gpu()], torch=build, packages=make_packages(torch="2.9.1"))
        assert examine(GpuArchUnsupported, one) == []


def test_healthy_an_unknown_list_is_no_finding():
    with pytest.raises(Unavailable, match="architectures"):
        examine(GpuArchUnsupported, patient(Absent("libtorch_python.so does not list the architectures"), (9, 0)))


@pytest.mark.parametrize(
    ("one", "remedy", "words"),
    [
        (patient(CU126, (12, 0), driver_version="570.86.15", cuda_driver_version=(12, 8)), "install",
         "pip install torch==2.9.1+cu128 --index-url"),
        (patient(CU130, (7, 0), version="2.14.0+cu130", driver_version="580.65.06", cuda_driver_version=(13, 0)),
         "install", "pip install torch==2.14.0+cu126 --index-url"),
        (patient(CU126, (12, 0), driver_version="470.57.02", cuda_driver_version=(11, 4)), "source", "TORCH_CUDA_ARCH_LIST=12.0"),
        (patient(CU126, (3, 5)), "source", "TORCH_CUDA_ARCH_LIST=3.5"),
    ],
)  # fmt: skip
def test_the_build_that_has_it_and_that_this_driver_runs_else_the_driver_else_the_source(one, remedy, words):
    [finding] = examine(GpuArchUnsupported, one)
    [found] = prescribe(gpu_arch_unsupported, finding, one)
    assert found.id == f"ENV004-{remedy}" and words in found.steps[0]


def test_machine_code_is_preferred_to_intermediate_code():
    assert runs_on(("compute_80", "sm_90"), (9, 0)) == "sm_90"
    assert runs_on(("nonsense", "sm_x"), (9, 0)) is None
