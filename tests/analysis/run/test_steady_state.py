"""Steady state: warm-up, compile and pauses apart; shares are sums over sums."""

from dataclasses import replace

import pytest
from recordings import make_process, make_steps, record

from gpudoctor.analysis.run.steady_state import PARTS, steady
from gpudoctor.model.signs.recording import Table

shares = lambda state: {name: state.share(name) for name in PARTS}  # noqa: E731


def test_warm_up_is_left_out():
    state = steady(make_process(make_steps(200, warm_up=12)))
    assert state.warm_up_steps == 12
    assert state.steps == 188


def test_steps_while_a_devices_queue_fills_are_no_steps():
    """The host runs ahead: at first a step is as long as its launches, then as long as the device's work."""
    ahead = lambda i: 0.002 if i < 25 else 0.05 if i == 25 else 0.016  # noqa: E731
    columns = {"data_wait": 0.0, "backward": 0.0, "optimizer": 0.0, "other": 0.0, "forward": ahead}
    state = steady(make_process(make_steps(200, noise=0.0, warm_up=0, device_busy=0.016, **columns)))
    assert state.warm_up_steps == 26
    assert state.step_seconds == pytest.approx(0.016, rel=1e-3)
    on_host = steady(make_process(make_steps(200, noise=0.0, warm_up=0, **columns)))
    assert on_host.warm_up_steps == 1, "nothing runs ahead of a CPU"


def test_our_own_readings_are_no_time_of_the_programs():
    plain = {"noise": 0.0, "warm_up": 0}
    state = steady(make_process(make_steps(200, **plain, other=0.0103, probe=0.01)))
    without = steady(make_process(make_steps(200, **plain)))
    assert shares(state) == pytest.approx(shares(without), rel=1e-3)


def test_a_cold_first_epoch_is_left_out():
    steps = make_steps(300, data_wait=lambda i: 0.02 if i < 100 else 0.0005)
    state = steady(make_process(steps))
    assert state.warm_up_steps == 100
    assert state.share("data_wait") < 0.07


def test_compiling_at_the_start_is_warm_up():
    compiles = [record("compile", step=step, kind="compile", seconds=3.0) for step in (0, 1, 30)]
    assert steady(make_process(make_steps(200, warm_up=0), records=compiles)).warm_up_steps == 31


def test_shares_are_sums_and_add_up():
    steps = make_steps(101, warm_up=0, noise=0.0, evaluation=lambda i: 1.0 if i % 20 == 19 else 0.0)
    state = steady(make_process(steps))
    assert state.share("evaluation") == pytest.approx(5.0 / (5.0 + 100 * 0.01), rel=1e-3)
    assert sum(shares(state).values()) == pytest.approx(1.0)
    assert state.events("evaluation") == 5


def test_a_pause_is_left_out():
    steps = make_steps(200, warm_up=0, other=lambda i: 30.0 if i == 120 else 0.0003)
    state = steady(make_process(steps))
    assert state.share("other") < 0.05 and state.steps == 198
    asked_for = make_steps(200, warm_up=0, checkpoint=lambda i: 30.0 if i == 120 else 0.0)
    assert steady(make_process(asked_for)).share("checkpoint") > 0.9
    often = make_steps(200, warm_up=0, other=lambda i: 3.0 if i % 40 == 39 else 0.0003)
    assert steady(make_process(often)).share("other") > 0.8


def test_runs_of_no_step_one_step_two_steps():
    assert steady(make_process(make_steps(0))).steps == 0
    assert steady(make_process(make_steps(0))).share("forward") == 0.0
    assert steady(make_process(make_steps(1))).steps == 1
    assert steady(make_process(make_steps(2))).steps == 1
    assert steady(replace(make_process(), steps=Table(columns={}))).seconds == 0.0
