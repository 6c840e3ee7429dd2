import pytest
from recordings import make_process, make_recording, make_steps, record

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.numerics.constant_output import ConstantOutput
from gpudoctor_rules.advice import advice


def look(found, since, step):
    seen = record("numeric", 3.0, kind="alike", step=step, since=since, found=found, loss="MseLoss",
                  path="/job/train.py", line=7)  # fmt: skip
    recording = make_recording(make_process(make_steps(400), records=[seen]))
    return examine(ConstantOutput, make_patient(recording=recording))


def steps_of(finding):
    [remedy] = prescribe(advice("numerics"), finding, make_patient())
    return " ".join(remedy.steps)


def test_sick_from_the_first_step():
    [finding] = look(40, 0, 90)
    assert finding.severity is Severity.ERROR and finding.cost.breaks
    assert "from the first step on" in finding.message and "40 examined losses" in finding.message
    assert "scale the inputs" in steps_of(finding)


def test_sick_since_a_step_that_killed_it():
    [finding] = look(31, 300, 399)
    assert "from step 300 on" in finding.message
    assert "learning rate" in steps_of(finding)


@pytest.mark.parametrize("seen", [(29, 0, 200), (60, 380, 399)])
def test_healthy_too_few_looks_or_steps(seen):
    assert look(*seen) == []


def test_what_an_update_has_killed_is_an_effect_of_the_rate():
    [alive_at_first] = look(40, 1, 90)
    assert "from the first update on" in alive_at_first.message
    assert alive_at_first.effect_of == "NUM009" and "lower the learning rate" in steps_of(alive_at_first)
    [dead_from_the_start] = look(40, 0, 90)
    assert dead_from_the_start.effect_of is None
