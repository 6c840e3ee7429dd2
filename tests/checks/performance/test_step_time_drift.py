from bisect import bisect_left
from datetime import datetime

import pytest
from looks import look, remedies
from recordings import lines, make_machine, make_process, make_steps

from gpudoctor.model import Severity, Unavailable
from gpudoctor_checks.performance.step_time_drift import StepTimeDrift


def growing(i):
    return 0.0003 + 0.00001 * i


def test_sick_a_list_that_is_walked_through():
    early = lines(("other", "/job/train.py", 41, "train", 5), ("forward", "/job/net.py", 3, "f", 50), t=2.5)
    late = lines(("other", "/job/train.py", 41, "train", 45), ("forward", "/job/net.py", 3, "f", 50), t=7.0)
    [finding] = look(StepTimeDrift, make_process(make_steps(400, other=growing), records=[early, late]))
    assert finding.severity is Severity.WARNING
    assert finding.detail.part == "other"
    assert (finding.span.path, finding.span.line) == ("train.py", 41)
    assert finding.cost.step_share == pytest.approx(0.16, abs=0.04)
    assert "deque" in remedies(finding)


def test_few_steps_are_no_evidence():
    with pytest.raises(Unavailable):
        look(StepTimeDrift, make_process(make_steps(90, other=growing)))


STARTED = "2026-11-21T08:15:02.000+01:00"
RISING = {name: (lambda i, each=each: each * (1 + i / 200)) for name, each in
          (("forward", 0.03), ("backward", 0.05), ("optimizer", 0.01), ("other", 0.02))}  # fmt: skip


def beside(cpu, mine, rising=RISING):
    """A run whose steps take longer and longer, on a machine with two CPUs of which it gets `mine(step)`."""
    steps = make_steps(400, begin=0.0, **rising)
    seconds = int(steps.column("t")[-1]) + 1
    indices = steps.column("index")

    def got(second):
        row = min(bisect_left(steps.column("t"), second), len(indices) - 1)
        return mine(indices[row])

    rank = make_process(steps, wall=datetime.fromisoformat(STARTED).timestamp())
    machine = make_machine(seconds + 1, cpu=cpu, tree_cpu=got)
    facts = {"cpus": 2, "machine_cpus": 2}
    return look(StepTimeDrift, rank, started=STARTED, machine=machine, machine_facts=facts)


def test_healthy_other_processes_take_more_and_more_of_the_cpus():
    assert beside(2.0, lambda i: 1 / (1 + i / 200)) == []


def late(second):
    """CPUs that are busy where others come in the second half of the steps, which takes two thirds of the time."""
    return 2.0 if second > 28 else 1.1


def served(row):
    return 0.8 if row > 200 else 1.0


def test_sick_host_work_that_rises_long_before_others_come():
    host = {"other": lambda i: 0.02 + 0.0006 * i}
    assert [item.detail.part for item in beside(late, served, host)] == ["other"]
