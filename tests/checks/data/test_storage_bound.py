import pytest
from recordings import make_machine, make_process, make_recording, make_steps

from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.data.storage_bound import StorageBound
from gpudoctor_rules.advice import advice


def look(*ranks, **changes):
    """The findings on a recording of these ranks."""
    return examine(StorageBound, make_patient(recording=make_recording(*ranks, **changes)))


def remedies(finding):
    """Titles and steps of the remedies, in one text."""
    found = prescribe(advice("data"), finding, make_patient(recording=make_recording()))
    assert found
    return " ".join([item.title for item in found] + [step for item in found for step in item.steps])


def job(wait=0.01, **columns):
    """A run that waits for data on a machine with these samples."""
    return look(make_process(make_steps(400, data_wait=wait)), started="", machine=make_machine(30, **columns))


def test_sick_workers_that_wait_for_the_disk():
    [finding] = job(workers=8.0, workers_disk=6.0, io_wait=0.1)
    assert "75 %" in finding.message and "shards" in remedies(finding)
    [finding] = job(0.002, io_wait=0.6)
    assert finding.severity is Severity.WARNING


def test_healthy_storage():
    assert job(workers=8.0, workers_disk=1.0, io_wait=0.05) == []
    assert job(wait=0.0005, workers=8.0, workers_disk=7.0) == []  # somebody else's
    with pytest.raises(Unavailable, match="samples of the machine"):
        look(make_process())
