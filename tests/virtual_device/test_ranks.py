"""What `run` says of jobs with several ranks on asynchronous devices, beside what the devices know to be true."""

import pytest
from virtual import run_ranks

PROGRAM = """
import time
import torch, vgpu
from torch import nn

rank = vgpu.meet()
torch.manual_seed(0)
torch.set_num_threads(1)
vgpu.device.set_kernel(2e-6)
vgpu.device.set_depth(128)  # two steps, as a real model fills a real queue
vgpu.device.set_link(1e12, LINK)  # each takes LINK, however little it carries
late = rank == 1

class Work(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        vgpu.device.work(WORK + late * DEVICE, 0)
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        vgpu.device.work(WORK + late * DEVICE, 0)
        return gradient.clone()

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 32)
    def forward(self, x):
        return Work.apply(self.layer(x).relu())

net = nn.Sequential(Block(), Block(), nn.Linear(32, 8)).to("vgpu")
SPREAD
opt = torch.optim.SGD(net.parameters(), 0.01)
truth = vgpu.Truth()
rows, labels = torch.randn(16, 32).to("vgpu"), torch.randint(0, 8, (16,)).to("vgpu")

def batches():
    for step in range(STEPS):
        if late:
            time.sleep(LOADER)
        yield step

for step in batches():
    if step == 10:
        truth.begin()
    opt.zero_grad()
    if late:
        time.sleep(HOST)
    loss = nn.functional.cross_entropy(net(rows), labels)
    loss.backward()
    opt.step()
    if step % 10 == 0:
        total = loss.item()
vgpu.tell(truth.end(STEPS - 10))
"""
DDP = "net = nn.parallel.DistributedDataParallel(net)"
FSDP = """
from torch.distributed.fsdp import fully_shard
mesh = torch.distributed.init_device_mesh("vgpu", (2,))
for one in net:
    fully_shard(one, mesh=mesh)
fully_shard(net, mesh=mesh)
"""
SPREADS = {"ddp": DDP, "fsdp": FSDP}
TOLERANCE = 0.08
"""Share of a step by which a claim may miss: the truth is of other steps than those that were watched."""
TIMED = 100
"""Steps timed on the device after which a rank is named; some never are, and where the host runs ahead the first ones
do not count."""


def program(spread, steps, *, link=1e-4, work=2e-3, loader=0.0, host=0.0, device=0.0):
    """Two ranks whose blocks take their device `work` forward and backward, and whose collectives take `link`.
    Rank 1 alone waits for its loader, keeps its host busy, or has a slower device.
    """
    text = PROGRAM.replace("SPREAD", SPREADS[spread])
    values = {"LINK": link, "WORK": work, "LOADER": loader, "HOST": host, "DEVICE": device, "STEPS": steps}
    for name, value in values.items():
        text = text.replace(name, str(value))
    return text


def verdicts(report):
    """What concerns ranks and their communication, by code."""
    return {item["code"]: item for item in report["findings"] if item["code"].startswith(("DIST", "GPU"))}


def one_is_late(truths):
    """Rank 0 waits for rank 1, and never the other way round."""
    return truths[0]["awaited"] > 0.3 and truths[1]["awaited"] < 0.05


def nobody_is_late(truths):
    return all(truth["awaited"] < 0.06 for truth in truths)


def works(truths):
    return nobody_is_late(truths) and all(truth["busy"] > 0.9 for truth in truths)


LATE = {"loader": 15e-3, "host": 15e-3, "device": 4e-3}
PARTS = {"loader": "in data wait", "host": "in lines of its own", "device": ""}


@pytest.mark.slow
@pytest.mark.parametrize(("spread", "cause"), [("ddp", "host"), ("ddp", "device"), ("fsdp", "loader")])
def test_a_slow_rank_is_named_with_its_cause_and_is_no_communication(tmp_path, spread, cause):
    more = {"work": 6e-3, "loader": 35e-3} if spread == "fsdp" else {cause: LATE[cause]}
    for _ in range(3):  # on a busy machine the late rank is late in several parts of its step, or both wait for a CPU
        report, truths = run_ranks(tmp_path, program(spread, TIMED + 60, **more), one_is_late)
        found = verdicts(report)
        # Reading the loss costs nothing: rank 0 waits for rank 1, and rank 1 hardly waits.
        reads = [item["cost"]["step_share"] or 0.0 for item in report["findings"] if item["code"] == "SYNC001"]
        few = all(share <= min(1 - truths[1]["busy"], truths[1]["waits"]) / 2 + TOLERANCE for share in reads)
        if few and "DIST001" in found and PARTS[cause] in found["DIST001"]["message"]:
            break
    assert few
    assert ("GPU009" in found) is (cause == "device")
    assert "DIST002" not in found
    late = found["DIST001"]
    assert late["message"].startswith("Rank 1 ")
    assert not [part for part in PARTS.values() if part not in PARTS[cause] and part in late["message"]]
    assert PARTS[cause] in late["message"]
    # Best cure: nobody waits for it.
    assert abs(late["cost"]["step_share"] - truths[0]["awaited"]) < 2 * TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(("spread", "link"), [("ddp", 6e-3), ("fsdp", 4e-3)])
def test_collectives_that_nothing_hides(tmp_path, spread, link):

    def close(report, truths):
        share = verdicts(report).get("DIST002", {"cost": {"step_share": 0.0}})["cost"]["step_share"]
        return all(abs(share - truth["exposed"]) < TOLERANCE for truth in truths)

    report, truths = run_ranks(tmp_path, program(spread, 90, link=link), nobody_is_late, close)
    assert set(verdicts(report)) == {"DIST002"}
    assert all(truth["exposed"] > 0.3 for truth in truths)
    assert close(report, truths), (verdicts(report), truths)


@pytest.mark.slow
@pytest.mark.parametrize(("spread", "link"), [("ddp", 1e-4), ("fsdp", 0.8e-3)])
def test_healthy_ranks_whose_device_works(tmp_path, spread, link):
    """FSDP's collectives take a tenth of the step, and all but the first and the last are hidden."""
    work = 4e-3 if spread == "ddp" else 10e-3
    report, truths = run_ranks(tmp_path, program(spread, TIMED + 50, link=link, work=work), works)
    assert verdicts(report) == {}
    assert spread == "ddp" or all(truth["hidden"] > truth["exposed"] for truth in truths)


@pytest.mark.slow
def test_run_over_torchrun_says_what_the_ranks_devices_know(tmp_path):
    """All of the way that a user takes: `gpudoctor run -- torchrun train.py`, and its report."""
    text = program("ddp", TIMED + 60, loader=LATE["loader"])
    report, truths = run_ranks(tmp_path, text, one_is_late, start=True)
    assert report["run"]["ranks"] == 2
    late = verdicts(report)["DIST001"]
    assert late["message"].startswith("Rank 1 ")
    assert abs(late["cost"]["step_share"] - truths[0]["awaited"]) < 2 * TOLERANCE
    claimed = max(item["cost"]["step_share"] or 0.0 for item in report["findings"])
    assert claimed <= max(truths[0]["awaited"], 1 - truths[1]["busy"]) + TOLERANCE
