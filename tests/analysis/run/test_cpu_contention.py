"""Other processes on the machine: told where they kept the run from its CPUs, and only there."""

from datetime import datetime, timezone

import pytest
from recordings import make_machine, make_process, make_recording, make_steps

from gpudoctor.analysis.run.cpu_contention import cpu_use, crowd
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
    assert crowd(beside(cpu, tree, **facts)) is None


@pytest.mark.parametrize(("seconds", "known"), [(30, True), (5, True), (2, False)])
def test_two_samples_in_steady_state_say_how_busy_the_cpus_are(seconds, known):
    machine = make_machine(seconds, cpu=2.2, tree_cpu=1.7)
    process = make_process(make_steps(2500))
    found = cpu_use(make_recording(process, started=BEGUN, machine=machine, machine_facts=FACTS))
    assert (found is not None) is known
    if found is not None:
        assert found.job == pytest.approx(1.7) and found.reach == pytest.approx(3.5)


def test_the_verdict_says_so():
    code, all_of_them = Code("PERF014"), load_registry()
    registry = Registry(checks={code: all_of_them.checks[code]}, rules=all_of_them.rules)
    selection = Selection(selected=frozenset({code}), ignored={})
    for recording, said in ((beside(3.98, 1.5), True), (beside(3.98, 3.9), False)):
        report = examine(make_patient(recording=recording), Request(registry=registry, selection=selection))
        verdict = report.summary.verdict
        assert verdict.startswith("Little time is lost")
        assert ("Other processes used 2.5 of the 4 CPUs" in verdict) is said
