import pytest
from recordings import make_process, make_recording, make_steps, record
from scripts import PATIENTS, script_patient

from gpudoctor.model import Severity
from gpudoctor.testing import examine
from gpudoctor_checks.distributed.no_sync_missing import NoSyncMissing

FOLDER = PATIENTS / "DIST003"


def test_healthy_when_the_command_line_asks_for_one_micro_batch():
    assert examine(NoSyncMissing, script_patient(FOLDER / "sick_inner_loop.py", ["--micro-batches", "1"])) == []


def test_sick_number_that_only_a_run_knows_is_a_note():
    text = (FOLDER / "sick_modulo.py").read_text("utf-8").replace("= 8 ", "= int(os.environ['ACC']) ")
    [finding] = examine(NoSyncMissing, script_patient(text))
    assert finding.severity is Severity.NOTE and "several" in finding.message


@pytest.mark.parametrize(("backwards", "found"), [(8.0, [Severity.WARNING]), (1.0, [])])
def test_the_number_that_a_run_shows_decides(backwards, found):
    text = (FOLDER / "sick_modulo.py").read_text("utf-8").replace("= 8 ", "= int(os.environ['ACC']) ")
    model = record("model", name="Linear", wrapped="DDP", trainable=72, parameters=72)
    ranks = [make_process(make_steps(60, backwards=backwards), records=[model], rank=rank, world=2) for rank in (0, 1)]
    patient = script_patient(text, recording=make_recording(*ranks))
    assert [finding.severity for finding in examine(NoSyncMissing, patient)] == found
