import pytest
from recordings import make_process, make_recording, record

from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.numerics.vanishing_gradients import VanishingGradients
from gpudoctor_rules.advice import advice


def look(*ranks, **changes):
    """The findings on a recording of these ranks."""
    return examine(VanishingGradients, make_patient(recording=make_recording(*ranks, **changes)))


def remedies(finding):
    """Titles and steps of the remedies, in one text."""
    found = prescribe(advice("numerics"), finding, make_patient(recording=make_recording()))
    assert found
    return " ".join([item.title for item in found] + [step for item in found for step in item.steps])


def norms(first, last, mean, count=5):
    return make_process(
        records=[
            record("numeric", step * 1.0, step=step, kind="norms", norm=1.0, first=first, last=last, mean=mean,
                   first_name="body.0.weight", last_name="head.weight")
            for step in range(count)
        ]
    )  # fmt: skip


def test_sick_a_deep_stack_of_sigmoids():
    [finding] = look(norms(1e-9, 0.3, 1e-9))
    assert finding.severity is Severity.WARNING and "body.0.weight" in finding.message
    assert "ReLU" in remedies(finding)


def test_healthy_gradients():
    assert look(norms(0.1, 0.3, 1e-3)) == []
    assert look(norms(1e-4, 0.3, 1e-4)) == []  # a small first layer of a model that learns
    assert look(norms(1e-9, 1e-9, 1e-12)) == []  # converged: all of it is small


def test_too_few_readings():
    with pytest.raises(Unavailable):
        look(norms(1e-9, 0.3, 1e-9, count=2))
