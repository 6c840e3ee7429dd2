"""A run that made no step has measured nothing: what its source suspects is a note."""

import textwrap

import pytest
from recordings import make_process, make_recording, make_steps
from scripts import script_patient

from gpudoctor.engine.examination import Request, examine
from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.selection import Selection
from gpudoctor.model import Code, Confidence, Severity
from gpudoctor.testing import make_torch

PASS = """
    for x, y in DataLoader(Rows(), batch_size={size}, shuffle=True):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        print(loss.item(), x.mean().item(), loss.item() / 2, net(x.cuda()).sum().item())
"""
PROGRAM = """
import json, torch
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 4000
    def __getitem__(self, index):
        return torch.tensor(json.load(open(f"rows/{index}.json"))), 0

net = torch.nn.Linear(8, 3).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""


def looked(steps, *records, code="OBS002"):
    text = PROGRAM + "".join(textwrap.dedent(PASS.format(size=size)) for size in (4, 8, 16))
    recording = make_recording(make_process(make_steps(steps), records=records), machine_facts={})
    request = Request(registry=load_registry(), selection=Selection(selected=frozenset({Code(code)}), ignored={}))
    return examine(script_patient(text, recording=recording), request)


@pytest.mark.parametrize("code", ["OBS002", "SYNC001"])
def test_what_is_only_suspected_is_a_note(code):
    report = looked(0, code=code)
    assert report.findings
    assert {item.finding.severity for item in report.findings} == {Severity.NOTE}
    assert {item.finding.confidence for item in report.findings} == {Confidence.SUSPECTED}
    assert "made no training step" in report.summary.verdict
    assert "gpudoctor measured nothing: what it only suspects from the source is a note." in report.summary.verdict


def test_a_fault_of_the_result_keeps_its_severity():
    text = PROGRAM + textwrap.dedent(PASS.format(size=4)).replace(
        "net(x.cuda()), y.cuda()", "torch.symeig(net(x.cuda()))[0], y.cuda()"
    )
    request = Request(registry=load_registry(), selection=Selection(selected=frozenset({Code("LOOP005")}), ignored={}))
    run = make_recording(make_process(make_steps(0)))
    patient = script_patient(text, recording=run, torch=make_torch("2.13.0"))
    [item] = examine(patient, request).findings
    assert item.finding.severity is Severity.ERROR and item.finding.cost.breaks
