"""The torch build from its files."""

import sys

from gpudoctor.model import Absent
from gpudoctor.model.signs.packages import Distribution, Packages
from gpudoctor.vitals.native_build import read_native_build
from gpudoctor.vitals.torch_build import read_torch


def packages_in(folder, version="2.5.1+cu124", *, there=True):
    torch = Distribution(name="torch", version=version, requires=(), location=str(folder))
    return Packages(
        prefix=str(folder), python="3.11.7", executable=sys.executable, distributions={"torch": torch} if there else {}
    )


def make_torch(folder, source, arches=None, symbol=None):
    (folder / "torch" / "lib").mkdir(parents=True)
    (folder / "torch" / "version.py").write_text(source)
    padding = b"\x7fELF" + bytes(range(256)) * 40
    if arches is not None:
        noise = b"\0sm_80 and text\0sm_\0nvcc -arch=sm_90\0"
        (folder / "torch" / "lib" / "libtorch_python.so").write_bytes(
            padding + noise + b"\0" + arches + b"\0" + padding
        )
    if symbol is not None:
        (folder / "torch" / "lib" / "libc10.so").write_bytes(padding + b"\0_ZN3c106detail14" + symbol + b"\0" + padding)


CUDA = "from typing import Optional\n__version__ = '2.5.1+cu124'\ndebug = False\ncuda: Optional[str] = '12.4'\nhip: Optional[str] = None\n"
OLD = b"torchCheckFailEPKcS2_jRKSs"
NEW = b"torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"


def test_a_cuda_build_is_read_from_its_files(tmp_path):
    make_torch(tmp_path, CUDA, b"sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90", OLD)
    torch = read_torch(packages_in(tmp_path))
    assert (torch.version, torch.cuda, torch.hip) == ("2.5.1+cu124", "12.4", None)
    assert torch.arch_list == ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")
    assert torch.cxx11_abi is False


def test_stripped_or_missing_libraries_are_absent_and_not_empty(tmp_path):
    make_torch(tmp_path, CUDA, b"no such list", b"nothing")
    torch = read_torch(packages_in(tmp_path))
    assert isinstance(torch.arch_list, Absent)
    assert isinstance(torch.cxx11_abi, Absent)
    (tmp_path / "torch" / "lib" / "libtorch_python.so").write_bytes(b"")
    assert isinstance(read_torch(packages_in(tmp_path)).arch_list, Absent)


def test_companions_of_torch(tmp_path):
    (tmp_path / "torchvision").mkdir()
    version_file = tmp_path / "torchvision" / "version.py"
    version_file.write_text("__version__ = '0.20.1+cu121'\nif check():\n    cuda = check()\n")
    assert read_native_build("torchvision", "0.20.1", tmp_path, tmp_path).cuda == "12.1"
    version_file.write_text("__version__ = '0.20.1'\ncuda = '12.4'\n")
    assert read_native_build("torchvision", "0.20.1", tmp_path, tmp_path).cuda == "12.4"
    assert read_native_build("torchaudio", "2.5.1+cpu", tmp_path, tmp_path).cuda == "cpu"
    assert read_native_build("torchaudio", "2.5.1", tmp_path, tmp_path).cuda is None
    assert read_native_build("numpy", "2.0", tmp_path, tmp_path) is None


def test_flash_attention_says_what_it_was_built_for(tmp_path):
    metadata = tmp_path / "flash_attn-2.7.4.dist-info"
    metadata.mkdir()
    name = "flash_attn-2.7.4%2Bcu12torch2.5cxx11abiFALSE-cp311-cp311-linux_x86_64.whl"
    (metadata / "direct_url.json").write_text(f'{{"url": "https://example.org/{name}"}}')
    built = read_native_build("flash-attn", "2.7.4", tmp_path, metadata)
    assert (built.torch, built.cuda, built.cxx11_abi) == ("2.5", "12", False)
    # The library itself knows better than its name.
    (tmp_path / "flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so").write_bytes(b"\0_ZN3c106detail14" + NEW + b"\0")
    assert read_native_build("flash-attn", "2.7.4", tmp_path, metadata).cxx11_abi is True
    (metadata / "direct_url.json").write_text("[]")
    assert read_native_build("flash-attn", "2.7.4", tmp_path, metadata).torch is None
