"""The scenario matrix through the real binding: fake driver, child process, survey, checks, rules."""

import pytest
from fake_nvml import SCENARIOS, compiler
from fake_nvml import run as fake
from some import some

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler to build the fake driver with")


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    return tmp_path_factory.mktemp("fake-nvml")


@pytest.fixture(scope="session")
def surveyed(tmp_path_factory, libraries):
    """What the survey of a scenario's machine saw: made once, read by several tests."""
    made = {}

    def of(scenario):
        if scenario.name not in made:
            root = tmp_path_factory.mktemp("machine") / "root"
            made[scenario.name] = fake.survey(scenario, root, libraries)
        return made[scenario.name]

    return of


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_each_machine_raises_its_findings_and_no_others(scenario, surveyed):
    seen = surveyed(scenario)
    found = fake.findings(scenario, seen)
    assert fake.codes(found) == scenario.findings, [finding.message for finding in found]


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if s.findings], ids=lambda scenario: scenario.name)
def test_each_finding_has_a_remedy_with_steps(scenario, surveyed):
    seen = surveyed(scenario)
    for finding in some(fake.findings(scenario, seen)):
        remedies = [
            remedy
            for rule in fake.rules_for(finding)
            for remedy in rule().prescribe(finding, fake.patient(scenario, seen))
        ]
        assert remedies, finding.message
        assert len({remedy.id for remedy in remedies}) == len(remedies)
        assert all(remedy.steps and remedy.id.startswith(finding.code) for remedy in remedies)


def test_a_hung_driver_is_given_up_within_its_limit_and_the_gpus_before_it_are_kept(tmp_path, libraries):
    scenario = next(item for item in SCENARIOS if item.name == "driver hangs on GPU 3")
    import time

    start = time.monotonic()
    seen = fake.survey(scenario, tmp_path / "root", libraries)
    assert time.monotonic() - start < scenario.limit + 2
    assert [gpu.index for gpu in seen.gpus] == [0, 1, 2]
    assert [gpu.index for gpu in seen.lost] == [3]
    assert "GPU 3" in seen.driver_error


def test_a_container_never_gives_a_host_pid_the_name_of_its_own_process(surveyed):
    scenario = next(item for item in SCENARIOS if item.name == "container, host pids")
    seen = surveyed(scenario)
    assert not seen.pids_visible
    [process] = seen.gpus[0].processes
    assert process.pid == 4711 and process.name is None
    [finding] = fake.findings(scenario, seen)
    assert "cannot look them up" in finding.message and "innocent" not in finding.message
