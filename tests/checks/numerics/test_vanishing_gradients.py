import pytest
from looks import look_of, remedies_of
from recordings import make_process, record

from gpudoctor.model import Severity, Unavailable
from gpudoctor_checks.numerics.vanishing_gradients import VanishingGradients
from gpudoctor_rules.advice import advice

look = look_of(VanishingGradients)
remedies = remedies_of(advice("numerics"))


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
