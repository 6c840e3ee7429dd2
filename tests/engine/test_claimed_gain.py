"""No report claims more than the device's idle share, whatever was recorded; nor do its findings together."""

import re
from dataclasses import replace
from functools import cache

import pytest
from claims import beyond
from hypothesis import given
from hypothesis import strategies as st
from recordings import lines, make_machine, make_process, make_recording, make_steps, record, site
from windows import make_gpu_window, make_rank, make_window, report_of

from gpudoctor.engine.examination import Request, examine
from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.selection import make_selection
from gpudoctor.model import PatientKind, Whose
from gpudoctor.model.signs.process import Gap, Series
from gpudoctor.report import FORMATS, render
from gpudoctor.testing import make_host, make_patient
from gpudoctor.ui.console.text_report import render_text

REGISTRY = load_registry()
REQUEST = Request(registry=REGISTRY, selection=make_selection(REGISTRY, [], []))
SECONDS = st.sampled_from([0.0, 0.0002, 0.001, 0.004, 0.02])
"""Of a phase in a step."""
PHASES = ("data_wait", "transfer", "forward", "backward", "optimizer", "sync", "logging", "checkpoint", "other")
ON_DEVICE = record("model", 1.2, **{"class": "Net", "device": "cuda:0", "parameters": 1000, "tensors": 4})


@st.composite
def jobs(draw):
    """A job on a device: where its host's time went, and what share of it its cures can give back."""
    phases = {name: draw(SECONDS) for name in PHASES}
    step = sum(phases.values()) or 0.001
    idle = draw(st.floats(0.0, 1.0))
    clock = draw(st.booleans())
    columns = {"device_idle": step * idle, "device_busy": step * (1 - idle), "device_forward": 0.001} if clock else {}
    ranks = draw(st.sampled_from([1, 2]))
    steps = draw(st.sampled_from([40, 200]))
    waits = [
        site(phase, what, phases[phase] * steps, steps, tensor=phase == "sync", line=40 + number)
        for number, (phase, what) in enumerate(
            (("sync", "Tensor.item"), ("logging", "print"), ("checkpoint", "torch.save"), ("transfer", "Tensor.to"))
        )
    ]
    seen = lines(*(("other" if name == "other" else name, "/job/train.py", 60 + k, "train", round(1e4 * seconds))
                   for k, (name, seconds) in enumerate(phases.items()) if seconds))  # fmt: skip
    loader = record("loader", 1.1, workers=draw(st.sampled_from([0, 2])), batch_size=8, pinned=False, path="/job/train.py",
                    line=30, number=1)  # fmt: skip
    rows = make_steps(steps, noise=draw(st.sampled_from([0.0, 0.05])), warm_up=2, **phases, **columns)
    every = [
        make_process(rows, records=[ON_DEVICE, loader, *waits, seen], rank=rank, world=ranks) for rank in range(ranks)
    ]
    busy = make_machine(30, gpu0_util=1 - idle) if draw(st.booleans()) else None
    facts = {"gpus": [{"name": "Some GPU", "index": 0}], "cpus": 8, "memory": 32 << 30, "cgroup_memory": None}
    recording = make_recording(
        *every, machine_facts=facts, started="", **({"machine": busy} if busy is not None else {})
    )
    return recording, idle if clock or (busy is not None and idle < 1) else 1.0


@pytest.mark.slow
@given(jobs())
def test_no_wait_is_worth_more_than_the_device_is_idle(job):
    recording, most = job
    patient = make_patient(recording=recording, host=make_host(), kind=PatientKind.RECORDING)
    report = examine(patient, REQUEST)
    assert not [item for item in report.problems if "failed" in item]
    findings = [item.finding for item in report.findings]
    assert not beyond(findings, most + 1e-3)
    told = re.search(r"([\d.]+)x faster", report.summary.promise)
    if told:
        own = sum(item.cost.step_share or 0.0 for item in findings if item.cost.whose is not Whose.HOST)
        assert float(told[1]) <= 1.06 / max(0.0099, 1 - most - own)


STANDS = {"data_wait": 0.004, "sync": 0.006, "forward": 0.001, "backward": 0.001}
READS = site("sync", "Tensor.item", 1.2, 200, tensor=True, line=40)
FACTOR = re.compile(r"\b\d+(\.\d+)?x\b")


def recorded_blind(**changes):
    """A GPU's job of which neither the device's clock nor its utilisation is known."""
    process = make_process(make_steps(200, **STANDS), records=[ON_DEVICE, READS])
    recording = make_recording(process, started="", **changes)
    return examine(make_patient(recording=recording, host=make_host(), kind=PatientKind.RECORDING), REQUEST)


def watched_blind(**changes):
    """The same from a job whose GPU's driver does not tell how busy it is."""
    rank = make_rank(looks={"data_wait": 50, "forward": 40, "sync@train.py:40": 30}, gpus=(0,))
    silent = Gap(panel="gpu", reason="NVIDIA driver: hung", fix="gpudoctor check")
    return report_of(make_window([rank], **({"gaps": (silent,)} | changes)))


BLIND = {
    "no sample": recorded_blind,
    "a card without utilisation": lambda: recorded_blind(
        machine=make_machine(30, gpu0_memory=4e9), machine_facts={"gpus": [{"name": "Some GPU", "index": 0}]}
    ),
    "a live job, its driver silent": watched_blind,
    "a live job, its card without utilisation": lambda: watched_blind(
        gpus=[replace(make_gpu_window(0), busy=Series())], gaps=()
    ),
}


@cache
def blind(name):
    return BLIND[name]()


@pytest.mark.parametrize("name", BLIND)
@pytest.mark.parametrize("form", ["text", "verbose", *FORMATS])
def test_a_gain_that_nobody_knows_is_called_so_in_every_format(name, form):
    report = blind(name)
    assert report.findings
    shown = (
        render_text(report, width=100, colour=False, verbose=form == "verbose")
        if form in ("text", "verbose")
        else render(report, form)
    )
    assert "unknown" in " ".join(shown.split())
    assert not FACTOR.search(shown), FACTOR.search(shown)
    assert all(item.finding.cost.step_share is None for item in report.findings)
    assert any(item.finding.cost.host_share for item in report.findings)
