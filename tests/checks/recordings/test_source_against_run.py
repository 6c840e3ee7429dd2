"""What the source suspects and a recording shows otherwise."""

from recordings import make_process, make_recording, make_steps, record
from scripts import read_script

from gpudoctor.engine.registry import load_registry
from gpudoctor.testing import examine, make_host, make_patient

REGISTRY = load_registry()
SCRIPT = """
import argparse
import torch
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--readers", type=int, default=12)
options = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(4, 1).to(device)
best = torch.optim.SGD(model.parameters(), 0.1)
train_loader = DataLoader(rows, batch_size=8, num_workers=options.readers)  # made
val_loader = DataLoader(more, batch_size=8, num_workers=options.readers)
for x, y in train_loader:
    loss = (model(x.to(device)) - y.to(device)).square().mean()
    best.zero_grad()
    loss.backward()
    best.step()
    print(loss.item(), x.mean().item(), loss.cpu())
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
"""


def patient_of(*, workers=None, device="cpu", steps=8, text=SCRIPT, persistent=False):
    source = read_script(text)
    [script] = source.scripts
    line = next(n for n, row in enumerate(script.text.split("\n"), 1) if row.endswith("# made"))
    records = [record("model", name="Linear", parameters=5, device=device, dtypes={"float32": 2})]
    if workers is not None:
        records.append(
            record("loader", id=0, role="training", workers=workers, pin_memory=False, persistent=persistent,
                   prefetch=None, batch_size=8, batches=100, dataset="list", iterable=False, path=script.path,
                   line=line)
        )  # fmt: skip
    run = make_recording(make_process(make_steps(steps), records=records))
    return make_patient(source=source, recording=run, host=make_host(cpus_affinity=4))


def found(code, patient):
    return examine(REGISTRY.checks[code], patient)


def test_sick_without_a_run_the_default_counts():
    source = read_script(SCRIPT)
    patient = make_patient(source=source, host=make_host(cpus_affinity=4))
    assert [item.detail.workers for item in found("DATA003", patient)] == [12, 12]


def test_sick_a_collection_on_every_step_costs_on_the_cpu_too():
    text = SCRIPT.replace("torch.cuda.empty_cache()", "gc.collect()").replace("import torch", "import gc, torch", 1)
    assert len(found("SYNC002", patient_of(text=text))) == 1
