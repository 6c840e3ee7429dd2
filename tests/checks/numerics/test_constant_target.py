import pytest
from recordings import make_process, make_recording, make_steps, record

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.numerics.constant_target import ConstantTarget
from gpudoctor_rules.advice import advice


def look(labels, elements=1200, losses=60, classes=4, order="random"):
    seen = record("numeric", 3.0, kind="labels", step=99, losses=losses, found=losses, elements=elements,
                  classes=classes, loader=0, labels=labels, path="/job/train.py", line=7)  # fmt: skip
    loader = record("loader", 1.0, id=0, role="training", order=order, path="/job/train.py", line=3)
    recording = make_recording(make_process(make_steps(100), records=[loader, seen]))
    return examine(ConstantTarget, make_patient(recording=recording))


def test_sick_one_label():
    [finding] = look([[2, 60]])
    assert finding.severity is Severity.WARNING
    assert "All 1,200 labels that were seen are 2" in finding.message and "4 classes" in finding.message
    [remedy] = prescribe(advice("numerics"), finding, make_patient())
    assert remedy.title == "count the labels of the whole set"


def test_sick_the_order_may_be_why():
    [finding] = look([[0, 60]], order="sequential")
    assert "in order" in finding.message
    [remedy] = prescribe(advice("numerics"), finding, make_patient())
    assert "reads in order" in remedy.steps[-1]


@pytest.mark.parametrize(
    "case",
    [
        {"labels": [[-1, 60]]},
        {"labels": [[0, 30], [1, 30]]},
        {"labels": [[0, 59], [-1, 1]]},
        {"labels": [[0, 60]], "elements": 900},
        {"labels": [[0, 20]], "losses": 20},
        {"labels": [[0, 60]], "classes": 1},
        {"labels": []},
    ],
)
def test_healthy(case):
    assert look(**case) == []
