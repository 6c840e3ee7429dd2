import pytest
from recordings import make_process, make_recording, make_steps, record

from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.numerics.dead_parameters import DeadParameters
from gpudoctor_rules.numerics.dead_parameters import DeadParametersRule


def look(*ranks, **changes):
    """The findings on a recording of these ranks."""
    return examine(DeadParameters, make_patient(recording=make_recording(*ranks, **changes)))


def remedies(finding):
    """Titles and steps of the remedies, in one text."""
    found = prescribe(DeadParametersRule, finding, make_patient(recording=make_recording()))
    assert found
    return " ".join([item.title for item in found] + [step for item in found for step in item.steps])


def dead(share=0.4, steps=200, **fields):
    given = {"parameters": ["branch.weight", "branch.bias"], "none": ["branch.weight", "branch.bias"], **fields}
    return make_process(
        records=[record("numeric", 3.0, step=199, kind="dead", share=share, steps=steps, **given)]
    )


def test_sick_a_branch_that_is_cut_off():
    [finding] = look(dead())
    assert finding.severity is Severity.ERROR and "no gradient at all" in finding.message
    assert "branch" in remedies(finding)


def test_sick_a_small_part_is_a_note():
    [finding] = look(dead(share=0.01, none=[]))
    assert finding.severity is Severity.NOTE and finding.cost.breaks is None
    assert "zeros" in finding.message


def test_healthy():
    assert look(make_process()) == []
    assert look(dead(steps=12)) == []
    assert look(dead(parameters=[])) == []


def test_too_few_steps():
    with pytest.raises(Unavailable):
        look(make_process(make_steps(10)))
