"""Whether a process has a GPU open, told by what it has mapped, where no driver library is there to ask."""

import pytest

from gpudoctor.vitals.process import procfs
from gpudoctor.vitals.process.ranks import uses_gpu


@pytest.mark.parametrize(
    ("mapped", "used"),
    [
        ("7f00-7f01 rw-s 00000000 00:06 1 /dev/nvidia0\n", True),
        ("7f00-7f01 rw-s 00000000 00:06 1 /dev/kfd\n", True),
        ("7f00-7f01 r-xp 00000000 00:06 1 /usr/lib/libcuda.so.1\n", False),  # loaded, and no device
        ("7f00-7f01 rw-s 00000000 00:06 1 /dev/shm/torch_1\n", False),
        ("", False),
    ],
)
def test_a_mapped_device_is_a_gpu_in_use(mapped, used, monkeypatch):
    monkeypatch.setattr(procfs, "_read", lambda path, most: mapped.encode())
    assert uses_gpu(1) is used
