"""Reading against the fake driver; the kernel's files; the child's ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_nvml import Machine, compiler, library_folder
from fake_nvml.machine import GIB, h100

from gpudoctor.model import Absent
from gpudoctor.model.signs.gpu import DriverState
from gpudoctor.vitals.nvml import bus, survey

needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C compiler to build the fake driver with")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    return tmp_path_factory.mktemp("libraries")


@pytest.fixture
def seen(tmp_path, libraries):
    """What is seen of a machine whose driver answers so."""

    def take(answers):
        variables = Machine(answers=answers).build(tmp_path / "root")
        folder = str(library_folder(libraries))
        return survey.take(limit=20.0, environment={**os.environ, **variables, "LD_LIBRARY_PATH": folder})

    return take


def reasons(gpu):
    values = {field: getattr(gpu, field) for field in gpu.__slots__}
    return {field: value.reason for field, value in values.items() if isinstance(value, Absent)}


@needs_compiler
def test_a_healthy_card_is_read_whole(seen):
    gpu = seen(h100(2)).gpus[1]
    assert gpu.name == "NVIDIA H100 80GB HBM3" and gpu.pci_address == "0000:1c:00.0"
    assert (gpu.memory_total, gpu.memory_used) == (80 * GIB, 600 << 20)
    assert gpu.compute_capability == (9, 0)
    assert gpu.power_limit == 700.0 and gpu.temperature == 32.0 and gpu.temperature_margin == 50.0
    assert len(gpu.nvlinks) == 18 and gpu.fabric_state == 3 and gpu.fabric_unhealthy is False
    assert gpu.row_remap.failure is False and gpu.recovery_action == 0
    assert set(reasons(gpu)) == {"retired_pages"}


@needs_compiler
@pytest.mark.parametrize("answer", ["CurrPcieLinkWidth 15", "CurrPcieLinkWidth 16", "FieldValues:230 15"])
def test_a_card_that_is_lost_on_the_way_is_gone(seen, answer):
    assert [lost.index for lost in seen([*h100(2), f"0 {answer}"]).lost] == [0]


@needs_compiler
@pytest.mark.parametrize(("code", "reason"), [(4, "no permission"), (13, "too old"), (77, "fake driver")])
def test_each_error_of_the_driver_is_a_reason(seen, code, reason):
    [gpu] = seen([*h100(1), f"* TotalEccErrors:1:0 {code}"]).gpus
    assert reason in gpu.ecc_uncorrected_volatile.reason


def roots(tmp_path, **changes):
    Machine(**changes).build(tmp_path / "root")
    return bus.tree_of({"GPUDOCTOR_ROOT": str(tmp_path / "root")})


def test_the_bus_shows_controllers_and_their_driver(tmp_path):
    place = roots(tmp_path, addresses=("0000:3b:00.0",), bound_to="nouveau", nodes=11)
    audio = Path(place.at("/sys/bus/pci/devices/0000:3b:00.1"))
    audio.mkdir()
    for name, value in (("vendor", "0x10de"), ("class", "0x040300"), ("device", "0x22ba")):
        (audio / name).write_text(value + "\n")
    [device] = bus.pci_devices(place)
    assert (device.address, device.device_id, device.driver) == ("0000:3b:00.0", "10de:2330", "nouveau")
    nodes = bus.device_nodes(place)
    assert nodes[0] == "/dev/nvidia0" and nodes[-1] == "/dev/nvidia10" and len(nodes) == 11


@pytest.mark.parametrize(
    "line",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue Jul 13 16:14:05 UTC 2021",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  470.57.02  Release Build  (builder@host)",
    ],
)
def test_the_kernel_module_names_its_version(tmp_path, line):
    place = roots(tmp_path)
    Path(place.at("/proc/driver/nvidia/version")).write_text(line + "\nGCC version:  gcc version 12.3.0\n")
    assert bus.kernel_module_version(place) == "470.57.02"
    Path(place.at("/proc/driver/nvidia/version")).write_text("nothing\n")
    assert isinstance(bus.kernel_module_version(place), Absent)


def test_a_compat_library_counts_on_the_loader_path_only(tmp_path):
    folder = tmp_path / "cuda-12.8" / "compat"
    folder.mkdir(parents=True)
    (folder / "libcuda.so.570.86.15").touch()
    (folder / "libcuda.so.1").symlink_to("libcuda.so.570.86.15")
    place = roots(tmp_path)
    assert bus.compat_libcuda(place, {}) is None
    found = bus.compat_libcuda(place, {"LD_LIBRARY_PATH": f"/x:{folder}"})
    assert found is not None and found.endswith("compat/libcuda.so.570.86.15")
    (etc := Path(place.at("/etc/ld.so.conf.d"))).mkdir(parents=True)
    (etc / "988-compat.conf").write_text(f"{folder}\n")
    assert bus.compat_libcuda(place, {}) == found


@needs_compiler
def test_output_of_the_drivers_library_does_not_reach_the_records(tmp_path):
    source = tmp_path / "noise.c"
    source.write_text('#include <stdio.h>\n__attribute__((constructor)) void f(void){puts("hello");fflush(stdout);}\n')
    noise = tmp_path / "noise.so"
    subprocess.run([str(compiler()), "-shared", "-fPIC", "-o", str(noise), str(source)], check=True)
    variables = Machine(answers=h100(1)).build(tmp_path / "root")
    library = str(library_folder(tmp_path))
    environment = {**os.environ, **variables, "LD_LIBRARY_PATH": library}
    child = [sys.executable, "-c", "import ctypes; "
             "from gpudoctor.vitals.nvml import child, examining; real = examining._examine\n"
             f"examining._examine = lambda *a: (ctypes.CDLL({str(noise)!r}), real(*a))\n"
             "child.main('examining')"]  # fmt: skip
    out = subprocess.run(child, env=environment, capture_output=True, check=True, cwd=os.getcwd()).stdout
    records = [json.loads(line) for line in out.splitlines()]
    assert records[-1]["record"] == "done"


def test_a_library_that_is_there_and_broken_is_not_missing(tmp_path):
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"no library")
    variables = Machine(nodes=1).build(tmp_path / "root")
    seen = survey.take(limit=20.0, environment={**os.environ, **variables, "LD_LIBRARY_PATH": str(tmp_path)})
    assert seen.driver is DriverState.FAILED and "libnvidia-ml" in seen.driver_error
