from scripts import PATIENTS, script_patient

from gpudoctor.testing import examine
from gpudoctor_checks.sync.explicit_synchronize import ExplicitSynchronize

FOLDER = PATIENTS / "SYNC003"


def test_sick_at_the_users_threshold():
    patient = script_patient(FOLDER / "healthy_period.py")
    assert len(examine(ExplicitSynchronize, patient, period=200)) == 1
