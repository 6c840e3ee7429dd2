import pytest
from mending import gone, mended
from recordings import make_process, make_recording, make_steps
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
    "sick_loss_for_the_log": (Severity.NOTE, "all_reduce", "every 50 steps"),
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


def test_sick_edit_removes_the_barrier():
    text = (FOLDER / "sick_barrier.py").read_text("utf-8")
    assert gone("DIST004", text)
    assert "barrier" not in mended(text, select="DIST004")


BODY = """
    import torch
    import torch.distributed as dist
    class Codes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(8, 8))
            self.register_buffer("sizes", torch.zeros(8))
        def forward(self, x):
            y = x @ self.weight
            counts = y.detach().sum(0)
            {inside}
            return y
    def averaged(value):
        dist.all_reduce(value)
        return value / dist.get_world_size()
    dist.init_process_group("nccl")
    model = Codes().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for x in torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=8):
        loss = model(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        {before}
        optimizer.step()
        {after}
"""


def notes(inside="pass", before="pass", after="pass"):
    patient = script_patient(BODY.format(inside=inside, before=before, after=after))
    return [item.span.text for item in examine(RedundantCollectives, patient)]


@pytest.mark.parametrize(
    "change",
    [
        {"inside": "dist.all_reduce(counts); self.sizes.mul_(0.9).add_(counts * 0.1)"},
        {"inside": "total = averaged(counts); self.sizes = 0.9 * self.sizes + 0.1 * total"},
        {"inside": "dist.broadcast(counts, 0); self.sizes[:] = counts"},
        {
            "before": "flat = torch.cat([p.grad.view(-1) for p in model.parameters()]); both = averaged(flat)\n"
            "        for p, part in zip(model.parameters(), both.split(64)): p.grad.copy_(part)"
        },
        {"before": "bad = torch.isnan(loss).float(); dist.all_reduce(bad)\n        if bad.item(): continue"},
        {"before": "bad = averaged(torch.isnan(loss).float())\n        if bad > 0: break"},
        {"after": "state = [None] * 2; dist.all_gather_object(state, 3); model.load_state_dict(state[0])"},
    ],
)
def test_healthy_what_the_model_keeps_or_a_step_depends_on(change):
    assert notes(**change) == []


@pytest.mark.parametrize(
    "change",
    [
        {"inside": "dist.all_reduce(counts); seen.append(counts)"},
        {"inside": "self.total = averaged(counts)"},
        {"after": "seen.append(averaged(loss.detach()))"},
    ],
)
def test_sick_values_that_nothing_of_the_model_takes(change):
    assert len(notes(**change)) == 1


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


@pytest.mark.parametrize(("steps", "found"), [(10, 0), (1000, 1)])
def test_a_demonstration_of_a_few_steps_has_nothing_to_gain(steps, found):
    assert len(examine(RedundantCollectives, script_patient(SHORT.format(steps=steps)))) == found


@pytest.mark.parametrize(("world", "severity"), [(1, Severity.NOTE), (2, Severity.WARNING)])
def test_a_barrier_of_a_single_process_is_a_note(world, severity):
    """Of the two ranks of the other job one was recorded."""
    recording = make_recording(make_process(make_steps(200), world=world))
    [finding] = examine(RedundantCollectives, script_patient(SHORT.format(steps=1000), recording=recording))
    assert finding.severity is severity
