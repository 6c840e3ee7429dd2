"""Two ranks on gloo: what each reads, and whether they stay one model. Plain loops and Accelerate."""

from dataclasses import replace

import pytest
from packages import need
from probed import run_script

from gpudoctor.analysis.run.training.card import training_card
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor.vitals.recording.opening import open_recording
from gpudoctor_checks.training.ranks_misfit import RanksMisfit
from gpudoctor_rules.advice import advice

need("torch")

PROGRAM = """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data.distributed import DistributedSampler
dist.init_process_group("gloo")
rank = dist.get_rank()
rows = data(160)
net_ = net()
{before}
model = DDP(net_)
called = model
sampler = DistributedSampler(rows)
{change}
optimizer = torch.optim.SGD(net_.parameters(), 0.1)
loader = DataLoader(rows, batch_size=4, sampler=sampler)
for x, y in loader:
    optimizer.zero_grad()
    F.cross_entropy(F.dropout(called(x), 0.1 * rank), y).backward()
    {share}
    optimizer.step()
dist.destroy_process_group()
"""
SHUFFLED = "rows = data(32); sampler = torch.utils.data.RandomSampler(rows, generator=torch.manual_seed(rank))"
MEAN = "[dist.all_reduce(p.grad) for p in net_.parameters()]"
CASES = {
    "well": ({}, [], "2 ranks, samples of their own; 20 batches an epoch; gradients shared"),
    "same": ({"change": "sampler = None"}, ["same"], "all 2 read the same batches"),
    "unsplit": ({"change": SHUFFLED}, ["unsplit"], "samples read by several"),
    "twice": ({"change": "sampler = DistributedSampler(sampler)"}, ["twice"], "10 batches an epoch"),
    "inner": ({"change": "called = net_"}, ["alone"], "gradients apart in 5 of 5 looks"),
    "alone": ({"before": "DDP = lambda net: net"}, ["alone"], "gradients apart"),
    "begun": (
        {"before": "DDP = lambda net: net; [p.data.add_(0.1 * rank) for p in net_.parameters()]", "share": MEAN},
        ["begun"], "gradients shared",
    ),
    "by hand": ({"before": "DDP = lambda net: net", "share": MEAN}, [], "gradients shared"),
}  # fmt: skip
HEALTHY = [case for case in CASES if not CASES[case][1]]


@pytest.mark.slow
@pytest.mark.parametrize("case", HEALTHY)
def test_healthy_ranks(tmp_path, case):
    two_ranks(tmp_path, case)


@pytest.mark.slow
@pytest.mark.parametrize("case", sorted({*CASES} - {*HEALTHY}))
def test_sick_ranks(tmp_path, case):
    two_ranks(tmp_path, case)


def two_ranks(tmp_path, case):
    how, kinds, said = CASES[case]
    text = PROGRAM.format(**{"before": "", "change": "", "share": "", **how})
    recording = open_recording(str(run_script(tmp_path, text, ranks=2).folder))
    recording = replace(recording, end=RunEnd(exit_code=0), memory={})
    assert not [item.fields for rank in recording.ranks for item in rank.of("lost")]
    patient = make_patient(recording=recording)
    found = examine(RanksMisfit, patient)
    assert [item.detail.how for item in found] == kinds
    assert all(prescribe(advice("training"), item, patient) for item in found)
    (line,) = [line for line in training_card(recording) if line.name == "ranks"]
    assert said in line.text and len(line.text) <= 110


UNEVEN = PROGRAM.replace("{change}", "rows = [(x + rank, y) for x, y in data(160 - 24 * rank)]; sampler = None").replace("for x, y in loader:", """
for step, (x, y) in enumerate(loader):
    if step == 30:
        raise SystemExit(3)""")  # fmt: skip


@pytest.mark.slow
def test_ranks_with_different_numbers_of_batches_are_named_before_they_hang(tmp_path):
    run = run_script(tmp_path, UNEVEN.format(before="", share=""), ranks=2, code=None)
    recording = replace(open_recording(str(run.folder)), end=RunEnd(exit_code=3), memory={})
    (finding,) = examine(RanksMisfit, make_patient(recording=recording))
    assert finding.detail.how == "uneven" and "40, 34 batches" in finding.message
