"""Pieces of measuring that need no torch: the allocator's events, windows by instant, predicted beside measured."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from gpudoctor.estimate import estimate
from gpudoctor.estimate.measure import JobMeasurement, Machine, MeasuredStep, MeasureEnd, compare
from gpudoctor.estimate.measure.cpu import on_cpu
from gpudoctor.estimate.measure.meters import MeterWindow, _changes, _windows, read_step


@dataclass
class Fields:
    alloc_size: int
    ptr: int


@dataclass
class Node:
    name: str
    start_time_ns: int
    end_time_ns: int = 0
    extra_fields: Any = None
    children: list = field(default_factory=list)


def memory(time, size, address):
    return Node("[memory]", time, time, Fields(size, address))


def test_scratch_of_a_kernel_is_told_from_tensors():
    product = Node("aten::mm", 10, 20, children=[
        Node("aten::empty", 11, 12, children=[memory(11, 100, 1)]),  # the result: stays
        memory(13, 1000, 2), memory(19, -1000, 2),  # given back before the product returns
    ])  # fmt: skip
    tree = [product, Node("gpudoctor:loss", 30, 30), memory(40, -100, 1), Node("gpudoctor:layer", 50, 50)]
    windows = list(_windows(_changes(tree), 7))
    assert windows == [
        MeterWindow(name="loss", peak=107, end=107, scratch=1000),
        MeterWindow(name="layer", peak=107, end=7, scratch=0),
    ]


def test_a_temporary_of_a_composite_operator_is_a_tensor():
    loss = Node("aten::cross_entropy_loss", 1, 9, children=[
        Node("aten::log_softmax", 2, 4, children=[memory(3, 50, 1)]), memory(6, -50, 1),
    ])  # fmt: skip
    (window,) = _windows(_changes([loss, Node("gpudoctor:loss", 10)]), 0)
    assert (window.peak, window.scratch, window.end) == (50, 0, 0)


def test_windows_by_instant():
    names = ("forward", "loss", "layer", "middle", "backward")
    sizes = dict(zip(names, (50, 60, 40, 45, 30), strict=True))
    windows = [
        MeterWindow(name=f"{micro} {name}", peak=sizes[name] + 100 * micro, end=10)
        for micro in (0, 1)
        for name in names
    ]
    windows += [MeterWindow(name="1 step", peak=35, end=20), MeterWindow(name="1 between", peak=20, end=12)]
    step = read_step(windows)
    assert step.instants == {"loss": 60, "layer": 40, "backward": 30, "accumulation": 160, "step": 35}
    assert (step.peak, step.static, step.scratch) == (160, 12, {})


def machine(kind):
    return Machine(kind=kind, name="card", bytes=1 << 34, capability=None, gpus=0, versions={"torch": "2"})


def test_the_cpus_differences_are_lines_and_nothing_else():
    found = estimate("tinyllama-1.1b", method="full")
    cpu = on_cpu(found)
    kinds = {line.kind for each in cpu.instants for line in each.lines}
    assert "workspace" not in kinds and "step-counters" in kinds
    counters = next(line.bytes for line in cpu.peak.lines if line.kind == "step-counters")
    assert counters == 4 * (22 * 9 + 3)
    assert cpu.static == found.static - 2 * 8_519_680 + counters
    assert cpu.card == found.card


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_predicted_beside_measured(kind):
    found = estimate("tinyllama-1.1b", method="lora")
    step = MeasuredStep(
        instants={"loss": 10**9, "layer": 2 * 10**9, "step": 3 * 10**9}, peak=3 * 10**9, static=7, scratch={}
    )
    done = JobMeasurement(
        machine=machine(kind), ending=MeasureEnd.COMPLETE, said="", reached="", most=1, load=5, steps=(step, step, step),
        reserved=4 * 10**9, used=5 * 10**9, reserved_then=42 * 10**8,
    )  # fmt: skip
    compared = compare(found, done)
    assert [row.instant for row in compared.rows] == ["load", "loss", "layer", "step", "static", "peak"]
    assert bool(compared.differences) is (kind == "cpu")


def test_one_step_is_no_measurement_of_the_steady_state():
    step = MeasuredStep(instants={"loss": 1}, peak=1, static=1, scratch={})
    cut = JobMeasurement(
        machine=machine("cpu"),
        ending=MeasureEnd.OUT_OF_MEMORY,
        said="no",
        reached="step 2",
        most=1,
        load=5,
        steps=(step,),
    )
    compared = compare(estimate("tinyllama-1.1b", method="lora"), cut)
    assert [row.instant for row in compared.rows] == ["load"]
