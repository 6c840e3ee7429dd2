from dataclasses import replace

import pytest
from looks import look, remedies
from recordings import make_process, make_recording, make_steps, record

from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.loop.teacher_trained import TeacherTrained
from gpudoctor_checks.numerics.dead_parameters import DeadParameters
from gpudoctor_checks.numerics.weights_frozen import WeightsFrozen
from gpudoctor_rules.advice import advice


def dead(share=0.4, steps=200, **fields):
    given = {"parameters": ["branch.weight", "branch.bias"], "none": ["branch.weight", "branch.bias"], **fields}
    return make_process(records=[record("numeric", 3.0, step=199, kind="dead", share=share, steps=steps, **given)])


def test_sick_a_small_part_is_a_note():
    [finding] = look(DeadParameters, dead(share=0.01, none=[]))
    assert finding.severity is Severity.NOTE and finding.cost.breaks is None
    assert "zeros" in finding.message


def test_of_gradients_that_are_spread_over_ranks_all_must_say_so():
    """The rows of an embedding that a rank holds may not have come up: the others' rows have."""
    part, other = dead(shards=2), make_process(rank=1, world=2)
    assert look(DeadParameters, part, other) == []
    whole = replace(part, rank=1)
    [finding] = look(DeadParameters, part, whole)
    assert finding.severity is Severity.ERROR


def test_healthy():
    assert look(DeadParameters, make_process()) == []
    assert look(DeadParameters, dead(steps=12)) == []
    assert look(DeadParameters, dead(parameters=[])) == []


def test_too_few_steps():
    with pytest.raises(Unavailable):
        look(DeadParameters, make_process(make_steps(10)))


def test_a_frozen_body_in_the_optimizer_is_a_warning():
    """Under no_grad() on purpose, or by mistake: only its author knows."""
    records = [
        record("model", name="Tower", parameters=90, path="/job/probe.py", line=8),
        record("numeric", 3.0, step=60, kind="dead", share=0.9, steps=60, parameters=["Tower.0.weight"],
               none=["Tower.0.weight"]),
    ]  # fmt: skip
    [finding] = look(DeadParameters, make_process(records=records))
    assert finding.severity is Severity.WARNING and finding.cost.breaks is None
    assert "An optimizer has Tower, called only without gradients (probe.py:8)." in finding.message
    assert finding.effect_of is None
    assert "Call Tower with gradients" in remedies(finding)


def exchanged(held=90, reached=True):
    """A model gets gradients that the optimizer does not hold; of what it holds, `held` elements get none."""
    return make_process(
        records=[
            record("optimizer", name="SGD", parameters=90, missing=["0.weight"], path="/job/rl.py", line=5),
            record("numeric", 2.0, step=40, kind="mode", kind_of="teacher-grad", steps=40, of=40, model="Actor",
                   reached=reached, training=True, path="/job/rl.py", line=12),
            record("numeric", 3.0, step=60, kind="dead", share=0.5, steps=60, parameters=["Actor.0.weight"],
                   elements=held, none=["Actor.0.weight"]),
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rank", "said"),
    [
        (exchanged(), {"NUM008"}),
        (exchanged(held=40), {"NUM005", "LOOP011"}),  # something that the optimizer holds learns: a teacher
        (exchanged(reached=False), {"NUM005", "LOOP011"}),
    ],
)
def test_an_optimizer_over_another_model_is_one_finding(rank, said):
    patient = make_patient(recording=make_recording(rank))
    found = [one for check in (DeadParameters, WeightsFrozen, TeacherTrained) for one in examine(check, patient)]
    assert {one.code for one in found} == said
    if said == {"NUM008"}:
        [one] = found
        assert one.severity is Severity.ERROR and one.cost.breaks and "Actor (rl.py:12)" in one.message
        assert "over the model" in prescribe(advice("numerics"), one, patient)[0].steps[0]
