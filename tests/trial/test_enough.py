"""When the first run has shown enough."""

from types import SimpleNamespace

import pytest
from recordings import HEALTHY, make_process, make_recording, make_steps, record, write_recording

from gpudoctor.trial.session import TrialSession

MIB = 1 << 20


@pytest.mark.parametrize(
    ("steps", "grows", "enough"),
    [
        (30, 0.0, False),  # too few steps
        (120, 0.0, True),
        (120, 0.1 * MIB, False),  # 10 MiB so far: a cache that fills up, or a leak
        (300, 0.1 * MIB, True),  # long enough, whatever it is
    ],
)
def test_a_run_goes_on_while_memory_grows(tmp_path, steps, grows, enough):
    table = make_steps(steps, rss=lambda i: 300 * MIB + grows * i, other=0.1 - sum(HEALTHY.values()))
    write_recording(make_recording(make_process(table)), tmp_path / "run")
    session = TrialSession(bench=SimpleNamespace(), budget=600.0)
    assert session.enough(tmp_path / "run", 30.0) is enough
    # A fifth of the budget is all that the first run may take.
    assert session.enough(tmp_path / "run", 121.0) is True


def test_with_unsafe_a_run_with_a_schedule_goes_on_for_what_only_its_end_shows(tmp_path):
    process = make_process(make_steps(120, other=0.1 - sum(HEALTHY.values())), records=[record("schedule")])
    write_recording(make_recording(process), tmp_path / "run")
    for unsafe, seconds, enough in ((False, 30.0, True), (True, 30.0, False), (True, 121.0, True)):
        session = TrialSession(bench=SimpleNamespace(), budget=600.0, unsafe=unsafe)
        assert session.enough(tmp_path / "run", seconds) is enough
