"""`--hang-after`: whether a run stands still, and where."""

from recordings import make_process, make_recording, make_steps, record, write_recording

from gpudoctor.cli.run import hang_text
from gpudoctor.recorder.live_ranks import HangWatch, Now, RankNow, RankStanding, standings


def test_a_hang_is_told_once_with_where_everybody_stands(tmp_path):
    stack = [["/job/train.py", 88, "train"], ["/job/dist.py", 7, "all_reduce"]]
    ranks = [
        make_process(
            make_steps(12),
            rank=rank,
            world=4,
            clean=False,
            records=[
                record(
                    "heartbeat", 60.0, step=12, phase="data_wait", seconds=40.0, stack=[["/job/data.py", 31, "load"]]
                )
                if rank == 2
                else record("heartbeat", 60.0, step=12, phase="collective", seconds=40.0, stack=stack)
            ],
        )
        for rank in range(4)
    ]
    folder = write_recording(make_recording(*ranks, end=None), tmp_path / "rec")
    stand = standings(folder)
    assert stand[0] == RankStanding(ranks=(2,), step=12, phase="data_wait", place="load (/job/data.py:31)")
    assert stand[1].ranks == (0, 1, 3)
    text = hang_text(42.0, stand)
    assert "no step has ended for 42 s" in text
    assert "rank 2: 12 steps done, in data wait, load (/job/data.py:31)" in text
    assert "ranks 0, 1, 3: 12 steps done, in collective, all_reduce (/job/dist.py:7)" in text
    watch = HangWatch(folder, 30.0)

    def now(step: int, age: float) -> Now:
        return Now(ranks=(RankNow(rank=0, pid=1, step=step, seconds=0.1, age=age),))

    assert watch.look(now(12, 5.0), 50.0) is None
    assert watch.look(now(12, 31.0), 80.0) is not None
    assert watch.look(now(12, 90.0), 140.0) is None  # told already
    assert watch.look(now(13, 0.5), 150.0) is None
    assert watch.look(now(13, 31.0), 190.0) is not None  # another one


def test_a_heartbeat_from_before_the_last_step_says_not_where_a_rank_stands(tmp_path):
    early = record("heartbeat", 11.0, step=0, phase="other", seconds=11.0, stack=[["/job/train.py", 1, "load"]])
    moved = make_process(make_steps(12), clean=False, records=[early])
    folder = write_recording(make_recording(moved, end=None), tmp_path / "rec")
    assert standings(folder) == [RankStanding(ranks=(0,), step=12, phase="", place="")]


def test_a_hang_before_the_first_step_is_seen_too(tmp_path):
    watch = HangWatch(tmp_path, 30.0)
    assert watch.look(Now(ranks=()), 100.0) is None  # nobody has reported: torch is not even imported
    (tmp_path / "rank-0-1.gdr").write_bytes(b"")
    assert watch.look(Now(ranks=()), 101.0) is None
    assert watch.look(Now(ranks=()), 140.0) is not None
