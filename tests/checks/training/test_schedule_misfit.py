"""Schedules of real trainings: each runs in one process, its rates and its scheduler's numbers are read back."""

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from packages import need
from probed import run_script

from gpudoctor.analysis.run.training.card import training_card
from gpudoctor.model import Severity
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor.vitals.recording.opening import open_recording
from gpudoctor_checks.training.schedule_misfit import ScheduleMisfit
from gpudoctor_rules.advice import advice

need("torch")

PROGRAM = """
import numpy; S = torch.optim.lr_scheduler
loader, epochs = DataLoader(data(80), batch_size=4, shuffle=True), 6
model = net()
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
N = len(loader) * epochs
def linear(total, warm=0):
    return S.LambdaLR(optimizer, lambda s: s / warm if s < warm else max(0.0, (total - s) / (total - warm)))
scheduler = {made}  # made
for epoch in range(epochs):
    for i, (x, y) in enumerate(loader):
        F.cross_entropy(model(x), y).backward()
        if (i + 1) % {accumulate}: continue
        optimizer.step()
        optimizer.zero_grad()
        for _ in range({each}):
            scheduler.step()
    if not {each}:
        {after}
    if epoch == {stop}: break
{end}
"""


def recorded(tmp_path, made, each=1, accumulate=1, after="scheduler.step()", stop=-1, end=""):
    text = PROGRAM.format(made=made, each=each, accumulate=accumulate, after=after, stop=stop, end=end)
    run = run_script(Path(tempfile.mkdtemp(dir=tmp_path)), text)
    recording = replace(open_recording(str(run.folder)), end=RunEnd(exit_code=0), memory={})
    assert not recording.ranks[0].of("lost")
    return recording, run.line("made")


SICK = [
    ("S.CosineAnnealingLR(optimizer, T_max=len(loader))", {"each": 0}, "slow", "the batches of an epoch"),
    ("S.CosineAnnealingLR(optimizer, T_max=epochs)", {}, "rises", "the epochs"),
    ("linear(N)", {"each": 2}, "early", "0 since step 61 of 120"),
    ("S.CosineAnnealingLR(optimizer, T_max=N)", {"accumulate": 4}, "slow", "T_max is 120 (all batches)"),
    ("linear(10 * N, 2 * N)", {}, "warm", "to 0.0005 of 0.001"),
    ("S.StepLR(optimizer, 2, 0.1)", {}, "early", ""),
    ("S.CosineAnnealingLR(optimizer, T_max=N)", {"each": 0, "after": "pass"}, "never", "never stepped in 120 steps"),
    ("S.ReduceLROnPlateau(optimizer, 'max', patience=0)", {"each": 0, "after": "scheduler.step(3 - epoch / 10)"},
     "plateau", "from 3 to 2.5"),
    ("S.CosineAnnealingLR(optimizer, T_max=len(loader))", {}, "rises", "the batches of an epoch"),
    ("S.ReduceLROnPlateau(optimizer, patience=0)",  # Trainer gives it numbers of numpy
     {"each": 0, "after": "scheduler.step(numpy.float64((0.4, 0.5, 0.6, 0.7, 0.8, 0.79)[epoch]))"}, "plateau", ""),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("made", "how", "kind", "said"), SICK, ids=range(len(SICK)))
def test_sick_schedules(tmp_path, made, how, kind, said):
    recording, line = recorded(tmp_path, made, **how)
    patient = make_patient(recording=recording)
    (finding,) = examine(ScheduleMisfit, patient)
    assert finding.detail.how == kind and said in finding.message and finding.span.line in (line, 24)
    assert finding.severity is (Severity.ERROR if "is 0 since" in finding.message else Severity.WARNING)
    assert prescribe(advice("training"), finding, patient)
    # Stopped by us it shows nothing of its end, and what has happened still.
    stopped = make_patient(recording=replace(recording, end=RunEnd(stopped_by="steps"), memory={}))
    happened = kind in ("early", "plateau") or (kind == "rises" and "of an epoch" in said)
    assert len(examine(ScheduleMisfit, stopped)) == happened


HEALTHY = [
    ("S.CosineAnnealingLR(optimizer, T_max=N)", {}, "T_max 120, stepped 120 times"),
    ("S.CosineAnnealingLR(optimizer, T_max=epochs)", {"each": 0}, "T_max 6, stepped at least 6 times"),
    ("S.OneCycleLR(optimizer, 1e-2, epochs=epochs, steps_per_epoch=len(loader))", {}, "total_steps 120"),
    ("S.StepLR(optimizer, 2, 0.1)", {"each": 0}, "stepped at least 6 times"),
    ("S.SequentialLR(optimizer, [S.LinearLR(optimizer, 0.01, total_iters=20), "
     "S.CosineAnnealingLR(optimizer, T_max=N - 20)], [20])", {}, "T_max 120"),
    ("S.ChainedScheduler([S.LinearLR(optimizer, 0.1, total_iters=20), S.ExponentialLR(optimizer, 0.99)])", {}, ""),
    ("S.ReduceLROnPlateau(optimizer, patience=0)", {"each": 0, "after": "scheduler.step(1 + (epoch - 2) ** 2)"}, ""),
    ("linear(N // 4)", {"accumulate": 4}, "stepped 30 times"),
    ("linear(2 * N)", {"each": 2, "end": "del scheduler"}, "stepped 240 times"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("made", "how", "said"), HEALTHY, ids=range(len(HEALTHY)))
def test_healthy_schedules(tmp_path, made, how, said):
    recording, _ = recorded(tmp_path, made, **how)
    assert examine(ScheduleMisfit, make_patient(recording=recording)) == []
    (line,) = [line for line in training_card(recording) if line.name == "schedule"]
    assert said in line.text and len(line.text) <= 110


@pytest.mark.slow
def test_a_run_that_stops_early_by_itself_is_a_note(tmp_path):
    recording, _ = recorded(tmp_path, "S.CosineAnnealingLR(optimizer, T_max=50)", each=0, stop=3)
    (finding,) = examine(ScheduleMisfit, make_patient(recording=recording))
    assert finding.severity is Severity.NOTE and "T_max is 50" in finding.message


@pytest.mark.slow
def test_a_total_that_counts_the_steps_of_all_ranks_is_a_warning_with_its_reason(tmp_path):
    alone, _ = recorded(tmp_path, "S.CosineAnnealingLR(optimizer, T_max=2 * N)")
    together = replace(alone, ranks=alone.ranks * 2, memory={})
    for recording, severity in ((alone, Severity.NOTE), (together, Severity.WARNING)):
        (finding,) = examine(ScheduleMisfit, make_patient(recording=recording))
        assert finding.severity is severity
    assert "T_max is 240 (the steps of all ranks together)" in finding.message


@pytest.mark.slow
def test_a_scheduler_whose_optimizer_was_replaced(tmp_path):
    anew = "if epoch == 1: optimizer = torch.optim.SGD(model.parameters(), 1e-3)"
    made = "S.CosineAnnealingLR(optimizer, T_max=epochs)"
    step = "\n        scheduler.step()"
    recording, line = recorded(tmp_path, made, each=0, after=anew + step)
    (finding,) = examine(ScheduleMisfit, make_patient(recording=recording))
    assert finding.detail.how == "orphan" and finding.span.line == line
    later = f"{made}\nfor _ in range(3):\n    model(torch.ones(2, 8)).sum().backward()\n    optimizer.step()\n"
    recording, _ = recorded(tmp_path, f"{later}scheduler = {made}", each=0, after=anew + step)
    (finding,) = examine(ScheduleMisfit, make_patient(recording=recording))
    assert finding.detail.how == "orphan", "made after a first training"
    # It moves the new one's rate.
    recording, _ = recorded(tmp_path, made, each=0, after=f"{anew}; scheduler.optimizer = optimizer{step}")
    assert examine(ScheduleMisfit, make_patient(recording=recording)) == []
