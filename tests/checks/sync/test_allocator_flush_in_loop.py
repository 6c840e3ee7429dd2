import pytest
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine
from gpudoctor_checks.sync.allocator_flush_in_loop import AllocatorFlushInLoop

FOLDER = PATIENTS / "SYNC002"


@pytest.mark.parametrize("path", sick_scripts("SYNC002"), ids=lambda path: path.stem)
def test_sick_script(path):
    assert examine(AllocatorFlushInLoop, script_patient(path))


def test_sick_both_flushes_of_a_called_function_are_found():
    found = examine(AllocatorFlushInLoop, script_patient(FOLDER / "sick_collect_in_function.py"))
    assert sorted(finding.detail.call for finding in found) == ["gc.collect", "torch.cuda.empty_cache"]


def test_sick_short_period_is_a_note():
    [finding] = examine(AllocatorFlushInLoop, script_patient(FOLDER / "sick_short_period.py"))
    assert finding.severity is Severity.NOTE
    assert finding.detail.period == 50


@pytest.mark.parametrize("path", healthy_scripts("SYNC002"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(AllocatorFlushInLoop, script_patient(path)) == []
