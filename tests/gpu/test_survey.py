"""The survey on a real card: plausible values, and no finding that nvidia-smi contradicts."""

import shutil
import subprocess
import time

import pytest
from some import some

from gpudoctor.model import Absent
from gpudoctor.model.signs.gpu import DriverState
from gpudoctor.vitals.nvml import survey_gpus

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no nvidia-smi: no NVIDIA driver here"),
]


@pytest.fixture(scope="module")
def seen():
    return survey_gpus(limit=60.0)


def smi(query):
    out = subprocess.run(
        ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    return [[cell.strip() for cell in line.split(",")] for line in out.splitlines() if line.strip()]


def test_the_driver_is_ready_and_all_gpus_answer(seen):
    rows = smi("index,name,uuid,driver_version")
    assert seen.driver is DriverState.READY and len(seen.gpus) == len(rows) and not seen.lost
    for gpu, (index, name, uuid, version) in zip(seen.gpus, rows, strict=True):
        assert (str(gpu.index), gpu.name, gpu.uuid) == (index, name, uuid)
        assert seen.driver_version == version


def test_values_agree_with_nvidia_smi(seen):
    rows = smi("memory.total,power.default_limit,pcie.link.width.max,persistence_mode")
    for gpu, (memory, power, width, persistence) in zip(seen.gpus, rows, strict=True):
        if not isinstance(gpu.memory_total, Absent):
            assert gpu.memory_total / 2**20 == pytest.approx(float(memory), rel=0.02)
        if not isinstance(gpu.power_limit_default, Absent):
            assert gpu.power_limit_default == pytest.approx(float(power), rel=0.01)
        if not isinstance(gpu.pcie_width_max, Absent):
            assert str(gpu.pcie_width_max) == width
        if not isinstance(gpu.persistence, Absent):
            assert gpu.persistence == (persistence == "Enabled")


def test_values_are_physical(seen):
    for gpu in some(seen.gpus):
        for name, low, high in (("temperature", 5, 110), ("power", 1, 2000)):
            value = getattr(gpu, name)
            assert isinstance(value, Absent) or low <= value <= high, name
        assert isinstance(gpu.utilization, Absent) or 0 <= gpu.utilization <= 1
        assert isinstance(gpu.compute_capability, Absent) or gpu.compute_capability >= (3, 0)


def test_a_second_survey_is_quick(seen):
    start = time.monotonic()
    survey_gpus(limit=60.0)
    assert time.monotonic() - start < 5.0


def test_a_process_of_ours_is_ours(seen):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch without CUDA")
    import os

    held = torch.zeros(64 << 20, dtype=torch.uint8, device="cuda")
    again = survey_gpus(limit=60.0, own_pids=frozenset({os.getpid()}))
    processes = [process for gpu in again.gpus if not isinstance(gpu.processes, Absent) for process in gpu.processes]
    if again.pids_visible:
        assert any(process.ours for process in processes)
    assert held.numel() == 64 << 20
