from dataclasses import replace

import pytest
from preflights import figure, preflight, unit

from gpudoctor.model import Unavailable
from gpudoctor.model.signs.preflight import Quantity
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.node.slower_than_before import SlowerThanBefore
from gpudoctor_rules.advice import advice


def measured(*speeds, uuids=True, device="cuda", name="NVIDIA H100 80GB HBM3"):
    units = tuple(
        unit(
            at,
            device=device,
            name=name,
            uuid=f"GPU-{at}" if uuids else "",
            figures=(figure(Quantity.MATMUL, speed, dtype="bf16"),),
        )
        for at, speed in enumerate(speeds)
    )
    return preflight(len(speeds), units=units)


def compared(now, before):
    return make_patient(preflight=replace(now, before=before))


def test_sick_one_card_lost_a_fifth():
    found = compared(measured(640e12, 510e12, 642e12), measured(640e12, 641e12, 640e12))
    [finding] = examine(SlowerThanBefore, found)
    assert finding.message == (
        "GPU 0 of node01 lost 20 % of bf16 matmul since the baseline, at most 641 TFLOP/s to 510 TFLOP/s "
        "(GPU 0 of node01)."
    )
    assert [item.id for item in prescribe(advice("node"), finding, found)] == ["NODE017-leave-out", "NODE017-compare"]


def test_sick_all_cards_lost_a_tenth_and_no_peer_shows_it():
    found = compared(measured(576e12, 576e12, 576e12), measured(640e12, 640e12, 640e12))
    [finding] = examine(SlowerThanBefore, found)
    assert finding.message.startswith("All 3 units lost 10 % in the middle of bf16 matmul")
    assert [item.id for item in prescribe(advice("node"), finding, found)] == ["NODE017-compare"]


def test_healthy_the_same_again_and_busy_processors():
    assert examine(SlowerThanBefore, compared(measured(640e12, 630e12), measured(645e12, 640e12))) == []
    cpus = [measured(speed, uuids=False, device="cpu", name="AMD EPYC") for speed in (2e12, 2.5e12)]
    assert examine(SlowerThanBefore, compared(*cpus)) == []


def test_a_replaced_card_is_not_compared():
    other = replace(measured(640e12), units=(unit(0, uuid="GPU-9", figures=()),))
    with pytest.raises(Unavailable, match="none of these units"):
        examine(SlowerThanBefore, compared(other, measured(640e12)))


def test_without_a_baseline_it_says_how():
    with pytest.raises(Unavailable, match="--baseline"):
        examine(SlowerThanBefore, make_patient(preflight=measured(640e12)))
