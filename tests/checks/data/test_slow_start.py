from scripts import PATIENTS, script_patient

from gpudoctor.model import Applicability
from gpudoctor.testing import examine, make_host, prescribe
from gpudoctor_checks.data.slow_start import SlowStart
from gpudoctor_rules.data.items import slow_start

FOLDER = PATIENTS / "DATA012"


def test_the_rule_names_processes_for_this_machine():
    patient = script_patient(FOLDER / "sick_one_by_one.py", host=make_host(cpus_affinity=12))
    [finding] = examine(SlowStart, patient)
    [remedy] = prescribe(slow_start, finding, patient)
    assert (remedy.title, remedy.applicability) == ("num_proc=12", Applicability.DISPLAY_ONLY)
