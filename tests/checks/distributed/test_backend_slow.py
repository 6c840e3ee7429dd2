from scripts import PATIENTS, script_patient

from gpudoctor.testing import examine
from gpudoctor_checks.distributed.backend_slow import BackendSlow

FOLDER = PATIENTS / "DIST006"


def test_healthy_when_the_launch_line_says_nccl():
    assert examine(BackendSlow, script_patient(FOLDER / "sick_option.py", ["--backend", "nccl"])) == []
