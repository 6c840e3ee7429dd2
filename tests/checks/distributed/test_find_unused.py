import pytest
from recordings import make_process, make_recording, make_steps, record

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.distributed.find_unused import FindUnused
from gpudoctor_rules.distributed import find_unused


def recorded(**told):
    model = record("model", name="Net", parameters=100, trainable=100, dtypes={"float32": 100}, device="cuda:0",
                   wrapped="DDP", path="/job/train.py", line=17)  # fmt: skip
    process = make_process(make_steps(200), records=[record("torch", version="2.9", **told), model])
    return make_patient(recording=make_recording(process))


def test_sick_a_run_that_used_every_parameter():
    patient = recorded(find_unused=True, unused=False)
    [finding] = examine(FindUnused, patient)
    assert finding.severity is Severity.NOTE and finding.span.line == 17
    [remedy] = prescribe(find_unused, finding, patient)
    assert remedy.title == "find_unused_parameters=False"


@pytest.mark.parametrize("told", [{}, {"find_unused": False}, {"find_unused": True, "unused": True}])
def test_healthy_runs(told):
    assert examine(FindUnused, recorded(**told)) == []
