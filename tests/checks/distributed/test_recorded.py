"""Checks of ranks on recordings."""

from dataclasses import replace

import pytest
from looks import look, remedies
from recordings import lines, make_process, make_recording, make_steps, record

from gpudoctor.model import Severity, Unavailable
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.distributed.communication_bound import CommunicationBound
from gpudoctor_checks.distributed.find_unused import FindUnused
from gpudoctor_checks.distributed.hang import Hang
from gpudoctor_checks.distributed.rank_memory_skew import RankMemorySkew
from gpudoctor_checks.distributed.straggler import StragglingRank
from gpudoctor_rules.distributed import find_unused


def job(*columns):
    """Two ranks or more with these columns."""
    return look(
        CommunicationBound,
        *(make_process(make_steps(200, seed=r, **c), rank=r, world=len(columns)) for r, c in enumerate(columns)),
    )


def test_sick_collectives_that_nothing_hides():
    [finding] = job({"device_collective": 0.004}, {"device_collective": 0.004})
    assert finding.severity is Severity.WARNING and "40 %" in finding.message
    assert "no_sync" in remedies(finding)


def test_healthy_collectives():
    assert job({"device_collective": 0.0005}, {"device_collective": 0.0005}) == []


def test_healthy_waiting_for_a_straggler_is_the_stragglers():
    assert job({"device_collective": 0.006, "backward": 0.011}, {"device_collective": 0.0, "data_wait": 0.0062}) == []


def test_healthy_ranks_that_are_late_in_turn_and_few_steps():
    """Each waits for the other, and there are too few steps to name one: nobody waits for the network."""
    turns = [0.008 * (i % 2) for i in range(200)]
    assert (
        job(
            *(
                {"device_collective": [t if r else 0.008 - t for t in turns], "device_busy": 0.01, "device_idle": 0.0}
                for r in range(2)
            )
        )
        == []
    )
    one = [
        make_process(make_steps(60, device_collective=0.008 * r, device_busy=0.01, device_idle=0.0), rank=r, world=2)
        for r in range(2)
    ]
    assert look(CommunicationBound, *one) == []


def test_what_is_needed():
    with pytest.raises(Unavailable, match="one rank"):
        look(CommunicationBound, make_process())
    with pytest.raises(Unavailable, match="device times"):
        job({}, {})


def recorded(**told):
    model = record("model", name="Net", parameters=100, trainable=100, dtypes={"float32": 100}, device="cuda:0",
                   wrapped="DDP", path="/job/train.py", line=17)  # fmt: skip
    process = make_process(make_steps(200), records=[record("torch", version="2.9", **told), model])
    return make_patient(recording=make_recording(process))


def test_sick_a_run_that_used_every_parameter():
    patient = recorded(find_unused=True, unused=False)
    [finding] = examine(FindUnused, patient)
    assert finding.severity is Severity.NOTE and finding.span.line == 17
    [remedy] = prescribe(find_unused, finding, patient)
    assert remedy.title == "find_unused_parameters=False"


@pytest.mark.parametrize("told", [{}, {"find_unused": False}, {"find_unused": True, "unused": True}])
def test_healthy_runs(told):
    assert examine(FindUnused, recorded(**told)) == []


STOPPED = RunEnd(exit_code=130, stopped_by="interrupt")


def still(rank, world, phase="backward", line=44, seconds=400.0, steps=50):
    beat = record("heartbeat", 500.0, step=steps, phase=phase, seconds=seconds, stack=[["/job/train.py", line, "step"]])
    return make_process(make_steps(steps), rank=rank, world=world, records=[beat])


def test_sick_the_rank_that_stands_elsewhere():
    [finding] = look(Hang, still(0, 3), still(1, 3), still(2, 3, phase="data_wait", line=30), end=STOPPED)
    assert finding.severity is Severity.ERROR and finding.detail.rank == 2
    assert (finding.span.path, finding.span.line) == ("train.py", 30)
    assert "py-spy" in remedies(finding)


def test_sick_the_user_says_how_long():
    by_itself = RunEnd(exit_code=0)
    assert look(Hang, still(0, 1, seconds=25.0), end=by_itself) == []
    [finding] = look(Hang, still(0, 1, seconds=25.0), end=by_itself, settings={"hang_after": 20.0})
    assert "25 s (step 50, in backward at train.py:44)" in finding.message


def test_healthy_ends():
    assert look(Hang, make_process()) == []
    assert look(Hang, still(0, 2, phase="checkpoint"), still(1, 2, phase="checkpoint"), end=STOPPED) == []
    assert look(Hang, still(0, 2), make_process(rank=1, world=2), end=STOPPED) == []  # one goes on
    with pytest.raises(Unavailable, match="no rank"):
        look(Hang, end=STOPPED, ranks=())


def test_of_two_that_wait_alike_none_is_named():
    ranks = still(0, 2, phase="collective", line=9, seconds=60.0), still(1, 2, phase="backward", seconds=60.0)
    [finding] = look(Hang, *ranks, end=STOPPED)
    assert finding.detail.rank == -1
    assert "they are at these places" in finding.message


def test_sick_it_is_ended_because_it_stands():
    """Ctrl-C comes last, and what it interrupts is no longer where the rank stood."""

    def ended(rank, line):
        process = still(rank, 2, line=line, seconds=20.0)
        shot = record("exception", 525.0, exception="KeyboardInterrupt", message="", user=0, phase="other",
                      frames=[["/job/train.py", 99, "train", ""]])  # fmt: skip
        return replace(process, records=(*process.records, shot))

    [finding] = look(Hang, ended(0, 44), ended(1, 30), end=STOPPED)
    assert "45 s" in finding.message and "train.py:44" in finding.message and "train.py:30" in finding.message
    assert "99" not in finding.message
    assert look(Hang, ended(0, 44), ended(1, 30), end=RunEnd(exit_code=0)) == []


CARD = record("torch", 1.0, version="2.9", device="NVIDIA H100", device_bytes=80 * 2**30)
GIB = float(1 << 30)


def peaks_of(*peaks):
    """Ranks with these peaks in GiB."""
    return look(
        RankMemorySkew,
        *(
            make_process(make_steps(50, peak=peak * GIB), rank=rank, world=len(peaks), records=[CARD])
            for rank, peak in enumerate(peaks)
        ),
    )


def test_sick_all_on_the_first_card():
    [finding] = peaks_of(60, 40, 40, 40)
    assert finding.detail.rank == 0 and "50 % more" in finding.message
    assert "set_device" in remedies(finding)


def test_healthy_ranks():
    assert peaks_of(42, 40, 40, 40) == []
    assert peaks_of(3, 1, 1, 1) == []
    with pytest.raises(Unavailable):
        look(RankMemorySkew, make_process())


def ranks_of(*columns, records=None, steps=200):
    """Ranks with these columns."""
    return look(StragglingRank,
        *(
            make_process(make_steps(steps, seed=rank, **given), rank=rank, world=len(columns),
                         records=(records or {}).get(rank, ()))
            for rank, given in enumerate(columns)
        )
    )  # fmt: skip


def test_sick_a_rank_with_slow_data():
    seen = lines(("data_wait", "/job/data.py", 9, "decode", 60), ("forward", "/job/net.py", 3, "f", 40))
    same = lines(("data_wait", "/job/data.py", 9, "decode", 2), ("forward", "/job/net.py", 3, "f", 98))
    columns = [{"backward": 0.011}, {"data_wait": 0.0062}, {"backward": 0.011}]
    [finding] = ranks_of(*columns, records={0: [same], 1: [seen], 2: [same]})
    assert finding.severity is Severity.WARNING
    assert (finding.detail.rank, finding.detail.part) == (1, "data_wait")
    assert (finding.span.path, finding.span.line) == ("data.py", 9)
    assert "rank 1" in remedies(finding)


def test_sick_a_cause_that_covers_too_little_is_not_named():
    [finding] = ranks_of({"backward": 0.011}, {"data_wait": 0.0032, "forward": 0.006}, {"backward": 0.011})
    assert finding.detail.part == "" and finding.span is None


def test_healthy_ranks_in_step():
    assert ranks_of({}, {}, {}) == []
    assert ranks_of({"backward": 0.0058}, {"data_wait": 0.0010}) == []  # under a millisecond


def test_what_a_straggler_needs():
    with pytest.raises(Unavailable, match="one rank"):
        look(StragglingRank, make_process())
    with pytest.raises(Unavailable, match="100 are needed"):
        ranks_of({}, {}, steps=60)
