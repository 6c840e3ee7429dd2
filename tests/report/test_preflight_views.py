"""An active examination in every format: the verdict, the table, the heat map, the metrics."""

import json

import pytest
from preflights import GB, every_pair, figure, preflight, unit

from gpudoctor.engine.examination import Request, examine
from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.selection import make_selection
from gpudoctor.model import PatientKind
from gpudoctor.model.signs.preflight import Quantity
from gpudoctor.report import FORMATS, render
from gpudoctor.report.preflight_words import figure_rows
from gpudoctor.testing import make_patient

REGISTRY = load_registry()
REQUEST = Request(registry=REGISTRY, selection=make_selection(REGISTRY, [("NODE", "--select")], []))


def report(found):
    return examine(make_patient(preflight=found, kind=PatientKind.CLUSTER), REQUEST)


def units(count, speed=lambda _node: 640e12):
    return tuple(unit(at, figures=(figure(Quantity.MATMUL, speed(at), dtype="bf16"),)) for at in range(count))


SICK = preflight(
    6, units=units(6), tests=every_pair(6, lambda a, b: 20 * GB if 3 in (a, b) else 46 * GB), untested=("NVLS: none.",)
)
WELL = preflight(4, units=units(4), tests=every_pair(4))


def test_the_verdict_names_whom_to_leave_out_and_what_was_not_tested():
    said = report(SICK).summary.verdict
    assert said == "Leave out node03: network-slow. 5 nodes of 6 are left. Not tested: NVLS: none."


def test_rows_name_the_slowest_and_latency_is_slow_when_long():
    found = preflight(
        3, units=units(3, lambda at: (600 + at) * 1e12), tests=every_pair(3, delay=lambda a, b: (a + b) * 1e-5)
    )
    rows = {row.title: row for row in figure_rows(found)}
    assert rows["bf16 matrix product"].worst == "600 TFLOP/s (GPU 0 of node00)"
    assert rows["small message of two nodes"].worst == "30 µs (node01 and node02)"


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "text"])
@pytest.mark.parametrize("found", [SICK, WELL, preflight(1)], ids=["sick", "well", "alone"])
def test_every_format_renders_it(name, found):
    text = render(report(found), name)
    assert text.strip()
    if name == "json":
        assert json.loads(text)["preflight"]["mode"] == "standard"
