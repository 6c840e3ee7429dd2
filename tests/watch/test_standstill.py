"""Where nothing moves, `watch` speaks of a hang and compares no paces."""

import pytest
from windows import make_rank, make_window, make_worker, report_of

from gpudoctor.model import Severity


def stood(seconds, **changes):
    return {"seconds": seconds, "still": seconds, "quiet": seconds, "cpu": 0.0, **changes}


def found(window):
    return {item.finding.code: item.finding for item in report_of(window).findings}


def apart(seconds, **changes):
    """Three ranks that save and go on, one of which is in the next step already."""
    ranks = [
        make_rank(number, 50 + number, looks={"collective@fit.py:61": 20}, **stood(seconds, **changes))
        for number in (0, 1)
    ]
    ranks.append(make_rank(2, 52, looks={"backward@fit.py:44": 20}, **stood(seconds, **changes)))
    return make_window(ranks)


@pytest.mark.parametrize(("seconds", "severity"), [(8.0, Severity.WARNING), (75.0, Severity.ERROR)])
def test_ranks_that_wait_at_different_places_hang(seconds, severity):
    said = found(apart(seconds))
    assert said["DIST008"].severity is severity and "rank 2 stands elsewhere" in said["DIST008"].message
    assert "DIST001" not in said


def test_ranks_that_move_are_compared_as_before():
    said = found(apart(75.0, still=0.4))
    assert "DIST008" not in said and "DIST001" in said


def test_one_place_for_a_short_time_is_a_slow_collective():
    ranks = [make_rank(number, 60 + number, looks={"collective@fit.py:61": 20}, **stood(8.0)) for number in (0, 1)]
    assert "DIST008" not in found(make_window(ranks))


def fed(seconds, cpu, **changes):
    workers = tuple(make_worker(pid, cpu=cpu) for pid in (71, 72))
    looks = {"data_wait@fit.py:30": 40}
    rank = make_rank(looks=looks, workers=workers, worker_looks={"other@rows.py:12": 40}, **stood(seconds, **changes))
    return found(make_window([rank]))


@pytest.mark.parametrize(("seconds", "severity"), [(8.0, Severity.WARNING), (75.0, Severity.ERROR)])
def test_workers_that_do_nothing_are_a_hang(seconds, severity):
    said = fed(seconds, 0.0)
    assert said["DATA010"].severity is severity and "2 of its 2 workers do nothing" in said["DATA010"].message
    assert "DATA001" not in said


def test_workers_that_work_are_slow():
    said = fed(8.0, 0.97)
    assert "DATA001" in said and "DATA010" not in said
    assert "DATA001" in fed(8.0, 0.0, still=0.3)  # batches come
