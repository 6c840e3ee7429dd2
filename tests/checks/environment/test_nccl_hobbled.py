"""ENV012: NCCL without its fast paths."""

import pytest
from scripts import script_patient

from gpudoctor.model import Absent, Confidence, Severity
from gpudoctor.model.signs.gpu import NvLink
from gpudoctor.model.signs.job import Environment, Job, Profile
from gpudoctor.model.signs.packages import Distribution, Packages, TorchBuild
from gpudoctor.testing import examine, make_gpu, make_host, make_patient, make_survey, prescribe
from gpudoctor_checks.environment.nccl_hobbled import NcclHobbled
from gpudoctor_rules.advice import advice
from gpudoctor_rules.environment.host import nccl_hobbled

ABSENT = Absent("not asked")
LINK = NvLink(index=0, active=True, crc_errors=ABSENT, replay_errors=ABSENT, recovery_errors=ABSENT)


def gpus(number, **changes):
    return [make_gpu(index, **changes) for index in range(number)]


def packages(*names):
    found = {
        name: Distribution(name=name, version="2.27.3", requires=(), location="/env/site-packages") for name in names
    }
    return Packages(python="3.11.7", executable="/env/bin/python", prefix="/env", distributions=found)


@pytest.mark.parametrize("name", ["NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"])
def test_sick_switched_off_with_several_gpus(name):
    patient = make_patient(environment={name: "1"}, gpus=gpus(4), host=make_host())
    [finding] = examine(NcclHobbled, patient)
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.CONFIRMED)
    assert "4 GPUs" in finding.message
    [remedy] = prescribe((nccl_hobbled, *advice("environment")), finding, patient)
    assert remedy.steps[0] == f"unset {name}"


@pytest.mark.parametrize(
    "patient",
    [
        make_patient(environment={"NCCL_P2P_DISABLE": "1"}),  # no GPU
        make_patient(environment={"NCCL_P2P_DISABLE": "1"}, gpus=gpus(1)),  # one GPU
        make_patient(environment={"NCCL_IB_DISABLE": "1"}, gpus=gpus(8), host=make_host()),  # no InfiniBand
        make_patient(
            environment={"NCCL_P2P_DISABLE": "1"}, survey=make_survey(gpus(2), p2p_blocked=((0, 1), (1, 0)))
        ),  # no peer access
    ],
)
def test_sick_but_a_note_where_the_hardware_is_not(patient):
    [finding] = examine(NcclHobbled, patient)
    assert finding.severity is Severity.NOTE


@pytest.mark.parametrize(
    ("variables", "job", "host"),
    [
        ({"NCCL_IB_DISABLE": "1"}, None, make_host(infiniband=("mlx5_0",))),
        ({"NCCL_IB_DISABLE": "1"}, Job(profile=Profile.SLURM, nodes=4), make_host()),
        ({"NCCL_NET": "Socket"}, Job(profile=Profile.SLURM, nodes=4), make_host()),
        ({"NCCL_P2P_LEVEL": "LOC"}, Job(profile=Profile.TORCHRUN, ranks_per_node=4), make_host()),
    ],
)
def test_sick_network_and_levels(variables, job, host):
    [finding] = examine(NcclHobbled, make_patient(environment=variables, job=job, host=host))
    assert finding.severity is Severity.WARNING


def test_sick_set_by_the_script():
    patient = script_patient('import os\nos.environ["NCCL_P2P_DISABLE"] = "1"\n', environment={}, gpus=gpus(2))
    [finding] = examine(NcclHobbled, patient)
    assert finding.confidence is Confidence.SUSPECTED
    [remedy] = prescribe((nccl_hobbled, *advice("environment")), finding, patient)
    assert "line 2" in remedy.steps[0]


@pytest.mark.parametrize(
    ("field", "subject", "more"),
    [
        ("acs", "ACS", {}),
        ("iommu", "IOMMU", {}),
        ("acs", "ACS", {"nvlinks": (LINK,)}),
    ],  # the network cards still suffer
)
def test_sick_detours_on_the_bus(field, subject, more):
    host = make_host(**{field: True}, infiniband=("mlx5_0",) if more else ())
    patient = make_patient(environment={}, gpus=gpus(4, **more), host=host)
    [finding] = examine(NcclHobbled, patient)
    assert finding.subject == subject
    [remedy] = prescribe((nccl_hobbled, *advice("environment")), finding, patient)
    assert subject.lower() in remedy.id


def test_sick_two_nccls():
    torch = TorchBuild(version="2.9.0+cu128", cuda="12.8", hip=None, arch_list=(), cxx11_abi=True, path="/env/torch")
    patient = make_patient(
        environment={}, packages=packages("torch", "nvidia-nccl-cu12", "nvidia-nccl-cu13"), torch=torch
    )
    [finding] = examine(NcclHobbled, patient)
    [remedy] = prescribe((nccl_hobbled, *advice("environment")), finding, patient)
    assert remedy.title == "keep nvidia-nccl-cu12 only"
    assert remedy.steps[0] == "pip uninstall nvidia-nccl-cu13"
    assert "--force-reinstall --no-deps nvidia-nccl-cu12==2.27.3" in remedy.steps[1]


@pytest.mark.parametrize(
    ("variable", "severity"), [("LD_PRELOAD", Severity.WARNING), ("LD_LIBRARY_PATH", Severity.NOTE)]
)
def test_sick_another_nccl_on_the_loader_path(variable, severity):
    library = "/opt/nccl/lib/libnccl.so.2"
    value = library if variable == "LD_PRELOAD" else "/opt/nccl/lib"
    environment = Environment(variables={variable: value}, shadowing=(("libnccl.so", library),))
    patient = make_patient(environment=environment, packages=packages("nvidia-nccl-cu12"))
    [finding] = examine(NcclHobbled, patient)
    assert finding.severity is severity
    [remedy] = prescribe((nccl_hobbled, *advice("environment")), finding, patient)
    assert variable in remedy.title


@pytest.mark.parametrize(
    "patient",
    [
        make_patient(environment={}, gpus=gpus(8), host=make_host()),  # clean
        make_patient(environment={"NCCL_P2P_DISABLE": "0", "NCCL_IB_DISABLE": ""}, gpus=gpus(8)),  # off
        make_patient(environment={"NCCL_P2P_LEVEL": "NVL", "NCCL_NET": "IB"}, gpus=gpus(8)),  # levels that are fine
        make_patient(environment={}, gpus=gpus(1), host=make_host(acs=True, iommu=True)),  # one GPU
        make_patient(environment={}, gpus=gpus(8, nvlinks=(LINK,)), host=make_host(acs=True, iommu=True)),  # NVLink
        make_patient(environment={}, gpus=gpus(4), host=make_host(acs=ABSENT, iommu=ABSENT)),  # untold
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
