"""The numbers of a run, and what single places cost."""

import pytest
from recordings import lines, make_machine, make_process, make_recording, make_steps, record

from gpudoctor.analysis.run.line_costs import by_line
from gpudoctor.analysis.run.line_costs import lines as line_costs
from gpudoctor.analysis.run.run_numbers import run_numbers


def test_a_run_in_numbers():
    steps = make_steps(501, noise=0.0, warm_up=1, samples=64.0, tokens=2048.0, peak=6e9, allocated=5e9, rss=1e9)
    model = record("model", name="Net", flops=1e9)
    numbers = run_numbers(make_recording(make_process(steps, records=[model])))
    assert (numbers.steps, numbers.ranks, numbers.steady_steps) == (501, 1, 500)
    assert numbers.step.median == pytest.approx(0.01, rel=1e-5)
    assert numbers.step.std == pytest.approx(0.0, abs=1e-8)
    assert numbers.throughput.steps_per_second == pytest.approx(100, rel=1e-5)
    assert numbers.throughput.samples_per_second == pytest.approx(6400, rel=1e-5)
    assert numbers.throughput.tokens_per_second == pytest.approx(204800, rel=1e-5)
    assert numbers.throughput.flops_per_second == pytest.approx(1e11, rel=1e-5)
    assert numbers.phases["backward"] == pytest.approx(0.5, rel=1e-5)
    assert sum(numbers.phases.values()) == pytest.approx(1)
    assert numbers.memory[0].peak == 6e9 and numbers.memory[0].rss == 1e9
    assert numbers.start_seconds == pytest.approx(2.034, abs=1e-3)


def test_a_run_without_steps_has_numbers_too():
    numbers = run_numbers(make_recording(make_process(make_steps(0))))
    assert (numbers.steps, numbers.step, numbers.throughput, numbers.phases) == (0, None, None, {})
    assert run_numbers(make_recording(ranks=())).ranks == 0


def test_gpus_are_seen_while_the_steps_are_steady():
    machine = make_machine(20, gpu0_util=lambda i: 0.9 if 4 <= i <= 11 else 0.0, gpu0_memory=lambda i: i * 1e9)
    rank = make_process(make_steps(1000, warm_up=1), wall=1763709302.0)
    run = make_recording(rank, machine=machine, started="2025-11-21T08:15:02.000+01:00",
                         machine_facts={"gpus": [{"name": "NVIDIA H100"}]})  # fmt: skip
    [gpu] = run_numbers(run).gpus
    assert gpu.name == "NVIDIA H100"
    assert gpu.utilization == pytest.approx(0.72, abs=0.1)  # seconds 2 to 12 of the run
    assert gpu.busy is None


def test_lines_count_in_steady_state():
    early = lines(("other", "/job/train.py", 3, "load", 500), t=0.5)
    late = lines(("other", "/job/train.py", 41, "train", 30), ("forward", "/job/net.py", 7, "forward", 10), t=4.0)
    again = lines(("sync", "/job/train.py", 41, "train", 20), t=4.5)
    process = make_process(records=[early, late, again])
    found = line_costs(process)
    assert [(item.phase, item.place.line, item.samples) for item in found] == [
        ("other", 41, 30), ("sync", 41, 20), ("forward", 7, 10),
    ]  # fmt: skip
    assert [(item.place.line, item.samples) for item in by_line(found)] == [(41, 50), (7, 10)]
    assert by_line(found)[0].share == pytest.approx(50 / 60)
    assert [item.place.line for item in by_line(found, "forward")] == [7]
    [first, second] = run_numbers(make_recording(process)).lines
    assert (first.path, first.line, first.share) == ("train.py", 41, 50 / 60)
    assert second.path == "net.py"


def test_lines_after_the_last_step_are_no_part_of_it():
    steps = make_steps(100)
    end = steps.column("t")[-1]
    fields = {"samples": 10, "open": True}
    inside = record("lines", end - 0.1, **fields, counts=[["other", "/job/train.py", 40, "train", 10]])
    after = record("lines", end + 0.5, **fields, counts=[["other", "/job/train.py", 99, "main", 10]])
    found = line_costs(make_process(steps, records=[inside, after]))
    assert [(item.place.line, item.share) for item in found] == [(40, 1.0)]
