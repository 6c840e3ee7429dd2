"""Checks of cards on recordings."""

import pytest
from looks import look, remedies
from recordings import make_machine, make_process, make_recording, make_steps

from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.hardware.hot import Hot
from gpudoctor_checks.hardware.low_utilization import LowUtilization
from gpudoctor_checks.hardware.pcie_degraded import PcieDegraded
from gpudoctor_checks.hardware.underperforms import Underperforms
from gpudoctor_rules.hardware import pcie_degraded


def job(machine, **columns):
    """A run beside these samples."""
    return look(
        LowUtilization, make_process(make_steps(300, **columns)), machine=make_machine(30, **machine), started=""
    )


def test_sick_cards_that_wait_for_data():
    [finding] = job({"gpu0_util": 0.5, "gpu0_sm": 0.2, "gpu0_memory": 4e10}, data_wait=0.03)
    assert finding.severity is Severity.NOTE  # the cause has its own finding
    assert "waiting for data" in finding.message and finding.detail.explained
    assert "other findings" in remedies(finding)


def test_sick_nothing_explains_it():
    [finding] = job({"gpu0_util": 0.2, "gpu0_memory": 4e10})
    assert finding.severity is Severity.WARNING and "no part of the step explains it" in finding.message


def test_healthy_cards():
    assert job({"gpu0_util": 0.95, "gpu0_sm": 0.8, "gpu0_memory": 4e10}) == []
    # a second card that the job does not use
    assert job({"gpu0_util": 0.95, "gpu0_memory": 4e10, "gpu1_util": 0.0, "gpu1_memory": 4e8}) == []
    with pytest.raises(Unavailable, match="samples of a GPU"):
        look(LowUtilization, make_process())


def passes(*times, **columns):
    """Ranks whose devices need so many seconds for a forward pass."""
    return look(
        Underperforms,
        *(
            make_process(make_steps(200, device_forward=seconds, **columns), rank=rank, world=len(times))
            for rank, seconds in enumerate(times)
        ),
    )


def test_sick_a_slow_card():
    [finding] = passes(0.004, 0.004, 0.0055, 0.004)
    assert finding.detail.rank == 2 and "rank 2" in remedies(finding)


def test_healthy_cards_of_one_speed():
    assert passes(0.004, 0.0041, 0.0043, 0.004) == []
    with pytest.raises(Unavailable):
        passes(0.004)


def test_healthy_passes_so_short_that_their_hosts_decide():
    assert passes(0.00004, 0.00008) == []
    assert passes(0.004, 0.0055) != []


def test_healthy_a_device_that_waits_for_its_host_between_kernels():
    assert passes(0.004, 0.009, device_idle=0.005) == []


def test_healthy_a_rank_with_longer_sequences():
    ranks = [
        make_process(make_steps(200, device_forward=0.006 if r == 1 else 0.004, tokens=3000.0 if r == 1 else 2000.0),
                     rank=r, world=3)
        for r in range(3)
    ]  # fmt: skip
    assert look(Underperforms, *ranks) == []


H100 = {
    "name": "NVIDIA H100 80GB HBM3", "index": 3, "pcie_width_max": 16.0, "pcie_generation_max": 5.0,
    "temperature_slowdown": 90.0, "temperature_max": 87.0, "temperature_memory_max": 95.0,
}  # fmt: skip
HEALTHY = {
    "util": 0.9, "pcie_width": 16.0, "pcie_generation": 5.0, "pcie_replays": 7.0, "temperature": 60.0, "margin": 25.0,
    "memory_temperature": 70.0,
}  # fmt: skip


def recorded(facts=H100, n=120, **changes):
    """A patient whose run was sampled `n` times, a second each."""
    columns = {f"gpu0_{name}": values for name, values in {**HEALTHY, **changes}.items()}
    return make_patient(
        recording=make_recording(
            make_process(make_steps(200)),
            machine=make_machine(n, **columns),
            machine_facts={"gpus": [facts]},
            started="",
        )
    )


def test_a_healthy_card_is_silent():
    assert examine(PcieDegraded, recorded()) == []
    assert examine(Hot, recorded()) == []


@pytest.mark.parametrize(
    ("changes", "said", "quantity"),
    [
        ({"pcie_width": 8.0}, "GPU 3 at x8 of x16.", "width"),
        ({"pcie_width": lambda i: 4.0 if i >= 45 else 16.0}, "x4 of x16", "width"),
        ({"pcie_generation": 1.0}, "generation 1 of 5", "generation"),
        ({"pcie_replays": lambda i: 7.0 + i}, "GPU 3: 60 a minute", "replays"),
    ],
)
def test_a_link_that_was_not_what_it_can_be(changes, said, quantity):
    patient = recorded(**changes)
    [finding] = examine(PcieDegraded, patient)
    assert said in finding.message and finding.severity is Severity.WARNING
    assert finding.detail.quantity == quantity and finding.detail.gpus == "3"
    assert all(item.reproduce for item in finding.evidence)
    assert any(remedy.title.startswith("reseat GPU 3") for remedy in prescribe(pcie_degraded, finding, patient))


@pytest.mark.parametrize(
    "changes",
    [
        {"pcie_generation": lambda i: 1.0 if i % 2 else 5.0, "util": lambda i: 0.0 if i % 2 else 1.0},  # pauses
        {"pcie_generation": 1.0, "util": 0.1},
        {"pcie_width": lambda i: 8.0 if i == 60 else 16.0},
        {"pcie_replays": lambda i: 7.0 + (i > 50)},
        {"pcie_replays": lambda i: 7.0 if i > 50 else 900.0},  # the driver was loaded again
    ],
)
def test_what_idle_cards_and_single_samples_do_is_no_fault(changes):
    assert examine(PcieDegraded, recorded(**changes)) == []


@pytest.mark.parametrize(
    ("facts", "changes", "said"),
    [
        (H100, {"temperature": 88.0}, "above its operating maximum of 87 °C 100 % of the time"),
        (H100, {"temperature": 84.0, "margin": lambda i: 2.0 if i % 2 else 9.0}, "within 5 °C of its slowdown 50 %"),
        ({**H100, "temperature_max": None}, {"temperature": 86.0, "margin": -1.0}, "within 5 °C of its slowdown 100 %"),
        (H100, {"memory_temperature": 99.0}, "memory above its maximum of 95 °C"),
    ],
)
def test_heat_under_load(facts, changes, said):
    [finding] = examine(Hot, recorded(facts, **changes))
    assert said in finding.message and finding.subject == "GPU 3"
