"""What the checks find in a window of a watched job, and what they leave alone."""

import math
from dataclasses import replace

import pytest
from windows import GIB, T0, make_gpu_window, make_rank, make_window, make_worker, report_of, series

from gpudoctor.analysis.live.growth import growing
from gpudoctor.model import Severity, Skipped
from gpudoctor.model.signs.process import DeviceEvent, Frame, LiveSteps, LostWorker

MIB = 1 << 20


def findings(window):
    return {item.finding.code: item.finding for item in report_of(window).findings}


def verdict(window):
    return report_of(window).summary.verdict


def reasons(window):
    return {
        item.code: item.reason
        for item in report_of(window).outcomes
        if isinstance(item, Skipped) and not item.deselected
    }


def job(looks, gpu_busy=None, **changes):
    gpus = [make_gpu_window(busy=gpu_busy)] if gpu_busy is not None else []
    return make_window([make_rank(looks=looks, gpus=(0,) if gpus else (), **changes)], gpus)


def test_a_healthy_job_has_no_finding_and_says_its_margins():
    window = job({"forward": 35, "backward": 50, "optimizer": 12, "data_wait": 3}, gpu_busy=0.95)
    assert findings(window) == {}
    assert verdict(window) == (
        "Little time is lost outside computation: data wait 3 %, other 0 %; the possible speedup there is at "
        "most 1.03x. Loss, gradients, labels, schedule and resume were not judged."
    )


def test_too_few_samples_are_no_verdict():
    window = job({"data_wait": 12})
    assert findings(window) == {}
    assert verdict(window).startswith("Sampling: 12 of 30 stack samples so far")
    assert reasons(window)["DATA001"] == "12 of 30 stack samples so far"


def test_waiting_for_a_loader_in_the_process_itself():
    looks = {"data_wait/loader-inline@data.py:31 __getitem__": 58, "forward": 20, "backward": 22}
    found = findings(job(looks, gpu_busy=0.3))
    loader = found["DATA001"]
    assert loader.severity is Severity.WARNING and loader.cost.step_share == pytest.approx(0.58)
    assert "58 % of 100 stack samples" in loader.message
    assert "makes every item itself in __getitem__ (data.py:31)" in loader.message
    assert loader.span.path == "/job/data.py" and loader.span.line == 31
    assert found["GPU001"].severity is Severity.NOTE and "waiting for data (58 %)" in found["GPU001"].message


def test_waiting_for_workers_that_are_busy_names_their_line():
    rank = make_rank(
        looks={"data_wait/loader-wait": 60, "backward": 40},
        worker_looks={"data_wait/loader-inline@data.py:40 decode": 18, "other/library": 4},
        workers=tuple(make_worker(pid, cpu=0.98, state="R") for pid in (1, 2, 3, 4)),
    )
    found = findings(make_window([rank]))
    assert "4 workers make the items, busy for 98 % in decode (data.py:40)" in found["DATA001"].message
    assert found["DATA001"].detail.workers == 4


def test_reads_of_tensors_count_only_where_the_device_idles():
    looks = {"sync/read@train.py:88": 45, "forward": 30, "backward": 25}
    texts = {"sync/read@train.py:88": "total += loss.item()"}
    found = findings(job(looks, gpu_busy=0.5, texts=texts))["SYNC001"]
    assert (
        found.severity is Severity.WARNING
        and "main (train.py:88)" in found.message
        and "busy for 50 %" in found.message
    )
    assert found.span.text == "total += loss.item()"
    assert "SYNC001" not in findings(job(looks, gpu_busy=0.97))


@pytest.mark.parametrize(
    ("look", "code"),
    [
        ("logging/tracker@train.py:40", "OBS002"),
        ("profiler/profile", "OBS001"),
        ("profiler/flops", "OBS001"),
        ("other/metric@train.py:50", "SYNC004"),
        ("other/user@train.py:60 fiddle", "PERF014"),
    ],
)
def test_what_the_loop_pays_beside_training(look, code):
    share = 40 if code == "PERF014" else 12
    window = job({look: share, "forward": 30, "backward": 70 - share})
    found = findings(window)[code]
    assert found.severity is Severity.WARNING and found.cost.step_share == pytest.approx(share / 100)
    assert code not in findings(job({look: 1, "forward": 50, "backward": 49}))


def test_saves_must_recur_before_their_period_is_known():
    seldom = make_rank(looks={"checkpoint@train.py:9": 12, "backward": 88})
    trail = tuple((T0 - 100 + i, "checkpoint" if i < 12 else "backward") for i in range(100))
    assert "OBS003" not in findings(make_window([replace(seldom, trail=trail)]))
    often = tuple((T0 - 100 + i, "checkpoint" if i % 25 < 3 else "backward") for i in range(100))
    found = findings(make_window([replace(seldom, trail=often)]))["OBS003"]
    assert found.message == (
        "Saving takes 12 % of 100 stack samples, every 25 s in main (train.py:9), by library.checkpoint."
    )
    assert found.span.line == 9 and found.cost.step_share == pytest.approx(0.12)


@pytest.mark.parametrize(
    "values",
    [
        [3 * GIB] * 120,
        [3 * GIB + (1 - math.exp(-i / 15)) * GIB for i in range(120)],  # a cache that fills and comes to rest
        [3 * GIB + (i % 12) * 40 * MIB for i in range(120)],  # a batch more or less
        [3 * GIB + 400 * MIB * (i > 40) for i in range(120)],  # one step up
        [3 * GIB + i * 20 * MIB for i in range(20)],  # too short
    ],
    ids=["flat", "saturating", "sawtooth", "one step", "short"],
)
def test_memory_that_is_no_leak(values):
    assert "MEM002" not in findings(make_window([make_rank(tree_rss=series(values))]))


def test_device_memory_that_grows_is_held_against_its_card():
    rank = make_rank(gpus=(0,), device_memory=series([40 * GIB + i * 100 * MIB for i in range(120)]))
    window = make_window([rank], [make_gpu_window(memory=series([52.0 * GIB] * 60))])
    found = findings(window)["MEM001"]
    assert found.severity is Severity.ERROR and "device memory" in found.message and "is full in" in found.message
    assert growing(rank, rank.device_memory).full_in(80 * GIB) == pytest.approx(
        (80 - 51.6) * GIB / (100 * MIB), rel=0.05
    )


def test_a_worker_that_died_and_a_batch_that_does_not_come():
    died = make_rank(workers=(make_worker(2),), lost_workers=(LostWorker(pid=9, t=50.0),))
    found = findings(make_window([died]))["DATA010"]
    assert found.severity is Severity.ERROR and "pid 9" in found.message
    stuck = make_rank(looks={"data_wait/loader-wait": 60}, still=75.0, workers=(make_worker(2, cpu=0.0),), cpu=0.0)
    found = findings(make_window([stuck]))
    assert "waiting for one batch for 75 s; 1 of its 1 workers do nothing" in found["DATA010"].message
    assert "DIST008" not in found


def rank_of(number, place, still=90.0, **changes):
    return make_rank(
        number, 5000 + number, looks={place: 20}, still=still, cpu=0.0,
        stack=(Frame(name="main", path="/job/train.py", line=number),), **changes,
    )  # fmt: skip


def test_ranks_that_hang_are_merged_and_the_odd_one_named():
    ranks = [rank_of(i, "collective@train.py:44") for i in range(7)]
    ranks.append(rank_of(7, "data_wait/loader-inline@data.py:31 __getitem__"))
    found = findings(make_window(ranks))["DIST008"]
    assert found.severity is Severity.ERROR and found.detail.rank == 7
    assert "No other line was seen for 90 s on any rank; rank 7 stands elsewhere" in found.message
    assert "ranks 0-6 in library.collective at main (train.py:44)" in found.message
    assert "rank 7 in library.data_wait at __getitem__ (data.py:31)" in found.message


def test_what_stands_still_and_is_no_hang():
    moving = [rank_of(0, "collective"), rank_of(1, "backward", still=2.0)]
    assert "DIST008" not in findings(make_window(moving))
    saving = [rank_of(0, "checkpoint"), rank_of(1, "checkpoint")]
    assert "DIST008" not in findings(make_window(saving))
    slow = LiveSteps(step=3, seconds=30.0, phases={"backward": 1.0})
    assert "DIST008" not in findings(make_window([rank_of(0, "backward", steps=slow)]))
    computing = make_rank(looks={"backward": 60}, still=90.0, cpu=0.98)
    assert "DIST008" not in findings(make_window([computing]))
    working = make_window(
        [make_rank(looks={"sync/read": 60}, still=90.0, cpu=0.0, gpus=(0,))], [make_gpu_window(busy=0.9)]
    )
    assert "DIST008" not in findings(working)


def test_a_loop_that_mostly_sleeps_on_one_line_is_no_hang():
    """Movement is steps, CPU time and bytes, not another line."""
    by_cpu = rank_of(0, "other@train.py:12", still=94.0, quiet=0.5)
    by_steps = rank_of(0, "other@train.py:12", still=94.0, quiet=94.0, stepless=0.5)
    fed = make_rank(looks={"data_wait/loader-wait": 60}, still=94.0, quiet=1.0, cpu=0.001)
    for rank in (by_cpu, by_steps, fed):
        window = make_window([rank])
        assert not {"DIST008", "DATA010"} & findings(window).keys()
        assert "was seen for" not in verdict(window)


def test_a_straggler_is_the_rank_that_does_not_wait():
    ranks = [make_rank(i, 5000 + i, looks={"collective": 12, "forward": 8, "backward": 20}) for i in range(3)]
    ranks.append(
        make_rank(3, 5003, looks={"data_wait/loader-inline@data.py:31 __getitem__": 14, "forward": 8, "backward": 18})
    )
    found = findings(make_window(ranks))["DIST001"]
    assert found.detail.rank == 3 and found.detail.part == "data_wait"
    assert "Rank 3 makes the others wait, 30 % of their time" in found.message
    assert "data wait in __getitem__ (data.py:31)" in found.message
    even = [make_rank(i, 5000 + i, looks={"collective": 4, "forward": 16, "backward": 20}) for i in range(4)]
    assert "DIST001" not in findings(make_window(even))


def test_an_error_event_of_the_driver_while_we_watched():
    event = DeviceEvent(t=40.0, gpu=0, kind="xid", number=79, pci_address="00000000:1B:00.0")
    found = findings(make_window([make_rank(gpus=(0,))], [make_gpu_window()], events=(event,)))["GPU004"]
    assert found.severity is Severity.ERROR and "Xid 79" in found.message and "1 min ago" in found.message
