"""A run that made no step has measured nothing: what its source suspects is a note, once for each ailment."""

import textwrap

import pytest
from recordings import lines, make_process, make_recording, make_steps
from scripts import read_script, script_patient

from gpudoctor.engine.examination import Request, examine
from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.selection import Selection
from gpudoctor.model import Code, Confidence, Severity
from gpudoctor.testing import make_patient, make_torch

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
def test_places_of_one_ailment_are_one_note(code):
    report = looked(0, code=code)
    [item] = report.findings
    assert item.finding.severity is Severity.NOTE and item.finding.confidence is Confidence.SUSPECTED
    assert "at 2 more places" in item.finding.message
    assert len({span.line for span in item.finding.evidence if hasattr(span, "line")}) >= 3
    assert "made no training step" in report.summary.verdict
    assert "gpudoctor measured nothing: what it only suspects from the source is a note." in report.summary.verdict


def test_healthy_a_run_with_steps_says_nothing_of_the_kind():
    report = looked(4)  # too few to judge: the places stand as the source gives them
    assert len(report.findings) == 3
    assert "Nothing was measured" not in report.summary.verdict


def test_a_fault_of_the_result_keeps_its_severity():
    text = PROGRAM + textwrap.dedent(PASS.format(size=4)).replace(
        "net(x.cuda()), y.cuda()", "torch.symeig(net(x.cuda()))[0], y.cuda()"
    )
    request = Request(registry=load_registry(), selection=Selection(selected=frozenset({Code("LOOP005")}), ignored={}))
    run = make_recording(make_process(make_steps(0)))
    patient = script_patient(text, recording=run, torch=make_torch("2.13.0"))
    [item] = examine(patient, request).findings
    assert item.finding.severity is Severity.ERROR and item.finding.cost.breaks


BRANCHES = """
import torch

def trained(net, optimizer, batches, scaler):
    for x, y in batches:
        optimizer.zero_grad()
        if scaler is not None:
            loss = torch.nn.functional.mse_loss(net(x), y)
            scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        else:
            loss = torch.nn.functional.mse_loss(net(x), y)
            loss.backward()  # plain
            optimizer.step()

net = torch.nn.Linear(4, 1)
scaler = torch.amp.GradScaler() if len(argv) > 1 else None
trained(net, torch.optim.SGD(net.parameters(), lr=0.1), DataLoader(rows), scaler)
"""
OWN_FUNCTION = """
import torch

def scaled(loss, net, optimizer, scaler):
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()

net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler()
for x, y in DataLoader(rows):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(net(x), y)
    if argv[1:]:
        scaled(loss, net, optimizer, scaler)
        continue
    loss.backward()  # plain
    optimizer.step()
"""


def ran_through(text, marked, looks=200):
    """The program, and a recording whose backward passes were sampled on the line with a mark."""
    line = next(n for n, row in enumerate(text.split("\n"), 1) if marked in row)
    source = read_script(text)
    seen = lines(("backward", source.scripts[0].path, line, "trained", looks))
    recording = make_recording(make_process(make_steps(200), records=[seen]), machine_facts={})
    request = Request(registry=load_registry(), selection=Selection(selected=frozenset({Code("LOOP004")}), ignored={}))
    return examine(make_patient(source=source, recording=recording), request).findings


@pytest.mark.parametrize("text", [BRANCHES, OWN_FUNCTION])
def test_what_the_run_did_not_take_is_a_note_that_costs_nothing(text):
    [item] = ran_through(text, "# plain")
    assert item.finding.severity is Severity.NOTE and item.finding.cost.breaks is None
    assert "This run did not take that branch" in item.finding.message
