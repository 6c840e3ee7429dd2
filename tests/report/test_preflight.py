"""The JSON part `preflight`: every measurement, by the schema; `--share` takes the names of nodes out."""

import json
from dataclasses import replace

from sample_reports import healthy_report
from sarif_schema import report_schema, validate

from gpudoctor.model.signs.preflight import (
    Figure,
    LinkTest,
    Loss,
    LossKind,
    MachineFinding,
    Preflight,
    PreflightNode,
    Quantity,
    Stage,
    StageRun,
    StorageTest,
    Unit,
)
from gpudoctor.report.json import render
from gpudoctor.report.sharing import HiddenNames, shareable

FIGURE = Figure(quantity=Quantity.BUS_BANDWIDTH, value=1.5e9, payload=1 << 24, algorithm="ring")
PREFLIGHT = Preflight(
    mode="standard",
    backend="gloo",
    world=3,
    nodes=(
        PreflightNode(
            index=0,
            name="rack3-alpha",
            ranks=(0,),
            address="10.0.0.1",
            facts={"torch": "2.13.0"},
            free_bytes={"/data": 1 << 30},
            clock_offset=0.001,
            findings=(MachineFinding(code="ENV004", name="shm-small", severity="error", message="m", fix="f"),),
        ),
        PreflightNode(index=1, name="rack3-beta", ranks=(1,), unexamined=("the kernel log cannot be read",)),
    ),
    units=(Unit(node=0, local=0, device="cpu", name="a CPU", figures=(FIGURE,), digests={"fp32": ("a", "a")}),),
    tests=(
        LinkTest(stage=Stage.PAIRS, round=0, nodes=(0, 1), units=((0, 0), (1, 0)), figures=(FIGURE,)),
        LinkTest(stage=Stage.GROUP, round=1, nodes=(0, 1), failure="rack3-beta timed out", blamed=(1,)),
    ),
    storage=(StorageTest(node=0, folder="/data", visible=True, writable=False, same=None),),
    losses=(Loss(rank=2, node=None, stage=Stage.ARRIVE, kind=LossKind.NEVER_CAME, words="nothing came"),),
    stages=(StageRun(stage=Stage.ARRIVE, seconds=1.0, limit=60.0, ended=False),),
    untested=("rack3-beta was not measured.",),
)


def test_every_measurement_is_in_the_json_report_and_the_schema_holds():
    document = json.loads(render(replace(healthy_report(), preflight=PREFLIGHT)))
    validate(document, report_schema())
    assert document["preflight"]["tests"][0]["figures"][0]["value"] == 1.5e9
    assert document["preflight"]["losses"][0]["kind"] == "never came"
    assert document["preflight"]["nodes"][0]["facts"] == {"torch": "2.13.0"}


def test_sharing_takes_the_names_and_addresses_of_nodes_out():
    report = shareable(replace(healthy_report(), preflight=PREFLIGHT), HiddenNames())
    text = render(report)
    assert not any(word in text for word in ("rack3-alpha", "rack3-beta", "10.0.0.1", '"/data"'))
    assert report.preflight is not None and report.preflight.nodes[0].findings[0].name == "shm-small"
