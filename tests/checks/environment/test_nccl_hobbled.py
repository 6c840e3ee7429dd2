"""ENV012: NCCL without its fast paths."""

import pytest
from scripts import script_patient

from gpudoctor.model import Confidence, Severity
from gpudoctor.model.signs.job import Environment, Job, Profile
from gpudoctor.model.signs.packages import Distribution, Packages
from gpudoctor.testing import examine, make_gpu, make_host, make_patient, prescribe
from gpudoctor_checks.environment.nccl_hobbled import NcclHobbled
from gpudoctor_rules.advice import advice
from gpudoctor_rules.environment.host import nccl_hobbled


def gpus(number, **changes):
    return [make_gpu(index, **changes) for index in range(number)]


def packages(*names):
    found = {
        name: Distribution(name=name, version="2.27.3", requires=(), location="/env/site-packages") for name in names
    }
    return Packages(python="3.11.7", executable="/env/bin/python", prefix="/env", distributions=found)


def shell(variables, **signs):
    return make_patient(environment=variables, **signs)


NO_P2P, NO_SHM, NO_IB = {"NCCL_P2P_DISABLE": "1"}, {"NCCL_SHM_DISABLE": "1"}, {"NCCL_IB_DISABLE": "1"}
NODES = Job(profile=Profile.SLURM, nodes=4)
LIBRARY = "/opt/nccl/lib/libnccl.so.2"
SCRIPT = 'import os\nos.environ["NCCL_P2P_DISABLE"] = "1"\n'
W, N = Severity.WARNING, Severity.NOTE


def loaded(variable, value):
    environment = Environment(variables={variable: value}, shadowing=(("libnccl.so", LIBRARY),))
    return make_patient(environment=environment, packages=packages("nvidia-nccl-cu12"))


@pytest.mark.parametrize(
    ("patient", "severity", "words", "cure"),
    [
        (shell(NO_P2P, gpus=gpus(4), host=make_host()), W, "4 GPUs", "unset NCCL_P2P_DISABLE"),
        (shell(NO_P2P), N, "", "unset"),  # no GPU
        (shell(NO_P2P, gpus=gpus(1)), N, "", "unset"),
        (shell(NO_IB, gpus=gpus(8), host=make_host()), N, "", "unset"),  # no InfiniBand
        (shell(NO_IB, host=make_host(infiniband=("mlx5_0",))), W, "", "unset"),
        (shell(NO_IB, job=NODES, host=make_host()), W, "", "unset"),
        (shell({"NCCL_SOCKET_IFNAME": "docker0"}, job=NODES), Severity.ERROR, "no other node", "unset"),
        (script_patient(SCRIPT, environment={}, gpus=gpus(2)), W, "", "line 2"),
        (loaded("LD_PRELOAD", LIBRARY), W, "", "LD_PRELOAD"),
        (loaded("LD_LIBRARY_PATH", "/opt/nccl/lib"), N, "", "LD_LIBRARY_PATH"),
    ],
)  # fmt: skip
def test_sick_switches_detours_and_libraries(patient, severity, words, cure):
    [finding] = examine(NcclHobbled, patient)
    assert finding.severity is severity and words in finding.message
    assert (finding.confidence is Confidence.SUSPECTED) == (cure == "line 2")
    [remedy] = prescribe((nccl_hobbled, *advice("environment")), finding, patient)
    assert cure in remedy.title + remedy.steps[0]


@pytest.mark.parametrize(
    "patient",
    [
        make_patient(environment={}, gpus=gpus(8), host=make_host()),  # clean
        make_patient(environment={"NCCL_P2P_DISABLE": "0", "NCCL_IB_DISABLE": ""}, gpus=gpus(8)),  # off
        make_patient(environment={"NCCL_P2P_LEVEL": "NVL", "NCCL_NET": "IB"}, gpus=gpus(8)),  # levels that are fine
        make_patient(environment={}, packages=packages("torch", "nvidia-nccl-cu12", "nvidia-cublas-cu12")),  # one NCCL
        make_patient(
            environment=Environment(
                variables={"LD_LIBRARY_PATH": "/l"}, shadowing=(("libnccl.so", "/l/libnccl.so.2"),)
            ),
            packages=packages("torch"),
        ),  # the system's own NCCL
        script_patient(
            'import os\nos.environ["NCCL_P2P_DISABLE"] = "0"\n', environment={"NCCL_P2P_DISABLE": "1"}
        ),  # the script turns it on again
    ],
)
def test_healthy(patient):
    assert examine(NcclHobbled, patient) == []
