import pytest
from scripts import script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.model.signs.job import Job, Profile
from gpudoctor.testing import examine
from gpudoctor_checks.loop.sigterm_unhandled import SigtermUnhandled


def job(text="#SBATCH --time=24:00:00\npython train.py\n", **fields):
    fields = {"profile": Profile.SLURM, "time_limit": 86400.0, **fields}
    return Job(script_path="job.sbatch", script_text=text, **fields)


[SICK] = sick_scripts("LOOP010")


@pytest.mark.parametrize(
    "one",
    [
        job(),
        job(text="#SBATCH --requeue\n", time_limit=None, preemptible=True),
        job(text="activeDeadlineSeconds: 86400\n", profile=Profile.KUBERNETES),
    ],
    ids=["slurm", "preemptible", "kubernetes"],
)
def test_sick_jobs(one):
    [finding] = examine(SigtermUnhandled, script_patient(SICK, job=one))
    assert finding.severity is Severity.NOTE
    assert finding.evidence[0].path == "job.sbatch"


@pytest.mark.parametrize(
    "one",
    [
        job(signal="B:USR1@120"),
        job(text="trap 'kill -TERM $pid' TERM\n"),
        job(time_limit=600.0),
        job(time_limit=None),
        job(time_limit=None, preemptible=False),
    ],
    ids=["signal", "trap", "short", "unlimited", "no requeue"],
)
def test_healthy_jobs(one):
    assert examine(SigtermUnhandled, script_patient(SICK, job=one)) == []
