"""Checks of speed on recordings."""

import pytest
from looks import look, remedies
from recordings import lines, make_process, make_recording, make_steps, record, site
from scripts import read_script

from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_patient
from gpudoctor_checks.performance.launch_bound import LaunchBound
from gpudoctor_checks.performance.low_mfu import LowMfu
from gpudoctor_checks.performance.optimizer_unfused import OptimizerUnfused
from gpudoctor_checks.performance.recompiling import Recompiling
from gpudoctor_checks.performance.unexplained_time import UnexplainedTime


def test_sick_a_card_that_waits_for_launches():
    [finding] = look(LaunchBound, make_process(make_steps(200, device_busy=0.004, device_idle=0.006)))
    assert finding.severity is Severity.WARNING and "reduce-overhead" in remedies(finding)


def test_healthy_cards():
    assert look(LaunchBound, make_process(make_steps(200, device_busy=0.0095, device_idle=0.0005))) == []
    # idle because the host waits for data: that is another ailment
    assert (
        look(LaunchBound, make_process(make_steps(200, device_busy=0.0095, device_idle=0.0205, data_wait=0.02))) == []
    )
    with pytest.raises(Unavailable, match="device times"):
        look(LaunchBound, make_process())


def job(flops, **columns):
    """A run on an H100 whose model does so many FLOPs a step."""
    card = record("torch", 1.0, version="2.9", device="NVIDIA H100 80GB HBM3", device_bytes=80 * 2**30)
    model = record("model", 1.2, name="Net", flops=flops)
    return look(LowMfu, make_process(make_steps(200, **columns), records=[card, model]))


def test_sick_a_card_that_computes_little():
    [finding] = job(5e11)
    assert finding.severity is Severity.NOTE and "5" in finding.message
    assert "bf16" in remedies(finding)


def test_healthy_cards_that_compute():
    assert job(4e12) == []
    assert job(5e11, data_wait=0.02) == []  # another cause is larger
    with pytest.raises(Unavailable, match="FLOPs"):
        look(LowMfu, make_process())


def compiles(*steps, seconds=0.2, reason="tensor 'x' size mismatch at index 0"):
    return [record("compile", 2.0 + step, step=step, kind="recompile" if step else "compile", seconds=seconds,
                   reason=reason, path="/job/net.py", line=12) for step in steps]  # fmt: skip


def test_sick_a_shape_that_changes():
    [finding] = look(Recompiling, make_process(records=compiles(0, 60, 90, 120, 150)))
    assert finding.severity is Severity.WARNING and "size mismatch" in finding.message
    assert (finding.span.path, finding.span.line) == ("net.py", 12)
    assert "mark_dynamic" in remedies(finding)


def test_sick_an_attribute_is_named_without_its_stack():
    reason = "0/1: self.mode == 'x49'      # return y if self.mode == 'x49'  # net.py:9\nUser stack trace:\n  File"
    [finding] = look(Recompiling, make_process(records=compiles(0, 60, 90, 120, 150, reason=reason)))
    assert finding.message.endswith(": self.mode == 'x49'.")


def test_sick_what_costs_little_is_a_note():
    [finding] = look(Recompiling, make_process(make_steps(2000), records=compiles(0, 600, 900, 1200, seconds=0.01)))
    assert finding.severity is Severity.NOTE


def test_sick_one_guard_that_fails_until_the_limit():
    [finding] = look(Recompiling, make_process(records=compiles(*range(8))))
    assert finding.severity is Severity.WARNING and "7 compilations by one guard took" in finding.message


def test_healthy_compiling():
    assert look(Recompiling, make_process(records=compiles(0, 1, 2, 20))) == []
    assert look(Recompiling, make_process(records=compiles(0, 100))) == []
    with pytest.raises(Unavailable, match="nothing was compiled"):
        look(Recompiling, make_process())


TEXT = """
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
"""


def stepped(device="cuda:0", seconds=0.02, version="2.9.0", **asked):
    source = read_script(TEXT)
    [script] = source.scripts
    records = [
        record("model", 1.2, cls="Linear", parameters=9, device=device, main=True),
        record("torch", 1.0, version=version),
        record("optimizer", 1.3, name="SGD", path=script.path, line=4, **asked),
    ]
    process = make_process(make_steps(200, optimizer=seconds), records=records)
    return make_patient(source=source, recording=make_recording(process))


@pytest.mark.parametrize("device", ["cuda:0", "cpu"])
def test_sick_one_by_one(device):
    patient = stepped(device, foreach=False)
    [finding] = examine(OptimizerUnfused, patient)
    assert finding.severity is Severity.WARNING and finding.cost.step_share > 0.5


def test_healthy_where_nobody_asked_for_it_or_it_costs_nothing():
    for changes in ({"fused": True}, {"foreach": None}, {"device": "cpu", "version": "2.3.1"}, {"seconds": 0.0001}):
        assert examine(OptimizerUnfused, stepped(**{"foreach": False} | changes)) == []


HOT = ("other", "/job/train.py", 41, "penalty", 60)


def test_sick_without_a_sampler_the_share_is_told():
    [finding] = look(UnexplainedTime, make_process(make_steps(200, other=0.002)))
    assert finding.severity is Severity.NOTE and finding.span is None
    assert "its line is unknown" in finding.message


def test_healthy_little_is_left():
    assert look(UnexplainedTime, make_process(make_steps(200, other=0.001), records=[lines(HOT)])) == []


def test_healthy_time_that_a_hook_answers_for():
    log = site("logging", "Logger.info", 0.2, 200, path="/job/train.py", line=41)
    assert look(UnexplainedTime, make_process(make_steps(200, other=0.008), records=[lines(HOT), log])) == []
