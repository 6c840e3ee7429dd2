from scripts import PATIENTS, script_patient

from gpudoctor.testing import examine
from gpudoctor_checks.observability.evaluation_too_often import EvaluationTooOften

FOLDER = PATIENTS / "OBS004"


def test_sick_at_the_users_threshold():
    patient = script_patient(FOLDER / "healthy_epoch.py")
    assert len(examine(EvaluationTooOften, patient, eval_period=1000)) == 1
