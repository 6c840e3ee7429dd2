"""What an evaluation keeps for its metric, and files that each save makes larger."""

import pytest
from packages import need
from probed import run_script

from gpudoctor.analysis.run import training
from gpudoctor.analysis.run.training.kept import kept
from gpudoctor.vitals.recording.opening import open_recording

need("torch")

SAVING = """
import sys
from pathlib import Path
import numpy
Path("transformers").mkdir()
Path("transformers/__init__.py").write_text("__version__ = '5.0'")
Path("transformers/trainer_utils.py").write_text('''class EvalPrediction:
    def __init__(self, predictions, label_ids):
        self.predictions = predictions
''')
sys.path.insert(0, ".")
from transformers.trainer_utils import EvalPrediction
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
history = []
for step, (x, y) in enumerate(DataLoader(data(320), batch_size=8)):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 4 == 0:
        history.append(x.clone())
        torch.save({"model": model.state_dict(), "history": history GROWS}, f"at{step}.pt")  # save
        kind = numpy.zeros((40, 8, 100 WORDS), "float32")
        EvalPrediction(predictions=(kind, None), label_ids=numpy.zeros((40, 8)))  # evaluate
"""


@pytest.mark.parametrize("sick", [True, False])
def test_what_stays(tmp_path, sick, monkeypatch):
    monkeypatch.setattr(training.kept, "_LEAST", 1 << 16)
    changes = {"GROWS": "" if sick else "[:1]", "WORDS": "" if sick else "// 10"}
    text = SAVING
    for word, put in changes.items():
        text = text.replace(" " + word, put)
    run = run_script(tmp_path, text)
    found = {kind.value: item for kind, *item in kept(open_recording(str(run.folder)))}
    if not sick:
        assert found == {}
        return
    text, size, place = found["predictions"]
    assert "40 x 8 x 100 numbers" in text and "100 for each label" in text
    assert size == 128_000 and place.line == run.line("evaluate")
    text, _, place = found["files"]
    assert "saved file at#.pt grows with every save" in text and place.line == run.line("save")
