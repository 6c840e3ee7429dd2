import pytest
from looks import look_of, remedies_of
from recordings import make_machine, make_process, make_steps

from gpudoctor.model import Severity, Unavailable
from gpudoctor_checks.data.storage_bound import StorageBound
from gpudoctor_rules.advice import advice

look = look_of(StorageBound)
remedies = remedies_of(advice("data"))


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
