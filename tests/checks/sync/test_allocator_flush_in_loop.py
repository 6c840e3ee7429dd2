import pytest
from mending import mended
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.sync.allocator_flush_in_loop import AllocatorFlushInLoop
from gpudoctor_rules.advice import advice
from gpudoctor_rules.sync import allocator_flush_in_loop

FOLDER = PATIENTS / "SYNC002"


@pytest.mark.parametrize("path", sick_scripts("SYNC002"), ids=lambda path: path.stem)
def test_sick_script(path):
    assert examine(AllocatorFlushInLoop, script_patient(path))


def test_sick_every_step_is_a_warning_and_the_line_goes():
    patient = script_patient(FOLDER / "sick_every_step.py")
    [finding] = examine(AllocatorFlushInLoop, patient)
    assert finding.severity is Severity.WARNING
    remove, segments = prescribe((allocator_flush_in_loop, *advice("sync")), finding, patient)
    [edit] = remove.edits
    assert (edit.expected.strip(), edit.new_text) == ("torch.cuda.empty_cache()", "")
    text = (FOLDER / "sick_every_step.py").read_text()
    assert mended(text, select="SYNC002") == text.replace("        torch.cuda.empty_cache()\n", "")
    assert "expandable_segments:True" in segments.title


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
