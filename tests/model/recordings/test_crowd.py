"""Other processes on the machine: told where they kept the run from its CPUs, and only there."""

import pytest
from recordings import make_machine, make_process, make_recording

from gpudoctor.engine.examination import Request, examine
from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.selection import Selection
from gpudoctor.model import Code
from gpudoctor.model.reading.recordings.crowd import crowd, fairness
from gpudoctor.testing import make_patient

FACTS = {"cpus": 4, "machine_cpus": 4}


def beside(cpu, tree, **facts):
    machine = make_machine(30, cpu=cpu, tree_cpu=tree)
    return make_recording(make_process(), started="", machine=machine, machine_facts={**FACTS, **facts})


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


def test_the_verdict_says_so():
    registry, selection = load_registry(), Selection(selected=frozenset({Code("PERF014")}), ignored={})
    for recording, said in ((beside(3.98, 1.5), True), (beside(3.98, 3.9), False)):
        report = examine(make_patient(recording=recording), Request(registry=registry, selection=selection))
        verdict = report.summary.verdict
        assert verdict.startswith("In good health")
        assert ("Other processes took 2.5 of the 4 CPUs" in verdict) is said
