"""ENV011: free space against checkpoints and caches."""

import pytest

from gpudoctor.model import Confidence, Unavailable
from gpudoctor.model.signs.host import Disk, SilentFolder
from gpudoctor.testing import GIB, examine, make_gpu, make_host, make_patient, prescribe
from gpudoctor_checks.environment.disk_too_small import DiskTooSmall
from gpudoctor_rules.environment.host import disk_too_small

MIB = 1 << 20


def disk(role, free, mount="/data", **changes):
    values = {"path": f"{mount}/x", "kind": "ext4", "total": 1000 * GIB} | changes
    return Disk(role=role, mount=mount, free=free, **values)


def host(*disks, **changes):
    return make_host(disks=disks, **changes)


FULL = (("output", 500 * MIB), ("Hugging Face cache", 500 * MIB), ("temporary files", 100 * MIB))


@pytest.mark.parametrize(
    "disks", [*((disk(*row),) for row in FULL), (disk("working folder", MIB), disk("Hugging Face cache", MIB))]
)
def test_sick_all_but_full(disks):
    patient = make_patient(host=host(*disks), gpus=[make_gpu()])
    [finding] = examine(DiskTooSmall, patient)  # one for two roles on one disk
    assert finding.confidence is Confidence.CONFIRMED and disks[0].role in finding.message
    assert prescribe(disk_too_small, finding, patient)


@pytest.mark.parametrize(
    "patient",
    [
        make_patient(host=host(disk("working folder", MIB))),  # no purpose
        make_patient(host=host(disk("Hugging Face cache", 0, read_only=True)), gpus=[make_gpu()]),  # read-only
        make_patient(host=host(disk("temporary files", 2 * GIB)), gpus=[make_gpu()]),  # enough
        make_patient(host=host(disk("output", 0, total=0)), gpus=[make_gpu()]),  # no real disk
    ],
)
def test_healthy(patient):
    assert examine(DiskTooSmall, patient) == []


def test_healthy_a_silent_folder_is_a_skip_and_no_pass():
    silent = SilentFolder(role="output", path="/nfs/out", reason="no answer in 2 s")
    patient = make_patient(host=host(disk("working folder", 9 * GIB), silent_folders=(silent,)))
    with pytest.raises(Unavailable, match="no answer"):
        examine(DiskTooSmall, patient)
