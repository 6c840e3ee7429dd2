import pytest
from preflights import figure, patient, unit

from gpudoctor.model import Unavailable
from gpudoctor.model.signs.preflight import Quantity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.node.throttles_under_load import ThrottlesUnderLoad
from gpudoctor_rules.advice import advice


def burnt(last):
    figures = (
        figure(Quantity.MATMUL, 650e12, dtype="bf16", when="first"),
        figure(Quantity.MATMUL, last, dtype="bf16", when="last"),
        figure(Quantity.TEMPERATURE, 88.0, when="last"),
    )
    return patient(2, units=(unit(0, figures=figures), unit(1)))


def test_sick_a_card_loses_a_third():
    found = burnt(430e12)
    [finding] = examine(ThrottlesUnderLoad, found)
    assert finding.message.startswith("GPU 0 of node00 falls from 650 TFLOP/s to 430 TFLOP/s in 2 s of load, at 88")
    assert [item.id for item in prescribe(advice("node"), finding, found)] == ["NODE014-leave-out", "NODE014-cool"]


def test_healthy_a_card_warms_up():
    assert examine(ThrottlesUnderLoad, burnt(620e12)) == []


def test_without_a_burn_it_says_how():
    with pytest.raises(Unavailable, match="--burn"):
        examine(ThrottlesUnderLoad, patient(2, units=(unit(0),)))
