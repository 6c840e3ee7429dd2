"""What is evaluated or kept beside what is trained: averages, metrics, states without a copy, parts nobody registered."""

import pytest
from packages import need
from probed import run_script

from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor.vitals.recording.opening import open_recording
from gpudoctor_checks.training.evaluation_overlap import EvaluationOverlap
from gpudoctor_checks.training.parameters_untrained import ParametersUntrained
from gpudoctor_checks.training.resume_incomplete import ResumeIncomplete
from gpudoctor_rules.advice import advice

need("torch")

METRIC = """
class Metric:
    def __init__(self):
        self._update_count = 0
    def reset(self):
        self._update_count = 0
    def update(self, *_):
        self._update_count += 1
"""
PROGRAM = """
import copy, sys
from torchmetrics.metric import Metric
kind = sys.argv[1]
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        parts = [nn.Linear(6, 6) for _ in range(2)]
        self.parts = parts if kind == "list" else nn.ModuleList(parts)
        self.head = nn.Linear(6, 3)
        self.norm = nn.BatchNorm1d(6) if kind in ("buffers", "both") else nn.Identity()
    def forward(self, x):
        for part in self.parts:
            x = part(x).relu()
        return self.head(self.norm(x))
rows, classes = torch.randn(160, 6), torch.randint(0, 3, (160,))
model, metric = Net(), Metric()
average = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = DataLoader(TensorDataset(rows[:128], classes[:128]), batch_size=8, shuffle=True)
tests = DataLoader(TensorDataset(rows[128:], classes[128:]), batch_size=8)
best = None
for epoch in range(6):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        for mine, its in zip(average.parameters(), model.parameters()):
            if kind == "still":
                mine = mine * 0.9 + its * 0.1
            else:
                mine.data.mul_(0.9).add_(its.data, alpha=0.1)
        for mine, its in zip(average.buffers(), model.buffers()):
            if kind == "both":
                mine.copy_(its)
    evaluated = average if kind in ("still", "average", "buffers", "both") else model
    model.eval()
    average.eval()
    if kind != "summed":
        metric.reset()
    with torch.no_grad():
        for x, y in tests:
            metric.update(evaluated(x), y)
    if epoch == 2:
        best = model.state_dict()
        best = best if kind == "alias" else copy.deepcopy(best)
model.load_state_dict(best)
"""
CHECKS = (ParametersUntrained, EvaluationOverlap, ResumeIncomplete)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("healthy", []),
        ("average", []),
        ("both", []),
        ("buffers", [("buffers", "a copy of Net whose batch norms still have their first running means of 0")]),
        ("still", [("copy", "a copy of Net that has made 0 % of the way")]),
        ("summed", [("metric", "it had counted 0, 4, 8, 12, 16 updates")]),
        ("alias", [("own", "given 6 of the model's own tensors")]),
        ("list", [("stray", "84 elements of parameters get gradients")]),
    ],
)
def test_evaluated(tmp_path, kind, said):
    folder = tmp_path / "torchmetrics"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "metric.py").write_text(METRIC)
    run = run_script(tmp_path, PROGRAM, kind)
    assert not run.rank.of("lost")
    patient = make_patient(recording=open_recording(str(run.folder)))
    found = [item for check in CHECKS for item in examine(check, patient)]
    assert [item.detail.how for item in found] == [how for how, _ in said]
    for item, (_, text) in zip(found, said, strict=True):
        assert text in item.message and prescribe(advice("training"), item, patient)
