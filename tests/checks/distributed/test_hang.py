import pytest
from recordings import make_process, make_recording, make_steps, record

from gpudoctor.model import Severity, Unavailable
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.distributed.hang import Hang
from gpudoctor_rules.distributed.hang import HangRule


def look(*ranks, **changes):
    """The findings on a recording of these ranks."""
    return examine(Hang, make_patient(recording=make_recording(*ranks, **changes)))


def remedies(finding):
    """Titles and steps of the remedies, in one text."""
    found = prescribe(HangRule, finding, make_patient(recording=make_recording()))
    assert found
    return " ".join([item.title for item in found] + [step for item in found for step in item.steps])


STOPPED = RunEnd(exit_code=130, stopped_by="interrupt")


def still(rank, world, phase="backward", line=44, seconds=400.0, steps=50):
    beat = record(
        "heartbeat", 500.0, step=steps, phase=phase, seconds=seconds, stack=[["/job/train.py", line, "step"]]
    )
    return make_process(make_steps(steps), rank=rank, world=world, records=[beat])


def test_sick_the_rank_that_stands_elsewhere():
    [finding] = look(still(0, 3), still(1, 3), still(2, 3, phase="data_wait", line=30), end=STOPPED)
    assert finding.severity is Severity.ERROR and finding.fact("rank") == 2
    assert (finding.span.path, finding.span.line) == ("train.py", 30)
    assert "py-spy" in remedies(finding)


def test_sick_the_user_says_how_long():
    assert look(still(0, 1, seconds=30.0), end=STOPPED) == []
    [finding] = look(still(0, 1, seconds=30.0), end=STOPPED, settings={"hang_after": 20.0})
    assert "30 s" in finding.message


def test_healthy_ends():
    assert look(make_process()) == []
    assert look(still(0, 2, phase="checkpoint"), still(1, 2, phase="checkpoint"), end=STOPPED) == []
    assert look(still(0, 2), make_process(rank=1, world=2), end=STOPPED) == []  # one goes on
    with pytest.raises(Unavailable, match="no rank"):
        look(end=STOPPED, ranks=())
