"""Overrides in real training programs, each seen by what the program says of itself."""

import json
from pathlib import Path

import pytest
from packages import need
from probed import PREFIX, run_script

need("torch")

LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range({epochs}):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        {after}
"""


def overridden(tmp_path: Path, text: str, overrides: dict, **options):
    tmp_path.mkdir(exist_ok=True)
    run = run_script(tmp_path, text, GPUDOCTOR_OVERRIDES=json.dumps(overrides), **options)
    told = run.rank
    reached = {record["name"] for record in told.of("override") if record["reached"]}
    problems = [record for record in told.of("override") if not record["reached"]]
    assert not problems, problems
    return run, told, reached


def test_settings_of_loaders_optimizers_and_torch(tmp_path):
    text = """
    torch.backends.cudnn.benchmark = False
    loader = DataLoader(data(), 8, shuffle=True, num_workers=0)
    stream = DataLoader(iter_data(), batch_size=8) if False else loader
    model = net()
    """
    text = text.replace("\n    ", "\n") + LOOP.format(epochs=1, after="pass")
    text += """
print(json.dumps({
    "workers": loader.num_workers, "persistent": loader.persistent_workers, "prefetch": loader.prefetch_factor,
    "benchmark": torch.backends.cudnn.benchmark, "threads": torch.get_num_threads(),
}))
"""
    overrides = {
        "DataLoader.num_workers": "1", "DataLoader.persistent_workers": "True", "DataLoader.prefetch_factor": "3",
        "torch.backends.cudnn.benchmark": "True", "torch.num_threads": "2",
    }  # fmt: skip
    run, _, reached = overridden(tmp_path, "import json\n" + text, overrides)
    assert json.loads(run.result.stdout) == {
        "workers": 1, "persistent": True, "prefetch": 3, "benchmark": True, "threads": 2,
    }  # fmt: skip
    assert reached == set(overrides)


EVALUATED = """
from held_out import evaluate
model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, 3))
train = TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))
loader = DataLoader(train, batch_size=8, shuffle=True)
held = DataLoader(train, batch_size=16, shuffle=True)
""" + LOOP.format(epochs=2, after="evaluate(model, held)")
HELD_OUT = """
import torch
def evaluate(model, held):
    {}
    with torch.no_grad():
        for x, y in held:
            model(x + torch.randn_like(x))
    print("evaluated")
    {}
"""


@pytest.mark.parametrize("mode", ["model.{}()", "pass"])
def test_skipping_an_evaluation_moves_no_loss(tmp_path, mode):
    prefix = EVALUATED.replace("from held_out", "import torch\nfrom held_out", 1)
    losses, said = [], []
    for number, every in enumerate((1, 0)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "held_out.py").write_text(HELD_OUT.format(mode.format("eval"), mode.format("train")))
        text = "from probed_prefix import *\n" + prefix
        (folder / "probed_prefix.py").write_text(PREFIX)
        edited = text if every else text.replace("        evaluate(model, held)", "        pass")
        run = run_script(folder, edited, prefix="", GPUDOCTOR_OVERRIDES=json.dumps({"trial.isolate": True}))
        losses.append(run.rank.steps("loss"))
        said.append(run.result.stdout.split("\n"))
    assert said[0].count("evaluated") == 16 and said[1].count("evaluated") == 0
    assert len(losses[0]) == 16 and losses[0] == losses[1]
