import pytest

from gpudoctor.model import Absent, Severity, Unavailable
from gpudoctor.model.signs.gpu import RowRemap
from gpudoctor.testing import examine, make_gpu, make_patient, prescribe
from gpudoctor_checks.hardware.memory_errors import MemoryErrors
from gpudoctor_rules.advice import advice
from gpudoctor_rules.hardware import leave_out


def remap(uncorrectable=0, pending=False, failure=False):
    return RowRemap(uncorrectable=uncorrectable, pending=pending, failure=failure)


NONE = Absent("not supported by this card")


@pytest.mark.parametrize(
    ("changes", "severity", "action", "words"),
    [
        ({"row_remap": remap(failure=True)}, "error", "replace", "a row remap failed"),
        ({"row_remap": remap(uncorrectable=512)}, "error", "replace", "512 rows"),
        ({"row_remap": remap(uncorrectable=1, pending=True)}, "error", "reset", "waits for a reset"),
        ({"row_remap": remap(pending=True)}, "warning", "reset-later", "waits for a reset"),
        ({"ecc_uncorrected_volatile": 3}, "error", "reset", "3 uncorrectable ECC errors"),
        ({"retired_pages": 63}, "error", "replace", "63 retired pages"),
    ],
)
def test_sick_each_record_speaks(changes, severity, action, words):
    [finding] = examine(MemoryErrors, make_patient(gpus=[make_gpu(0), make_gpu(1, **changes)]))
    assert finding.severity is Severity(severity)
    assert finding.detail.action == action
    assert words in finding.message and finding.subject == "GPU 1"
    assert bool(finding.cost.breaks) == (severity == "error")
    assert all(item.reproduce for item in finding.evidence)


def test_healthy_near_misses_are_silent():
    gpus = [make_gpu(1, row_remap=remap(uncorrectable=511)), make_gpu(2, retired_pages=62)]
    assert examine(MemoryErrors, make_patient(gpus=gpus)) == []


def test_healthy_a_card_without_any_record_is_skipped_not_passed():
    geforce = make_gpu(0, name="NVIDIA GeForce RTX 4090", ecc_uncorrected_volatile=NONE, row_remap=NONE)
    with pytest.raises(Unavailable, match="no ECC"):
        examine(MemoryErrors, make_patient(gpus=[geforce]))


def test_the_rule_follows_the_worst_record():
    def titles(**changes):
        patient = make_patient(gpus=[make_gpu(0), make_gpu(1, **changes)])
        [finding] = examine(MemoryErrors, patient)
        return [remedy.title for remedy in prescribe((leave_out, *advice("hardware")), finding, patient)]

    assert titles(row_remap=remap(failure=True)) == ["CUDA_VISIBLE_DEVICES=0", "drain the node and have GPU 1 replaced"]
    assert titles(ecc_uncorrected_volatile=1)[1] == "reset GPU 1 before it is used again"
    assert titles(row_remap=remap(pending=True)) == ["reset GPU 1 when it is idle"]


def test_a_gpu_that_the_job_leaves_out_is_a_note_so_that_the_remedy_is_accepted():
    gpus = [make_gpu(0), make_gpu(1, ecc_uncorrected_volatile=3)]
    patient = make_patient(gpus=gpus, environment={"CUDA_VISIBLE_DEVICES": "0"})
    [finding] = examine(MemoryErrors, patient)
    assert finding.severity is Severity.NOTE and finding.cost.breaks is None
    assert "keeps the job off it" in finding.message
    assert [remedy.id for remedy in prescribe((leave_out, *advice("hardware")), finding, patient)] == ["GPU003-reset"]
