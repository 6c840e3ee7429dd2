"""The driver's answers through two releases of its Python binding."""

import os
import time

import pytest
from fake_nvml import Machine, compiler, library_folder
from fake_nvml.bindings import LACKS, older_binding
from fake_nvml.machine import GIB, h100

from gpudoctor.model import Absent
from gpudoctor.model.signs.gpu import DriverState
from gpudoctor.recorder.machine import GpuReadings
from gpudoctor.vitals.nvml import survey

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler to build the fake driver with")

USERS = f"* ComputeProcesses 0 3 4711 {40 * GIB} 4712 {3 * GIB} 4713 {5 * GIB}"
GPM = ("* GpmSupport 0 1", "* GpmMetric:2 0 455", "* GpmMetric:20 0 10", "* GpmMetric:21 0 20")
RELEASES = pytest.mark.parametrize("release", LACKS)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    return tmp_path_factory.mktemp("libraries")


def surroundings(tmp_path, libraries, monkeypatch, release, *answers, kind=""):
    """The environment of a machine whose driver is of a kind; the binding of that release is the one imported."""
    monkeypatch.syspath_prepend(str(older_binding(tmp_path, release)))
    variables = Machine(answers=[*h100(2), USERS, *answers], nodes=2).build(tmp_path / "root")
    return {**os.environ, **variables, "LD_LIBRARY_PATH": str(library_folder(libraries, kind=kind))}


def gpu(tmp_path, libraries, monkeypatch, release, *answers, kind=""):
    seen = survey.take(
        limit=20.0, environment=surroundings(tmp_path, libraries, monkeypatch, release, *answers, kind=kind)
    )
    assert seen.driver is DriverState.READY, seen.driver_error
    assert seen.driver_version == "570.86.15" and len(seen.gpus) == 2 and not seen.lost
    return seen.gpus[1]


@RELEASES
def test_every_release_reads_what_it_can_and_names_what_it_cannot(tmp_path, libraries, monkeypatch, release):
    card = gpu(tmp_path, libraries, monkeypatch, release)
    assert (card.name, card.uuid) == ("NVIDIA H100 80GB HBM3", "GPU-00000001-0000-0000-0000-000000000000")
    assert (card.memory_total, card.memory_used) == (80 * GIB, 600 << 20)
    assert card.temperature == 32.0 and card.event_reasons == 1 and card.power == 70.0
    assert not isinstance(card.fabric_state, Absent)
    margin = card.temperature_margin
    if release == "present":
        assert not isinstance(margin, Absent), margin
    else:
        assert isinstance(margin, Absent) and margin.reason == "this nvidia-ml-py is too old"


@RELEASES
@pytest.mark.parametrize("supported", [True, False])
def test_performance_monitoring_is_sampled_where_card_and_binding_have_it(
    tmp_path, libraries, monkeypatch, release, supported
):
    answers = GPM if supported else ("* GpmSupport 0 0",)
    environment = surroundings(tmp_path, libraries, monkeypatch, release, *answers, "* UtilizationRates 0 80 10")
    feed = GpuReadings(environment, interval=0.05)
    try:
        end = time.monotonic() + 20
        while not (samples := feed.latest()) and time.monotonic() < end:
            time.sleep(0.05)
    finally:
        feed.close()
    assert samples, "the sampler wrote nothing"
    sample = samples[0]
    assert sample["util"] == 0.8
    if supported:
        assert sample["sm"] == pytest.approx(0.455)
    else:
        assert "sm" not in sample
