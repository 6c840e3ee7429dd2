"""Loops of frameworks, recorded for real: steps, phases, the user's lines, and losses as without the probe."""

import importlib.util
import math
import os

import probed
import pytest
from packages import need
from probed import run_script, run_without

need("torch")


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    monkeypatch.setattr(probed, "TIMEOUT", 300)  # imports of frameworks take their time on a busy machine


def needs(*packages: str):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")


def total(told, phase: str) -> float:
    return sum(told.steps(phase))


def last(told, type: str) -> dict:
    return told.of(type)[-1]


TRAINER = """
import sys
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

class Rows(Dataset):
    def __init__(self, rows):
        self.x = torch.randint(0, 32, (rows, 8), generator=torch.Generator().manual_seed(1))
    def __len__(self):
        return len(self.x)
    def __getitem__(self, index):
        return {"input_ids": self.x[index], "labels": self.x[index]}

set_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=1, n_head=2, n_positions=8, vocab_size=32))
arguments = TrainingArguments(
    "out", per_device_train_batch_size=4, gradient_accumulation_steps=2, max_steps=12, logging_steps=4,
    eval_strategy="steps", eval_steps=6, save_steps=6, use_cpu=True, report_to=[], disable_tqdm=True,
)
trainer = Trainer(model, arguments, train_dataset=Rows(64), eval_dataset=Rows(16))
result = trainer.train()  # train
print("loss", result.training_loss.hex(), trainer.state.global_step)
"""


@pytest.mark.slow
@needs("transformers", "accelerate")
def test_the_trainer(tmp_path):
    run = run_script(tmp_path, TRAINER)
    told = run.rank
    assert len(told.steps("index")) == 12
    assert set(told.steps("backwards")) == {2}
    assert told.steps("samples")[1:4] == [8, 8, 8]
    loop = last(told, "loop")
    assert (loop["marker"], loop["engine"], loop["line"]) == ("optimizer", "transformers.Trainer", run.line("train"))
    for phase in ("data_wait", "forward", "backward", "optimizer", "evaluation", "checkpoint"):
        assert total(told, phase) > 0, phase
    roles = {loader["role"]: loader for loader in told.of("loader")}
    assert set(roles) == {"training", "evaluation"}
    assert roles["training"]["batch_size"] == 4
    assert not told.of("lost")
    assert all(loss == loss for loss in told.steps("loss"))
    (plain,) = [line for line in run_without(run.script).stdout.splitlines() if "loss 0x" in line]
    assert plain in run.result.stdout


ACCELERATE = """
from accelerate import Accelerator
accelerator = Accelerator(gradient_accumulation_steps=2, cpu=True)
model = net()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
loader = DataLoader(data(96), batch_size=4, shuffle=True)  # loader
check = DataLoader(data(32), batch_size=4)
model, optimizer, loader, check = accelerator.prepare(model, optimizer, loader, check)
for epoch in range(2):
    model.train()
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()  # step
            optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        for x, y in check:
            accelerator.gather_for_metrics(model(x))
    accelerator.save_state("state")
"""


@needs("accelerate")
def test_accelerate(tmp_path):
    run = run_script(tmp_path, ACCELERATE)
    told = run.rank
    assert len(told.steps("index")) == 24
    assert set(told.steps("backwards")) == {2}
    loop = last(told, "loop")
    assert (loop["engine"], loop["line"]) == ("accelerate", run.line("step"))
    (trains,) = [loader for loader in told.of("loader") if loader["role"] == "training"]
    assert (trains["line"], trains["batch_size"]) == (run.line("loader"), 4)
    assert total(told, "evaluation") > 0
    assert sum(told.steps("saves")) == 1  # the second comes after the last step


FSDP = """
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
model = net()
fully_shard(model[0], mesh=mesh)
fully_shard(model, mesh=mesh)
replica = DistributedDataParallel(net())
older = FullyShardedDataParallel(net(), use_orig_params=True, device_id=torch.device("cpu"))
both = data(96)
loader = DataLoader(both, batch_size=4, sampler=DistributedSampler(both))
for network in (model, replica, older):
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
    for step, (x, y) in enumerate(loader):
        loss = F.cross_entropy(network(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 0:
            dist.all_reduce(loss.detach().clone())  # reduce
    print("loss", loss.item().hex(), flush=True) if dist.get_rank() == 0 else None
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="gloo as on Linux")
def test_fsdp2_and_ddp_on_two_ranks(tmp_path):
    pytest.importorskip("torch.distributed.fsdp")
    try:
        from torch.distributed.fsdp import fully_shard  # noqa: F401
    except ImportError:
        pytest.skip("this torch has no fully_shard")
    run = run_script(tmp_path, FSDP, ranks=2)
    ranks = [told for told in run.ranks if told.of("loop")]
    assert [told.one("start")["rank"] for told in ranks] == [0, 1]
    for told in ranks:
        assert (sum(told.steps("count")), sum(told.steps("backwards"))) == (36, 36)
        models = [(model["wrapped"], model["name"]) for model in told.of("model")]
        assert [*dict.fromkeys(models)][:2] == [("FSDP", "Sequential"), ("DDP", "Sequential")]
        assert sum(told.steps("collectives")) == 9
        places = {site["what"]: site["line"] for site in told.of("site") if site["phase"] == "collective"}
        assert places["dist.all_reduce"] == run.line("reduce")
        assert all(math.isfinite(loss) for loss in told.steps("loss"))
        norms = [reading for reading in told.of("numeric") if reading["kind"] == "norms"]
        assert norms[0]["shards"] == norms[-1]["shards"] == 2 and told.of("parameters")[-1]["sharded"]
