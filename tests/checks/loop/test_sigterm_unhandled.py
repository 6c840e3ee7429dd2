import pytest
from scripts import healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.model.signs.job import Job, Profile
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.loop.sigterm_unhandled import SigtermUnhandled
from gpudoctor_rules.advice import advice


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


@pytest.mark.parametrize("path", healthy_scripts("LOOP010"), ids=lambda path: path.stem)
def test_healthy_scripts(path):
    assert examine(SigtermUnhandled, script_patient(path, job=job())) == []


@pytest.mark.parametrize(
    ("one", "wanted"),
    [
        (job(text="#SBATCH --time=1-0\nsrun python train.py\n"), "#SBATCH --signal=USR1@300"),
        (job(), "#SBATCH --signal=B:USR1@300"),
        (job(profile=Profile.KUBERNETES), "terminationGracePeriodSeconds: 300  # in the pod"),
    ],
)
def test_the_rule_fits_the_launch(one, wanted):
    patient = script_patient(SICK, job=one)
    [remedy] = prescribe(advice("loop"), examine(SigtermUnhandled, patient)[0], patient)
    assert wanted in remedy.steps
    assert any("signal.signal(" in step for step in remedy.steps)
