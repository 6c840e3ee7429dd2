"""GPU005 and GPU011 of a recorded run: the samples beside its steps, and a fake driver the whole way."""

import pytest
from recordings import make_machine, make_process, make_recording, make_steps

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.hardware.hot import Hot
from gpudoctor_checks.hardware.pcie_degraded import PcieDegraded
from gpudoctor_rules.hardware import pcie_degraded

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
