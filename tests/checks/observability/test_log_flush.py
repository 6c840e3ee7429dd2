from datetime import datetime, timezone

import pytest
from recordings import make_machine, make_process, make_recording, make_steps, site
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_patient
from gpudoctor_checks.observability.log_flush import LogFlush

FOLDER = PATIENTS / "OBS007"
GUILTY = {
    "sick_fsync": (15, "sync", Severity.NOTE),
    "sick_writer": (13, "flush", Severity.NOTE),
    "sick_reopened": (13, "open", Severity.NOTE),
}


@pytest.mark.parametrize("path", sick_scripts("OBS007"), ids=lambda path: path.stem)
def test_sick_script(path):
    [finding] = examine(LogFlush, script_patient(path))
    assert (finding.span.line, finding.detail.kind, finding.severity) == GUILTY[path.stem]
    assert ("more such call" in finding.message) is (finding.detail.calls > 1)


@pytest.mark.parametrize("path", healthy_scripts("OBS007"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(LogFlush, script_patient(path)) == []


def test_sick_at_the_users_threshold():
    assert len(examine(LogFlush, script_patient(FOLDER / "healthy_seldom.py"), flush_period=200)) == 1


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
