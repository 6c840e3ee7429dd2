from datetime import datetime, timezone

import pytest
from recordings import make_machine, make_process, make_recording, make_steps, site

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_patient
from gpudoctor_checks.observability.log_flush import LogFlush


@pytest.mark.parametrize(
    ("share", "others", "severity"),
    [(0.06, 0.1, Severity.WARNING), (0.06, 2.4, Severity.NOTE), (0.2, 2.4, Severity.WARNING)],
)
def test_the_price_of_flushes_beside_other_processes(share, others, severity):
    steps = make_steps(2500, logging=0.01 * share / (1 - share))
    process = make_process(steps, records=[site("logging", "os.fsync", 25.0 * share, 2500)])
    recording = make_recording(
        process,
        started=datetime.fromtimestamp(process.wall, timezone.utc).isoformat(),
        machine=make_machine(30, cpu=1.58 + others, tree_cpu=1.5),
        machine_facts={"cpus": 4, "machine_cpus": 4},
    )
    [finding] = examine(LogFlush, make_patient(recording=recording))
    assert finding.severity is severity
    assert ("other processes kept all CPUs busy" in finding.message) is (others > 1)
