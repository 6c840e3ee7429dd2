from dataclasses import replace

import pytest
from looks import look_of, remedies_of
from recordings import make_process, make_steps, record

from gpudoctor.model import Severity, Unavailable
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor_checks.distributed.hang import Hang
from gpudoctor_rules.advice import advice

look, remedies = look_of(Hang), remedies_of(advice("distributed"))


STOPPED = RunEnd(exit_code=130, stopped_by="interrupt")


def still(rank, world, phase="backward", line=44, seconds=400.0, steps=50):
    beat = record("heartbeat", 500.0, step=steps, phase=phase, seconds=seconds, stack=[["/job/train.py", line, "step"]])
    return make_process(make_steps(steps), rank=rank, world=world, records=[beat])


def test_sick_the_rank_that_stands_elsewhere():
    [finding] = look(still(0, 3), still(1, 3), still(2, 3, phase="data_wait", line=30), end=STOPPED)
    assert finding.severity is Severity.ERROR and finding.detail.rank == 2
    assert (finding.span.path, finding.span.line) == ("train.py", 30)
    assert "py-spy" in remedies(finding)


def test_sick_the_user_says_how_long():
    by_itself = RunEnd(exit_code=0)
    assert look(still(0, 1, seconds=25.0), end=by_itself) == []
    [finding] = look(still(0, 1, seconds=25.0), end=by_itself, settings={"hang_after": 20.0})
    assert "25 s (step 50, in backward at train.py:44)" in finding.message


def test_healthy_ends():
    assert look(make_process()) == []
    assert look(still(0, 2, phase="checkpoint"), still(1, 2, phase="checkpoint"), end=STOPPED) == []
    assert look(still(0, 2), make_process(rank=1, world=2), end=STOPPED) == []  # one goes on
    with pytest.raises(Unavailable, match="no rank"):
        look(end=STOPPED, ranks=())


def test_of_two_that_wait_alike_none_is_named():
    ranks = still(0, 2, phase="collective", line=9, seconds=60.0), still(1, 2, phase="backward", seconds=60.0)
    [finding] = look(*ranks, end=STOPPED)
    assert finding.detail.rank == -1
    assert "they are at these places" in finding.message


def test_sick_it_is_ended_because_it_stands():
    """Ctrl-C comes last, and what it interrupts is no longer where the rank stood."""

    def ended(rank, line):
        process = still(rank, 2, line=line, seconds=20.0)
        shot = record("exception", 525.0, exception="KeyboardInterrupt", message="", user=0, phase="other",
                      frames=[["/job/train.py", 99, "train", ""]])  # fmt: skip
        return replace(process, records=(*process.records, shot))

    [finding] = look(ended(0, 44), ended(1, 30), end=STOPPED)
    assert "45 s" in finding.message and "train.py:44" in finding.message and "train.py:30" in finding.message
    assert "99" not in finding.message
    assert look(ended(0, 44), ended(1, 30), end=RunEnd(exit_code=0)) == []
