from dataclasses import replace

import pytest
from looks import look_of, remedies_of
from recordings import make_process, make_steps, record

from gpudoctor.model import Severity, SourceSpan, Unavailable
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


def test_sick_stopped_while_the_others_waited_for_one():
    by_us = RunEnd(exit_code=130, stopped_by="seconds")

    def ranks(phase, seconds=12.0):
        others = [still(rank, 3, phase="collective", line=9, seconds=seconds) for rank in (0, 1)]
        return *others, still(2, 3, phase=phase, line=8, seconds=seconds)

    [finding] = look(*ranks("other"), end=by_us)
    assert finding.detail.rank == 2 and finding.span.line == 8
    assert look(*ranks("other", 8.0), end=by_us) == []
    assert look(*ranks("evaluation"), end=by_us) == []  # it works
    assert look(*ranks("collective"), end=by_us) == []  # all wait, as in a slow one
    assert look(*ranks("other"), end=RunEnd(exit_code=0)) == []


def test_sick_stopped_while_the_ranks_waited_in_different_collectives():
    by_us = RunEnd(exit_code=143, stopped_by="seconds")

    def ranks(*lines, phase="collective", seconds=40.0):
        return [still(rank, len(lines), phase=phase, line=line, seconds=seconds)
                for rank, line in enumerate(lines)]  # fmt: skip

    [finding] = look(*ranks(70, 52), end=by_us)
    assert "rank 0: step 50, in collective at train.py:70" in finding.message
    assert "rank 1: step 50, in collective at train.py:52" in finding.message
    assert look(*ranks(70, 52, 52, 70), end=by_us)  # two and two
    assert look(*ranks(52, 52), end=by_us) == []  # the same one: a slow link
    assert look(*ranks(70, 52, seconds=20.0), end=by_us) == []  # a long transfer between two
    assert look(*ranks(70, 52, phase="backward"), end=by_us) == []  # a long step: they may compute
    assert look(*ranks(70, 52), end=RunEnd(exit_code=0)) == []


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


def test_the_users_line_and_not_the_librarys():
    stack = [["/job/train.py", 7, "<module>"], ["/env/lib/python3.11/site-packages/torch/rendezvous.py", 190, "_tcp"]]
    beat = record("heartbeat", 500.0, step=0, phase="other", seconds=400.0, stack=stack)
    ranks = [make_process(make_steps(0), rank=rank, world=2, records=[beat]) for rank in (0, 1)]
    [finding] = look(*ranks, end=STOPPED)
    assert "ranks 0, 1: step 0 at train.py:7" in finding.message and "all are at the same place" in finding.message
    assert len([part for part in finding.evidence if isinstance(part, SourceSpan)]) == 1


def test_healthy_ends():
    assert look(make_process()) == []
    assert look(still(0, 2, phase="checkpoint"), still(1, 2, phase="checkpoint"), end=STOPPED) == []
    assert look(still(0, 2), make_process(rank=1, world=2), end=STOPPED) == []  # one goes on
    with pytest.raises(Unavailable, match="no rank"):
        look(end=STOPPED, ranks=())


def within(rank, *frames, phase="forward", steps=50):
    """A rank of two that stands in these frames of libraries, below the user's line."""
    stack = [["/job/train.py", 44, "step"], *[[path, 7, name] for path, name in frames]]
    beat = record("heartbeat", 500.0, step=steps, phase=phase, seconds=60.0, stack=stack)
    return make_process(make_steps(steps), rank=rank, world=2, records=[beat])


GATHER = ("/env/torch/distributed/fsdp/_flat_param.py", "_all_gather_flat_param")
SLEEP = ("/env/lib/python3.11/socket.py", "recv")


@pytest.mark.parametrize("late", [0, 1])
def test_sick_of_two_the_one_that_does_not_wait_for_the_other(late):
    """Both in a forward pass: one gathers its parameters there, the other one reads a socket."""
    ranks = [within(rank, SLEEP if rank == late else GATHER) for rank in (0, 1)]
    [finding] = look(*ranks, end=STOPPED)
    assert finding.detail.rank == late


def test_of_two_that_wait_alike_none_is_named():
    ranks = still(0, 2, phase="collective", line=9, seconds=60.0), still(1, 2, phase="backward", seconds=60.0)
    [finding] = look(*ranks, end=STOPPED)
    assert finding.detail.rank == -1
    assert "they are at different places" in finding.message


def test_a_long_silence_is_in_minutes():
    [finding] = look(still(0, 2, seconds=1800.0), still(1, 2, seconds=1804.0), end=STOPPED)
    assert "for 30 min" in finding.message
