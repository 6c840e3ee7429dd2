import pytest
from scripts import script_patient

from gpudoctor.testing import examine
from gpudoctor_checks.observability.debug_mode_on import DebugModeOn

LOOP = """
    import torch
    import lightning as L
    {before}
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
    for step, x in enumerate(loader):
        optimizer.zero_grad()
        {inside}
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
"""


def look(before="pass", inside="pass"):
    return examine(DebugModeOn, script_patient(LOOP.format(before=before, inside=inside)))


@pytest.mark.parametrize("inside", ["torch.autograd.gradcheck(model, x)", "torch.autograd.set_detect_anomaly(True)"])
def test_sick_in_the_loop(inside):
    assert len(look(inside=inside)) == 1


@pytest.mark.parametrize(
    "before",
    [
        "torch.autograd.set_detect_anomaly(False)",
        "torch.autograd.set_detect_anomaly(UNKNOWN)",
        "torch.autograd.gradcheck(torch.sin, x)",
        "L.Trainer(detect_anomaly=False)",
        "torch.use_deterministic_algorithms(True)",
        "torch.cuda.memory._record_memory_history(enabled=None)",
    ],
)
def test_healthy_before_the_loop(before):
    assert look(before=before) == []


@pytest.mark.parametrize(
    "inside", ["torch.autograd.gradcheck(model, x) if step == 0 else None", "torch.cuda.nvtx.range_push('step')"]
)
def test_healthy_in_the_loop(inside):
    assert look(inside=inside) == []


def test_healthy_without_a_training():
    assert examine(DebugModeOn, script_patient("import torch\ntorch.autograd.set_detect_anomaly(True)\n")) == []


@pytest.mark.parametrize(("steps", "found"), [(50, 0), (51, 1)])
def test_a_loop_of_a_few_steps_is_a_test(steps, found):
    text = f"""
        import torch
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.autograd.set_detect_anomaly(True)
        for step in range({steps}):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).mean().backward()
            optimizer.step()
    """
    assert len(examine(DebugModeOn, script_patient(text))) == found
