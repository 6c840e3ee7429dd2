from programs import event, plain, read_main, training

from gpudoctor.model.signs.source import LoopRole

HF = """
import numpy as np
from transformers import AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments

class Talker(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        print(state.global_step)

class Mine(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        outputs = model(**inputs)
        loss = outputs.loss
        print(loss.item())
        return loss

def compute_metrics(pair):
    return {"n": np.mean(pair)}

def main():
    model = AutoModelForCausalLM.from_pretrained("x")
    args = TrainingArguments(output_dir="out", logging_steps=1, fp16=True)
    trainer = Mine(model=model, args=args, callbacks=[Talker()], compute_metrics=compute_metrics)
    trainer.train()

main()
"""


def test_transformers_trainer() -> None:
    script = read_main(HF)
    loop = training(script)
    assert loop.engine == "transformers.Trainer"
    assert loop.span.text == "trainer.train()"
    assert loop.function == "main"
    assert event(loop, "torch.Tensor.item").call.receiver_type == "torch.Tensor"
    assert not event(loop, "torch.Tensor.item").evaluation
    assert event(loop, "numpy.mean").evaluation
    [made] = script.calls_to("transformers.TrainingArguments")
    assert plain(made.argument("logging_steps")) == 1


LIGHTNING = """
import {module} as L
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

class Lit(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 4)
    def forward(self, x):
        return self.fc(x)
    def shared(self, batch):
        x, y = batch
        return F.cross_entropy(self(x), y)
    def training_step(self, batch, i):
        loss = self.shared(batch)
        self.log("loss", loss)
        loss.item()
        return loss
    def validation_step(self, batch, i):
        self.shared(batch).tolist()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
"""


def test_lightning() -> None:
    for module in ("pytorch_lightning", "lightning", "lightning.pytorch"):
        text = LIGHTNING.replace("{module}", module)
        loop = training(read_main(text + "trainer = L.Trainer()\ntrainer.fit(Lit(), DataLoader(x))\n"))
        assert loop.engine == "lightning.Trainer"
        assert loop.span.text == "trainer.fit(Lit(), DataLoader(x))"
        assert not event(loop, "torch.Tensor.item").evaluation
        assert event(loop, "torch.Tensor.tolist").evaluation
        assert event(loop, "torch.Tensor.item").call.function == "Lit.training_step"
        assert event(loop, ".log").call.name == "lightning.LightningModule.log"


def test_accelerate_and_deepspeed_are_plain_loops() -> None:
    accelerate = """
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
accelerator = Accelerator()
model, optimizer, loader = accelerator.prepare(
    torch.nn.Linear(1, 2), torch.optim.AdamW(p), DataLoader(d)
)
for batch in loader:
    loss = model(batch["x"]).sum()
    accelerator.backward(loss)
    optimizer.step()
    loss.item()
"""
    loop = training(read_main(accelerate))
    assert loop.engine is None
    assert event(loop, "torch.Tensor.item").call.receiver_device == "maybe-cuda"
    deepspeed = """
import deepspeed
engine, _, loader, _ = deepspeed.initialize(model=net, training_data=data)
for batch in loader:
    loss = engine(batch)
    engine.backward(loss)
    engine.step()
"""
    loop = training(read_main(deepspeed))
    assert event(loop, "deepspeed.DeepSpeedEngine.step").every_pass
    assert loop.iterable_type == "torch.utils.data.DataLoader"


def test_launchers_start_their_functions() -> None:
    text = """
import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader
def worker(rank, n):
    model = torch.nn.Linear(1, 2).to(rank)
    loader = DataLoader(d, num_workers=n)
    for x in loader:
        model(x).sum().backward()
        optimizer.step()
        if rank == 0:
            print(1)
if __name__ == "__main__":
    mp.spawn(worker, nprocs=4, args=(3,))
"""
    script = read_main(text)
    [made] = script.calls_to("torch.utils.data.DataLoader")
    assert plain(made.argument("num_workers")) == 3
    assert next(script.calls_to("torch.nn.Linear.__call__")).receiver_device == "cuda"
    loop = training(script)
    assert loop.role is LoopRole.TRAINING
    assert event(loop, "print").every_pass
