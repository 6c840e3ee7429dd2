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
code = "class EvalPrediction:\\n    def __init__(self, predictions, label_ids): pass"
Path("transformers/trainer_utils.py").write_text(code)
sys.path.insert(0, ".")
from transformers.trainer_utils import EvalPrediction
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
history = []
for step, (x, y) in enumerate(DataLoader(data(320), batch_size=8)):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step %% 4 == 0:
        history.append(x.clone())
        torch.save({"model": model.state_dict(), "history": history%s}, f"at{step}.pt")  # save
        kind = numpy.zeros((40, 8, 100%s), "float32")
        EvalPrediction(predictions=(kind, None), label_ids=numpy.zeros((40, 8)))  # evaluate
"""


@pytest.mark.parametrize("sick", [True, False])
def test_what_stays(tmp_path, sick, monkeypatch):
    monkeypatch.setattr(training.kept, "_LEAST", 1 << 16)
    run = run_script(tmp_path, SAVING % (("", "") if sick else ("[:1]", "// 10")))
    found = {kind.value: item for kind, *item in kept(open_recording(str(run.folder)))}
    if not sick:
        assert found == {}
        return
    text, size, place = found["predictions"]
    assert "40 x 8 x 100 numbers" in text and "100 for each label" in text
    assert size == 128_000 and place.line == run.line("evaluate")
    text, _, place = found["files"]
    assert "saved file at#.pt grows with every save" in text and place.line == run.line("save")
