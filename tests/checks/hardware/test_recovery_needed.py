import pytest

from gpudoctor.model import Absent, Severity, Unavailable
from gpudoctor.model.signs.gpu import LostGpu
from gpudoctor.testing import examine, make_gpu, make_patient, make_survey, prescribe
from gpudoctor_checks.hardware.recovery_needed import RecoveryNeeded
from gpudoctor_rules.advice import advice
from gpudoctor_rules.hardware import leave_out

OLD = Absent("this driver is too old")


def remedies(finding, patient):
    return [remedy.id for remedy in prescribe((leave_out, *advice("hardware")), finding, patient)]


@pytest.mark.parametrize(
    ("action", "severity", "remedy"),
    [(1, "error", "reset"), (2, "error", "reboot"), (3, "warning", "inspect"), (4, "error", "reset"),
     (99, "error", "reset")],
)  # fmt: skip
def test_sick_each_action_of_the_driver(action, severity, remedy):
    patient = make_patient(gpus=[make_gpu(0), make_gpu(1, recovery_action=action)])
    [finding] = examine(RecoveryNeeded, patient)
    assert finding.severity is Severity(severity) and finding.subject == "GPU 1"
    assert remedies(finding, patient) == ["GPU008-leave-out", f"GPU008-{remedy}"]


@pytest.mark.parametrize(("cause", "remedy"), [("lost", "reboot"), ("reset required", "reset"), ("unknown", "reset")])
def test_sick_a_gpu_that_does_not_answer(cause, remedy):
    survey = make_survey([make_gpu(0), make_gpu(2)], lost=(LostGpu(index=1, error="GPU is lost", cause=cause),))
    patient = make_patient(survey=survey)
    [finding] = examine(RecoveryNeeded, patient)
    assert finding.severity is Severity.ERROR and "GPU 1 " in finding.message
    away, act = prescribe((leave_out, *advice("hardware")), finding, patient)
    assert away.title == "CUDA_VISIBLE_DEVICES=0,2" and act.id == f"GPU008-{remedy}"


def test_sick_all_gpus_lost_and_a_lost_one_on_an_old_driver():
    lost = LostGpu(index=0, error="GPU is lost")
    patient = make_patient(survey=make_survey([], lost=(lost,)))
    [finding] = examine(RecoveryNeeded, patient)
    assert remedies(finding, patient) == ["GPU008-reboot"]
    assert (
        len(examine(RecoveryNeeded, make_patient(survey=make_survey([make_gpu(1, recovery_action=OLD)], lost=(lost,)))))
        == 1
    )


def test_healthy_no_action_is_asked_for():
    assert examine(RecoveryNeeded, make_patient(gpus=[make_gpu(0), make_gpu(1, recovery_action=OLD)])) == []


def test_a_driver_before_r570_cannot_tell():
    with pytest.raises(Unavailable, match="too old"):
        examine(RecoveryNeeded, make_patient(gpus=[make_gpu(0, recovery_action=OLD)]))


def test_gpus_that_the_job_leaves_out_are_notes():
    lost = (LostGpu(index=2, error="GPU is lost"),)
    survey = make_survey([make_gpu(0), make_gpu(1, recovery_action=1)], lost=lost)
    patient = make_patient(survey=survey, environment={"CUDA_VISIBLE_DEVICES": "0"})
    assert [finding.severity for finding in examine(RecoveryNeeded, patient)] == [Severity.NOTE, Severity.NOTE]
