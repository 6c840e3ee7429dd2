import pytest
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.distributed.redundant_collectives import RedundantCollectives
from gpudoctor_rules.distributed import redundant_collectives

FOLDER = PATIENTS / "DIST004"
EXPECTED = {
    "sick_barrier": (Severity.WARNING, "barrier", "Drop the barrier"),
    "sick_parameters": (Severity.WARNING, "broadcast", "DDP starts from equal parameters"),
    "sick_objects": (Severity.WARNING, "all_gather_object", "Send tensors"),
}


@pytest.mark.parametrize("path", sick_scripts("DIST004"), ids=lambda path: path.stem)
def test_sick_script(path):
    patient = script_patient(path)
    [finding] = examine(RedundantCollectives, patient)
    severity, name, step = EXPECTED[path.stem]
    assert finding.severity is severity
    assert name in finding.message and name in finding.span.text
    [remedy] = prescribe(redundant_collectives, finding, patient)
    assert any(step in item for item in remedy.steps)


@pytest.mark.parametrize("path", healthy_scripts("DIST004"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(RedundantCollectives, script_patient(path)) == []


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
