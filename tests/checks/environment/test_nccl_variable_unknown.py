"""ENV016: NCCL variables that do not exist, are gone, or have a value that NCCL cannot use."""

import pytest
from scripts import script_patient

from gpudoctor.model import Confidence, Facts, Severity
from gpudoctor.model.signs.job import Environment
from gpudoctor.testing import examine, make_patient, make_torch, prescribe
from gpudoctor_checks.environment.nccl_variable_unknown import NcclVariableUnknown
from gpudoctor_rules.advice import advice


def one(name, value="1", **signs):
    [finding] = examine(NcclVariableUnknown, make_patient(environment={name: value, "PATH": "/bin"}, **signs))
    return finding, finding.detail_of(Facts)


@pytest.mark.parametrize(
    ("name", "value", "kind", "says", "severity"),
    [
        ("NCCL_IB_DISABEL", "1", "slip", "NCCL_IB_DISABLE", Severity.WARNING),
        ("NCCL_P2P_DISABLED", "1", "slip", "NCCL_P2P_DISABLE", Severity.WARNING),
        ("TORCH_NCCL_BLOCKNG_WAIT", "1", "slip", "TORCH_NCCL_BLOCKING_WAIT", Severity.WARNING),
        ("NCCL_LL_THRESHOLD", "1", "unknown", "", Severity.NOTE),
        ("TORCH_NCCL_SPEED_OF_LIGHT", "1", "unknown", "", Severity.NOTE),
        ("NCCL_IB_DISABLE", "true", "value", "for 0", Severity.WARNING),
        ("NCCL_BUFFSIZE", "4M", "value", "for 4", Severity.WARNING),
    ],
)
def test_sick_names_and_values(name, value, kind, says, severity):
    finding, detail = one(name, value)
    assert (detail.kind, finding.severity, finding.confidence) == (kind, severity, Confidence.CONFIRMED)
    assert says in finding.message and detail.instead == ("" if kind == "value" else says)
    assert bool(finding.cost.breaks) == (severity is Severity.ERROR)
    remedy = prescribe(advice("environment"), finding, make_patient(environment={name: value}))[0]
    if kind == "slip":
        assert says in remedy.title and name in remedy.title


def test_sick_export_of_a_job_script_and_line_of_a_script():
    environment = Environment(variables={"NCCL_IB_DISABLED": "1"}, exports={"NCCL_IB_DISABLED": ("job.sh", 7)})
    [finding] = examine(NcclVariableUnknown, make_patient(environment=environment))
    assert finding.evidence[0].line == 7
    patient = script_patient('import os\nos.environ["NCCL_TREE_THRESHOLD"] = "0"\n', environment={})
    [finding] = examine(NcclVariableUnknown, patient)
    assert finding.span is not None and finding.span.line == 2
    assert finding.confidence is Confidence.SUSPECTED


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_DEBUG", "info"), ("NCCL_IB_HCA", "=mlx5_0,mlx5_1"), ("NCCL_SOCKET_IFNAME", "^docker,lo"),
        ("NCCL_ALGO", "^ring"), ("NCCL_P2P_LEVEL", "NVL"), ("NCCL_P2P_LEVEL", "3"),
        ("NCCL_BUFFSIZE", "0x400000"), ("NCCL_IB_GID_INDEX", " 3 "), ("NCCL_IB_TIMEOUT", "22"),
        ("NCCL_NTHREADS", "512"), ("NCCL_IB_DISABLE", ""), ("NCCL_IB_DISABLE", "$DISABLE_IB"),
        ("TORCH_NCCL_BLOCKING_WAIT", "True"), ("TORCH_FR_DUMP_TEMP_FILE", "/shared/fr_rank_"),
        ("NCCL_OFI_PROTOCOL", "SENDRECV"), ("NCCL_TUNER_CONFIG_PATH", "/etc/tuner"), ("NCCL_GDRCOPY_ENABLE", "1"),
        ("NCCL_FASTRAK_CTRL_DEV", "eth0"), ("NCCL_VERSION", "2.19.3-1"), ("NCCL_HOME", "/usr"),
        ("NCCL_TEST_HOME", "/opt/nccl-tests"), ("NCCL_SRC_LOCATION", "/opt/nccl"),
        ("NCCL_INSPECTOR_ENABLE", "1"), ("NCCL_TOPO_FILE", "/etc/topo.xml"), ("NCCL_NVLS_ENABLE", "0"),
        ("RCCL_MSCCL_ENABLE", "0"), ("OMPI_NCCL_TYPO", "1"), ("MY_NCCL_TIMEOUT", "9"), ("nccl_debug", "x"),
    ],
)  # fmt: skip
def test_healthy_values_plugins_and_other_peoples_names(name, value):
    assert not examine(NcclVariableUnknown, make_patient(environment={name: value}))


@pytest.mark.parametrize(
    "read", ['os.environ.get("NCCL_TIMEOUT", 600)', 'os.getenv("NCCL_TIMEOUT")', 'int(os.environ["NCCL_TIMEOUT"])']
)
def test_healthy_what_the_script_reads_itself(read):
    patient = script_patient(f"import os\nlimit = {read}\n", environment={"NCCL_TIMEOUT": "900"})
    assert not examine(NcclVariableUnknown, patient)


def test_healthy_rocm_has_other_variables():
    torch = make_torch(version="2.9.1+rocm6.4", cuda=None, hip="6.4")
    assert not examine(NcclVariableUnknown, make_patient(environment={"NCCL_RINGS": "0 1"}, torch=torch))
