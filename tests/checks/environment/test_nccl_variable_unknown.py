"""ENV016: NCCL variables that do not exist, are gone, or have a value that NCCL cannot use."""

from dataclasses import replace

import pytest
from scripts import script_patient

from gpudoctor.model import Confidence, Severity
from gpudoctor.model.signs.job import Environment
from gpudoctor.model.signs.packages import Distribution
from gpudoctor.testing import examine, make_packages, make_patient, make_torch, prescribe
from gpudoctor_checks.environment.nccl_variable_unknown import NcclVariableUnknown, NcclVariableUnknownDetail, table
from gpudoctor_rules.advice import advice


def packages(nccl):
    found = make_packages()
    ours = Distribution(name="nvidia-nccl-cu12", version=nccl, requires=(), location="/env")
    return replace(found, distributions={**found.distributions, "nvidia-nccl-cu12": ours})


def one(name, value="1", **signs):
    [finding] = examine(NcclVariableUnknown, make_patient(environment={name: value, "PATH": "/bin"}, **signs))
    return finding, finding.detail_of(NcclVariableUnknownDetail)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("NCCL_IB_DISABEL", "NCCL_IB_DISABLE"),
        ("NCCL_P2P_DISABLED", "NCCL_P2P_DISABLE"),
        ("NCCL_DISABLE_SHM", "NCCL_SHM_DISABLE"),
        ("NCCL_SOCKET_IF_NAME", "NCCL_SOCKET_IFNAME"),
        ("TORCH_NCCL_BLOCKNG_WAIT", "TORCH_NCCL_BLOCKING_WAIT"),
        ("TORCH_FR_BUFER_SIZE", "TORCH_FR_BUFFER_SIZE"),
    ],
)
def test_sick_a_slip_names_what_is_meant(name, meant):
    finding, detail = one(name)
    assert (detail.kind, detail.instead, finding.severity) == ("slip", meant, Severity.WARNING)
    assert finding.confidence is Confidence.CONFIRMED
    patient = make_patient(environment={name: "1"})
    [remedy] = prescribe(advice("environment"), finding, patient)
    assert meant in remedy.title and name in remedy.title


@pytest.mark.parametrize(
    ("name", "kind", "instead"),
    [
        ("NCCL_TIMEOUT", "unknown", ""),
        ("TORCH_NCCL_SPEED_OF_LIGHT", "unknown", ""),
        ("NCCL_LL_THRESHOLD", "gone", "NCCL_PROTO"),
        ("NCCL_CHECKS_DISABLE", "gone", "NCCL_CHECK_POINTERS"),
        ("NCCL_SHARED_BUFF_COUNT", "gone", ""),
        ("NCCL_ASYNC_ERROR_HANDLING", "renamed", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
        ("TORCH_NCCL_TRACE_BUFFER_SIZE", "renamed", "TORCH_FR_BUFFER_SIZE"),
    ],
)
def test_sick_names_that_nothing_reads_or_that_have_a_newer_one(name, kind, instead):
    finding, detail = one(name)
    assert (detail.kind, detail.instead, finding.severity) == (kind, instead, Severity.NOTE)
    assert prescribe(advice("environment"), finding, make_patient())


def test_what_is_gone_depends_on_the_release():
    assert one("NCCL_WORK_FIFO_DEPTH", packages=packages("2.23.4"))[1].kind == "gone"
    for nccl in ("2.20.5", "2.21.5"):
        patient = make_patient(environment={"NCCL_WORK_FIFO_DEPTH": "64"}, packages=packages(nccl))
        assert not examine(NcclVariableUnknown, patient)
    assert not examine(NcclVariableUnknown, make_patient(environment={"NCCL_WORK_FIFO_DEPTH": "64"}))


def test_sick_newer_than_the_installed_nccl():
    finding, detail = one("NCCL_RAS_ENABLE", "0", packages=packages("2.21.5"))
    assert detail.kind == "later" and "2.24" in finding.message and "2.21.5" in finding.message
    new = make_patient(environment={"NCCL_RAS_ENABLE": "0"}, packages=packages("2.27.3"))
    assert not examine(NcclVariableUnknown, new)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("NCCL_IB_DISABLE", "true", "for 0"),
        ("NCCL_P2P_DISABLE", "yes", "for 0"),
        ("NCCL_BUFFSIZE", "4M", "for 4"),
        ("NCCL_DEBUG", "DEBUG", "VERSION, WARN, INFO"),
        ("NCCL_PROTO", "LL256", "LL, LL128, Simple"),
        ("NCCL_ALGO", "ring,rabenseifner", "Tree, Ring"),
        ("NCCL_P2P_LEVEL", "nvl", "LOC, NVL"),
        ("NCCL_IB_TIMEOUT", "3600", "0 to 31"),
        ("NCCL_IB_RETRY_CNT", "100", "0 to 7"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "7", "0 to 3"),
    ],
)
def test_sick_values_that_make_no_sense(name, value, says):
    finding, detail = one(name, value)
    assert (detail.kind, finding.severity, finding.cost) == ("value", Severity.WARNING, finding.cost)
    assert says in finding.message


@pytest.mark.parametrize(
    ("name", "value"), [("TORCH_NCCL_BLOCKING_WAIT", "on"), ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "ten minutes")]
)
def test_sick_values_that_torch_refuses(name, value):
    finding, _ = one(name, value)
    assert finding.severity is Severity.ERROR
    assert finding.cost is not None and finding.cost.breaks


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
        ("NCCL_ALGO", "^ring"), ("NCCL_ALGO", "allreduce:tree,collnetdirect;broadcast:ring"),
        ("NCCL_PROTO", "^LL128;allreduce:LL128"), ("NCCL_P2P_LEVEL", "NVL"), ("NCCL_P2P_LEVEL", "3"),
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


def test_healthy_every_name_of_the_newest_release():
    known = dict.fromkeys({*table().since, *table().torch_names} - set(table().renamed), "")
    assert len(known) > 250
    assert not examine(NcclVariableUnknown, make_patient(environment=known))


@pytest.mark.parametrize(
    "read", ['os.environ.get("NCCL_TIMEOUT", 600)', 'os.getenv("NCCL_TIMEOUT")', 'int(os.environ["NCCL_TIMEOUT"])']
)
def test_healthy_what_the_script_reads_itself(read):
    patient = script_patient(f"import os\nlimit = {read}\n", environment={"NCCL_TIMEOUT": "900"})
    assert not examine(NcclVariableUnknown, patient)


def test_healthy_rocm_has_other_variables():
    torch = make_torch(version="2.9.1+rocm6.4", cuda=None, hip="6.4")
    assert not examine(NcclVariableUnknown, make_patient(environment={"NCCL_RINGS": "0 1"}, torch=torch))


def test_a_name_has_one_home_in_the_table():
    known = table()
    assert not set(known.gone) & {*known.since, *known.torch_names}
    for instead in [now for _, now in known.gone.values() if now] + [now for now, _ in known.renamed.values()]:
        assert known.read(instead), instead
    assert set(known.values) <= {*known.since, *known.torch_names}
