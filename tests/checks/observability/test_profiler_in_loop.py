import pytest
from scripts import script_patient

from gpudoctor.testing import examine
from gpudoctor_checks.observability.profiler_in_loop import ProfilerInLoop

LOOP = """
    import torch
    from torch.profiler import profile, schedule
    from torch.utils.flop_counter import FlopCounterMode
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
    {before}
    for step, x in enumerate(loader):
        optimizer.zero_grad()
        {inside}
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
"""


def look(before="pass", inside="pass", **limits):
    return examine(ProfilerInLoop, script_patient(LOOP.format(before=before, inside=inside)), **limits)


@pytest.mark.parametrize("period", [1, 10, 499])
def test_sick_counter_below_the_period(period):
    inside = f"FlopCounterMode(model) if step % {period} == 0 else None"
    [finding] = look(inside=inside)
    assert finding.detail.kind == "flops"


def test_healthy_counter_at_the_period():
    assert look(inside="FlopCounterMode(model) if step % 500 == 0 else None") == []


def test_sick_around_an_engine():
    text = """
        import torch
        from transformers import Trainer, TrainingArguments
        with torch.profiler.profile() as prof:
            trainer = Trainer(model=torch.nn.Linear(2, 2), args=TrainingArguments("out"))
            trainer.train()
    """
    assert len(examine(ProfilerInLoop, script_patient(text))) == 1


def test_healthy_disabled_by_its_argument():
    assert look(inside="torch.autograd.profiler.profile(enabled=False)") == []


def test_healthy_long_cycle():
    assert look(before="prof = profile(schedule=schedule(wait=990, warmup=5, active=5)); prof.start()") == []


def test_healthy_without_a_training():
    text = "from torch.profiler import profile\nwith profile() as prof:\n    print(sum(range(10)))\n"
    assert examine(ProfilerInLoop, script_patient(text)) == []
