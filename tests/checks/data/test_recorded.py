"""Checks of loaders on recordings."""

import pytest
from looks import look, remedies
from recordings import make_machine, make_process, make_recording, make_steps, record

from gpudoctor.model import Confidence, Severity, Unavailable
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.data.loader_dead import LoaderDead
from gpudoctor_checks.data.not_shuffled import NotShuffled
from gpudoctor_checks.data.storage_bound import StorageBound
from gpudoctor_checks.data.transfer_bound import TransferBound
from gpudoctor_rules.data.loaders import not_shuffled

FRAMES = [["/job/train.py", 30, "<module>", "for x, y in loader:"]]
WORDS = "DataLoader worker (pid(s) 4711) exited unexpectedly"


def test_sick_a_worker_that_exits():
    died = record("exception", 5.0, exception="RuntimeError", message=WORDS, frames=FRAMES, user=0, step=14,
                  phase="data_wait", oom=None)  # fmt: skip
    [finding] = look(LoaderDead, make_process(records=[died], clean=False), end=RunEnd(exit_code=1))
    assert finding.severity is Severity.ERROR and "exited unexpectedly" in finding.message
    assert (finding.span.path, finding.span.line) == ("train.py", 30)
    assert "num_workers=0" in remedies(finding)


def test_sick_a_wait_that_does_not_end():
    beat = record("heartbeat", 200.0, step=200, phase="data_wait", seconds=150.0, stack=[["/job/train.py", 30, "f"]])
    [finding] = look(LoaderDead, make_process(records=[beat]), end=RunEnd(exit_code=130, stopped_by="interrupt"))
    assert "2m30s" in finding.message and "timeout" in remedies(finding)


def test_healthy_waits():
    assert look(LoaderDead, make_process()) == []
    early = record("heartbeat", 2.0, step=3, phase="data_wait", seconds=80.0, stack=[])  # it went on
    assert look(LoaderDead, make_process(records=[early])) == []
    value = record("exception", 5.0, exception="ValueError", message="no", frames=FRAMES, user=0, step=1)
    assert look(LoaderDead, make_process(records=[value], clean=False), end=RunEnd(exit_code=1)) == []


def recorded(labels, order="sequential", losses=48):
    single = sum(often for label, often in labels if label >= 0)
    seen = record("numeric", 3.0, kind="labels", step=99, losses=losses, found=single, elements=losses * 16,
                  classes=4, loader=0, labels=labels, path="/job/train.py", line=16)  # fmt: skip
    loader = record("loader", 1.0, id=0, role="training", order=order, path="/job/train.py", line=10)
    return make_recording(make_process(make_steps(100), records=[loader, seen]))


def test_sick_recorded_batches_hold_one_class_each():
    sick = make_patient(recording=recorded([[-1, 4], [0, 22], [1, 22]]))
    [finding] = examine(NotShuffled, sick)
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.CONFIRMED)
    assert "44 batches" in finding.message and finding.cost.breaks
    assert prescribe(not_shuffled, finding, sick)


@pytest.mark.parametrize(
    "seen",
    [
        recorded([[-1, 48]]),
        recorded([[-1, 24], [0, 12], [1, 12]]),
        recorded([[-1, 4], [0, 43], [1, 1]]),
        recorded([[0, 48]]),
        recorded([[0, 24], [1, 24]], order=None),
        recorded([[0, 6], [1, 6]], losses=12),
    ],
)
def test_healthy_recordings(seen):
    """Mixed; half mixed; a rare class; one class; somebody's own sampler; few."""
    assert examine(NotShuffled, make_patient(recording=seen)) == []


def job(wait=0.01, **columns):
    """A run that waits for data on a machine with these samples."""
    return look(
        StorageBound, make_process(make_steps(400, data_wait=wait)), started="", machine=make_machine(30, **columns)
    )


def test_sick_workers_that_wait_for_the_disk():
    [finding] = job(workers=8.0, workers_disk=6.0, io_wait=0.1)
    assert "75 %" in finding.message and "shards" in remedies(finding)
    [finding] = job(0.002, io_wait=0.6)
    assert finding.severity is Severity.WARNING


def test_healthy_storage():
    assert job(workers=8.0, workers_disk=1.0, io_wait=0.05) == []
    assert job(wait=0.0005, workers=8.0, workers_disk=7.0) == []  # somebody else's
    with pytest.raises(Unavailable, match="samples of the machine"):
        look(StorageBound, make_process())


def test_sick_copies():
    [finding] = look(TransferBound, make_process(make_steps(200, device_transfer=0.003)))
    assert finding.severity is Severity.WARNING and finding.cost.step_share == pytest.approx(0.3, abs=0.02)
    assert "uint8" in remedies(finding)


def test_healthy_copies():
    assert look(TransferBound, make_process(make_steps(200, device_transfer=0.0005))) == []
    with pytest.raises(Unavailable, match="device times"):
        look(TransferBound, make_process())
