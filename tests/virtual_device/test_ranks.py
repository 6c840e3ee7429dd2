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
    fully_shard(one, mesh=mesh, reshard_after_forward=RESHARD)
fully_shard(net, mesh=mesh, reshard_after_forward=RESHARD)
"""
STEPS = 130


def program(spread=DDP, *, link=1e-4, work=3e-3, loader=0.0, host=0.0, device=0.0, reshard=True):
    text = PROGRAM.replace("SPREAD", spread)
    values = {"LINK": link, "WORK": work, "LOADER": loader, "HOST": host, "DEVICE": device, "RESHARD": reshard}
    for name, value in {**values, "STEPS": STEPS}.items():
        text = text.replace(name, str(value))
    return text


def show(report, truths):
    for truth in truths:
        print({name: round(value, 3) for name, value in truth.items() if name not in ("allocations","loader","captured","copies")})
    for item in report["findings"]:
        print(item["code"], item["severity"], item["message"], item["cost"]["step_share"])
    print("idle", report["run"]["device_idle"], {k: round(v, 3) for k, v in report["run"]["phases"].items() if v})
    print(report["run"]["step_seconds"]["median"], report["problems"], report["remarks"])
    from gpudoctor.vitals.recording import read_recording
    from gpudoctor.model.reading.recordings.steady import steady
    from pathlib import Path
    for rank in read_recording(Path(report["run"]["recording"])).ranks:
        s = steady(rank)
        print({n: round(s.per_step(n) * 1e3, 2) for n in ("duration", "device_transfer", "device_forward", "device_backward", "device_optimizer", "device_collective", "device_busy", "device_idle")})


@pytest.mark.parametrize("spread", [DDP, FSDP], ids=["ddp", "fsdp"])
@pytest.mark.parametrize("cause", ["loader", "device", "", "link"])
def test_a_slow_rank(tmp_path, spread, cause):
    values = {"loader": 20e-3, "device": 3e-3, "link": 8e-3}
    report, truths = run_ranks(tmp_path, program(spread, **({cause: values[cause]} if cause else {})))
    show(report, truths)
    assert 0
