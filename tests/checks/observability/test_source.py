"""Checks of what watches a training, on sources: what the patients on file do not show."""

import pytest
from configs import config_patient
from scripts import script_patient

from gpudoctor.model import Severity
from gpudoctor.testing import examine
from gpudoctor_checks.observability.checkpoint_too_often import CheckpointTooOften
from gpudoctor_checks.observability.debug_mode_on import DebugModeOn
from gpudoctor_checks.observability.model_watch import ModelWatch
from gpudoctor_checks.observability.profiler_in_loop import ProfilerInLoop

LIBRARY = """
import torch
from torch import nn
class Fitting:
    def __init__(self, model, loader, save_every=1):
        self.model, self.loader, self.save_every = model, loader, save_every
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.step = 0
    def fit(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
            self.step += 1
            if self.step % self.save_every == 0:
                torch.save(self.model.state_dict(), "last.pt")
"""


def test_healthy_a_period_that_any_caller_may_give():
    assert examine(CheckpointTooOften, script_patient(LIBRARY)) == []


def test_sick_a_period_that_the_caller_leaves_at_its_default():
    assert len(examine(CheckpointTooOften, script_patient(LIBRARY + "Fitting(net, loader).fit()\n"))) == 1


@pytest.mark.parametrize(
    "call",
    [
        "wandb.watch(model, log='all', log_freq=99)",
        "run.watch(model, None, 'parameters', 1)",
        "WandbLogger().watch(model, log_freq=1)",
    ],
)
def test_sick_calls(call):
    head = "import wandb, torch\nfrom lightning.pytorch.loggers import WandbLogger\nrun = wandb.init()\n"
    patient = script_patient(f"{head}model = torch.nn.Linear(8, 1)\n{call}\n")
    [finding] = examine(ModelWatch, patient)
    assert finding.severity is Severity.WARNING


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


def test_healthy_long_cycle():
    assert look(before="prof = profile(schedule=schedule(wait=990, warmup=5, active=5)); prof.start()") == []


def test_healthy_when_the_run_ends_before_the_second_time() -> None:
    text = "training:\n  max_steps: 100\nmonitor:\n  flops_profile_freq: 100\n"
    assert examine(ProfilerInLoop, config_patient(text)) == []


DEBUGGED = """
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


def debugged(before="pass", inside="pass"):
    return examine(DebugModeOn, script_patient(DEBUGGED.format(before=before, inside=inside)))


@pytest.mark.parametrize("inside", ["torch.autograd.gradcheck(model, x)", "torch.autograd.set_detect_anomaly(True)"])
def test_sick_in_the_loop(inside):
    assert len(debugged(inside=inside)) == 1


@pytest.mark.parametrize(
    "before",
    [
        "torch.autograd.set_detect_anomaly(False)",
        "torch.autograd.gradcheck(torch.sin, x)",
        "L.Trainer(detect_anomaly=False)",
        "torch.cuda.memory._record_memory_history(enabled=None)",
    ],
)
def test_healthy_before_the_loop(before):
    assert debugged(before=before) == []


@pytest.mark.parametrize(
    "inside", ["torch.autograd.gradcheck(model, x) if step == 0 else None", "torch.cuda.nvtx.range_push('step')"]
)
def test_healthy_in_the_loop(inside):
    assert debugged(inside=inside) == []


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
