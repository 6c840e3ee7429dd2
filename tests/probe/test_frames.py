"""Files of frames as the probe writes them: whole after any death, bounded, and never an error."""

import os

import frames
import pytest

from gpudoctor.probe.recording_file import LIMITS, FrameFile
from gpudoctor.probe.table import AT, EMPTY, FULL_ROWS, MERGED_ROWS, WIDTH, StepTable
from gpudoctor.probe.wire.steps import COLUMNS


def row(index: int, **values: float) -> list[float]:
    made = list(EMPTY[:WIDTH])
    made[AT["index"]] = index
    made[AT["count"]] = 1
    for name, value in values.items():
        made[AT[name]] = value
    return made


def test_records_of_a_type_are_bounded_and_what_is_dropped_is_counted(tmp_path):
    file = FrameFile(str(tmp_path / "rank-0-1.gdr"))
    for number in range(LIMITS["exception"] + 3):
        file.record("exception", number, {})
    assert len(frames.Told(tmp_path / "rank-0-1.gdr").of("exception")) == LIMITS["exception"]
    assert file.dropped == {"exception": 3}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_ends_the_writing_only():
    file = FrameFile("/dev/full")
    file.record("start", 0.0, {})
    assert file.broken


def test_a_long_run_is_merged_into_a_bounded_table():
    steps = StepTable()
    total = 0
    columns: list[list[float]] = [[] for _ in COLUMNS]
    while total < 40_000:
        total += (count := steps.room)
        steps.push(row(total - 1, count=count, duration=0.5 * count, t=total))
    for kept, block in zip(columns, steps.take(everything=True), strict=True):
        kept += block
    counts = columns[AT["count"]]
    assert sum(counts) == total
    assert counts[FULL_ROWS - 1] == 1
    assert counts[FULL_ROWS] == 2
    assert counts[FULL_ROWS + MERGED_ROWS] == 4
    assert sum(columns[AT["duration"]]) == pytest.approx(total / 2)
    assert columns[AT["index"]][-1] == total - 1
    assert columns[AT["index"]] == sorted(columns[AT["index"]])
