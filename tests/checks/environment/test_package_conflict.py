from dataclasses import replace

import pytest
from recordings import make_process, make_recording, make_steps

from gpudoctor.model import Absent, Severity
from gpudoctor.model.signs.packages import NativeBuild
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor.testing import examine, make_packages, make_patient, make_torch, prescribe
from gpudoctor_checks.environment.package_conflict import PackageConflict
from gpudoctor_rules.environment.installs import package_conflict

TRANSFORMERS = ["tokenizers<0.24.0,>=0.23.1", "huggingface-hub<3.0,>=1.31.0", "safetensors>=0.4.3", "numpy>=1.17"]


def with_native(packages, name, **built):
    item = replace(packages.distributions[name], native=NativeBuild(**built))
    return replace(packages, distributions={**packages.distributions, name: item})


def findings(packages, torch=None):
    return examine(PackageConflict, make_patient(packages=packages, torch=torch))


def remedies(packages, torch=None):
    one = make_patient(packages=packages, torch=torch)
    [finding] = examine(PackageConflict, one)
    return prescribe(package_conflict, finding, one)


def stack(**changes):
    versions = {
        "torch": "2.9.1+cu128", "transformers": "5.0.0", "tokenizers": "0.23.3", "huggingface_hub": "1.32.0",
        "safetensors": "0.7.0", "numpy": "2.1.0",
    }  # fmt: skip
    versions |= changes
    wanted = {"transformers": TRANSFORMERS, "tokenizers": ["huggingface-hub>=0.16"]}
    return make_packages(requires=wanted, **{k: v for k, v in versions.items() if v})


def accelerates(**wanted):
    wanted = {name: [f"accelerate{line}"] for name, line in wanted.items()}
    return make_packages(requires=wanted, torch="2.9.1", peft="0.17.0", trl="0.20.0", accelerate="0.20.0")


def vision(version, wanted):
    return make_packages(requires={"torchvision": [wanted]}, torch="2.5.1+cu124", torchvision=version)


def companion(name, built, version="0.1", **native):
    return with_native(make_packages(torch="2.8.0", **{name: version}), name, **native, cuda=built)


VISION = "pip install torchvision==0.20.1+cu124 --index-url https://download.pytorch.org/whl/cu124"
OLD = make_torch("2.2.2+cu121", cuda="12.1")
TWO_STACKS = make_packages(
    requires={"torch": ["nvidia-nccl-cu12==2.27.5"]},
    torch="2.9.1", nvidia_nccl_cu12="2.27.5", nvidia_nccl_cu13="2.28.9", nvidia_cudnn_cu12="9.1", nvidia_cudnn_cu13="9.2",
)  # fmt: skip


@pytest.mark.parametrize(
    ("packages", "torch", "severity", "words", "step"),
    [
        (stack(tokenizers="0.21.4"), None, Severity.ERROR, "transformers 5.0.0 requires tokenizers<0.24.0,>=0.23.1; tokenizers 0.21.4 is installed.", "pip install 'tokenizers<0.24.0,>=0.23.1'"),
        (stack(safetensors=None), None, Severity.ERROR, "; safetensors is not installed.", "pip install 'safetensors>=0.4.3'"),
        (accelerates(peft=">=0.30", trl=">=1.4"), None, Severity.WARNING, "accelerate", "pip install 'accelerate>=0.30,>=1.4'"),
        (vision("0.19.0", "torch==2.4.0"), None, Severity.ERROR, "torch==2.4.0", VISION),
        (vision("0.20.0", "torch==2.5.0"), None, Severity.WARNING, "torch==2.5.0", VISION),
        (make_packages(torch="2.2.2+cu121", numpy="2.0.1"), OLD, Severity.ERROR, "numpy 2.0.1", "pip install 'numpy<2'"),
        (companion("torchvision", "cpu"), make_torch("2.8.0"), Severity.WARNING, "for the CPU", "whl/cu128"),
        (companion("torchvision", "12.8"), make_torch("2.8.0", cuda=None), Severity.ERROR, "for CUDA 12.8", "whl/cpu"),
        (companion("torchaudio", "13.0"), make_torch("2.8.0"), Severity.ERROR, "for CUDA 13.0", "whl/cu128"),
        (TWO_STACKS, None, Severity.WARNING, "CUDA 12 and CUDA 13 are both installed: cudnn, nccl", "the rest of the stack"),
    ],
)  # fmt: skip
def test_sick_packages(packages, torch, severity, words, step):
    [finding] = findings(packages, torch)
    assert finding.severity is severity and words in finding.message
    assert (finding.cost.breaks is None) == (severity is Severity.WARNING)
    assert remedies(packages, torch)[0].steps[0].endswith(step)


MARKED = {
    "transformers": [
        "tokenizers>=9; extra == 'tok'", "numpy>=9; python_version < '3.10'", "requests>=99", "regex",
        "torch>=99; extra == 'torch'", "huggingface-hub>=9; sys_platform == 'win32'", "broken requirement [",
        "accelerate @ https://example.org/accelerate.whl",
    ]
}  # fmt: skip
VENDOR = {"accelerate": ["torch>=2.6.0"], "torchvision": ["torch==2.6.0"]}


@pytest.mark.parametrize(
    ("packages", "torch"),
    [
        (stack(), make_torch()),
        (make_packages("3.11.7", requires=MARKED, torch="2.9.1", transformers="5.0.0", tokenizers="0.23", numpy="2.0", huggingface_hub="1.0"), make_torch()),
        (make_packages(requires=VENDOR, torch="2.6.0a0+ecf3bae40a.nv25.1", accelerate="1.5.0", torchvision="0.21.0"), make_torch("2.6.0a0+ecf3bae40a.nv25.1")),
        (make_packages(requires={"torchaudio": ["torch==2.5.1"]}, torch="2.5.1+cu124", torchaudio="2.5.1"), None),
        *((make_packages(torch=torch, numpy=numpy), make_torch(torch)) for torch, numpy in (("2.3.0", "2.0.1"), ("2.10.0", "2.4.0"), ("2.2.2", "1.26.4"))),
        *((companion("torchvision", built, "0.23.0"), make_torch("2.8.0", cuda=own)) for built, own in (("12.6", "12.8"), ("cpu", None), (None, "12.8"), ("12.8", "12.8"))),
        (make_packages(torch="2.9.1", nvidia_nccl_cu13="2.28.9", nvidia_cublas="13.0.0", nvidia_cufile_cu12="1.0", nvidia_ml_py="13.1"), None),
        (make_packages(numpy="garbage", torch="not-a-version"), None),
    ],
)  # fmt: skip
def test_healthy_packages(packages, torch):
    assert findings(packages, torch) == []


def test_where_torch_is_absent_a_missing_package_is_a_note():
    packages = make_packages(requires={"accelerate": ["torch>=2", "safetensors"]}, accelerate="1.5.0")
    assert {finding.severity for finding in findings(packages)} == {Severity.NOTE}


@pytest.mark.parametrize(
    ("built", "words"),
    [({"torch": "2.5"}, "torch 2.5, and torch 2.8.0"), ({"cxx11_abi": False}, "another C++ ABI than torch 2.8.0")],
)
def test_sick_flash_attention_for_another_torch(built, words):
    packages = with_native(make_packages(torch="2.8.0", flash_attn="2.7.4"), "flash-attn", **built)
    [finding] = findings(packages, make_torch("2.8.0"))
    assert finding.severity is Severity.ERROR
    assert words in finding.message
    [remedy] = remedies(packages, make_torch("2.8.0"))
    assert "flash-attn" in " ".join(remedy.steps)


@pytest.mark.parametrize("built", [{}, {"torch": "2.8"}, {"cxx11_abi": True}])
def test_healthy_flash_attention(built):
    packages = with_native(make_packages(torch="2.8.0", flash_attn="2.8.3"), "flash-attn", **built)
    assert findings(packages, make_torch("2.8.0")) == []
    assert findings(packages, make_torch("2.8.0", cxx11_abi=Absent("unknown"))) == []


LIBRARIES = ("libbitsandbytes_cpu.so", "libbitsandbytes_cuda121.so", "libbitsandbytes_cuda126.so")


def bitsandbytes(libraries=LIBRARIES, nearest=False):
    packages = make_packages(torch="2.9.1", bitsandbytes="0.45.0")
    return with_native(packages, "bitsandbytes", libraries=libraries, nearest=nearest)


@pytest.mark.parametrize(
    ("packages", "cuda", "found"),
    [
        (bitsandbytes(), "12.8", 1),
        (bitsandbytes(nearest=True), "13.0", 1),
        (bitsandbytes(("libbitsandbytes_cpu.so",)), "12.6", 1),
        (bitsandbytes(), "12.6", 0),
        (bitsandbytes(()), "12.8", 0),
    ],
)
def test_sick_and_healthy_bitsandbytes(packages, cuda, found):
    seen = [(finding.severity, finding.subject) for finding in findings(packages, make_torch(cuda=cuda))]
    assert seen == [(Severity.ERROR, "bitsandbytes")] * found


def test_a_run_that_trained_to_its_end_did_not_need_what_is_broken():
    packages = with_native(make_packages(torch="2.8.0", torchaudio="2.8.0"), "torchaudio", cuda="12.8")
    run = make_recording(make_process(make_steps(40)), end=RunEnd(exit_code=0, seconds=30.0))
    patient = make_patient(packages=packages, torch=make_torch("2.8.0", cuda=None), recording=run)
    [finding] = examine(PackageConflict, patient)
    assert finding.severity is Severity.NOTE and finding.cost.breaks is None


def test_sick_the_other_package_may_change_instead():
    remedy = remedies(stack(tokenizers="0.21.4"))[1]
    assert remedy.steps[0] == "pip install --upgrade transformers 'tokenizers==0.21.4'"
