"""Checks of ranks on sources: what the patients on file do not show."""

import pytest
from recordings import make_process, make_recording, make_steps, record
from scripts import PATIENTS, script_patient

from gpudoctor.model import Severity
from gpudoctor.testing import examine
from gpudoctor_checks.distributed.no_sync_missing import NoSyncMissing
from gpudoctor_checks.distributed.redundant_collectives import RedundantCollectives

FOLDER = PATIENTS / "DIST003"


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


SHORT = """
    import torch
    import torch.distributed as dist
    dist.init_process_group("nccl")
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range({steps}):
        optimizer.zero_grad()
        model(torch.randn(4, 8).cuda()).mean().backward()
        optimizer.step()
        dist.barrier()
"""


@pytest.mark.parametrize(("steps", "found"), [(10, 0), (20, 0), (21, 1), (1000, 1)])
def test_a_demonstration_of_a_few_steps_has_nothing_to_gain(steps, found):
    assert len(examine(RedundantCollectives, script_patient(SHORT.format(steps=steps)))) == found
