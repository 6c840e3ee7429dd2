import pytest
from scripts import script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.model.signs.job import Job, Launch, Profile
from gpudoctor.testing import examine
from gpudoctor_checks.loop.no_checkpoint import NoCheckpoint

PREEMPTED = Job(profile=Profile.SLURM, preemptible=True, script_path="job.sbatch", script_text="#SBATCH --requeue\n")


def sick(name):
    return next(path for path in sick_scripts("LOOP009") if path.stem == name)


@pytest.mark.parametrize("name", ["sick_nothing", "sick_weights_only", "sick_trainer_off"])
def test_sick_when_preemptible(name):
    [finding] = examine(NoCheckpoint, script_patient(sick(name), job=PREEMPTED))
    assert finding.severity is Severity.NOTE


def test_healthy_when_the_job_launches_another_program():
    job = Job(
        profile=Profile.SLURM, time_limit=9e4, script_path="j", launches=(launch("other.py"), launch("evaluate.py"))
    )
    source = script_patient(sick("sick_nothing")).source
    assert source.trains
    [finding] = examine(NoCheckpoint, script_patient(sick("sick_nothing"), job=job))  # it is the only one
    assert finding.severity is Severity.NOTE


def launch(script):
    return Launch(launcher="python", script=script, module=None, arguments=(), ranks_per_node=None, nodes=None)
