"""What a report costs: calls, counted, grow no faster than the recording does."""

import sys
from collections.abc import Callable

from recordings import lines, make_process, make_recording, make_steps, site, write_recording

from gpudoctor.engine.comparison import compare
from gpudoctor.engine.examination import Request, examine
from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.selection import make_selection
from gpudoctor.model.signs.recording import Recording
from gpudoctor.report import render
from gpudoctor.ui.console.text_report import render_text
from gpudoctor.vitals.build_recorded_patient import admit_recording
from gpudoctor.vitals.recording.reader import read_recording

LINEAR = 2.6
"""Of a recording twice as large: the growth doubles where the cost is linear, and is four times it by squares."""


def calls(work: Callable[[], object]) -> int:
    """Calls that work makes, of functions in Python and in C."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def everything(path: str) -> Callable[[], object]:
    """All that `report` and `compare` do with a recording."""
    registry = load_registry()
    request = Request(registry=registry, selection=make_selection(registry, [], []))

    def work() -> object:
        recording = read_recording(path)
        report = examine(admit_recording(recording, [path]), request)
        drawn = [render(report, name) for name in ("json", "html")]
        drawn.append(render_text(report, width=100, colour=False, verbose=True))
        return drawn, compare(recording, recording, (report, report))

    return work


def growth(tmp_path: object, make: Callable[[int], Recording], sizes: tuple[int, int, int]) -> float:
    """By how many times the cost grows more from the second size to the third than from the first to the second."""
    costs = []
    for size in sizes:
        folder = write_recording(make(size), tmp_path / str(size))  # type: ignore[operator]
        work = everything(str(folder))
        costs.append(calls(work))
    return (costs[2] - costs[1]) / max(1, costs[1] - costs[0])


def test_ranks_cost_no_more_than_their_number(tmp_path):
    everything(str(write_recording(make_recording(make_process()), tmp_path / "first")))()  # what is made once

    def make(ranks: int) -> Recording:
        seen = [site("sync", "Tensor.item", 1.0, 30), lines(("forward", "/job/train.py", 7, "train", 30))]
        return make_recording(
            *(make_process(make_steps(30), records=seen, rank=rank, world=ranks) for rank in range(ranks))
        )

    assert growth(tmp_path, make, (2, 4, 8)) < LINEAR
