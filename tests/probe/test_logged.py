"""What the program logs is kept by name, thinned; and the first batch, where the user asked to see it."""

import pytest
from packages import need
from probed import run_script, run_without

from gpudoctor.analysis.run.training.card import shown_batch
from gpudoctor.vitals.recording.opening import open_recording

need("torch")

LOGGING = """
import sys
from pathlib import Path
Path("trackio.py").write_text("def log(data, step=None): return data")
Path("mlflow.py").write_text("import trackio\\ndef log_metrics(data): return trackio.log({'again': 1.0, **data})\\n"
                             "def log_metric(name, value): pass")
sys.path.insert(0, ".")
import mlflow, trackio
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, (x, y) in enumerate(DataLoader(data(320), batch_size=8)):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    given = [print("said", n) for n in range(40)]
    given = {"train/loss": loss, "lr": 0.1, "on": True, "name": "x", "pair": torch.ones(2)}
    assert mlflow.log_metrics(given)["again"] == 1.0  # here
    mlflow.log_metric("token hf_" + "a" * 34, step)
    trackio.log({f"m{n}": float(n) for n in range(100)} if step == 2 else {})
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_script(tmp_path_factory.mktemp("logged"), LOGGING, settings={"stride": 1})


def test_the_streams_are_as_without_us(run):
    plain = run_without(run.script)
    assert (run.result.stdout, run.result.stderr) == (plain.stdout, plain.stderr)


def test_numbers_are_kept_by_name(run):
    *_, told = run.rank.of("logged")
    named = {name: (count, points) for name, count, points in told["series"]}
    assert told["by"] == "mlflow.log_metrics" and told["line"] == run.line("here")
    assert {"train/loss", "lr", "m0"} < named.keys() and len(named) == 64
    assert not {"on", "name", "pair", "again", "said"} & named.keys()
    assert not any("aaaa" in name for name in named)
    count, points = named["lr"]
    assert count >= 4 and len(points) < 32 and points[0][1] == 0.1 and points == sorted(points)


def test_without_a_tracker_what_is_printed_is_kept(tmp_path):
    said = '    print(f"step {step:3d}/40 train loss {loss:.3f}, kl={step / 2} acc 50%", "lr", 0.1)  # here'
    run = run_script(tmp_path, LOGGING.split("    given =")[0] + said)
    *_, told = run.rank.of("logged")
    named = {name: points for name, _, points in told["series"]}
    assert (told["by"], told["line"]) == ("print", run.line("here"))
    assert sorted(named) == ["kl", "lr", "train loss"] and list(named["kl"][1]) == [2, 0.5]


IMAGES = """
sets = TensorDataset(torch.arange(12.0).view(12, 1, 1, 1).expand(12, 3, 60, 90).contiguous(), torch.zeros(12).long())
model = nn.Sequential(nn.Flatten(), nn.Linear(16200, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(sets, batch_size=10):
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
TEXT = """
class Words:
    eos_token_id = 2
    def decode(self, ids):
        return "/".join(map(str, ids))
def rows():
    for _ in range(4):
        yield {"input_ids": torch.tensor([5, 6, 2, 0]), "labels": torch.tensor([-100, 6, 2, -100])}
def train(tokenizer):
    model = nn.Embedding(9, 9)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    collate = lambda items: (tokenizer, torch.utils.data.default_collate(items))[1]
    loader = DataLoader(list(rows()), batch_size=2, collate_fn=collate)
    for batch in loader:
        F.cross_entropy(model(batch["input_ids"]).flatten(0, 1), batch["labels"].flatten()).backward()
        optimizer.step()
train(Words())
"""


@pytest.mark.parametrize("text", [IMAGES, TEXT])
def test_the_first_batch_is_kept_only_if_asked_for(tmp_path, text):
    run = run_script(tmp_path, text)
    assert (
        shown_batch(open_recording(str(run.folder))) == {}
        and b"shown" not in next(run.folder.glob("*.gdr")).read_bytes()
    )


def test_the_first_batch_as_pictures_and_as_text(tmp_path):
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    shown = shown_batch(open_recording(str(run_script(tmp_path / "a", IMAGES, settings={"show_data": True}).folder)))
    assert len(shown["pictures"]) == 8 and shown["width"] == 30 and len(shown["pictures"][0]) == 30 * 30 * 3
    assert shown["pictures"][0][:3] == b"\0\0\0" and shown["pictures"][7][:3] == b"\xff\xff\xff"
    shown = shown_batch(open_recording(str(run_script(tmp_path / "b", TEXT, settings={"show_data": True}).folder)))
    assert shown["text"][0] == (("5", False), ("6/2", True), ("0", False)) and len(shown["text"]) == 2
