from preflights import with_facts
from slow_units import assert_finds_the_slow_one, assert_healthy_fleets_are_silent, fleet

from gpudoctor.model.signs.preflight import CPU_QUOTA, Quantity
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.node.cpu_slow import CpuSlow
from gpudoctor_rules.advice import advice


def test_sick_one_of_six_is_slow_and_of_three_it_is_a_suspicion():
    assert_finds_the_slow_one(CpuSlow, Quantity.MATMUL, 2e12, dtype="fp32", device="cpu", name="AMD EPYC 9654")


def test_healthy_noise_other_cards_and_only_two_units():
    assert_healthy_fleets_are_silent(CpuSlow, Quantity.MATMUL, 2e12, dtype="fp32", device="cpu", name="AMD EPYC 9654")


def test_sick_the_quota_of_the_slow_node_is_named():
    found = fleet(Quantity.MATMUL, 2e12, 1.0, 1.01, 0.99, 0.3, 1.0, 1.02, dtype="fp32", device="cpu")
    odd = found.preflight
    for index in range(6):
        odd = with_facts(odd, index, **{CPU_QUOTA: "0.5" if index == 3 else "none"})
    found = make_patient(preflight=odd)
    [finding] = examine(CpuSlow, found)
    assert finding.message.endswith("Its control group grants 0.5 CPUs of time, those of its peers no quota.")
    assert prescribe(advice("node"), finding, found)[1].title == "raise the CPU quota of the job on node03"


def test_a_quota_that_all_nodes_have_explains_no_difference():
    odd = fleet(Quantity.MATMUL, 2e12, 1.0, 1.01, 0.99, 0.3, 1.0, 1.02, dtype="fp32", device="cpu").preflight
    for index in range(6):
        odd = with_facts(odd, index, **{CPU_QUOTA: "8"})
    [finding] = examine(CpuSlow, make_patient(preflight=odd))
    assert "grants" not in finding.message
