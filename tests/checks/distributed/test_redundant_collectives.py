import pytest
from scripts import script_patient

from gpudoctor.testing import examine
from gpudoctor_checks.distributed.redundant_collectives import RedundantCollectives

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
