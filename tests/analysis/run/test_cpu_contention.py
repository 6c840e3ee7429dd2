"""Other processes on the machine: told where they kept the run from its CPUs, and only there."""

from datetime import datetime, timezone

import pytest
from recordings import make_machine, make_process, make_recording, make_steps

from gpudoctor.analysis.run.cpu_contention import cpu_use, crowd, fairness
from gpudoctor.engine.examination import Request, examine
from gpudoctor.engine.registry import Registry, load_registry
from gpudoctor.engine.selection import Selection
from gpudoctor.model import Code
from gpudoctor.testing import make_patient

FACTS = {"cpus": 4, "machine_cpus": 4}
BEGUN = datetime.fromtimestamp(make_process().wall, timezone.utc).isoformat()
"""The machine's clock and that of the rank begin together."""


def beside(cpu, tree, **facts):
    machine = make_machine(30, cpu=cpu, tree_cpu=tree)
    process = make_process(make_steps(2500))  # 27 s
    return make_recording(process, started=BEGUN, machine=machine, machine_facts={**FACTS, **facts})


def test_others_that_keep_all_cpus_busy():
    found = crowd(beside(3.98, 1.5))
    assert found is not None and found.others == pytest.approx(2.48) and found.cpus == 4
    assert found.got_at(12.0) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("cpu", "tree", "facts"),
    [
        (3.98, 3.9, {}),  # the run itself
        (2.5, 1.0, {}),  # one CPU and a half are idle
        (3.98, 1.0, {"machine_cpus": 64}),  # those of the run may be idle
        (float("nan"), 1.0, {}),
        (3.98, 1.0, {"cpus": None}),
    ],
)
def test_none_that_matter(cpu, tree, facts):
    recording = beside(cpu, tree, **facts)
    assert crowd(recording) is None
    assert fairness(recording, recording.ranks[0], [1.0, 2.0]) == [1.0, 1.0]


@pytest.mark.parametrize(("seconds", "known"), [(30, True), (5, True), (2, False)])
def test_two_samples_in_steady_state_say_how_busy_the_cpus_are(seconds, known):
    machine = make_machine(seconds, cpu=2.2, tree_cpu=1.7)
    process = make_process(make_steps(2500))
    found = cpu_use(make_recording(process, started=BEGUN, machine=machine, machine_facts=FACTS))
    assert (found is not None) is known
    if found is not None:
        assert found.job == pytest.approx(1.7) and found.reach == pytest.approx(3.5)


def test_others_that_come_late_bear_on_the_late_steps_alone():
    cpu, tree = [1.6] * 20 + [3.98] * 10, [1.5] * 20 + [0.9] * 10
    recording = beside(cpu, tree)
    found = crowd(recording)
    assert found is not None and found.share == pytest.approx(1 / 3, abs=0.05)
    assert found.others == pytest.approx(3.08)
    early, late = fairness(recording, recording.ranks[0], [8.0, 27.0])
    assert late / early == pytest.approx(0.6, abs=0.02)


def test_others_that_come_for_a_moment_are_none():
    assert crowd(beside([1.6] * 26 + [3.98] * 4, [1.5] * 26 + [0.9] * 4)) is None


def test_a_run_that_comes_to_use_less_of_idle_cpus_is_not_served_less():
    tree = [1.5] * 8 + [0.7] * 12 + [0.9] * 10  # it waits for a disk from the eighth second on
    cpu = [1.6] * 8 + [0.8] * 12 + [3.98] * 10
    recording = beside(cpu, tree)
    early, middle = fairness(recording, recording.ranks[0], [5.0, 15.0])
    assert middle == early


def test_the_verdict_says_so():
    code, all_of_them = Code("PERF014"), load_registry()
    registry = Registry(checks={code: all_of_them.checks[code]}, rules=all_of_them.rules)
    selection = Selection(selected=frozenset({code}), ignored={})
    for recording, said in ((beside(3.98, 1.5), True), (beside(3.98, 3.9), False)):
        report = examine(make_patient(recording=recording), Request(registry=registry, selection=selection))
        verdict = report.summary.verdict
        assert verdict.startswith("Little time is lost")
        assert ("Other processes used 2.5 of the 4 CPUs" in verdict) is said
