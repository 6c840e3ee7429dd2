"""When the first run has shown enough."""

from types import SimpleNamespace

import pytest
from recordings import HEALTHY, make_process, make_recording, make_steps, write_recording

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
